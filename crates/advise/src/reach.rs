//! The possible past of each call that synchronises: allocations made and not freed, and contexts
//! with transfers that no quiet has completed.
//!
//! Left out: the distinction between several instances of an allocation.

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet as Bits;

use crate::forward::{Transfer, walk};
use crate::ir::{Inst, Op, Operand};
use crate::memory::Memory;
use crate::objects::{Beyond, ObjectKind};
use crate::points::{OUTSIDE, Object};
use crate::program::Site;
use crate::routines::{Sync, plain};
use crate::steps::{Step, Steps};

/// A context as the program names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// The default context.
    Default,
    /// The context whose handle is in this variable.
    In(Object),
    /// Any other context.
    Unknown,
}

/// The state that may hold before a call that synchronises.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// Allocations that may exist.
    pub allocated: Bits,
    /// Allocations that were made, freed or not.
    pub made: Bits,
    /// Variables of contexts that may have transfers under way; `OUTSIDE` for unknown ones.
    pub pending: Vec<Object>,
    /// True if the default context may have transfers under way.
    pub default_pending: bool,
}

/// The state: allocated objects, then all objects allocated so far, then contexts by the object of
/// their variable, `OUTSIDE` for unknown ones, then one bit for the default context.
struct Reach<'m, 'p> {
    memory: &'m Memory<'p>,
    objects: usize,
    found: BTreeMap<Site, Before>,
}

/// Returns the state that may hold before each call that synchronises.
#[must_use]
pub fn before(memory: &Memory<'_>, steps: &Steps) -> BTreeMap<Site, Before> {
    let objects = memory.objects.all.len();
    let mut reach = Reach { memory, objects, found: BTreeMap::new() };
    walk(memory, steps, 3 * objects + 1, &mut reach);
    reach.found
}

impl Transfer for Reach<'_, '_> {
    fn gain(&self, site: Site, _: &Step, state: &mut Bits) {
        self.change(site, Sync::None, state);
    }

    fn pass(&mut self, site: Site, step: &Step, state: &mut Bits) {
        if step.sync != Sync::None {
            self.found.insert(site, self.show(state));
        }
        self.change(site, step.sync, state);
    }
}

impl Reach<'_, '_> {
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

    fn change(&self, site: Site, sync: Sync, state: &mut Bits) {
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

/// Returns the context that an argument denotes.
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
