//! The next line that reads an object.

use std::collections::VecDeque;

use fixedbitset::FixedBitSet as Bits;

use crate::ir::SourceLine;
use crate::memory::Memory;
use crate::points::{OUTSIDE, Object};
use crate::program::Site;
use crate::steps::{Step, Steps};

/// The objects that every function reads.
pub struct Uses {
    reads: Vec<Bits>,
}

impl Uses {
    /// Gathers the objects that functions read.
    #[must_use]
    pub fn new(steps: &Steps) -> Self {
        Self { reads: steps.transitive(|step| step.effect.reads.iter().copied().collect()) }
    }

    /// Returns the objects that a function reads, including those that its callees read.
    #[must_use]
    pub fn of(&self, function: usize) -> &Bits {
        &self.reads[function]
    }

    fn uses(&self, steps: &Steps, step: &Step, object: Object) -> bool {
        let reads = &step.effect.reads;
        reads.contains(&object)
            || reads.contains(&OUTSIDE) && steps.escaped.contains(object)
            || step.effect.callees.iter().any(|callee| self.reads[*callee].contains(object))
    }

    /// Returns the nearest line after one of the calls that reads the object.
    #[must_use]
    pub fn next(
        &self,
        memory: &Memory<'_>,
        steps: &Steps,
        calls: &[Site],
        object: Object,
    ) -> Option<SourceLine> {
        calls.iter().find_map(|call| self.after(memory, steps, *call, object))
    }

    fn after(
        &self,
        memory: &Memory<'_>,
        steps: &Steps,
        call: Site,
        object: Object,
    ) -> Option<SourceLine> {
        let blocks = &memory.objects.program.functions[call.function].blocks;
        let mut waiting = VecDeque::from([(call.block, call.index + 1)]);
        let mut seen = vec![false; blocks.len()];
        while let Some((block, from)) = waiting.pop_front() {
            let own = steps.blocks[call.function][block].iter();
            let found = own.filter(|step| step.index >= from);
            for step in found {
                if self.uses(steps, step, object) {
                    return Some(blocks[block].insts[step.index].place.clone());
                }
            }
            for to in &blocks[block].successors {
                if !std::mem::replace(&mut seen[*to], true) {
                    waiting.push_back((*to, 0));
                }
            }
        }
        None
    }
}
