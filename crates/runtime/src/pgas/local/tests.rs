//! Digests of calls, by which calls are compared.

use std::collections::BTreeSet;

use raidshmem_core::replay::routine::RULES;

use super::Call;

#[test]
fn each_call_has_a_digest_of_its_own() {
    let types = ["", "8", "64", "mem", "char", "int", "long", "longlong", "uint64", "double"];
    let names = RULES.iter().flat_map(|(pre, post, _)| types.map(|of| format!("{pre}{of}{post}")));
    let names: BTreeSet<&'static str> = names.map(|name| &*name.leak()).chain([""]).collect();
    let calls = names.iter().flat_map(|name| (0..100).map(|with| Call { name, with }));
    let digests: BTreeSet<u64> = calls.map(|call| call.digest()).collect();
    assert_eq!(digests.len(), 100 * names.len());
}
