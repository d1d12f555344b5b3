//! The barrier of a job whose nodes do not map each other: nodes, then their lowest PEs.
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

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use super::World;
use super::rounds::rounds;
use super::wait::Fault;
use crate::control::view::View;
use crate::segment::words::{Barrier, ROUNDS, Words};
use crate::settings::Collectives;

/// A view as the barrier sees it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Nodes {
    /// The lowest PE of each node.
    leaders: Vec<usize>,
    /// Index of the own node among them.
    index: usize,
    /// PEs of the own node.
    here: Vec<usize>,
}

impl Nodes {
    /// Nodes of `view` as PE `me` sees them; one node if there is no engine between them.
    pub fn of(view: &View, me: usize, engine: bool) -> Nodes {
        let node = |pe: usize| if engine { view.pes[pe].node } else { 0 };
        let all = 0..view.pes.len();
        let mut seen = BTreeSet::new();
        let leaders: Vec<usize> = all.clone().filter(|&pe| seen.insert(node(pe))).collect();
        let index = leaders.iter().position(|&pe| node(pe) == node(me)).unwrap_or(0);
        Nodes { leaders, index, here: all.filter(|&pe| node(pe) == node(me)).collect() }
    }
}

/// PEs as (first, stride, number), if they are a progression.
fn progression(pes: &[usize]) -> Option<(isize, isize, usize)> {
    let (&first, last) = (pes.first()?, *pes.last()?);
    let stride = ((last - first) / (pes.len() - 1).max(1)).max(1);
    let fits = pes.iter().enumerate().all(|(index, pe)| *pe == first + index * stride);
    fits.then_some((first.cast_signed(), stride.cast_signed(), pes.len()))
}

impl World {
    /// True if PEs act together by nodes: where there is an engine between nodes, or by the
    /// setting.
    pub fn acts_by_nodes(&self) -> bool {
        match self.settings.collectives {
            Collectives::Auto => self.comm.has_engine(),
            Collectives::Direct => false,
            Collectives::Nodes | Collectives::Doubling | Collectives::Halving => true,
        }
    }

    /// The node of each of `pes`; by the setting every PE is on one of its own. The same answer for
    /// all who ask in the same view.
    pub fn nodes_of(&self, pes: impl Iterator<Item = usize>) -> Option<Vec<u32>> {
        if let Collectives::Doubling | Collectives::Halving = self.settings.collectives {
            return Some(pes.map(|pe| pe as u32).collect());
        }
        let view = self.members.joined_view();
        let view = view.as_ref()?;
        Some(pes.map(|pe| view.pes[pe].node).collect())
    }

    /// The machine that each PE of `view` runs on.
    pub fn machines_of(&self, view: &View) -> Vec<u32> {
        view.pes.iter().map(|member| self.job.machine(member.node)).collect()
    }

    /// PEs that run on this machine, this one among them; a view on the page may be older than it.
    pub fn pes_of_machine(&self) -> usize {
        let own = self.job.machine(self.members.node());
        let machines = self.machines_of(&self.members.view()).into_iter().enumerate();
        1 + machines.filter(|&(pe, machine)| pe != self.me() && machine == own).count()
    }

    /// The PEs that map each other's memory, this one among them, as (first, stride, number): all,
    /// or those of the node; this one alone if those are no progression.
    pub fn sharing(&self) -> (isize, isize, usize) {
        if !self.comm.has_engine() {
            return (0, 1, self.n_pes());
        }
        let alone = (self.me().cast_signed(), 1, 1);
        progression(&self.comm.nodes().here).unwrap_or(alone)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::view::Member;

    #[test]
    fn pes_that_are_a_progression_are_seen_as_one() {
        assert_eq!(progression(&[4]), Some((4, 1, 1)));
        assert_eq!(progression(&[2, 3, 4]), Some((2, 1, 3)));
        assert_eq!(progression(&[1, 4, 7, 10]), Some((1, 3, 4)));
        for none in [&[][..], &[0, 1, 3], &[0, 2, 3, 6]] {
            assert_eq!(progression(none), None);
        }
    }

    #[test]
    fn every_pe_has_one_leader_and_all_agree_on_the_leaders() {
        let on = [2, 0, 2, 1, 0, 2];
        let view = View { number: 1, pes: on.iter().map(|&node| Member::first(node)).collect() };
        for (me, node) in on.iter().enumerate() {
            let nodes = Nodes::of(&view, me, true);
            assert_eq!(nodes.leaders, [0, 1, 3]);
            assert_eq!(on[nodes.leaders[nodes.index]], *node);
            assert!(nodes.here.contains(&me) && nodes.here.contains(&nodes.leaders[nodes.index]));
            assert!(nodes.here.iter().all(|&pe| on[pe] == *node));
            let one = Nodes::of(&view, me, false);
            assert_eq!((one.leaders.as_slice(), one.here.len()), ([0].as_slice(), on.len()));
        }
    }
}
