//! Barriers over all PEs, and the words that they count in.
//!
//! Where all PEs are mapped a counter on PE 0 is all. Where nodes do not map each other, nodes
//! meet, then their lowest PEs:
//!
//! ```text
//! arrive    every PE of a node adds one to the gate of the node's lowest PE, its leader
//! meet      leaders meet by dissemination (`rounds.rs`): each tells its partner of a round
//!           the number of the barrier, and waits for it from the other
//! release   each leader opens its gate and wakes its node
//! ```
//!
//! Nothing is polled over the network: a leader waits for words of its own segment.
//!
//! Invariant: numbers of barriers only grow between two resets, and a reset is made between two
//! meetings of all PEs, each after everything sent before has arrived.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::rounds::rounds;

use super::world::nodes::Nodes;
use super::{Fault, World};
use crate::segment::waits::Waiting;
use crate::segment::words::{Barrier, ROUNDS, Words};

impl World {
    /// A wait for every PE to come to `call`.
    pub fn waiting_for_all(&self, call: &'static str) -> Waiting {
        Waiting::all(call, self.n_pes())
    }

    /// Waits for all PEs to come to `call`, a barrier of the program.
    pub fn barrier(&self, call: &'static str) -> Result<(), Fault> {
        self.barrier_of(Barrier::Program, call)
    }

    /// Waits for all PEs to come to `call`. Where all are mapped a counter on PE 0: the last to
    /// arrive releases the others.
    pub(crate) fn barrier_of(&self, whose: Barrier, call: &'static str) -> Result<(), Fault> {
        if self.members.faulted() {
            return self.pass_alone();
        }
        let whose = if breaks(Mutant::BarriersPair) { Barrier::Program } else { whose };
        let epoch = self.comm.next_epoch(whose);
        if whose == Barrier::Program {
            self.comes_to_barrier();
        }
        let gate = match (&self.comm.far, self.segments.near(0)) {
            (None, Some(first)) => &first.words().gates[whose as usize],
            _ => return self.came(self.barrier_of_nodes(whose, call, epoch).is_ok()),
        };
        let waiting = || self.waiting_for_all(call);
        let n = self.n_pes() as u64;
        if gate.arrived.fetch_add(1, Ordering::SeqCst) + 1 == epoch * n {
            gate.released.store(epoch, Ordering::SeqCst); // pairs with the loads below
            (0..self.n_pes()).filter(|&pe| pe != self.me()).for_each(|pe| self.segments.wake(pe));
            return Ok(());
        }
        let mut done = false;
        self.wait_raw(waiting, || {
            done = gate.released.load(Ordering::SeqCst) >= epoch;
            done || self.members.faulted()
        });
        self.came(done)
    }

    /// Puts the words of barriers and teams back to their beginning; part of every recovery. They
    /// are as at the checkpoint then: nobody was in a collective.
    pub(crate) fn reset_control(&self) {
        let teams = self.segments.layout().teams..self.segments.layout().work;
        self.segments.write_own(teams.start, &vec![0; teams.len()]);
        let words = self.segments.own().words();
        let gates = words.gates.iter().flat_map(|gate| [&gate.arrived, &gate.released]);
        let heard = words.heard.iter().flat_map(|heard| heard.iter());
        let all = gates.chain(heard).chain(self.comm.epochs());
        all.for_each(|word| word.store(0, Ordering::SeqCst));
    }

    pub(super) fn barrier_of_nodes(
        &self,
        whose: Barrier,
        call: &'static str,
        epoch: u64,
    ) -> Result<(), Fault> {
        let nodes = self.comm.nodes();
        let leader = nodes.leaders[nodes.index];
        let Some(leading) = self.segments.near(leader) else {
            return Err(Fault); // moved away: the view is another one by now
        };
        let gate = &leading.words().gates[whose as usize];
        let all = epoch * nodes.here.len() as u64;
        let arrived = gate.arrived.fetch_add(1, Ordering::SeqCst) + 1;
        if self.me() != leader {
            if arrived == all {
                self.segments.wake(leader);
            }
            return self.until(call, &gate.released, epoch);
        }
        self.until(call, &gate.arrived, all)?;
        self.meet_leaders(call, &nodes, whose, epoch)?;
        gate.released.store(epoch, Ordering::SeqCst);
        nodes.here.iter().filter(|&&pe| pe != leader).for_each(|&pe| self.segments.wake(pe));
        Ok(())
    }

    fn meet_leaders(
        &self,
        call: &'static str,
        nodes: &Nodes,
        whose: Barrier,
        epoch: u64,
    ) -> Result<(), Fault> {
        let heard = &self.segments.own().words().heard[whose as usize];
        let at = std::mem::offset_of!(Words, heard) + whose as usize * size_of_val(heard);
        let meeting = rounds(nodes.index, nodes.leaders.len());
        for (number, round) in meeting.enumerate().take(ROUNDS) {
            let partner = nodes.leaders[round.to];
            self.far_tell(partner, at + number * 8, epoch);
            self.until(call, &heard[number], epoch)?;
        }
        Ok(())
    }

    /// Waits until `word` is at least `value`.
    fn until(&self, call: &'static str, word: &AtomicU64, value: u64) -> Result<(), Fault> {
        let mut done = false;
        self.wait_raw(
            || self.waiting_for_all(call),
            || {
                done = word.load(Ordering::SeqCst) >= value;
                done || self.members.faulted()
            },
        );
        if done { Ok(()) } else { Err(Fault) }
    }
}
