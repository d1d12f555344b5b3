//! Liveness: the objects that may still be read, before each instruction, by a backward analysis of
//! the whole program.
//!
//! A function has two summaries: the memory it may read before writing it (`needs`), and the memory
//! it may leave unchanged (`passes`). With them each function is solved by itself, callees first;
//! the memory that is live where a function returns then comes from its callers.
//!
//! Control also jumps: from a checkpoint to the return of any restart, from any call to the return
//! of any `setjmp`, and from any call that may throw to any landing pad. The memory that is live
//! there is found in rounds, each of which uses the results of the previous one.
//!
//! Invariants: sets only grow from round to round; an object is never considered overwritten if
//! several instances may exist, or if other PEs or unknown code may read it. Left out: values.

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet as Bits;

use crate::fills::Fills;
use crate::held::Held;
use crate::ir::Op;
use crate::memory::Memory;
use crate::objects::ObjectKind;
use crate::points::OUTSIDE;
use crate::program::Site;
use crate::routines::Sync;
use crate::steps::{Step, Steps};

/// The memory that is live at the targets of jumps.
#[derive(Clone, PartialEq)]
struct Jumps {
    restart: Bits,
    twice: Bits,
    landing: Bits,
    /// Sources of transfers that continue until a quiet.
    pending: Bits,
}

/// The result of the analysis.
pub struct Liveness {
    /// The memory that is live where each function returns.
    exits: Vec<Bits>,
    needs: Vec<Bits>,
    passes: Vec<Bits>,
    /// Variables of each function.
    frames: Vec<Bits>,
    jumps: Jumps,
    /// The memory that checkpoints hold.
    saved: Bits,
    /// Memory read by code that may run at any time.
    pub always: Bits,
    /// Objects that loops overwrite, by edge.
    fills: Fills,
    objects: usize,
}

impl Liveness {
    /// Solves. `always` is live everywhere, in every function; `beyond` where any function but
    /// `main` returns.
    #[must_use]
    pub fn new(
        memory: &Memory<'_>,
        steps: &Steps,
        (always, beyond): (&Bits, &Bits),
        fills: Fills,
    ) -> Self {
        let objects = memory.objects.all.len();
        let functions = steps.blocks.len();
        let none = Bits::with_capacity(objects);
        let mut frames = vec![none.clone(); functions];
        for (object, known) in memory.objects.all.iter().enumerate() {
            if let ObjectKind::Frame(function) = known.kind {
                frames[function].insert(object);
            }
        }
        let main = |at: usize| memory.objects.program.functions[at].name == "main";
        let exit = |at: usize| if main(at) { none.clone() } else { beyond.clone() };
        let mut live = Self {
            exits: (0..functions).map(exit).collect(),
            needs: vec![none.clone(); functions],
            passes: vec![none.clone(); functions],
            frames,
            jumps: Jumps {
                restart: none.clone(),
                twice: none.clone(),
                landing: none,
                pending: pending(memory, steps),
            },
            saved: Bits::with_capacity(objects),
            always: always.clone(),
            fills,
            objects,
        };
        live.saved.extend(memory.saved());
        live.solve(memory, steps);
        live
    }

    fn solve(&mut self, memory: &Memory<'_>, steps: &Steps) {
        loop {
            self.summaries(memory, steps);
            self.carry_exits(memory, steps);
            let found = self.jumps(memory, steps);
            if found == self.jumps {
                return;
            }
            self.jumps = found;
        }
    }

    fn summaries(&mut self, memory: &Memory<'_>, steps: &Steps) {
        let mut all = Bits::with_capacity(self.objects);
        all.insert_range(..);
        for group in &steps.groups {
            for function in group {
                self.passes[*function] = all.clone();
            }
            loop {
                let before: Vec<Bits> = group.iter().map(|at| self.needs[*at].clone()).collect();
                for function in group {
                    let none = Bits::with_capacity(self.objects);
                    let mut needs = self.entry(memory, steps, *function, &none);
                    if !steps.recursive[*function] {
                        needs.difference_with(&self.frames[*function]);
                    }
                    self.needs[*function].union_with(&needs);
                }
                if group.iter().zip(before).all(|(at, before)| self.needs[*at] == before) {
                    break;
                }
            }
            for function in group.iter().filter(|at| !steps.recursive[**at]) {
                let passes = self.entry(memory, steps, *function, &all);
                self.passes[*function] = passes;
            }
        }
    }

    fn entry(&self, memory: &Memory<'_>, steps: &Steps, function: usize, exit: &Bits) -> Bits {
        let blocks = self.blocks(memory, steps, function, exit);
        blocks.into_iter().next().unwrap_or_else(|| exit.clone())
    }

    /// Returns the memory that is live at the beginning of each block.
    fn blocks(
        &self,
        memory: &Memory<'_>,
        steps: &Steps,
        function: usize,
        exit: &Bits,
    ) -> Vec<Bits> {
        let blocks = &memory.objects.program.functions[function].blocks;
        let mut begins = vec![Bits::with_capacity(self.objects); blocks.len()];
        let mut waiting: Vec<usize> = (0..blocks.len()).collect();
        let mut queued = vec![true; blocks.len()];
        let mut before = vec![Vec::new(); blocks.len()];
        for (at, block) in blocks.iter().enumerate() {
            for to in &block.successors {
                before[*to].push(at);
            }
        }
        while let Some(block) = waiting.pop() {
            queued[block] = false;
            let live = self.walk(memory, steps, (function, block), (exit, &begins), |_, _| ());
            if live != begins[block] {
                begins[block] = live;
                for at in &before[block] {
                    if !std::mem::replace(&mut queued[*at], true) {
                        waiting.push(*at);
                    }
                }
            }
        }
        begins
    }

    /// Returns the memory that is live at the beginning of a block; `see` receives the memory that
    /// is live after each step.
    fn walk(
        &self,
        memory: &Memory<'_>,
        steps: &Steps,
        (function, block): (usize, usize),
        around: (&Bits, &[Bits]),
        mut see: impl FnMut(&Step, &Bits),
    ) -> Bits {
        let (exit, begins) = around;
        let own = &steps.blocks[function][block];
        let function_of = &memory.objects.program.functions[function];
        let at = block;
        let block = &function_of.blocks[at];
        let mut live = Bits::with_capacity(self.objects);
        for to in &block.successors {
            match self.fills[function].get(&(at, *to)) {
                Some(filled) => {
                    let mut begin = begins[*to].clone();
                    filled.objects.iter().for_each(|object| begin.remove(*object));
                    live.union_with(&begin);
                    // A call in the loop may leave it before everything is overwritten.
                    if filled.calls {
                        live.union_with(&self.jumps.twice);
                        live.union_with(&self.jumps.landing);
                    }
                }
                None => live.union_with(&begins[*to]),
            }
        }
        match block.insts.last().map(|inst| &inst.op) {
            Some(Op::Return(_)) => live.union_with(exit),
            Some(Op::Other) if !function_of.nounwind => live.union_with(&self.jumps.landing),
            _ => {}
        }
        for step in own.iter().rev() {
            see(step, &live);
            self.before(steps, function, step, &mut live, function_of.nounwind);
            // The exception path starts before the call had any effect.
            if step.call && step.index + 1 == block.insts.len() {
                block.successors.iter().for_each(|to| live.union_with(&begins[*to]));
            }
        }
        live
    }

    /// Turns the memory that is live after a step into that before it.
    fn before(&self, steps: &Steps, function: usize, step: &Step, live: &mut Bits, nounwind: bool) {
        if let Some((first, rest)) = step.effect.callees.split_first() {
            let mut passes = self.passes[*first].clone();
            rest.iter().for_each(|callee| passes.union_with(&self.passes[*callee]));
            passes.union_with(&steps.shared);
            if !step.effect.unknown {
                live.intersect_with(&passes);
            }
            step.effect.callees.iter().for_each(|callee| live.union_with(&self.needs[*callee]));
        }
        for object in step.effect.kill.iter().filter(|at| !steps.shared.contains(**at)) {
            let own = self.frames[function].contains(*object);
            if !(own && steps.recursive[function]) {
                live.remove(*object);
            }
        }
        for object in &step.effect.reads {
            match *object {
                OUTSIDE => live.union_with(&steps.escaped),
                object => live.insert(object),
            }
        }
        if completes(step.sync) {
            live.union_with(&self.jumps.pending);
        }
        if step.sync == Sync::Checkpoint {
            live.union_with(&self.jumps.restart);
        }
        if step.call {
            live.union_with(&self.jumps.twice);
            if !nounwind {
                live.union_with(&self.jumps.landing);
            }
        }
    }

    /// Carries the memory that is live after each call to where its function returns.
    fn carry_exits(&mut self, memory: &Memory<'_>, steps: &Steps) {
        let outside = memory.flow.called_from_outside(&memory.objects);
        loop {
            let mut grown = false;
            for function in steps.groups.iter().rev().flatten() {
                let exit = self.exits[*function].clone();
                let begins = self.blocks(memory, steps, *function, &exit);
                for block in 0..begins.len() {
                    let mut calls = Vec::new();
                    let around = (&exit, begins.as_slice());
                    self.walk(memory, steps, (*function, block), around, |step, live| {
                        let back = if step.effect.unknown { outside.as_slice() } else { &[] };
                        let to = step.effect.callees.iter().chain(back);
                        calls.extend(to.map(|callee| (*callee, live.clone())));
                    });
                    for (callee, live) in calls {
                        grown |= self.leave(steps, callee, live);
                    }
                }
            }
            if !grown {
                return;
            }
        }
    }

    /// Adds memory that is live where a function returns. Returns true if any is new.
    fn leave(&mut self, steps: &Steps, function: usize, mut live: Bits) -> bool {
        if !steps.recursive[function] {
            live.difference_with(&self.frames[function]);
        }
        let grown = !live.is_subset(&self.exits[function]);
        self.exits[function].union_with(&live);
        grown
    }

    /// Returns the memory that is live at the targets of jumps, by the current results.
    fn jumps(&self, memory: &Memory<'_>, steps: &Steps) -> Jumps {
        let mut jumps = self.jumps.clone();
        for (function, of) in memory.objects.program.functions.iter().enumerate() {
            let exit = &self.exits[function];
            let catches = |block: &crate::ir::Block| {
                matches!(block.insts.first().map(|inst| &inst.op), Some(Op::Caught))
            };
            let jump = |step: &Step| step.twice || step.sync == Sync::Restart;
            if !steps.of(function).any(jump) && !of.blocks.iter().any(catches) {
                continue;
            }
            let begins = self.blocks(memory, steps, function, exit);
            for (block, _) in of.blocks.iter().enumerate().filter(|(_, is)| catches(is)) {
                jumps.landing.union_with(&begins[block]);
            }
            for block in 0..begins.len() {
                let around = (exit, begins.as_slice());
                self.walk(memory, steps, (function, block), around, |step, live| {
                    if step.twice {
                        jumps.twice.union_with(live);
                    } else if jump(step) {
                        jumps.restart.union_with(live);
                    }
                });
            }
        }
        // A restart restores the memory that checkpoints hold; the process keeps the rest.
        jumps.restart.intersect_with(&self.saved);
        jumps
    }

    /// Returns the memory that is live after each call that synchronises: a checkpoint there must
    /// hold it.
    #[must_use]
    pub fn after(&self, memory: &Memory<'_>, steps: &Steps) -> BTreeMap<Site, Bits> {
        let mut found = BTreeMap::new();
        let held = Held::new(memory, steps, &[&self.saved, &self.always, &self.jumps.pending]);
        // A signal handler may jump, whatever the program is doing.
        let mut always = self.always.clone();
        if !memory.flow.called_from_outside(&memory.objects).is_empty() {
            always.union_with(&self.jumps.twice);
        }
        for function in 0..steps.blocks.len() {
            if !steps.of(function).any(|step| step.sync != Sync::None) {
                continue;
            }
            let exit = &self.exits[function];
            let begins = self.blocks(memory, steps, function, exit);
            for block in 0..begins.len() {
                let around = (exit, begins.as_slice());
                self.walk(memory, steps, (function, block), around, |step, live| {
                    if step.sync == Sync::None {
                        return;
                    }
                    let mut live = live.clone();
                    live.union_with(&always);
                    // A restart continues with everything that a checkpoint saves.
                    if step.sync == Sync::Checkpoint {
                        live.union_with(&self.jumps.restart);
                    }
                    held.keep(function, &mut live);
                    found.insert(Site { function, block, index: step.index }, live);
                });
            }
        }
        found
    }
}

/// Returns true if pending transfers are complete after it.
fn completes(sync: Sync) -> bool {
    matches!(
        sync,
        Sync::Global | Sync::GlobalIfDone | Sync::Quiet | Sync::Checkpoint | Sync::Restart
    )
}

/// Returns the sources of transfers that continue after their call.
fn pending(memory: &Memory<'_>, steps: &Steps) -> Bits {
    let mut found = Bits::with_capacity(memory.objects.all.len());
    for (site, step) in steps.all() {
        if memory.objects.routine(site).is_some_and(|routine| routine.nonblocking) {
            for object in &step.effect.reads {
                match *object {
                    OUTSIDE => found.union_with(&steps.escaped),
                    object => found.insert(object),
                }
            }
        }
    }
    found
}
