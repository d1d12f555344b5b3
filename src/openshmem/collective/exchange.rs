//! Exchanges between PEs that act together: reductions by doubling and halving, and all-to-all
//! blocks.
//!
//! This module executes the steps of `schedule::reduction` and `bruck`. Slots of [`WORK_SLOT`]
//! bytes lie in the work area of the segments, outside the symmetric heap and every checkpoint;
//! their words belong to the team. A halving needs no slots: it reads destinations in place,
//! [`READ_BYTES`] at a time.
//!
//! Left out: the meetings before and after. The schedules explain why no PE is too early.

use raidshmem_core::layout::WORK_SLOT;
use raidshmem_core::rounds::rounds;
use raidshmem_core::schedule::reduction::{PartialPlace, ReductionStep};
use raidshmem_core::schedule::{Nodes, bruck, reduction};

use super::merge::{Operator, with_scratch};
use crate::openshmem::bits::Zero;
use crate::openshmem::group::{COUNT_AT, Group, OFFER_AT, RESULT_AT, SlotIndex};
use crate::openshmem::memory::address::{Sym, SymIn};
use crate::openshmem::memory::rma;
use crate::openshmem::memory::slots::{self, Slot};
use raidshmem_runtime::pgas::Fault;

/// Bytes that a halving reads at a time.
const READ_BYTES: usize = 256 << 10;
/// Elements that a halving combines at a time.
const PIECE: usize = 1024;
/// PEs that take part in an exchange: the leaders of nodes, or all of a group.
#[derive(Clone, Copy)]
pub struct Actors<'a> {
    group: &'a Group,
    leaders: Option<&'a Nodes>,
}

impl<'a> Actors<'a> {
    /// Selects all PEs of a group.
    pub fn all(group: &'a Group) -> Actors<'a> {
        Actors { group, leaders: None }
    }

    /// Selects the leaders of a group's nodes.
    pub fn leaders(group: &'a Group, nodes: &'a Nodes) -> Actors<'a> {
        Actors { group, leaders: Some(nodes) }
    }

    /// Returns the index of this PE among the actors.
    fn own(&self) -> usize {
        self.leaders.map_or(self.group.index, |nodes| nodes.own)
    }

    /// Returns the number of actors.
    fn size(&self) -> usize {
        self.leaders.map_or(self.group.size, |nodes| nodes.leaders.len())
    }

    /// Returns an actor's index in the group.
    fn index(&self, actor: usize) -> usize {
        self.leaders.map_or(actor, |nodes| nodes.leaders[actor])
    }

    fn leave<T: Copy + Zero>(&self, to: usize, at: SlotIndex, from: &[T]) {
        let to = self.index(to);
        let (slot, word) = self.group.slot(at, to);
        slots::leave(self.group.call, slot, from, self.group.pe(to));
        word.signal();
    }

    fn pick<T: Copy + Zero>(&self, at: SlotIndex, into: &mut [T]) -> Result<(), Fault> {
        let (slot, word): (Slot, _) = self.group.slot(at, self.group.index);
        word.wait_for(1, || self.group.waiting())?;
        slots::pick(self.group.call, slot, into);
        Ok(())
    }

    fn wait_for(&self, word: usize) -> Result<(), Fault> {
        self.group.wait_for(word, 1)
    }

    /// Reduces elements that fit a slot from `source` into `dest` by recursive doubling, with the
    /// slots of `set`.
    pub fn double<T: Copy + Zero>(
        &self,
        (dest, source): (Sym<T>, SymIn<T>),
        count: usize,
        set: usize,
        op: &dyn Operator<T>,
    ) -> Result<(), Fault> {
        let (call, me) = (self.group.call, self.group.pe(self.group.index));
        let (own, size) = (self.own(), self.size());
        with_scratch(2 * count, |scratch| {
            let (mine, theirs) = scratch.split_at_mut(count);
            rma::fetch(call, mine, source, me);
            for step in reduction::doubling(own, size) {
                match step {
                    ReductionStep::Leave { to, round } => {
                        self.leave(to, SlotIndex { set, round }, mine)
                    }
                    ReductionStep::Combine { round, side } => {
                        self.pick(SlotIndex { set, round }, theirs)?;
                        op.combine(mine, theirs, side);
                    }
                    ReductionStep::Adopt { round } => self.pick(SlotIndex { set, round }, mine)?,
                    other => unreachable!("{other:?} in a doubling"),
                }
            }
            rma::send(call, dest, mine, me);
            Ok(())
        })
    }

    /// Reduces elements of `source` into `dest` by recursive halving and doubling.
    pub fn halve<T: Copy + Zero>(
        &self,
        (dest, source): (Sym<T>, SymIn<T>),
        count: usize,
        op: &dyn Operator<T>,
    ) -> Result<(), Fault> {
        let (own, size) = (self.own(), self.size());
        let at_a_time = (READ_BYTES / size_of::<T>().max(1)).clamp(1, count.max(1));
        with_scratch(at_a_time + PIECE.min(at_a_time), |scratch| {
            for step in reduction::halving(own, size, count) {
                self.halve_step((dest, source), step, (&mut *scratch, at_a_time), op)?;
            }
            Ok(())
        })
    }

    fn halve_step<T: Copy + Zero>(
        &self,
        (dest, source): (Sym<T>, SymIn<T>),
        step: ReductionStep,
        (scratch, at_a_time): (&mut [T], usize),
        op: &dyn Operator<T>,
    ) -> Result<(), Fault> {
        let (group, call) = (self.group, self.group.call);
        let me = group.pe(group.index);
        let at = |place| match place {
            PartialPlace::Source => source,
            PartialPlace::Dest => SymIn::at(dest.addr()),
        };
        match step {
            ReductionStep::Offer { to, round } => {
                group.word(OFFER_AT + round, self.index(to)).signal()
            }
            ReductionStep::Read { from, round, range, side, theirs, mine } => {
                self.wait_for(OFFER_AT + round)?;
                let from = group.pe(self.index(from));
                let (read, own) = scratch.split_at_mut(at_a_time);
                for first in range.clone().step_by(at_a_time) {
                    let read = &mut read[..at_a_time.min(range.end - first)];
                    rma::fetch(call, read, at(theirs).element(first), from);
                    for (nth, read) in read.chunks(PIECE).enumerate() {
                        let (own, first) = (&mut own[..read.len()], first + nth * PIECE);
                        rma::fetch(call, own, at(mine).element(first), me);
                        op.combine(own, read, side);
                        rma::send(call, dest.element(first), own, me);
                    }
                }
            }
            ReductionStep::Give { to, round, range } => {
                let (to, part) = (self.index(to), dest.element(range.start));
                let bytes = range.len() * size_of::<T>();
                let from = part.erase().as_out().as_in();
                rma::put(call, part.erase(), from, bytes, group.pe(to));
                group.word(RESULT_AT + round, to).signal();
            }
            ReductionStep::Get { round } => self.wait_for(RESULT_AT + round)?,
            other => unreachable!("{other:?} in a halving"),
        }
        Ok(())
    }
}

/// Returns true if blocks of `bytes` bytes fit the slots of an all-to-all exchange.
pub fn fit_slots(group: &Group, bytes: usize) -> bool {
    let most = bruck::most(group.size);
    group.has_slots() && bytes.checked_mul(most).is_some_and(|bytes| bytes <= WORK_SLOT)
}

/// Copies block `i` of each PE to PE `i`, where the blocks lie by index; all blocks fit the slots.
pub fn blocks(
    group: &Group,
    (dest, source): (Sym<u8>, SymIn<u8>),
    bytes: usize,
) -> Result<(), Fault> {
    let (size, me) = (group.size, group.pe(group.index));
    let mut row = [0u8; 2 * WORK_SLOT]; // all blocks, at most twice as many as a message holds
    for (distance, block) in row.chunks_exact_mut(bytes.max(1)).take(size).enumerate() {
        let from = bruck::ahead(group.index, distance, size);
        rma::fetch(group.call, &mut block[..bytes], source.element(from * bytes), me);
    }
    pass_on(group, &mut row, bytes)?;
    for (distance, block) in row.chunks_exact(bytes.max(1)).take(size).enumerate() {
        let to = bruck::behind(group.index, distance, size);
        rma::send(group.call, dest.element(to * bytes), &block[..bytes], me);
    }
    Ok(())
}

/// Gathers one number from each PE; returns them by index.
pub fn gather(group: &Group, number: u64) -> Result<Vec<u64>, Fault> {
    const BYTES: usize = size_of::<u64>();
    if group.nodes(None).is_none() || !fit_slots(group, BYTES) {
        return group.all_gather(COUNT_AT, number);
    }
    let mut row = [0u8; 2 * WORK_SLOT];
    row.chunks_exact_mut(BYTES).for_each(|block| block.copy_from_slice(&number.to_ne_bytes()));
    pass_on(group, &mut row, BYTES)?;
    let (mut numbers, size) = (vec![0; group.size], group.size);
    for (distance, block) in row.chunks_exact(BYTES).take(size).enumerate() {
        let bytes = block.try_into().expect("a block is a number");
        numbers[bruck::behind(group.index, distance, size)] = u64::from_ne_bytes(bytes);
    }
    Ok(numbers)
}

/// Runs the rounds of an all-to-all exchange over a row of blocks, ordered by distance.
fn pass_on(group: &Group, row: &mut [u8], bytes: usize) -> Result<(), Fault> {
    let (actors, size, set) = (Actors::all(group), group.size, group.turn());
    let mut message = [0u8; WORK_SLOT];
    for (round, peers) in rounds(group.index, size).enumerate() {
        let sent = bruck::sent(round, size);
        let mut len = 0;
        for distance in sent.clone() {
            message[len..len + bytes].copy_from_slice(&row[distance * bytes..][..bytes]);
            len += bytes;
        }
        actors.leave(peers.to, SlotIndex { set, round }, &message[..len]);
        actors.pick(SlotIndex { set, round }, &mut message[..len])?;
        for (nth, distance) in sent.enumerate() {
            row[distance * bytes..][..bytes].copy_from_slice(&message[nth * bytes..][..bytes]);
        }
    }
    Ok(())
}
