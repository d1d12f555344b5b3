//! Collectives that move data, described as data: broadcast, collect, fcollect, alltoall,
//! alltoalls.
//!
//! Each is a [`Movement`]: the shape of the block that goes from one member to another, and the
//! distance between the blocks of consecutive members, in the sources and in the destinations.
//! These determine what a member takes of the contributions ([`Movement::moves`]), whichever path
//! the bytes take.
//!
//! Invariant: all arguments are checked before any PE waits for this one; the size of a `collect`
//! destination is checked once all lengths are known.
//!
//! Left out: the transfer of the bytes.

use std::borrow::Cow;

use crate::openshmem::check::{bytes_of, misuse};
use crate::openshmem::group::Group;
use crate::openshmem::memory::address::{Sym, SymIn};
use crate::openshmem::memory::logged;
use crate::openshmem::memory::place::SegmentRange;
use crate::openshmem::memory::prelude;
use crate::openshmem::memory::strides::{Strided, Strides};

/// The members that contribute data.
#[derive(Clone, Copy)]
enum Givers {
    /// All members, with equal amounts.
    All,
    /// All members, with different lengths; the blocks lie one after another in a destination of
    /// `capacity` bytes.
    Each { capacity: usize },
    /// One member, whose own destination is written too if `to_itself`.
    Root { index: usize, to_itself: bool },
}

/// A collective that moves bytes, seen from one member.
pub struct Movement {
    /// The members.
    pub group: Group,
    /// The destination of the blocks, on every member.
    pub dest: Sym<u8>,
    /// This member's contribution.
    pub source: SymIn<u8>,
    /// The block that goes from one member to another.
    pub block: Strides,
    /// Bytes between the blocks of consecutive members in the destination.
    dest_step: usize,
    /// Bytes between the blocks for consecutive members in the source; 0 if all get the same block.
    source_step: usize,
    givers: Givers,
}

/// The block that one member takes of another's contribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Index of the contributing member.
    pub giver: usize,
    /// Offset in its source, in bytes.
    pub from: usize,
    /// Offset in its packed contribution, in bytes.
    pub packed: usize,
    /// Offset in the destination, in bytes.
    pub to: usize,
    /// The shape of the block.
    pub by: Strides,
}

impl Movement {
    /// Describes a copy from the root to all; `to_itself` is true if the root's destination is
    /// written too.
    pub fn broadcast(
        group: Group,
        both: (Sym<u8>, SymIn<u8>),
        bytes: usize,
        (root, to_itself): (i32, bool),
    ) -> Movement {
        let index = match usize::try_from(root) {
            Ok(root) if root < group.size => root,
            _ => misuse(group.call, format_args!("PE_root {root}: expected 0..{}", group.size - 1)),
        };
        let givers = Givers::Root { index, to_itself };
        Movement::new(group, both, Strides::one(bytes), (0, 0), givers)
    }

    /// Describes a gather of an equal number of bytes from each member, by index.
    pub fn fcollect(group: Group, both: (Sym<u8>, SymIn<u8>), bytes: usize) -> Movement {
        bytes_of(group.call, group.size, bytes);
        Movement::new(group, both, Strides::one(bytes), (bytes, 0), Givers::All)
    }

    /// Describes a gather of different lengths, one after another by index; `capacity` is the size
    /// of the destination in bytes, if known.
    pub fn collect(
        group: Group,
        both: (Sym<u8>, SymIn<u8>),
        bytes: usize,
        capacity: usize,
    ) -> Movement {
        Movement::new(group, both, Strides::one(bytes), (0, 0), Givers::Each { capacity })
    }

    /// Describes a copy of block `i` of each PE to PE `i`, where the blocks lie by index.
    pub fn alltoall(group: Group, both: (Sym<u8>, SymIn<u8>), bytes: usize) -> Movement {
        bytes_of(group.call, group.size, bytes);
        Movement::new(group, both, Strides::one(bytes), (bytes, bytes), Givers::All)
    }

    /// Like [`Movement::alltoall`], with elements that lie apart; `shape` describes one block.
    pub fn alltoalls(group: Group, both: (Sym<u8>, SymIn<u8>), shape: Strided) -> Movement {
        let block = shape.strides(group.call);
        let step = |stride_bytes| bytes_of(group.call, block.blocks, stride_bytes);
        let steps = (step(block.dest_bytes), step(block.source_bytes));
        bytes_of(group.call, group.size, steps.0.max(steps.1));
        Movement::new(group, both, block, steps, Givers::All)
    }

    /// Describes a movement, after a check of the arguments.
    fn new(
        group: Group,
        (dest, source): (Sym<u8>, SymIn<u8>),
        block: Strides,
        (dest_step, source_step): (usize, usize),
        givers: Givers,
    ) -> Movement {
        let movement = Movement { group, dest, source, block, dest_step, source_step, givers };
        if !matches!(givers, Givers::Each { .. }) {
            check(&movement.group, dest, movement.dest_extent());
        }
        check_source(&movement.group, source, movement.source_extent());
        movement
    }

    /// Returns the only contributing member, if there is one, and true if its own destination is
    /// written.
    pub fn root(&self) -> Option<(usize, bool)> {
        match self.givers {
            Givers::Root { index, to_itself } => Some((index, to_itself)),
            _ => None,
        }
    }

    /// Returns true if members contribute different lengths, known only after an exchange.
    pub fn has_lengths(&self) -> bool {
        matches!(self.givers, Givers::Each { .. })
    }

    /// Returns true if all members get the same data.
    pub fn is_for_all(&self) -> bool {
        self.source_step == 0
    }

    /// Returns true if the blocks are contiguous at both ends.
    pub fn is_packed(&self) -> bool {
        let bytes = self.block.bytes();
        self.block.blocks == 1 && [self.dest_step, self.source_step] == [bytes, bytes]
    }

    /// Returns the bytes from the first to the last block for `n` members.
    fn extent(&self, (step, stride_bytes): (usize, usize), n: usize) -> usize {
        match self.block.blocks {
            0 => 0,
            _ => step * (n - 1) + self.block.extent(self.group.call, stride_bytes),
        }
    }

    fn dest_extent(&self) -> usize {
        self.extent((self.dest_step, self.block.dest_bytes), self.group.size)
    }

    fn source_extent(&self) -> usize {
        self.extent((self.source_step, self.block.source_bytes), self.group.size)
    }

    /// Returns the block that this member takes of `giver`, if all contribute equal amounts.
    pub fn taken_from(&self, giver: usize) -> Option<Move> {
        self.between(giver, self.group.index)
    }

    /// Returns the block that `taker` takes of this member, if all contribute equal amounts.
    pub fn given_to(&self, taker: usize) -> Option<Move> {
        self.between(self.group.index, taker)
    }

    fn between(&self, giver: usize, taker: usize) -> Option<Move> {
        if let Givers::Root { index, to_itself } = self.givers
            && (giver != index || taker == index && !to_itself)
        {
            return None;
        }
        let nth = if self.is_for_all() { 0 } else { taker };
        let (from, packed) = (nth * self.source_step, nth * self.block.bytes());
        Some(Move { giver, from, packed, to: giver * self.dest_step, by: self.block })
    }

    /// Iterates over the blocks that this member takes of members that contribute `(index, bytes)`,
    /// in the order of their indices; the byte counts matter only if the lengths differ.
    pub fn moves(
        &self,
        brought: impl Iterator<Item = (usize, usize)>,
    ) -> impl Iterator<Item = Move> {
        let mut end = 0;
        brought.filter_map(move |(giver, bytes)| {
            if !self.has_lengths() {
                return self.taken_from(giver);
            }
            let to = end;
            end += bytes;
            Some(Move { giver, from: 0, packed: 0, to, by: Strides::one(bytes) })
        })
    }

    /// Rejects a destination too small for the `all` bytes that members contribute.
    pub fn check_capacity(&self, all: usize) {
        let Givers::Each { capacity } = self.givers else { return };
        if all > capacity {
            let what = format_args!("{all} bytes are collected: expected {capacity}, all of dest");
            misuse(self.group.call, what);
        }
        check(&self.group, self.dest, all);
    }

    /// Returns this member's contribution, packed.
    pub fn contribution(&self) -> Cow<'static, [u8]> {
        if self.root().is_some_and(|(root, _)| root != self.group.index) {
            return Cow::Borrowed(&[]);
        }
        let all = logged::source(self.group.call, self.source, self.source_extent());
        let (by, takers) = (self.block, if self.is_for_all() { 1 } else { self.group.size });
        if all.len() == takers * by.bytes() {
            return Cow::Borrowed(all);
        }
        let of = |taker: usize| {
            (0..by.blocks).map(move |block| taker * self.source_step + block * by.source_bytes)
        };
        let starts = (0..takers).flat_map(of);
        starts.flat_map(|at| &all[at..at + by.block_bytes]).copied().collect()
    }

    /// Returns a hash of the arguments that are equal on all members.
    pub fn digest(&self) -> u64 {
        let block_bytes = if self.has_lengths() { 0 } else { self.block.block_bytes };
        let root = self.root().map_or(0, |(root, to_itself)| 1 + 2 * root + usize::from(to_itself));
        let all = [self.block.blocks, block_bytes, self.dest_step, self.source_step, root];
        prelude::with(all.map(|one| one as u64))
    }

    /// Returns the bytes of this member's destination that the collective fills, or the bytes it
    /// contributes itself if lengths differ.
    pub fn filled(&self) -> usize {
        match self.givers {
            Givers::Root { index, to_itself: false } if index == self.group.index => 0,
            Givers::Each { .. } => self.block.block_bytes,
            _ => self.dest_extent(),
        }
    }
}

/// Rejects a destination that is not symmetric, before any PE waits for this one.
pub fn check(group: &Group, dest: Sym<u8>, bytes: usize) {
    if bytes > 0 {
        SegmentRange::new(group.call, "dest", dest, bytes, group.pe(group.index));
    }
}

/// Rejects a source that is not symmetric, even on a PE that is not read: all PEs pass the same
/// object.
pub fn check_source(group: &Group, source: SymIn<u8>, bytes: usize) {
    if bytes > 0 {
        SegmentRange::source(group.call, source, bytes, group.pe(group.index));
    }
}
