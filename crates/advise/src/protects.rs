//! Calls that name private memory for checkpoints, and that only some processes of a PE reach: the
//! first one, or its substitutes, because the program queries `shmem_ft_algo_init`.
//!
//! A substitute must protect the names that its predecessor protected. A name is correct if both
//! sides of the branch protect it, or if it is also protected outside of the branch.
//!
//! Left out: names built at run time; calls in loops whose iteration counts differ.

use std::collections::BTreeSet;

use crate::differ::Differ;
use crate::ir::{Op, Operand};
use crate::memory::Memory;
use crate::program::{Site, Symbol};
use crate::routines::plain;
use crate::steps::{Step, Steps};

/// A call that only some processes reach.
pub struct Unprotected {
    /// The outermost call on one side of the branch.
    pub call: Site,
    /// The branch.
    pub branch: Option<Site>,
}

/// The identity of a protected name: a constant string, or the call itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Text(usize),
    Call(Site),
}

/// Finds all such calls.
#[must_use]
pub fn unprotected(memory: &Memory<'_>, steps: &Steps) -> Vec<Unprotected> {
    let differ = Differ::of_substitutes(memory, steps);
    let below = below(memory, steps);
    let names = |(site, step): (Site, &Step)| {
        let inner = step.effect.callees.iter().flat_map(|callee| below[*callee].iter().copied());
        (site, inner.chain(key(memory, site)).collect::<BTreeSet<Key>>())
    };
    let outer = steps.all().filter(|(site, _)| !differ.is_within(*site)).map(names);
    let outer: Vec<(Site, BTreeSet<Key>)> = outer.filter(|(_, names)| !names.is_empty()).collect();
    let elsewhere = |site: Site, key: &Key| {
        let is_other = |other: Site| (other.function, other.block) != (site.function, site.block);
        outer.iter().any(|(other, names)| is_other(*other) && names.contains(key))
    };
    let alone = outer.iter().filter(|(site, names)| {
        differ.is_apart(*site) && names.iter().any(|key| !elsewhere(*site, key))
    });
    alone.map(|(site, _)| Unprotected { call: *site, branch: differ.branch(*site) }).collect()
}

/// Returns, by function, the names that it protects, directly or in a function that it calls.
fn below(memory: &Memory<'_>, steps: &Steps) -> Vec<BTreeSet<Key>> {
    let mut found = vec![BTreeSet::new(); steps.blocks.len()];
    for (site, _) in steps.all() {
        found[site.function].extend(key(memory, site));
    }
    for group in &steps.groups {
        let callees = group.iter().flat_map(|at| steps.of(*at)).flat_map(|s| &s.effect.callees);
        let all = callees.chain(group).flat_map(|at| found[*at].iter().copied());
        let all: BTreeSet<Key> = all.collect();
        group.iter().for_each(|at| found[*at] = all.clone());
    }
    found
}

/// Returns the name that a call protects, if any.
fn key(memory: &Memory<'_>, site: Site) -> Option<Key> {
    let program = memory.objects.program;
    let Op::Call { args, .. } = &program.inst(site).op else { return None };
    match (plain(program.called(site)?), args.first()) {
        ("shmemx_ft_protect", Some(Operand::Global(text))) => {
            match program.symbol(site.function, text) {
                Some(Symbol::Global(at)) => Some(Key::Text(at)),
                _ => Some(Key::Call(site)),
            }
        }
        ("shmemx_ft_protect" | "shmemx_ft_register", _) => Some(Key::Call(site)),
        _ => None,
    }
}
