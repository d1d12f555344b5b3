//! Forwarding of bytes between PEs whose nodes do not share memory, node by node.
//!
//! ```text
//! gather    PEs of a node copy their data into the leader's destination, through mapped memory
//! pass      leaders put blocks into each other's destinations, in the steps of `schedule.rs`
//! hand out  PEs of a node copy their data from the leader's destination
//! ```
//!
//! A put is followed by a signal in a word of the step, so no PE polls or reads over the network:
//! each waits only on words of its own segment.
//!
//! Invariants: before anything is put, all PEs have met, which hands over their destinations; no PE
//! proceeds before its node has copied what it needs of them. So the words hold their initial
//! values when the call returns.

use std::ops::Range;

use raidshmem_core::schedule::{self, Nodes, ScheduleRound};

use crate::openshmem::group::{DONE_AT, Group, READY_AT, SPREAD_AT, TREE_AT};
use crate::openshmem::memory::address::{Sym, SymIn};
use crate::openshmem::memory::rma;
use raidshmem_runtime::pgas::Fault;

/// A collective in progress between nodes.
pub struct Relay<'a> {
    /// The PEs that act together.
    pub group: &'a Group,
    /// Their placement on nodes.
    pub nodes: &'a Nodes,
    /// The destination, in bytes; equal on all PEs.
    pub dest: Sym<u8>,
}

/// Merges consecutive ranges of a destination that touch.
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

    /// Copies `range` of the destination from this PE's source to the leader.
    pub fn give(&self, source: SymIn<u8>, range: Range<usize>) {
        let to = self.group.pe(self.leader());
        let dest = self.dest.element(range.start);
        rma::put(self.group.call, dest, source.as_in(), range.len(), to);
    }

    /// Spreads the leaders' complete destinations, ranges `of(i)` from node `i`; then every PE has
    /// all `bytes`. Every PE calls it after its `give`.
    pub fn complete(
        &self,
        bytes: usize,
        of: &dyn Fn(usize) -> Vec<Range<usize>>,
    ) -> Result<(), Fault> {
        self.through_leader(bytes, || self.spread(bytes, (self.dest_in(), None), of))
    }

    /// Waits for the PEs of the node, lets the leader complete its destination by `act`, and hands
    /// all `bytes` of it to every PE.
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

    /// Sends `bytes` of the source of PE `root`, which leads its node, to all; its own destination
    /// is written too if `to_root`.
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

    /// Spreads the blocks that each leader has. `from` is the source of this leader's blocks, and
    /// the leader it names has all data and receives nothing.
    fn spread(
        &self,
        bytes: usize,
        from: (SymIn<u8>, Option<usize>),
        of: &dyn Fn(usize) -> Vec<Range<usize>>,
    ) -> Result<(), Fault> {
        let (own, size) = (self.nodes.own, self.nodes.leaders.len());
        if self.group.is_long(bytes, size) {
            // A ring has one sender for all rounds: its signals are in order, and one word counts
            // them.
            return self.pass(schedule::ring(own, size), |_| SPREAD_AT, from, of);
        }
        self.pass(schedule::spread(own, size), |step| SPREAD_AT + step, from, of)
    }

    /// Runs the steps of a leader, each with its own word.
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

    /// Copies from the leader to the PEs of the node; the leader waits for them.
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
