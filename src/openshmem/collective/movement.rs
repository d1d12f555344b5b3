//! Collectives that move data, as data: broadcast, collect, fcollect, alltoall, alltoalls.
//!
//! Each is a [`Movement`]: the shape of what goes from one member to another, and how far apart
//! lies what is of one member and what is of the next, in the sources and in the destinations.
//! What a member takes of what all bring follows from that ([`Movement::moves`]), whichever way the
//! bytes go.
//!
//! Invariant: all is checked before any PE waits for this one; the room of a `collect` once the
//! lengths of all are known.
//!
//! Left out: how the bytes get there.

use std::borrow::Cow;

use crate::openshmem::check::{bytes_of, misuse};
use crate::openshmem::group::Group;
use crate::openshmem::memory::address::{Sym, SymIn};
use crate::openshmem::memory::logged;
use crate::openshmem::memory::place::SegmentRange;
use crate::openshmem::memory::prelude;
use crate::openshmem::memory::strides::{Strided, Strides};

/// The members that bring something.
#[derive(Clone, Copy)]
enum Givers {
    /// Each as much as the others.
    All,
    /// Each as many bytes as it says; they lie one after another in a destination of `room` bytes.
    Each { room: usize },
    /// One, whose own destination is written too if `to_itself` says so.
    Root { index: usize, to_itself: bool },
}

/// A collective that moves bytes, seen from one member.
pub struct Movement {
    /// Who takes part.
    pub group: Group,
    /// Where the blocks of all go on every member.
    pub dest: Sym<u8>,
    /// What this member brings.
    pub source: SymIn<u8>,
    /// What goes from one member to another.
    pub block: Strides,
    /// Bytes from what is of one member to what is of the next, where it is written.
    dest_step: usize,
    /// Bytes from what is for one member to what is for the next, where it is read: 0 if all get
    /// the same.
    source_step: usize,
    givers: Givers,
}

/// What one member takes of what another one brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Index of the other one.
    pub giver: usize,
    /// Where it is in its source, in bytes.
    pub from: usize,
    /// Where it is in what that brings without gaps.
    pub packed: usize,
    /// Where it goes.
    pub to: usize,
    /// Its shape.
    pub by: Strides,
}

impl Movement {
    /// From the root to all; `to_itself` says whether the root's destination is written too.
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

    /// The same number of bytes from each, by index.
    pub fn fcollect(group: Group, both: (Sym<u8>, SymIn<u8>), bytes: usize) -> Movement {
        bytes_of(group.call, group.size, bytes);
        Movement::new(group, both, Strides::one(bytes), (bytes, 0), Givers::All)
    }

    /// From each as many bytes as it says, one after another by index; `room` is how many bytes the
    /// destination has, where that is known.
    pub fn collect(
        group: Group,
        both: (Sym<u8>, SymIn<u8>),
        bytes: usize,
        room: usize,
    ) -> Movement {
        Movement::new(group, both, Strides::one(bytes), (0, 0), Givers::Each { room })
    }

    /// Block `i` of each goes to PE `i`, there by index.
    pub fn alltoall(group: Group, both: (Sym<u8>, SymIn<u8>), bytes: usize) -> Movement {
        bytes_of(group.call, group.size, bytes);
        Movement::new(group, both, Strides::one(bytes), (bytes, bytes), Givers::All)
    }

    /// The same with elements that lie apart; `shape` is that of one block.
    pub fn alltoalls(group: Group, both: (Sym<u8>, SymIn<u8>), shape: Strided) -> Movement {
        let block = shape.strides(group.call).unwrap_or(Strides::NOTHING);
        let step = |stride_bytes| bytes_of(group.call, block.blocks, stride_bytes);
        let steps = (step(block.dest_bytes), step(block.source_bytes));
        bytes_of(group.call, group.size, steps.0.max(steps.1));
        Movement::new(group, both, block, steps, Givers::All)
    }

    /// Its arguments, checked.
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

    /// The member that brings all there is, if it is one.
    pub fn root(&self) -> Option<(usize, bool)> {
        match self.givers {
            Givers::Root { index, to_itself } => Some((index, to_itself)),
            _ => None,
        }
    }

    /// True if members say how many bytes they bring, and others find out.
    pub fn has_lengths(&self) -> bool {
        matches!(self.givers, Givers::Each { .. })
    }

    /// True if all members get the same.
    pub fn is_for_all(&self) -> bool {
        self.source_step == 0
    }

    /// True if blocks lie one after another at both ends, without gaps.
    pub fn is_packed(&self) -> bool {
        let bytes = self.block.bytes();
        self.block.blocks == 1 && [self.dest_step, self.source_step] == [bytes, bytes]
    }

    /// Bytes from the first to the last of what is for `n` members.
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

    /// What this member takes of `giver`, where all bring as much.
    pub fn taken_from(&self, giver: usize) -> Option<Move> {
        self.between(giver, self.group.index)
    }

    /// What `taker` takes of this member, where all bring as much.
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

    /// What this member takes of members that bring so many bytes each, in the order of their
    /// indices; the bytes count where members say how many they are.
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

    /// Refuses a destination without room for `all` bytes that members said they bring.
    pub fn check_room(&self, all: usize) {
        let Givers::Each { room } = self.givers else { return };
        if all > room {
            let what = format_args!("{all} bytes are collected: expected {room}, all of dest");
            misuse(self.group.call, what);
        }
        check(&self.group, self.dest, all);
    }

    /// What this member brings, without gaps.
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

    /// A number for its arguments that are alike on all members.
    pub fn digest(&self) -> u64 {
        let block_bytes = if self.has_lengths() { 0 } else { self.block.block_bytes };
        let root = self.root().map_or(0, |(root, to_itself)| 1 + 2 * root + usize::from(to_itself));
        let all = [self.block.blocks, block_bytes, self.dest_step, self.source_step, root];
        prelude::with(all.map(|one| one as u64))
    }

    /// Bytes of the destination of this member that it fills, or those that it brings itself if
    /// members say how many they bring.
    pub fn filled(&self) -> usize {
        match self.givers {
            Givers::Root { index, to_itself: false } if index == self.group.index => 0,
            Givers::Each { .. } => self.block.block_bytes,
            _ => self.dest_extent(),
        }
    }
}

/// Refuses a destination that is not symmetric, before any PE waits for this one.
pub fn check(group: &Group, dest: Sym<u8>, bytes: usize) {
    if bytes > 0 {
        SegmentRange::new(group.call, "dest", dest, bytes, group.pe(group.index));
    }
}

/// The same for a source, also of a PE that nobody reads from: all PEs pass the same object.
pub fn check_source(group: &Group, source: SymIn<u8>, bytes: usize) {
    if bytes > 0 {
        SegmentRange::source(group.call, source, bytes, group.pe(group.index));
    }
}
