//! Adoption of a dead process' memory: the model of `pgas/inherit.rs`, over small memory. The
//! decision is the library's own rule.

use raidshmem_core::mutant::Mutant;
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::store::inherited::{Rescue, is_borne_out, rescue, without_live};
use raidshmem_core::store::phase::{Phase, Vote};

use super::job::Job;
use super::memory::{Memory, tiles};
use super::pe::Proc;
use super::plan::Broken;

/// The second snapshot of a store that keeps one.
const SHADOW: usize = 1;

impl Job {
    /// Publishes the dead process' vote, after saving the memory that it needs.
    pub fn inherit(&mut self, p: &Proc) {
        let mut vote = self.vote_of_the_dead(p);
        let saved = match rescue(&vote) {
            Rescue::Nothing => true,
            Rescue::Complete(n) if self.is_shadowed(p, n) => {
                bring(self.own(p));
                true
            }
            Rescue::Complete(n) => self.rescue_live(p, n, self.plan.snapshot_of(n.0)),
            Rescue::Keep(n) => {
                let second = self.plan.settings.snapshots == 2;
                let place = if second { self.plan.snapshot_of(n.0) } else { SHADOW };
                let is_there = self.own(p).snapshots[place].record.0 == n;
                is_there || self.rescue_live(p, n, place)
            }
        };
        if !saved || matches!(vote.phase, Some(Phase::Copying(_))) {
            vote.phase = vote.phase.map(without_live);
        }
        let posted = &mut self.own(p).posted;
        posted.phase = vote.phase.map_or(0, Phase::pack);
        posted.decision = CheckpointNumber::pack(vote.decided);
    }

    fn vote_of_the_dead(&mut self, p: &Proc) -> Vote {
        if self.plan.broken == Broken::Rule(Mutant::DeadVoteIgnored) {
            return Vote { phase: None, decided: None };
        }
        let memory = self.memory(p, p.me());
        let snapshot =
            |n: CheckpointNumber| memory.snapshots[self.plan.snapshot_of(n.0)].record.0 == n;
        let slot = |n: CheckpointNumber| memory.slots[self.plan.slot_of(n.0)].record.0 == n;
        let phase = Phase::unpack(memory.posted.phase);
        let phase = phase.filter(|&phase| is_borne_out(phase, snapshot, slot));
        let known = |&n: &CheckpointNumber| {
            phase.is_some_and(|phase| phase.has(n)) || snapshot(n) || slot(n)
        };
        let decided = CheckpointNumber::unpack(memory.posted.decision).filter(known);
        Vote { phase, decided }
    }

    pub fn is_shadowed(&self, p: &Proc, number: CheckpointNumber) -> bool {
        let shadow = &self.memory(p, p.me()).snapshots[SHADOW];
        self.plan.settings.snapshots == 1 && shadow.record.0 == number
    }

    fn rescue_live(&mut self, p: &Proc, number: CheckpointNumber, place: usize) -> bool {
        if self.plan.broken == Broken::LiveNotRescued {
            self.own(p).live.fill(0xee);
        }
        let (stamp, slot) = (self.stamp(p, p.me(), number), self.plan.slot_of(number.0));
        let memory = self.own(p);
        let len = memory.live.len();
        if memory.slots[slot].record != (number, len) {
            return false;
        }
        for tile in 0..tiles(len) {
            let bytes = memory.live_tile(tile);
            memory.snapshots[place].write(tile, &bytes, &stamp);
        }
        memory.snapshots[place].record = (number, len);
        true
    }
}

fn bring(memory: &mut Memory) {
    memory.snapshots[0] = memory.snapshots[SHADOW].clone();
}
