//! Collectives in a job that goes on with fewer: those that live all get the same, whoever dies.
//!
//! ```text
//! arrive   an agreement: the sources of all that live in its view are ready
//! read     each PE reads what it needs of them into memory of its own
//! commit   an agreement: all have read in that view, or all begin again in a newer one
//! write    what was read goes to the destination; the words of an active set are zero before
//! ```
//!
//! Nobody writes before all have read, so a destination may be the source; and what a PE that dies
//! in between contributes is in what all have read, or in nothing. The block of a lost PE keeps the
//! bytes of the destination, except in `collect`, where its length is not known, so it has none.
//! Those who live reduce in the tree of their number.
//!
//! Left out: what is checked before, and moving less than all to all: this way each PE reads
//! everything itself.

use std::ops::Range;

use super::exchange::with_room;
use super::merge;
use crate::openshmem::bits::Zero;
use crate::openshmem::group::{COUNT_AT, Group};
use crate::openshmem::memory::address::{In, Out, Sym, SymIn};
use crate::openshmem::memory::rma;
use crate::openshmem::memory::strides::Strides;
use crate::openshmem::order;
use crate::pgas::{self, Fault};

/// True if a group goes this way.
pub fn applies() -> bool {
    pgas::world().goes_on()
}

/// Elements combined at a time.
const PIECE: usize = 4096;

/// Arrives, lets `read` read of the members that live (indices), commits, and hands back what was
/// read last, by whom all have; and whether a member is lost.
fn among<R>(group: &Group, mut read: impl FnMut(&[usize]) -> R) -> (R, Result<(), Fault>) {
    let (world, members) = (pgas::world(), group.members());
    order::complete();
    loop {
        let began = world.agree(&members, (u64::MAX, 0));
        let view = world.adopt();
        let living = world.living(&members, view);
        let living: Vec<usize> = (0..group.size).filter(|&index| living[index]).collect();
        let of_view = view.0 == began.view;
        let got = of_view.then(|| read(&living));
        // What was read of a PE that was lost meanwhile may be zeroes.
        let basis = if of_view && world.adopt() == view { view.0 } else { 0 };
        let decision = world.agree(&members, (u64::MAX, basis));
        if let Some(got) = got.filter(|_| decision.even) {
            group.restore_words();
            return (got, group.whole(&decision));
        }
    }
}

/// Reads bytes of a member's source.
fn bytes_of(group: &Group, source: SymIn<u8>, of: Range<usize>, index: usize) -> Vec<u8> {
    let mut bytes = vec![0; of.len()];
    rma::fetch(group.call, &mut bytes, source.element(of.start), group.pe(index));
    bytes
}

/// Writes to the own destination.
fn write(group: &Group, dest: Sym<u8>, at: usize, bytes: &[u8]) {
    rma::send(group.call, dest.element(at), bytes, group.pe(group.index));
}

/// From the root to all; a root that is lost changes nothing.
pub fn broadcast(
    group: &Group,
    (dest, source): (Sym<u8>, SymIn<u8>),
    bytes: usize,
    (root, to_root): (usize, bool),
) -> Result<(), Fault> {
    let (got, status) = among(group, |living| {
        let wants = living.contains(&root) && (group.index != root || to_root);
        wants.then(|| bytes_of(group, source, 0..bytes, root))
    });
    got.iter().for_each(|got| write(group, dest, 0, got));
    status
}

/// Blocks of equal length: of each member what is at `from` of its source, to where its index says.
pub fn blocks(
    group: &Group,
    (dest, source): (Sym<u8>, SymIn<u8>),
    bytes: usize,
    from: usize,
) -> Result<(), Fault> {
    let (got, status) = among(group, |living| {
        let block = |&index: &usize| (index, bytes_of(group, source, from..from + bytes, index));
        living.iter().map(block).collect::<Vec<_>>()
    });
    got.iter().for_each(|(index, block)| write(group, dest, index * bytes, block));
    status
}

/// The same with elements that lie apart at both ends; a block begins so many bytes after the last.
pub fn strided(
    group: &Group,
    (dest, source): (Sym<u8>, SymIn<u8>),
    strides: Strides,
    (dest_step, source_step): (usize, usize),
) -> Result<(), Fault> {
    let (block, blocks) = (strides.block_bytes, strides.blocks);
    let together = Strides { dest_bytes: block, ..strides };
    let (got, status) = among(group, |living| {
        let read = |&index: &usize| {
            let mut bytes = vec![0; blocks * block];
            let from = source.element(group.index * source_step);
            rma::get_blocks(group.call, Out::of(&mut bytes), from, together, group.pe(index));
            (index, bytes)
        };
        living.iter().map(read).collect::<Vec<_>>()
    });
    let apart = Strides { source_bytes: block, ..strides };
    for (index, bytes) in &got {
        let to = dest.element(index * dest_step);
        rma::put_blocks(group.call, to, In::of(bytes), apart, group.pe(group.index));
    }
    status
}

/// From each as many bytes as it says, one after another by index; `fits` is asked whether there is
/// room for all. Hands back how many they are.
pub fn collect(
    group: &Group,
    (dest, source): (Sym<u8>, SymIn<u8>),
    bytes: usize,
    fits: impl FnOnce(usize),
) -> Result<usize, Fault> {
    let numbers = numbers(group, bytes as u64, |living, lengths| {
        let of =
            |(&index, &length): (&usize, &u64)| bytes_of(group, source, 0..length as usize, index);
        living.iter().zip(lengths).map(of).collect::<Vec<_>>().concat()
    });
    let (got, status) = numbers;
    fits(got.len());
    write(group, dest, 0, &got);
    status.map(|()| got.len())
}

/// Shows the number of each member to all, and lets `read` read of those that live.
fn numbers<R>(
    group: &Group,
    number: u64,
    mut read: impl FnMut(&[usize], &[u64]) -> R,
) -> (R, Result<(), Fault>) {
    let own = group.word(COUNT_AT, group.index);
    own.store(number);
    let outcome = among(group, |living| {
        let words = living.iter().map(|&index| group.word(COUNT_AT, index).fetch());
        read(living, &words.collect::<Vec<_>>())
    });
    own.store(0); // all that live have read it
    outcome
}

/// The number of each member; an error if one is lost.
pub fn gather(group: &Group, number: u64) -> Result<Vec<u64>, Fault> {
    let (got, status) = numbers(group, number, |_, numbers| numbers.to_vec());
    status.map(|()| got)
}

/// The elements of all that live, reduced one by one.
pub fn reduce<T: Copy + Zero>(
    group: &Group,
    (dest, source): (Sym<T>, SymIn<T>),
    count: usize,
    op: impl Fn(T, T) -> T,
) -> Result<(), Fault> {
    let (got, status) = among(group, |living| {
        let mut all = vec![T::zero(); count];
        with_room(merge::room(living.len(), PIECE.min(count)), |room| {
            for (nth, piece) in all.chunks_mut(PIECE).enumerate() {
                let (operands, from) = ((living.len(), piece.len()), source.element(nth * PIECE));
                let read = |index: usize, into: &mut [T]| {
                    rma::fetch(group.call, into, from, group.pe(living[index]));
                };
                let room = &mut room[..merge::room(living.len(), piece.len())];
                piece.copy_from_slice(merge::all(operands, room, read, &op));
            }
        });
        all
    });
    rma::send(group.call, dest, &got, group.pe(group.index));
    status
}

/// The same over those that live up to this one, itself included if `inclusive`.
pub fn scan<T: Copy + Zero>(
    group: &Group,
    (dest, source): (Sym<T>, SymIn<T>),
    count: usize,
    (inclusive, op): (bool, impl Fn(T, T) -> T),
) -> Result<(), Fault> {
    let (got, status) = among(group, |living| {
        let before = |&index: &usize| index < group.index || inclusive && index == group.index;
        let below: Vec<usize> = living.iter().copied().filter(before).collect();
        let mut sums = vec![T::zero(); count];
        let mut theirs = vec![T::zero(); PIECE.min(count)];
        for (nth, sums) in sums.chunks_mut(PIECE).enumerate() {
            let from = source.element(nth * PIECE);
            for (place, &index) in below.iter().enumerate() {
                let theirs = &mut theirs[..sums.len()];
                let into = if place == 0 { &mut *sums } else { &mut *theirs };
                rma::fetch(group.call, into, from, group.pe(index));
                if place > 0 {
                    sums.iter_mut().zip(&*theirs).for_each(|(a, b)| *a = op(*a, *b));
                }
            }
        }
        sums
    });
    rma::send(group.call, dest, &got, group.pe(group.index));
    status
}
