//! Damaged tiles of the own store.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use raidshmem_core::quantity::{CheckpointNumber, TileIndex};

use crate::checkpoint::tiles;
use crate::pgas::World;

/// Returns the chunks of `per_chunk` tiles, a bit for each, with a damaged tile among `tiles` of a
/// region of the own store.
pub(super) fn damaged(
    world: &World,
    region: usize,
    tiles: Range<usize>,
    per_chunk: usize,
    target: CheckpointNumber,
) -> u64 {
    let bad = AtomicU64::new(0);
    let look = |at: usize, (): &mut ()| {
        // Relaxed: the end of the loop publishes it, and a needless look does no harm.
        let chunk = 1 << (at / per_chunk);
        if bad.load(Ordering::Relaxed) & chunk == 0
            && !tiles::holds(world, region, TileIndex::of(at), target)
        {
            bad.fetch_or(chunk, Ordering::Relaxed);
        }
    };
    world.store.pool.numbers(tiles, || (), look);
    bad.into_inner()
}
