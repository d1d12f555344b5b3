//! The own snapshot: the writer of each of its tiles, the time of that write, and the end of a
//! checkpoint, when the snapshot becomes valid.
//!
//! With one snapshot each PE copies its live memory over it in a step of its own, after barrier A:
//! until then it is the one to roll back to. With two in turn, nothing of the new one is needed
//! earlier, so it is written in the step that computes parity, and each live byte is read from
//! memory once for both: the PE that computes the first parity over a tile has it in its cache, and
//! writes it into its owner's store, if that is mapped there ([`is_mine`]). The owner itself
//! updates tiles that did not change, and those that only remote PEs could copy ([`Own`]), a few
//! with each tile of parity, so that this overlaps with transfers over the network.
//!
//! Invariants: every tile of a snapshot has one writer in a checkpoint, which both sides derive
//! from the same words. A PE writes into another's store only between barriers C and A of a
//! checkpoint, in a snapshot whose record is void or that of the checkpoint before the last: it is
//! not valid until its owner seals the record, after barrier A. No write of a PE that dies on the
//! way comes later: its process has ended before any view shows it dead, and a PE that goes forward
//! all the same copies its live memory again ([`copy`]).

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};

use raidshmem_core::inject::Point;
use raidshmem_core::layout::{STAMP, TILE};
use raidshmem_core::quantity::{CheckpointNumber, TileIndex};
use raidshmem_core::store::coverage::Coverage;
use raidshmem_core::store::delta::{Changes, TileStep};
use raidshmem_core::store::protection::Protection;
use raidshmem_core::store::stamp::Renewal;

use super::tiles::{self, LiveTile};
use crate::pgas::{Segments, World};

/// Returns true if this PE, which computes a parity over it, writes a changed tile of PE `pe` into
/// the second snapshot of that PE.
pub(super) fn is_mine(
    segments: &Segments,
    protection: &Protection,
    LiveTile { pe, tile }: LiveTile,
    len: usize,
) -> bool {
    let (shape, place) = protection.place(pe);
    let there =
        protection.snapshots == 2 && tile.at() < tiles::tiles(len) && !segments.is_remote(pe);
    there && shape.copier(place, tile.offset() / shape.chunk_len(len)) == Some(segments.me())
}

/// The own tiles, and the way in which they become those of a checkpoint.
pub(super) struct Own<'a> {
    pub world: &'a World,
    pub protection: &'a Protection,
    pub coverage: &'a Coverage,
    pub number: CheckpointNumber,
    /// The renewal of the stamp that a tile has in this snapshot, and of that in the last snapshot.
    here: Renewal,
    last: Renewal,
}

impl<'a> Own<'a> {
    pub fn new(
        world: &'a World,
        protection: &'a Protection,
        coverage: &'a Coverage,
        number: CheckpointNumber,
    ) -> Own<'a> {
        let renewal = |back: u64| tiles::renewal(world, number, back);
        let (here, last) = (renewal(protection.snapshots as u64), renewal(1));
        Own { world, protection, coverage, number, here, last }
    }

    fn count(&self) -> usize {
        let keeps = self.protection.mode.keeps_snapshot();
        if keeps { tiles::tiles(self.coverage.len()) } else { 0 }
    }

    /// Returns the offset of a checkpoint's snapshot.
    fn region(&self, number: CheckpointNumber) -> usize {
        self.protection.snapshot_at(self.world.segments.layout(), number)
    }

    /// Returns the tiles of the second snapshot that no other PE writes.
    pub fn left(&self, changes: &Changes) -> Vec<TileIndex> {
        let (shape, place) = self.protection.place(self.world.me());
        let chunk_len = shape.chunk_len(self.coverage.len());
        let own = |chunk: usize| {
            shape.copier(place, chunk).is_none_or(|pe| self.world.segments.is_remote(pe))
        };
        let own: Vec<bool> = (0..shape.layout.chunks()).map(own).collect();
        let left =
            |tile: &TileIndex| own[tile.offset() / chunk_len] || !changes.own.contains(*tile);
        let second = self.protection.snapshots == 2;
        TileIndex::all(self.count()).filter(|tile| second && left(tile)).collect()
    }

    /// Makes a tile that of this checkpoint. An unchanged tile stays as it is or comes from the
    /// last snapshot, not from memory, because parity was computed from that snapshot.
    pub fn bring(&self, tile: TileIndex, changes: Option<&Changes>, scratch: &mut [u8]) {
        let Own { world, number, .. } = *self;
        let source = LiveTile { pe: world.me(), tile };
        let to = source.in_store(self.region(number));
        match changes.map_or(TileStep::Make, |changes| changes.next_own(tile)) {
            TileStep::Keep if tiles::renew(world, to.region, tile, &self.here) => return,
            TileStep::Carry => {
                if tiles::carry(world, self.region(number.previous()), to, number, &self.last) {
                    return;
                }
            }
            TileStep::Keep | TileStep::Update | TileStep::Make => {}
        }
        let bytes = tiles::live(world.segments, source, self.coverage, scratch);
        tiles::put(world, to, number, bytes);
    }

    /// Returns the stamp of a tile that is unchanged since the last checkpoint, as long as that is
    /// there.
    fn stamp_of_last(&self, tile: TileIndex) -> Option<[u8; STAMP]> {
        self.last.of(tiles::stamp_of(
            self.world.segments,
            self.region(self.number.previous()),
            tile,
        ))
    }

    /// Returns true if a tile has the stamp `was`: equal checksums do not prove equal bytes, but
    /// suffice for the choice of method in the next checkpoint.
    fn is_as(&self, tile: TileIndex, was: Option<[u8; STAMP]>) -> bool {
        let stamp = tiles::stamp_of(self.world.segments, self.region(self.number), tile);
        self.world.settings().checksum && was.is_some_and(|was| *stamp == was)
    }
}

/// Copies live memory to the own snapshot, which becomes that of `number`, after barrier A and as
/// far as `changes` requires. A second snapshot was written with the parity, and is only inspected.
pub fn complete(
    world: &World,
    protection: &Protection,
    coverage: &Coverage,
    number: CheckpointNumber,
    changes: &mut Changes,
) {
    if protection.snapshots == 1 {
        return copy(world, protection, coverage, number, Some(changes));
    }
    world.members.point(Point::Copy, number);
    let own = Own::new(world, protection, coverage, number);
    let is_new = |tile: &TileIndex| !own.is_as(*tile, own.stamp_of_last(*tile));
    changes.seen = TileIndex::all(own.count()).filter(is_new).count();
}

/// Copies all of live memory into the snapshot, whose record is void meanwhile, or as much of it as
/// `changes` requires; in that case it passes `Point::Copy` halfway.
pub fn copy(
    world: &World,
    protection: &Protection,
    coverage: &Coverage,
    number: CheckpointNumber,
    changes: Option<&mut Changes>,
) {
    let own = Own::new(world, protection, coverage, number);
    let (known, seen, count) = (changes.as_deref(), AtomicUsize::new(0), own.count());
    let copy = |at: usize, scratch: &mut Vec<u8>| {
        let tile = TileIndex::of(at);
        let was = known.and_then(|_| own.stamp_of_last(tile));
        own.bring(tile, known, scratch);
        // Relaxed: the end of the loop publishes it.
        seen.fetch_add(usize::from(!own.is_as(tile, was)), Ordering::Relaxed);
    };
    let scratch = || vec![0; TILE];
    world.store.pool.numbers(0..count / 2, scratch, copy);
    if known.is_some() {
        world.members.point(Point::Copy, number);
    }
    world.store.pool.numbers(count / 2..count, scratch, copy);
    if let Some(changes) = changes {
        changes.seen = seen.into_inner();
    }
}
