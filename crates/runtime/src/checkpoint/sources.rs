//! The memory from which parity is computed: live memory, or the snapshots of the new checkpoint.
//!
//! Snapshots are read unchecked: a tile that was damaged since its copy no longer matches its
//! stamp, so it counts as lost wherever it is used.

#![forbid(unsafe_code)]

use raidshmem_core::layout::TILE;
use raidshmem_fabric::Read;

use super::tiles::{self, StoreTile, ZEROES};
use crate::pgas::{Segments, World};

/// The memory from which parity is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sources {
    /// Live memory, which does not change meanwhile.
    Live,
    /// The snapshots of the checkpoint.
    Snapshots,
}

impl Sources {
    /// Returns the snapshots if `copied`, else live memory.
    pub fn of(copied: bool) -> Sources {
        if copied { Sources::Snapshots } else { Sources::Live }
    }
}

/// Like [`tiles::pull`], of tiles of complete snapshots of `len` bytes.
pub fn pull_saved<'a>(
    world: &World,
    len: usize,
    wanted: impl Iterator<Item = (StoreTile, &'a mut Vec<u8>)>,
) {
    let remote = wanted.filter(|(at, _)| world.segments.is_remote(at.pe));
    let (inside, beyond): (Vec<_>, Vec<_>) = remote.partition(|(at, _)| at.tile.offset() < len);
    beyond.into_iter().for_each(|(_, scratch)| scratch.fill(0));
    let read =
        |(at, into): (StoreTile, &'a mut Vec<u8>)| Read { pe: at.pe, offset: at.offset(), into };
    tiles::read_all(world, inside.into_iter().map(read).collect());
}

/// Returns the bytes of a tile of a complete snapshot of `len` bytes: in place, or in `scratch`,
/// where `pull_saved` has put those of a remote PE; zeroes beyond the end.
pub fn saved<'a>(
    segments: &'a Segments,
    at: StoreTile,
    len: usize,
    scratch: &'a mut [u8],
) -> &'a [u8] {
    match segments.if_mapped(at.pe) {
        None => scratch,
        Some(_) if at.tile.offset() >= len => &ZEROES,
        Some(segment) => segment.bytes(at.offset(), TILE),
    }
}
