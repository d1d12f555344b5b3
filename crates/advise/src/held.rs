//! Memory of the private heap that a program can still reach: live memory points to it, or a value
//! of an active function does. Anything else that a later read finds was allocated later.
//!
//! Invariant: memory that other code, another thread or a transfer may reach is always kept. Left
//! out: the distinction between several instances of an allocation.

use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet as Bits;

use crate::ir::{Block, Local, Op, Operand};
use crate::memory::Memory;
use crate::objects::ObjectKind;
use crate::points::Object;
use crate::routines::Sync;
use crate::steps::{Step, Steps};

/// The memory that values lead to.
pub struct Held<'m, 'p> {
    memory: &'m Memory<'p>,
    steps: &'m Steps,
    /// Memory of private heaps that only the program itself can reach.
    own: Bits,
    /// By function: possible targets of its values that outlive a call.
    values: Vec<BTreeSet<Object>>,
    /// Functions that unknown code may call.
    outside: Vec<usize>,
}

impl<'m, 'p> Held<'m, 'p> {
    /// Examines all functions. The objects in `kept` can be reached from elsewhere.
    #[must_use]
    pub fn new(memory: &'m Memory<'p>, steps: &'m Steps, kept: &[&Bits]) -> Self {
        let mut own = Bits::with_capacity(memory.objects.all.len());
        let known = memory.objects.all.iter().enumerate();
        own.extend(known.filter(|(_, known)| known.kind == ObjectKind::Heap).map(|(at, _)| at));
        own.difference_with(&steps.escaped);
        kept.iter().for_each(|kept| own.difference_with(kept));
        let functions = 0..steps.blocks.len();
        let values = functions.map(|function| values(memory, steps, function)).collect();
        let outside = memory.flow.called_from_outside(&memory.objects);
        Self { memory, steps, own, values, outside }
    }

    /// Removes unreachable objects from those that are live at a call in `function`.
    pub fn keep(&self, function: usize, live: &mut Bits) {
        let mut lost = live.clone();
        lost.intersect_with(&self.own);
        if lost.is_clear() {
            return;
        }
        let contents = |holder: Object| self.memory.flow.solution.contents(holder).iter();
        let mut found: Vec<Object> = live.difference(&lost).flat_map(contents).copied().collect();
        found.extend(self.active(function).into_iter().flat_map(|at| &self.values[at]));
        while let Some(object) = found.pop() {
            if lost.contains(object) {
                lost.remove(object);
                found.extend(contents(object));
            }
        }
        live.difference_with(&lost);
    }

    /// Returns the functions that may not have returned while `function` runs.
    fn active(&self, function: usize) -> Vec<usize> {
        let mut leads = self.steps.leading(&|step| step.effect.callees.contains(&function));
        leads[function] = true;
        let any = self.outside.iter().any(|at| leads[*at]);
        (0..leads.len()).filter(|at| any || leads[*at]).collect()
    }
}

/// Returns the possible targets of a function's values that are used after a call that follows
/// them.
fn values(memory: &Memory<'_>, steps: &Steps, function: usize) -> BTreeSet<Object> {
    let of = &memory.objects.program.functions[function];
    let mut begins: BTreeMap<Local, (usize, usize)> = (0..of.parameters).map(first).collect();
    for (block, insts) in of.blocks.iter().enumerate() {
        for (index, inst) in insts.insts.iter().enumerate() {
            begins.extend(inst.result.map(|result| (result, (block, index))));
        }
    }
    let mut found = BTreeSet::new();
    for (block, insts) in of.blocks.iter().enumerate() {
        let calls = calls(&steps.blocks[function][block]);
        for (index, local) in uses(insts) {
            let over = match begins.get(&local) {
                Some((at, from)) if *at == block && *from < index => {
                    calls.iter().any(|call| (from + 1..index).contains(call))
                }
                _ => true,
            };
            if over {
                found.extend(memory.points(function, &Operand::Local(local)));
            }
        }
    }
    found
}

/// Returns the definition of a parameter: the first instruction.
fn first(parameter: Local) -> (Local, (usize, usize)) {
    (parameter, (0, 0))
}

/// Returns the calls of a block that may contain a checkpoint.
fn calls(steps: &[Step]) -> Vec<usize> {
    let within = |step: &&Step| {
        step.sync != Sync::None || step.effect.unknown || !step.effect.callees.is_empty()
    };
    steps.iter().filter(within).map(|step| step.index).collect()
}

/// Returns every use of a value in a block.
fn uses(block: &Block) -> impl Iterator<Item = (usize, Local)> {
    block.insts.iter().enumerate().flat_map(|(index, inst)| {
        operands(&inst.op).into_iter().filter_map(move |operand| match operand {
            Operand::Local(local) => Some((index, *local)),
            _ => None,
        })
    })
}

fn operands(op: &Op) -> Vec<&Operand> {
    match op {
        Op::Load { from, .. } => vec![from],
        Op::Store { value, to, .. } => vec![value, to],
        Op::Update { at, values } => std::iter::once(at).chain(values).collect(),
        Op::Copy(all) | Op::Compare(all) => all.iter().collect(),
        Op::Call { callee, args, .. } => {
            let through = match callee {
                crate::ir::Callee::Through(to) => Some(to),
                _ => None,
            };
            args.iter().chain(through).collect()
        }
        Op::Branch(of) | Op::Return(Some(of)) => vec![of],
        Op::Return(None) | Op::Alloca { .. } | Op::Caught | Op::Other => Vec::new(),
    }
}
