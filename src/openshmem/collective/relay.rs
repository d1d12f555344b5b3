//! Passing bytes on between PEs whose nodes do not share memory: node by node.
//!
//! ```text
//! gather    PEs of a node bring what is theirs into the leader's destination, by mapped memory
//! pass      leaders put blocks into each other's destinations, in the steps of `schedule.rs`
//! hand out  PEs of a node copy what they want from the leader's destination
//! ```
//!
//! A put is followed by a signal in a word of the step, so nobody asks for anything over the
//! network, and nobody waits but on words of its own segment.
//!
//! Invariants: before anything is put all PEs have met (their destinations are theirs no more), and
//! nobody goes on before its node has copied what it needs of it; so the words are as they were
//! when the call returns.

use std::ops::Range;

use raidshmem_core::schedule::{self, Nodes, ScheduleRound};

use crate::openshmem::group::{DONE_AT, Group, READY_AT, SPREAD_AT, TREE_AT};
use crate::openshmem::memory::address::{Sym, SymIn};
use crate::openshmem::memory::rma;
use crate::pgas::Fault;

/// One collective under way between nodes.
pub struct Relay<'a> {
    /// The PEs that act together.
    pub group: &'a Group,
    /// On which nodes they are.
    pub nodes: &'a Nodes,
    /// The destination, in bytes; equal on all PEs.
    pub dest: Sym<u8>,
}

/// Ranges of a destination, one after another; those that touch are one.
pub fn joined(ranges: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for range in ranges.filter(|range| !range.is_empty()) {
        match all.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => all.push(range),
        }
    }
    all
}

impl Relay<'_> {
    fn leader(&self) -> usize {
        self.nodes.leaders[self.nodes.own]
    }

    /// Gives the leader what the source of this PE holds for `range` of the destination.
    pub fn give(&self, source: SymIn<u8>, range: Range<usize>) {
        let to = self.group.pe(self.leader());
        let dest = self.dest.element(range.start);
        rma::put(self.group.call, dest, source.as_in(), range.len(), to);
    }

    /// What the leaders' destinations hold is complete: all spread it, node `i` the ranges `of(i)`,
    /// and then every PE has all `bytes`. Every PE calls it after its `give`.
    pub fn complete(
        &self,
        bytes: usize,
        of: &dyn Fn(usize) -> Vec<Range<usize>>,
    ) -> Result<(), Fault> {
        self.through_leader(bytes, || self.spread(bytes, (self.dest_in(), None), of))
    }

    /// Once the PEs of the node are done, the leader does something that makes its destination
    /// complete; then every PE has all `bytes` of it.
    pub fn through_leader(
        &self,
        bytes: usize,
        act: impl FnOnce() -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.group.arrive(self.nodes, DONE_AT)?;
        if self.nodes.leads(self.group.index) {
            act()?;
        }
        self.hand_out(self.dest_in(), bytes)
    }

    /// `bytes` of the source of PE `root`, which leads its node, to all; its own destination is
    /// written too if `to_root` says so.
    pub fn broadcast(
        &self,
        source: SymIn<u8>,
        bytes: usize,
        (root, to_root): (usize, bool),
    ) -> Result<(), Fault> {
        let (group, nodes) = (self.group, self.nodes);
        let size = nodes.leaders.len();
        let at = nodes.leaders.iter().position(|leader| *leader == root).unwrap_or(0);
        let from = if group.index == root { source } else { self.dest_in() };
        if nodes.leads(group.index) {
            let long = group.is_long(bytes, size);
            let block = |node: usize| vec![schedule::share(bytes, node, size)];
            let word = |step| TREE_AT + step;
            if long {
                self.pass(schedule::scatter(nodes.own, at, size), word, (from, None), &block)?;
                self.spread(bytes, (from, Some(at)), &block)?;
            } else {
                self.pass(schedule::tree(nodes.own, at, size), word, (from, None), &block)?;
            }
            if group.index == root && to_root {
                self.copy_from(source, root, bytes);
            }
        }
        let ours = if self.leader() == root { source } else { self.dest_in() };
        self.hand_out(ours, bytes)
    }

    /// Leaders spread the blocks that each has; `from` is where this one has what it passes on, and
    /// the leader `spared` has all and is sent nothing.
    fn spread(
        &self,
        bytes: usize,
        from: (SymIn<u8>, Option<usize>),
        of: &dyn Fn(usize) -> Vec<Range<usize>>,
    ) -> Result<(), Fault> {
        let (own, size) = (self.nodes.own, self.nodes.leaders.len());
        if self.group.is_long(bytes, size) {
            // One sender for all rounds: its signals are in order, and one word counts them.
            return self.pass(schedule::ring(own, size), |_| SPREAD_AT, from, of);
        }
        self.pass(schedule::spread(own, size), |step| SPREAD_AT + step, from, of)
    }

    /// Does the steps of a leader; each has its word.
    fn pass(
        &self,
        steps: impl Iterator<Item = ScheduleRound>,
        word: impl Fn(usize) -> usize,
        (from, spared): (SymIn<u8>, Option<usize>),
        of: &dyn Fn(usize) -> Vec<Range<usize>>,
    ) -> Result<(), Fault> {
        let (group, leaders) = (self.group, &self.nodes.leaders);
        for (number, step) in steps.enumerate() {
            if let Some((to, blocks)) = step.send {
                let ranges = joined(blocks.numbers(leaders.len()).flat_map(of));
                for range in ranges.into_iter().filter(|_| spared != Some(to)) {
                    let (dest, source) =
                        (self.dest.element(range.start), from.element(range.start));
                    let pe = group.pe(leaders[to]);
                    rma::put(group.call, dest, source.as_in(), range.len(), pe);
                }
                group.word(word(number), leaders[to]).signal();
            }
            if step.receive.is_some() {
                group.wait_for(word(number), 1)?;
            }
        }
        Ok(())
    }

    /// PEs of the node copy from their leader, which waits for them.
    fn hand_out(&self, from: SymIn<u8>, bytes: usize) -> Result<(), Fault> {
        let (group, nodes) = (self.group, self.nodes);
        group.release(nodes, READY_AT)?;
        if !nodes.leads(group.index) {
            self.copy_from(from, self.leader(), bytes);
        }
        group.arrive(nodes, DONE_AT)
    }

    fn copy_from(&self, from: SymIn<u8>, index: usize, bytes: usize) {
        let (group, dest) = (self.group, self.dest.as_out());
        rma::get(group.call, dest, from, bytes, group.pe(index));
    }

    fn dest_in(&self) -> SymIn<u8> {
        SymIn::at(self.dest.addr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one_and_empty_ones_none() {
        let ranges = [0..2, 2..2, 2..5, 7..9, 9..9, 0..1];
        assert_eq!(joined(ranges.into_iter()), [0..5, 7..9, 0..1]);
    }
}
