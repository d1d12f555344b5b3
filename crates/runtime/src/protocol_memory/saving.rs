//! The data of this PE in a checkpoint: what it covers, how much of it has changed, and the steps
//! that save it.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use raidshmem_core::inject::Point;
use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::protocol::At;
use raidshmem_core::protocol::brought::Brought;
use raidshmem_core::protocol::operation::Op;
use raidshmem_core::store::coverage::Coverage;
use raidshmem_core::store::delta::Changes;
use raidshmem_core::store::intent::{Intent, Intents, Refusal};
use raidshmem_core::view::View;

use super::scope::CheckpointScope;
use crate::checkpoint::{self, Sources};
use crate::checkpoint::{delta, pages, readonly, spill};
use crate::pgas::World;

/// The data of this PE in a checkpoint.
pub(super) struct Saving {
    begun: Instant,
    /// The time that the program waited, if its call is over.
    waited: Option<Duration>,
    /// Bytes of the snapshot to seal next.
    pub len: usize,
    pub coverage: Option<Coverage>,
    changes: Option<Changes>,
    /// This PE's contribution to the checkpoint.
    intent: Intent,
    pub refusal: Option<Refusal>,
}

impl Saving {
    /// Begins a call that has described nothing yet.
    pub fn begin() -> Saving {
        Saving {
            begun: Instant::now(),
            waited: None,
            len: 0,
            coverage: None,
            changes: None,
            intent: Intent::default(),
            refusal: None,
        }
    }

    /// Returns the time at which the call began.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// Notes that the program's call is over.
    pub fn goes_on(&mut self) {
        self.waited = Some(self.begun.elapsed());
    }

    /// Returns the covered memory, which is known by now.
    pub fn covered(&self) -> &Coverage {
        self.coverage.as_ref().expect("set at Intend or Restore")
    }

    /// Takes over the restored memory.
    pub fn restored(&mut self, coverage: Coverage) {
        (self.len, self.coverage) = (coverage.len(), Some(coverage));
    }

    /// Returns this PE's contribution to the meeting that agrees on the checkpoint.
    pub fn intents(&self, world: &World, view: &View) -> Brought {
        let machine = world.topology().machines_of(view)[world.me().at()];
        let (own, limit) = ((world.me(), machine), world.settings().memory_limit);
        let intents = Intents::of(own, &self.intent, limit);
        Brought::Intents(intents, world.call_sites().call(), world.members.drain())
    }

    /// Compares the contributions of all PEs. Returns true if the checkpoint can be made.
    pub fn agree(&mut self, scope: CheckpointScope, view: &View, met: &Brought) -> bool {
        let Brought::Intents(intents, calls, drain) = met else {
            unreachable!("at barrier Q all say what they save");
        };
        let CheckpointScope { world, protection, .. } = scope;
        if let Err(words) = world.call_sites().compare_calls(calls) {
            world.members.abort(&words);
        }
        world.members.agree_on_drain(*drain);
        self.refusal = checkpoint::agree(world, protection, view, intents).err();
        self.refusal.is_none() && self.coverage.is_some()
    }

    /// Carries out an operation of a checkpoint.
    pub fn carry_out(&mut self, scope: CheckpointScope, at: At, op: Op) {
        let CheckpointScope { world, protection, number } = scope;
        match op {
            Op::Quiet => world.transfers().quiet_all(),
            Op::Describe => self.describe(scope),
            Op::Prepare => {
                spill::keep(world, protection, number);
                checkpoint::prepare(world, protection, self.len);
            }
            Op::Compare => {
                let changes = delta::compare(world, protection, self.covered(), number);
                self.changes = Some(changes);
            }
            Op::Encode => {
                if world.members.heals() && !breaks(Mutant::RangeParityKept) {
                    if breaks(Mutant::OldParityFreed) {
                        readonly::free_other_parity(world, &world.memory.readonly(), number);
                    }
                    readonly::encode_anew(world, protection, number);
                }
                let (mut changes, all) = (self.changes.take(), |_| true);
                let (covered, half) = (self.covered(), (changes.as_mut(), Point::Encode));
                checkpoint::encode(world, protection, covered, number, &all, half);
                self.changes = changes;
            }
            Op::CopyLive if at == At::CopyAhead => {
                let mut changes = self.changes.take().expect("set at Compare");
                checkpoint::copy(world, protection, self.covered(), number, Some(&mut changes));
                self.changes = Some(changes);
            }
            Op::CopyLive if at == At::Finish => {
                checkpoint::copy(world, protection, self.covered(), number, None);
            }
            Op::CopyLive => {
                let mut changes = self.changes.take().expect("set at Compare");
                let covered = self.covered();
                checkpoint::complete(world, protection, covered, number, &mut changes);
                self.changes = Some(changes);
            }
            Op::Watch => pages::watch(world, protection, self.covered(), number),
            Op::Saved => self.saved(scope),
            _ => unreachable!("{op:?} at {at:?}"),
        }
    }

    /// Computes the own parity of a checkpoint whose snapshots are complete.
    pub fn encode_behind(&mut self, scope: CheckpointScope, from: Sources) {
        let CheckpointScope { world, protection, number } = scope;
        let mut changes = self.changes.take().expect("set at Compare");
        let inputs = (&mut changes, from);
        checkpoint::encode_behind(world, protection, self.covered(), number, inputs);
        self.changes = Some(changes);
    }

    fn describe(&mut self, scope: CheckpointScope) {
        let CheckpointScope { world, protection, number } = scope;
        (self.coverage, self.intent) = checkpoint::intend(world, protection);
        match &self.coverage {
            Some(coverage) => {
                self.len = coverage.len();
                pages::show(world, coverage, number);
            }
            None => pages::forget(&world.store),
        }
    }

    /// Completes a checkpoint that all PEs have.
    pub fn saved(&mut self, scope: CheckpointScope) {
        let CheckpointScope { world, protection, number } = scope;
        let changes = self.changes.take();
        let found = changes.as_ref().and_then(delta::found);
        if let Some(changes) = changes {
            delta::keep(&world.store, changes, number, self.len);
        }
        checkpoint::saved(world, protection, number, (self.begun, self.waited), found);
    }
}
