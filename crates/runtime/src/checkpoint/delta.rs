//! Changes since the last checkpoint: found here, and published to the peers.
//!
//! A PE compares its live tiles with its snapshot the first time, and takes a digest of each on the
//! way; from then on it compares the digests (XXH3, 128 bits) and does not read the snapshot. It
//! publishes the set in its store, and the PE that protects a tile reads it after the next barrier.
//!
//! If the kernel noted the written pages ([`super::pages`]), no tile is read.
//!
//! Invariant: the history is taken out, and is put back only when the checkpoint is agreed.

#![forbid(unsafe_code)]

use std::time::Instant;

use raidshmem_core::layout::TILE;
use raidshmem_core::message::ChangedTiles;
use raidshmem_core::quantity::{CheckpointNumber, TileIndex};
use raidshmem_core::store::coverage::Coverage;
use raidshmem_core::store::delta::{Changes, Look, StoreCounts};
use raidshmem_core::store::protection::Protection;
use raidshmem_sys::lock;

use super::pages;
use super::tiles::{self, LiveTile};
use crate::pgas::{Store, World};

/// Finds the own tiles that changed since the checkpoint before `number`, and publishes them to the
/// peers.
pub fn compare(
    world: &World,
    protection: &Protection,
    coverage: &Coverage,
    number: CheckpointNumber,
) -> Changes {
    let (shape, place) = protection.place(world.me());
    let (len, count) = (coverage.len(), tiles::tiles(coverage.len()));
    let held = shape.parity_len(place, len) / TILE;
    let history = lock(&world.store.history).take();
    let (snapshots, slots) = (protection.snapshots, protection.mode.slots());
    let counts = StoreCounts { tiles: count, parity: held, snapshots, slots };
    let mut changes = Changes::since(history, (number, len), counts);
    let mut looked = None;
    if let Some(written) = pages::written(world, coverage, number) {
        changes.know(written);
    } else if protection.mode.keeps_snapshot() && changes.looks(world.settings().delta, count) {
        let begun = Instant::now();
        let last = protection.snapshot_at(world.segments.layout(), number.previous());
        let mut looks = vec![Look::default(); count];
        let look = |(at, found): (usize, &mut Look), scratch: &mut Vec<u8>| {
            let tile = TileIndex::of(at);
            let bytes =
                tiles::live(world.segments, LiveTile { pe: world.me(), tile }, coverage, scratch);
            *found = changes
                .look(world.job(), tile, bytes, || tiles::unchecked(world.segments, last, tile));
        };
        world.store.pool.each(looks.iter_mut().enumerate(), || vec![0; TILE], look);
        looks.into_iter().for_each(|look| changes.note(look));
        looked = Some(begun.elapsed());
    }
    pages::post_costs(world, coverage, looked);
    tiles::show_changes(world.segments, &changes.own);
    changes
}

/// Returns the result of the comparison for a report; None if this PE did not compare.
pub fn found(changes: &Changes) -> Option<ChangedTiles> {
    let (changed, of) = (changes.own.count() as u64, changes.tiles as u64);
    Some(ChangedTiles { changed, of, by: changes.by? })
}

/// Keeps the findings as the basis of the next checkpoint, once this one is agreed.
pub fn keep(store: &Store, changes: Changes, number: CheckpointNumber, len: usize) {
    *lock(&store.history) = Some(changes.agreed(number, len));
}
