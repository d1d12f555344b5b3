//! Barriers over all PEs, and the words in which they count.
//!
//! PEs that map each other meet at counters in a tree (`rounds::counters`), or at one counter if
//! they are few. If nodes do not map each other, the lowest PEs of nodes meet in between:
//!
//! ```text
//! arrive    every PE increments its leader's counter; the leader waits for all, then increments
//!           the counter above
//! meet      leaders of nodes synchronize by dissemination (`rounds::rounds`): in each round, each
//!           posts the number of the barrier to one partner and waits for it from the other
//! release   the leader of a counter opens it and wakes the PEs that wait there; at the top
//!           counter, if there is no other node, the PE that arrived last does so
//! ```
//!
//! In shrink mode a barrier is an agreement of the living PEs (`fewer.rs`).
//!
//! Nothing is polled over the network: a leader waits for words of its own segment.
//!
//! Invariant: numbers of barriers only grow between two resets, and a reset is made between two
//! meetings of all PEs, each after everything sent before has arrived.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use raidshmem_core::agree::AgreedBits;
use raidshmem_core::quantity::Pe;
use raidshmem_core::rounds::{Counter, rounds};
use raidshmem_segment::waits::Waiting;
use raidshmem_segment::words::{Barrier, BarrierCounter, ROUNDS, Words};

use super::fewer::{Members, WORLD};
use super::world::nodes::Nodes;
use super::{Fault, World};

/// The barriers over all PEs.
#[derive(Clone, Copy)]
pub struct Barriers<'a> {
    pub(super) world: &'a World,
}

impl World {
    /// Returns the barriers over all PEs.
    #[inline]
    pub fn barriers(&self) -> Barriers<'_> {
        Barriers { world: self }
    }

    /// Describes a wait for every PE to reach `call`.
    pub fn waiting_for_all(&self, call: &'static str) -> Waiting {
        Waiting::all(call, self.n_pes())
    }
}

impl Barriers<'_> {
    /// Waits for all PEs to reach `call`, a barrier of the program.
    pub fn barrier(self, call: &'static str) -> Result<(), Fault> {
        self.barrier_of(Barrier::Program, call)
    }

    /// Waits for all PEs to reach `call`.
    pub(crate) fn barrier_of(self, whose: Barrier, call: &'static str) -> Result<(), Fault> {
        if let Some(decision) =
            self.world.loss_response().agreed(|| self.all_members(call), (u64::MAX, 0))
        {
            return if decision.lost == 0 { Ok(()) } else { Err(Fault) };
        }
        if self.world.members.faulted() {
            return self.world.completion().pass_locally();
        }
        let epoch = self.world.comm.next_epoch(whose);
        if whose == Barrier::Program {
            self.world.call_sites().enters_barrier();
        }
        self.world.blocking().came(self.meet_all(whose, call, epoch).is_ok())
    }

    /// Waits for the background of all PEs, in a thread whose wait no call of the program shows.
    /// Returns false if a PE was lost.
    pub(crate) fn barrier_in_background(self, call: &'static str) -> bool {
        let whose = Barrier::Background;
        let is_whole = !self.world.members.faulted();
        is_whole && self.meet_all(whose, call, self.world.comm.next_epoch(whose)).is_ok()
    }

    /// Agrees with all living PEs, in `call`, on one decision.
    pub(crate) fn agree_all(self, call: &'static str, with: (u64, u64)) -> AgreedBits {
        self.world.survivors().agree(&self.all_members(call), with)
    }

    /// Returns all PEs as the members of an agreement.
    pub(crate) fn all_members(self, call: &'static str) -> Members {
        Members {
            waiting: self.world.waiting_for_all(call),
            team: WORLD,
            gate: 0,
            offset: self.world.segments.layout().team(0),
            pes: Pe::all(self.world.n_pes()).collect(),
            index: self.world.me().at(),
        }
    }

    /// Resets control words; part of every recovery. They are then as at the checkpoint, when no PE
    /// was in a collective.
    pub(crate) fn reset_control(self) {
        self.reset_words();
        self.world.tree_meetings().reset_meetings();
    }

    /// Resets the words of barriers and teams.
    pub(super) fn reset_words(self) {
        let teams = self.world.segments.layout().teams..self.world.segments.layout().work;
        self.world.segments.write_own(teams.start, &vec![0; teams.len()]);
        let words = self.world.segments.own().words();
        let gates = words.gates.iter().flatten().flat_map(|gate| [&gate.arrived, &gate.released]);
        let rounds = words.node_rounds.iter().flat_map(|rounds| rounds.iter());
        let all = gates.chain(rounds).chain(self.world.comm.epochs());
        all.for_each(|word| word.store(0, Ordering::SeqCst));
    }

    fn meet_all(self, whose: Barrier, call: &'static str, epoch: u64) -> Result<(), Fault> {
        let nodes = self.world.comm.nodes();
        let mut led = Vec::new();
        for &at in &nodes.counters {
            let gate = self.gate(&nodes, whose, at)?;
            let leads = at.leader == nodes.place;
            let all = epoch * at.members as u64;
            let is_last = gate.arrived.fetch_add(1, Ordering::SeqCst) + 1 == all;
            if at.is_top && nodes.leaders.len() == 1 && is_last {
                self.release(&nodes, at, gate, epoch);
            } else if at.is_top && nodes.leaders.len() == 1 || !leads {
                if is_last {
                    self.world.segments.wake(nodes.here[at.leader]);
                }
                self.until((whose, call), &gate.released, epoch)?;
            } else {
                self.until((whose, call), &gate.arrived, all)?;
                if at.is_top {
                    self.meet_leaders(call, &nodes, whose, epoch)?;
                }
                led.push(at);
            }
        }
        for &at in led.iter().rev() {
            self.release(&nodes, at, self.gate(&nodes, whose, at)?, epoch);
        }
        Ok(())
    }

    /// Returns the counter; a fault if its PE has moved to another node, which comes with a new
    /// view.
    fn gate(self, nodes: &Nodes, whose: Barrier, at: Counter) -> Result<&BarrierCounter, Fault> {
        let leader = self.world.segments.if_mapped(nodes.here[at.leader]).ok_or(Fault)?;
        Ok(&leader.words().gates[whose as usize][at.level])
    }

    /// Releases the PEs that wait at a counter.
    fn release(self, nodes: &Nodes, at: Counter, gate: &BarrierCounter, epoch: u64) {
        gate.released.store(epoch, Ordering::Release); // pairs with the loads of `until`
        let others = at.indices().filter(|&index| index != nodes.place);
        others.for_each(|index| self.world.segments.wake(nodes.here[index]));
    }

    fn meet_leaders(
        self,
        call: &'static str,
        nodes: &Nodes,
        whose: Barrier,
        epoch: u64,
    ) -> Result<(), Fault> {
        let words = &self.world.segments.own().words().node_rounds[whose as usize];
        let at = std::mem::offset_of!(Words, node_rounds) + whose as usize * size_of_val(words);
        let meeting = rounds(nodes.index, nodes.leaders.len());
        for (number, round) in meeting.enumerate().take(ROUNDS) {
            let partner = nodes.leaders[round.to];
            self.world.transfers().remote_store(partner, at + number * 8, epoch);
            self.until((whose, call), &words[number], epoch)?;
        }
        Ok(())
    }

    /// Waits until `word` is at least `value`.
    fn until(
        self,
        (whose, call): (Barrier, &'static str),
        word: &AtomicU64,
        value: u64,
    ) -> Result<(), Fault> {
        let mut done = false;
        let is_over = || {
            done = word.load(Ordering::SeqCst) >= value;
            done || self.world.members.faulted()
        };
        match whose {
            Barrier::Background => self.world.blocking().wait_unseen(is_over),
            _ => self.world.wait_raw(|| self.world.waiting_for_all(call), is_over),
        }
        if done { Ok(()) } else { Err(Fault) }
    }
}
