//! Calls that name private memory for checkpoints, to which only some processes of a PE come: the
//! first one, or its substitutes, because the program asks `shmem_ft_algo_init`.
//!
//! A substitute has to protect the names that the process before it protected. A name that both
//! sides of the branch protect, or that is protected outside of it too, is no mistake.
//!
//! Left out: names that are made at run time; calls in loops whose number of runs differs.

use std::collections::BTreeSet;

use crate::differ::Differ;
use crate::ir::{Op, Operand};
use crate::memory::Memory;
use crate::program::{Site, Symbol};
use crate::routines::plain;
use crate::steps::{Step, Steps};

/// A call to which only some processes come.
pub struct Unprotected {
    /// The outermost call on the one side of the branch.
    pub call: Site,
    /// The branch.
    pub branch: Option<Site>,
}

/// By which a protected name is known: a constant text, or the call itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Text(usize),
    Call(Site),
}

/// Finds all.
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

/// By function: the names that it protects, by itself or in what it calls.
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

/// The name that is protected there, if the call is one that protects.
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
