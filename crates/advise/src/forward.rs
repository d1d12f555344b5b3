//! Forward analysis over the whole program: facts that may hold before each step, as bits.
//!
//! A function is entered with the facts that held at any call of it, and every call of it continues
//! with the facts that may hold where it returns; so the answer is too wide, never too narrow.
//!
//! Left out: jumps, and the callers of functions that only unknown code calls.

use fixedbitset::FixedBitSet as Bits;

use crate::ir::Op;
use crate::memory::Memory;
use crate::program::Site;
use crate::steps::{Step, Steps};

/// The effect of steps on the bits.
pub trait Transfer {
    /// Adds the bits that the step may set.
    fn gain(&self, site: Site, step: &Step, bits: &mut Bits);
    /// Applies the step, without the functions that it calls. May visit a step several times, the
    /// last time with all facts that may hold there.
    fn pass(&mut self, site: Site, step: &Step, bits: &mut Bits);
}

struct Walk<'m, 'p> {
    memory: &'m Memory<'p>,
    steps: &'m Steps,
    none: Bits,
    entries: Vec<Bits>,
    exits: Vec<Bits>,
    /// Bits that may be set in each function, and in those that it calls.
    gains: Vec<Bits>,
}

/// Walks a program with `bits` bits, all unset at its start.
pub fn walk(memory: &Memory<'_>, steps: &Steps, bits: usize, transfer: &mut impl Transfer) {
    let none = Bits::with_capacity(bits);
    let all = vec![none.clone(); steps.blocks.len()];
    let mut walk =
        Walk { memory, steps, none, entries: all.clone(), exits: all.clone(), gains: all };
    walk.find_gains(transfer);
    while walk.round(transfer) {}
}

impl Walk<'_, '_> {
    fn find_gains(&mut self, transfer: &impl Transfer) {
        for group in &self.steps.groups {
            let mut all = self.none.clone();
            for function in group {
                for (block, own) in self.steps.blocks[*function].iter().enumerate() {
                    for step in own {
                        let site = Site { function: *function, block, index: step.index };
                        transfer.gain(site, step, &mut all);
                        for callee in &step.effect.callees {
                            all.union_with(&self.gains[*callee]);
                        }
                    }
                }
            }
            group.iter().for_each(|function| self.gains[*function] = all.clone());
        }
    }

    /// Returns the facts that may hold after calls: they held before or began there, and hold where
    /// the calls return.
    fn after(&self, callees: &[usize], bits: &Bits) -> Bits {
        let (mut held, mut exits) = (bits.clone(), self.none.clone());
        for callee in callees {
            held.union_with(&self.gains[*callee]);
            exits.union_with(&self.exits[*callee]);
        }
        held.intersect_with(&exits);
        held
    }

    /// Makes one pass over all functions. Returns true if something was new.
    fn round(&mut self, transfer: &mut impl Transfer) -> bool {
        let mut grown = false;
        for function in self.steps.groups.iter().rev().flatten() {
            grown |= self.function(*function, transfer);
        }
        grown
    }

    fn function(&mut self, function: usize, transfer: &mut impl Transfer) -> bool {
        let blocks = &self.memory.objects.program.functions[function].blocks;
        let mut begins = vec![self.none.clone(); blocks.len()];
        let Some(first) = begins.first_mut() else {
            return false;
        };
        first.union_with(&self.entries[function]);
        let (mut waiting, mut seen, mut grown) = (vec![0], vec![false; blocks.len()], false);
        while let Some(block) = waiting.pop() {
            seen[block] = true;
            let mut bits = begins[block].clone();
            for step in &self.steps.blocks[function][block] {
                transfer.pass(Site { function, block, index: step.index }, step, &mut bits);
                grown |= self.call(step, &mut bits);
            }
            if matches!(blocks[block].insts.last().map(|inst| &inst.op), Some(Op::Return(_))) {
                grown |= !bits.is_subset(&self.exits[function]);
                self.exits[function].union_with(&bits);
            }
            for to in &blocks[block].successors {
                if !seen[*to] || !bits.is_subset(&begins[*to]) {
                    begins[*to].union_with(&bits);
                    waiting.push(*to);
                }
            }
        }
        grown
    }

    /// Applies the functions that a step calls. Returns true if one is entered with something new.
    fn call(&mut self, step: &Step, bits: &mut Bits) -> bool {
        let callees = &step.effect.callees;
        if callees.is_empty() {
            return false;
        }
        let mut grown = false;
        for callee in callees {
            grown |= !bits.is_subset(&self.entries[*callee]);
            self.entries[*callee].union_with(bits);
        }
        let mut after = self.after(callees, bits);
        if step.effect.unknown {
            after.union_with(bits);
        }
        *bits = after;
        grown
    }
}
