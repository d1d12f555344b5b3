//! Protection of a read-only range ([`raidshmem_core::store::readonly`]): computed when the range
//! is declared, released when it ends.
//!
//! Invariant: a PE computes its sealed part of a range between two barriers of the call that
//! declares it, while no PE writes there; an agreed checkpoint decides what stays.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::Ordering;

use raidshmem_core::inject::Point;
use raidshmem_core::message::ProgressReport;
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::store::protection::Protection;
use raidshmem_core::store::readonly::{ReadOnly, TileRun};
use raidshmem_segment::header::{HeldRange, RangeState};

use super::encode::encode_range;
use super::footprint::{account, footprint};
use super::tiles::{self, StoreTile};
use crate::pgas::World;

/// Returns the bytes of the own parity over a range.
pub fn parity_len(world: &World, protection: &Protection, range: ReadOnly) -> usize {
    let (shape, place) = protection.place(world.me());
    shape.parity_len(place, range.len())
}

/// Seals the own tiles of a range, and computes the own parity over those of the group, as of
/// checkpoint `number`.
pub fn encode(world: &World, protection: &Protection, range: ReadOnly, number: CheckpointNumber) {
    let live = range.live(world.segments.layout());
    let seal = |nth: usize, (): &mut ()| {
        let at = StoreTile::own(world, live, nth);
        let bytes = tiles::unchecked(world.segments, at.region, at.tile);
        let stamp = world.stamp(world.me(), number).seal(bytes);
        tiles::set_stamp(world.segments, at.region, at.tile, &stamp);
    };
    world.store.pool.numbers(0..range.tiles, || (), seal);
    encode_range(world, protection, range, (number, number), Point::ReadOnlyEncode);
}

/// Computes the own parity over each range again, for the new groups of checkpoint `target`.
pub fn encode_anew(world: &World, protection: &Protection, target: CheckpointNumber) {
    let ranges = world.memory.readonly();
    let held = world.segments.own().header().readonly.held(world.job()).into_iter();
    for HeldRange { range, number, .. } in held.filter(|held| ranges.contains(&held.range)) {
        encode_range(world, protection, range, (number, target), Point::Encode);
    }
}

/// Releases the parity over `ranges` that is not for the groups of checkpoint `number`, which all
/// PEs have decided on.
pub fn free_other_parity(world: &World, ranges: &[ReadOnly], number: CheckpointNumber) {
    let other = |range: &ReadOnly| range.parity(world.segments.layout(), number.healed());
    ranges.iter().for_each(|range| give_back(world, other(range), range.len()));
}

/// Copies an own range to a second place; its stamps are then those of the copy.
pub fn copy(world: &World, range: ReadOnly) {
    let layout = world.segments.layout();
    world.segments.own().populate(range.copy(layout).offset(), range.len());
    let half = range.tiles / 2;
    copy_tiles(world, range.live(layout), range.copy(layout), 0..half);
    world.members.point(Point::WritableCopy, world.store.agreed().next());
    copy_tiles(world, range.live(layout), range.copy(layout), half..range.tiles);
}

/// Copies an own range back from that place.
pub fn copy_back(world: &World, range: ReadOnly) {
    let layout = world.segments.layout();
    copy_tiles(world, range.copy(layout), range.live(layout), 0..range.tiles);
}

fn copy_tiles(world: &World, from: TileRun, to: TileRun, tiles: Range<usize>) {
    let copy = |nth: usize, (): &mut ()| {
        let from = StoreTile::own(world, from, nth);
        let bytes = tiles::unchecked(world.segments, from.region, from.tile);
        tiles::overwrite(world, StoreTile::own(world, to, nth), bytes);
    };
    world.store.pool.numbers(tiles, || (), copy);
}

/// Adapts the store to an agreed checkpoint, to which a loss now rolls back: releases what it keeps
/// of ranges that are no longer read-only, and what is in no snapshot any more.
pub fn settle(world: &World, protection: &Protection, (agreed, len): (CheckpointNumber, usize)) {
    let (records, job) = (&world.segments.own().header().readonly, world.job());
    let (held, ranges) = (records.held(job), world.memory.readonly());
    if held.is_empty() && ranges.is_empty() {
        return;
    }
    world.members.point(Point::ReadOnlyAgreed, agreed);
    for HeldRange { range, number, state } in held {
        if !ranges.contains(&range) {
            forget(world, range);
        } else if state == RangeState::Copied {
            records.set(job, HeldRange { range, number, state: RangeState::Kept });
            give_back(world, range.copy(world.segments.layout()), range.len());
        }
    }
    shrink(world, protection, len);
}

/// Returns the bytes of the own parity over all ranges.
pub fn kept(world: &World, protection: &Protection) -> usize {
    world.memory.readonly().into_iter().map(|range| parity_len(world, protection, range)).sum()
}

/// Reports the amount of read-only memory, if that has changed.
pub fn report(world: &World, protection: &Protection) {
    let ranges = world.memory.readonly();
    let bytes = ranges.iter().map(|range| range.len()).sum::<usize>() as u64;
    if world.store.readonly.swap(bytes, Ordering::Relaxed) != bytes && world.is_reporter() {
        let kept = kept(world, protection) as u64;
        world.members.report(ProgressReport::Readonly { bytes, kept });
    }
}

/// Drops all that is kept of a range.
pub fn forget(world: &World, range: ReadOnly) {
    let layout = world.segments.layout();
    world.segments.own().header().readonly.void(world.job(), range);
    let agreed = world.store.agreed();
    let parities = [agreed, agreed.healed()].map(|number| range.parity(layout, number));
    parities.into_iter().for_each(|parity| give_back(world, parity, range.len()));
    give_back(world, range.copy(layout), range.len());
}

fn give_back(world: &World, run: TileRun, len: usize) {
    let _ = world.segments.part().give_back(run.offset(), len); // on failure it stays occupied
}

/// Releases the store's memory beyond snapshots of `len` bytes and their parity.
fn shrink(world: &World, protection: &Protection, len: usize) {
    let (needed, used) = (footprint(world.segments, protection, len), world.store.used());
    let layout = world.segments.layout();
    let (snapshots, slots) = (protection.snapshots, protection.mode.slots().max(1));
    let parts = [
        (&layout.snapshots[..snapshots], used.snapshots / snapshots, needed.snapshots / snapshots),
        (&layout.slots[..slots], used.slots / slots, needed.slots / slots),
    ];
    for (regions, used, needed) in parts {
        for region in regions.iter().filter(|_| used > needed) {
            let _ = world.segments.part().give_back(region + needed, used - needed);
        }
    }
    world.store.forget_used();
    account(world, protection, len);
}
