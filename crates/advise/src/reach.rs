//! What may have happened before each instruction: forwards over the whole program.
//!
//! Which allocations were made and not freed, and which contexts have transfers that no quiet has
//! completed. A function is entered with what held at any call of it, and every call of it leads
//! on with what may hold where it returns; so the answer is too wide, never too narrow.
//!
//! Left out: which of several instances of an allocation is meant.

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet as Bits;

use crate::ir::{Inst, Op, Operand};
use crate::memory::Memory;
use crate::objects::{Beyond, ObjectKind};
use crate::points::{OUTSIDE, Object};
use crate::program::Site;
use crate::routines::{Sync, plain};
use crate::steps::Steps;

/// A context as the program names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// The default one.
    Default,
    /// The one whose handle lies in this variable.
    In(Object),
    /// Some other.
    Unknown,
}

/// What may hold before a call that synchronises.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// Allocations that may be there.
    pub allocated: Bits,
    /// Allocations that were made, freed or not.
    pub made: Bits,
    /// Variables of contexts that may have transfers under way; `OUTSIDE` for unknown ones.
    pub pending: Vec<Object>,
    /// The default context may have transfers under way.
    pub default_pending: bool,
}

/// The state: allocated objects, then made ones, then contexts by the object of their variable,
/// `OUTSIDE` for unknown ones, then one bit for the default context.
struct Reach<'m, 'p> {
    memory: &'m Memory<'p>,
    steps: &'m Steps,
    objects: usize,
    entries: Vec<Bits>,
    exits: Vec<Bits>,
    /// What may begin to hold in each function, and those that it calls.
    gains: Vec<Bits>,
}

/// What may hold before each call that synchronises.
#[must_use]
pub fn before(memory: &Memory<'_>, steps: &Steps) -> BTreeMap<Site, Before> {
    let objects = memory.objects.all.len();
    let none = vec![Bits::with_capacity(3 * objects + 1); steps.blocks.len()];
    let (entries, exits, gains) = (none.clone(), none.clone(), none);
    let mut reach = Reach { memory, steps, objects, entries, exits, gains };
    reach.find_gains();
    let mut found = BTreeMap::new();
    while reach.round(&mut found) {}
    found
}

impl Reach<'_, '_> {
    fn find_gains(&mut self) {
        for group in &self.steps.groups {
            let mut all = Bits::with_capacity(3 * self.objects + 1);
            for function in group {
                for (block, own) in self.steps.blocks[*function].iter().enumerate() {
                    for step in own {
                        let site = Site { function: *function, block, index: step.index };
                        self.transfer(site, Sync::None, &mut all);
                        for callee in &step.effect.callees {
                            all.union_with(&self.gains[*callee]);
                        }
                    }
                }
            }
            group.iter().for_each(|function| self.gains[*function] = all.clone());
        }
    }

    /// What may hold after calls: what held before or began there, and holds where they return.
    fn after(&self, callees: &[usize], state: &Bits) -> Bits {
        let (mut held, mut exits) = (state.clone(), Bits::with_capacity(state.len()));
        for callee in callees {
            held.union_with(&self.gains[*callee]);
            exits.union_with(&self.exits[*callee]);
        }
        held.intersect_with(&exits);
        held
    }

    /// One pass over all functions; true if something was new.
    fn round(&mut self, found: &mut BTreeMap<Site, Before>) -> bool {
        let mut grown = false;
        for function in self.steps.groups.iter().rev().flatten().copied().collect::<Vec<_>>() {
            grown |= self.function(function, found);
        }
        grown
    }

    fn function(&mut self, function: usize, found: &mut BTreeMap<Site, Before>) -> bool {
        let blocks = &self.memory.objects.program.functions[function].blocks;
        let mut begins = vec![Bits::with_capacity(3 * self.objects + 1); blocks.len()];
        let Some(first) = begins.first_mut() else {
            return false;
        };
        first.union_with(&self.entries[function]);
        let (mut waiting, mut seen, mut grown) = (vec![0], vec![false; blocks.len()], false);
        while let Some(block) = waiting.pop() {
            seen[block] = true;
            let mut state = begins[block].clone();
            for step in &self.steps.blocks[function][block] {
                let site = Site { function, block, index: step.index };
                if step.sync != Sync::None {
                    found.insert(site, self.show(&state));
                }
                self.transfer(site, step.sync, &mut state);
                for callee in &step.effect.callees {
                    grown |= !state.is_subset(&self.entries[*callee]);
                    self.entries[*callee].union_with(&state);
                }
                if !step.effect.callees.is_empty() {
                    let mut after = self.after(&step.effect.callees, &state);
                    if step.effect.unknown {
                        after.union_with(&state);
                    }
                    state = after;
                }
            }
            if matches!(blocks[block].insts.last().map(|inst| &inst.op), Some(Op::Return(_))) {
                grown |= !state.is_subset(&self.exits[function]);
                self.exits[function].union_with(&state);
            }
            for to in &blocks[block].successors {
                if !seen[*to] || !state.is_subset(&begins[*to]) {
                    begins[*to].union_with(&state);
                    waiting.push(*to);
                }
            }
        }
        grown
    }

    fn show(&self, state: &Bits) -> Before {
        let part = |from: usize| {
            let mut bits = Bits::with_capacity(self.objects);
            bits.extend((0..self.objects).filter(|at| state.contains(from + at)));
            bits
        };
        Before {
            allocated: part(0),
            made: part(self.objects),
            pending: part(2 * self.objects).ones().collect(),
            default_pending: state.contains(3 * self.objects),
        }
    }

    fn bit(&self, context: Context) -> usize {
        2 * self.objects
            + match context {
                Context::Default => self.objects,
                Context::In(object) => object,
                Context::Unknown => OUTSIDE,
            }
    }

    fn transfer(&self, site: Site, sync: Sync, state: &mut Bits) {
        if let Some(object) = self.memory.objects.allocated(site) {
            state.insert(object);
            state.insert(self.objects + object);
        }
        let Some(Beyond::Routine(routine)) = self.memory.objects.beyond(site) else {
            return;
        };
        let inst = self.memory.objects.program.inst(site);
        let Op::Call { args, .. } = &inst.op else {
            return;
        };
        let context = match (routine.on_context, args.first()) {
            (true, Some(of)) => context(self.memory, site.function, of),
            _ => Context::Default,
        };
        let name = plain(self.memory.objects.program.called(site).unwrap_or_default());
        if routine.args.iter().any(|access| access.writes_remote) || routine.nonblocking {
            state.insert(self.bit(context));
        }
        match sync {
            Sync::Quiet if context != Context::Unknown => state.set(self.bit(context), false),
            Sync::Global | Sync::GlobalIfDone => state.set(self.bit(Context::Default), false),
            Sync::Checkpoint | Sync::Restart => {
                (2 * self.objects..=3 * self.objects).for_each(|at| state.set(at, false));
            }
            _ => {}
        }
        if ["shmem_free", "shfree"].contains(&name) && sync != Sync::None {
            let points = self.memory.points(site.function, &args[0]);
            if let (1, Some(object)) = (points.len(), points.first()) {
                let symmetric = self.memory.objects.all[*object].kind == ObjectKind::Symmetric;
                state.set(*object, state.contains(*object) && !symmetric);
            }
        }
    }
}

/// The context that an argument says.
#[must_use]
pub fn context(memory: &Memory<'_>, function: usize, argument: &Operand) -> Context {
    let Operand::Local(local) = argument else {
        // SHMEM_CTX_DEFAULT is a constant.
        return Context::Default;
    };
    let blocks = &memory.objects.program.functions[function].blocks;
    let defines = |inst: &&Inst| inst.result == Some(*local);
    let defined = blocks.iter().flat_map(|block| &block.insts).find(defines);
    match defined.map(|inst| &inst.op) {
        Some(Op::Load { from, .. }) => {
            memory.objects.direct(function, from).map_or(Context::Unknown, Context::In)
        }
        _ => Context::Unknown,
    }
}
