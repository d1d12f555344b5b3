//! Restoration of live memory to the checkpoint, and of the parity over it.
//!
//! Each PE works on its own store and its own live memory and only reads its peers'.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use raidshmem_core::ended::UNRECOVERABLE;
use raidshmem_core::inject::Point;
use raidshmem_core::layout::TILE;
use raidshmem_core::message::RecoveryStep;
use raidshmem_core::plan::{self, StoreFinding};
use raidshmem_core::quantity::{CheckpointNumber, TileIndex};
use raidshmem_core::store::coverage::Coverage;
use raidshmem_core::store::protection::Protection;
use raidshmem_core::view::View;

use super::damaged::damaged;
use super::rebuild::chunk_tiles;
use super::{Changed, readonly};
use crate::checkpoint;
use crate::checkpoint::tiles;
use crate::pgas::World;

/// Restores live memory and the allocator to checkpoint `target`, from the own snapshot, which is
/// checked on the way, or from `line`.
pub fn restore(
    world: &World,
    protection: &Protection,
    view: &View,
    line: Option<Vec<u8>>,
    target: CheckpointNumber,
    len: usize,
) -> Result<Coverage, Changed> {
    world.members.report_step(RecoveryStep::Restore);
    let (region, count) =
        (protection.snapshot_at(world.segments.layout(), target), tiles::tiles(len));
    let own = || world.segments.own().bytes(region, count * TILE);
    let bytes: &[u8] = line.as_deref().unwrap_or_else(own);
    let begin_again = || {
        world.found_corrupt(view, world.me());
        Changed
    };
    let described = tiles::tiles(Coverage::manifest_len(bytes)).clamp(1, count);
    if line.is_none()
        && !(0..described).all(|tile| tiles::holds(world, region, TileIndex::of(tile), target))
    {
        return Err(begin_again());
    }
    let manifest = match Coverage::parse(world.segments.layout(), &bytes[..len]) {
        Ok(parsed) => parsed,
        Err(error) => world.members.abort(&format!(
            "unrecoverable: the snapshot of checkpoint {target} has an invalid manifest: {error}"
        )),
    };
    if world.members.is_new() {
        tiles::map_live(world.segments, &manifest.coverage);
    }
    world.segments.guarded().open();
    let bad = AtomicBool::new(false);
    let put_back = |at: usize, (): &mut ()| {
        let tile = TileIndex::of(at);
        let mut seal = world.stamp(world.me(), target).begin();
        let bytes = &bytes[tile.bytes()];
        tiles::restore(world.segments, &manifest.coverage, tile, bytes, |piece| seal.update(piece));
        // Relaxed: the end of the loop publishes it.
        if line.is_none() && !seal.holds(tiles::stamp_of(world.segments, region, tile)) {
            bad.store(true, Ordering::Relaxed);
        }
    };
    world.store.pool.numbers(0..count / 2, || (), put_back);
    world.members.point(Point::Restore, target);
    world.store.pool.numbers(count / 2..count, || (), put_back);
    if bad.into_inner() {
        return Err(begin_again());
    }
    let coverage = manifest.coverage.clone();
    readonly::restore(world, protection, view, &manifest.readonly, (target, len))?;
    if let Err(misfit) = world.memory.adopt(manifest) {
        let me = world.me();
        let words =
            format!("unrecoverable: PE {me} cannot roll back to checkpoint {target}: {misfit}");
        world.members.end_job(UNRECOVERABLE, Some(words));
    }
    Ok(coverage)
}

/// Returns the own parity chunks, a bit for each, with a damaged tile among those that the rebuild
/// did not read: those that it read were valid.
fn damaged_unread(
    world: &World,
    protection: &Protection,
    findings: &[StoreFinding],
    len: usize,
    target: CheckpointNumber,
) -> u64 {
    let (shape, place) = protection.place(world.me());
    let per_chunk = shape.chunk_len(len) / TILE;
    let parities = shape.layout.parities_of(place);
    let region = world.segments.layout().slots[protection.slot_of(target)];
    let held = |&index: &usize| findings[place].parity >> index & 1 == 0;
    let bad = |index: usize| {
        let tiles = |chunk| chunk_tiles(shape, len, chunk).len();
        let read = plan::read(shape, parities[index], findings, tiles);
        let unread = index * per_chunk + read..(index + 1) * per_chunk;
        damaged(world, region, unread, per_chunk, target)
    };
    let indices = 0..parities.len();
    indices.filter(held).fold(0, |all, index| all | bad(index))
}

/// Returns the missing own parity, a bit for each chunk, including parity that is found to be
/// damaged only now, unless all was `checked` before.
pub fn missing(
    world: &World,
    protection: &Protection,
    (findings, checked): (&[StoreFinding], bool),
    coverage: &Coverage,
    target: CheckpointNumber,
) -> u64 {
    world.members.report_step(RecoveryStep::Reencode);
    let unread = || damaged_unread(world, protection, findings, coverage.len(), target);
    let (_, place) = protection.place(world.me());
    findings[place].parity | if checked { 0 } else { unread() }
}

/// Recomputes `missing` parity into the slot, whose record is void meanwhile, from the live memory
/// of all PEs, which is at `target` now.
pub fn reencode(
    world: &World,
    protection: &Protection,
    coverage: &Coverage,
    target: CheckpointNumber,
    missing: u64,
) {
    checkpoint::prepare(world, protection, coverage.len());
    checkpoint::prefault::look(world, protection, coverage);
    let wanted = |index: usize| missing >> index & 1 == 1;
    let half = (None, Point::Reencode);
    checkpoint::encode(world, protection, coverage, target, &wanted, half);
}
