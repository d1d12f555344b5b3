//! Collectives in shrink mode: all surviving PEs get the same result, whichever PEs die.
//!
//! ```text
//! arrive   agreement: the sources of all live PEs of the view are ready
//! read     each PE reads the data it needs into memory of its own
//! commit   agreement: all have read in that view, or all start over in a newer one
//! write    the data is copied to the destination, after the words of an active set are zeroed
//! ```
//!
//! No PE writes before all have read, so a destination may be the source. A PE that dies in between
//! contributes to the data of all survivors or of none. The block of a lost PE keeps the bytes of
//! the destination, except in `collect`, where its length is unknown and taken as zero. Survivors
//! reduce in the tree for their number.
//!
//! Left out: the checks before a call, and patterns that move less data: here each PE reads
//! everything itself.

use raidshmem_runtime::pgas::{self, Fault};

use super::merge::with_scratch;
use super::movement::{Move, Movement};
use super::reduction::Reduction;
use crate::openshmem::bits::Zero;
use crate::openshmem::group::{COUNT_AT, Group};
use crate::openshmem::memory::address::{In, Out};
use crate::openshmem::memory::rma;
use crate::openshmem::memory::strides::Strides;
use crate::openshmem::order;

/// Returns true if a group's collectives take this path.
pub fn applies() -> bool {
    pgas::world().shrinks()
}

/// Elements combined at a time.
const PIECE: usize = 4096;

/// Arrives, lets `read` read from the living members (indices), and commits. Returns the last data
/// read, which all survivors have read from the same members, and an error if a member is lost.
fn among<R>(group: &Group, mut read: impl FnMut(&[usize]) -> R) -> (R, Result<(), Fault>) {
    let (world, members) = (pgas::world(), group.members());
    order::complete();
    loop {
        let began = world.survivors().arrive(&members);
        let view = world.survivors().adopt();
        let living = world.survivors().living(&members, view);
        let living: Vec<usize> = (0..group.size).filter(|&index| living[index]).collect();
        let of_view = view.0 == began.view;
        let got = of_view.then(|| read(&living));
        // Data read from a PE that was lost meanwhile may be zeroes.
        let basis = if of_view && world.survivors().adopt() == view { view.0 } else { 0 };
        let decision = world.survivors().agree(&members, (u64::MAX, basis));
        if let Some(got) = got.filter(|_| decision.even) {
            group.restore_words();
            return (got, group.whole(&decision));
        }
    }
}

/// Moves bytes; returns the total.
pub fn movement(of: &Movement) -> Result<usize, Fault> {
    let group = &of.group;
    let read = |one: Move| {
        let (mut bytes, pe) = (vec![0; one.by.bytes()], group.pe(one.giver));
        let from = of.source.element(one.from);
        let together = Strides { dest_bytes: one.by.block_bytes, ..one.by };
        rma::get_blocks(group.call, Out::of(&mut bytes), from, together, pe);
        (one, bytes)
    };
    let (got, status) = match of.has_lengths() {
        true => numbers(group, of.block.block_bytes as u64, |living, lengths| {
            let lengths = lengths.iter().map(|length| *length as usize);
            let brought = living.iter().copied().zip(lengths);
            of.moves(brought).map(read).collect::<Vec<_>>()
        }),
        false => among(group, |living| {
            living.iter().filter_map(|&giver| of.taken_from(giver)).map(read).collect()
        }),
    };
    let all = got.iter().map(|(_, bytes)| bytes.len()).sum();
    of.check_capacity(all);
    for (one, bytes) in &got {
        let apart = Strides { source_bytes: one.by.block_bytes, ..one.by };
        let to = of.dest.element(one.to);
        rma::put_blocks(group.call, to, In::of(bytes), apart, group.pe(group.index));
    }
    status.map(|()| all)
}

/// Publishes this member's number to all and lets `read` read those of the living members.
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
    own.store(0); // all survivors have read it
    outcome
}

/// Returns the number of each member, or an error if one is lost.
pub fn gather(group: &Group, number: u64) -> Result<Vec<u64>, Fault> {
    let (got, status) = numbers(group, number, |_, numbers| numbers.to_vec());
    status.map(|()| got)
}

/// Combines elements of the living members.
pub fn reduction<T: Copy + Zero>(of: &Reduction<T>) -> Result<(), Fault> {
    let group = &of.group;
    let (got, status) = among(group, |living| {
        let operands = of.operands(living);
        let mut all = vec![T::zero(); of.count];
        with_scratch(of.scratch_len(operands, PIECE.min(of.count)), |scratch| {
            for (nth, piece) in all.chunks_mut(PIECE).enumerate() {
                let from = of.source.element(nth * PIECE);
                let read = |number: usize, into: &mut [T]| {
                    rma::fetch(group.call, into, from, group.pe(living[number]));
                };
                let scratch = &mut scratch[..of.scratch_len(operands, piece.len())];
                piece.copy_from_slice(of.combined((operands, piece.len()), scratch, read));
            }
        });
        all
    });
    rma::send(group.call, of.dest, &got, group.pe(group.index));
    status
}
