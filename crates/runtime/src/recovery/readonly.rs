//! Read-only ranges in a recovery: a PE keeps what it has of them, and decodes what it has lost
//! from the other members of its group.
//!
//! A PE reads the others' part of a range from the place that their records give: live memory, or
//! the copy that was made before the program could write it again. It decodes its part of the
//! range, and its parity over it.
//!
//! Invariant: while a PE lacks a range, its snapshot counts as lost too. So a loss that exceeds the
//! parity of the range also exceeds that of the checkpoint.

#![forbid(unsafe_code)]

use std::ops::Range;

use raidshmem_core::layout::TILE;
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::store::protection::Protection;
use raidshmem_core::store::readonly::{ReadOnly, TileRun};
use raidshmem_core::view::View;
use raidshmem_fabric::Read;
use raidshmem_segment::header::{HeldRange, RangeRecords, RangeState};

use super::damaged::damaged;
use super::decode::{ShardTile, Shards};
use super::{Changed, unchanged};
use crate::checkpoint::pipeline;
use crate::checkpoint::readonly::{copy_back, forget, free_other_parity, parity_len};
use crate::checkpoint::tiles::{self, Scratch, StoreTile};
use crate::pgas::World;

/// The verdict that the invariant rules out.
const LOST: &str = "unrecoverable: read-only memory is lost";

/// Returns the records of PE `pe` about ranges.
pub fn said_by(world: &World, pe: Pe) -> Vec<HeldRange> {
    match world.segments.if_mapped(pe) {
        Some(mapped) => mapped.header().readonly.held(world.job()),
        None => {
            let mut bytes = vec![0; RangeRecords::BYTES];
            let offset = world.segments.layout().store + RangeRecords::AT;
            world.transfers().pull(&mut [Read { pe, offset, into: &mut bytes }]);
            RangeRecords::held_in(&bytes, world.job())
        }
    }
}

/// Returns the record of PE `pe` about a range, if it holds the range.
fn held_of(world: &World, pe: Pe, range: ReadOnly) -> Option<HeldRange> {
    said_by(world, pe).into_iter().find(|held| held.range == range && held.state.holds())
}

/// Returns true if all `count` own tiles of a run match their stamps.
fn all_hold(world: &World, (run, count): (TileRun, usize), number: CheckpointNumber) -> bool {
    let tiles = run.first.at()..run.first.after(count).at();
    damaged(world, run.region, tiles, usize::MAX, number) == 0
}

/// Voids the record of each own range with a damaged tile as of checkpoint `target`. Returns true
/// if there is one.
pub fn void_damaged(world: &World, protection: &Protection, target: CheckpointNumber) -> bool {
    let (layout, job) = (world.segments.layout(), world.job());
    let records = &world.segments.own().header().readonly;
    let mut found = false;
    for HeldRange { range, number, state } in records.held(job) {
        let parity = (range.parity(layout, target), parity_len(world, protection, range) / TILE);
        let bad = |run: (TileRun, usize)| !all_hold(world, run, number);
        if state.holds() && (bad((where_is(world, range, state), range.tiles)) || bad(parity)) {
            records.void(job, range);
            found = true;
        }
    }
    found
}

/// Returns the place of a range as the last checkpoint holds it.
fn where_is(world: &World, range: ReadOnly, state: RangeState) -> TileRun {
    let layout = world.segments.layout();
    if state == RangeState::Copied { range.copy(layout) } else { range.live(layout) }
}

/// Restores the own part of `ranges`, which are those of the checkpoint rolled back to, and guards
/// them. The snapshot is of checkpoint `target`, `len` bytes long.
pub fn restore(
    world: &World,
    protection: &Protection,
    view: &View,
    ranges: &[Range<usize>],
    (target, len): (CheckpointNumber, usize),
) -> Result<(), Changed> {
    let (header, job) = (world.segments.own().header(), world.job());
    for range in ranges.iter().filter_map(ReadOnly::of) {
        let held = header.readonly.of(job, range).filter(|held| held.state.holds());
        if held.is_some_and(|held| held.state == RangeState::Copied) {
            copy_back(world, range);
        }
        let live = range.live(world.segments.layout());
        match held.filter(|held| all_hold(world, (live, range.tiles), held.number)) {
            Some(held) if held.state != RangeState::Copied => {
                header.readonly.set(job, HeldRange { state: RangeState::Kept, ..held });
            }
            Some(_) => {} // the copy counts until a checkpoint has the range
            None => {
                let record = &header.snapshots[protection.snapshot_of(target)];
                record.void();
                let number = decode(world, protection, view, (range, target))?;
                unchanged(&world.members, view)?;
                let held = HeldRange { number, range, state: RangeState::Kept };
                header.readonly.set(job, held);
                record.seal(job, target, len);
            }
        }
    }
    let stay: Vec<ReadOnly> = ranges.iter().filter_map(ReadOnly::of).collect();
    free_other_parity(world, &stay, target);
    let gone = |held: &HeldRange| !stay.contains(&held.range);
    for held in header.readonly.held(job).into_iter().filter(gone) {
        forget(world, held.range);
    }
    world.segments.guard(ranges.to_vec());
    Ok(())
}

/// A range, and the parity over it.
struct RangeShards<'a> {
    shards: Shards<'a>,
    /// True for members that do not hold it, by place: this PE is one.
    lost: Vec<bool>,
}

impl<'a> RangeShards<'a> {
    /// Returns the part of the other members of the own group, as of checkpoint `target`. None if
    /// they hold nothing.
    fn of_others(
        world: &'a World,
        protection: &'a Protection,
        (range, target): (ReadOnly, CheckpointNumber),
    ) -> Option<RangeShards<'a>> {
        let (shape, _) = protection.place(world.me());
        let of = |&pe: &Pe| if pe == world.me() { None } else { held_of(world, pe, range) };
        let held: Vec<Option<HeldRange>> = shape.members.iter().map(of).collect();
        let number = held.iter().flatten().map(|held| held.number).max()?;
        let state = |held: &Option<HeldRange>| held.map_or(RangeState::Kept, |held| held.state);
        let data = held.iter().map(|held| where_is(world, range, state(held))).collect();
        let runs = (data, range.parity(world.segments.layout(), target));
        let shards = Shards { world, shape, number, len: range.len(), runs };
        Some(RangeShards { shards, lost: held.iter().map(Option::is_none).collect() })
    }

    /// Returns the `nth` tile of the member at `place`: of the range or, after that, of the parity.
    fn own(&self, place: usize, nth: usize) -> Option<ShardTile> {
        match nth.checked_sub(tiles::tiles(self.shards.len)) {
            None => Some(self.shards.data(place, nth)),
            Some(nth) => self.shards.parity(place, nth),
        }
    }

    /// Returns, for each shard of a tile's stripe, true if it is lost.
    fn lost(&self, tile: ShardTile) -> Vec<bool> {
        let holders = self.shards.shape.layout.stripes()[tile.stripe].holders();
        holders.map(|member| self.lost[member]).collect()
    }
}

/// Decodes the own part of a range and of its parity, as of checkpoint `target`. Returns the
/// checkpoint of its tiles' seals.
fn decode(
    world: &World,
    protection: &Protection,
    view: &View,
    (range, target): (ReadOnly, CheckpointNumber),
) -> Result<CheckpointNumber, Changed> {
    let (shape, place) = protection.place(world.me());
    let Some(of_range) = RangeShards::of_others(world, protection, (range, target)) else {
        unchanged(&world.members, view)?;
        world.members.abort(LOST);
    };
    let shards = &of_range.shards;
    let plan = |tile| shards.plan(tile, &of_range.lost(tile));
    let remote = shape.members.iter().any(|&pe| world.segments.is_remote(pe));
    let buffers = || vec![Scratch::empty(); shape.members.len()];
    let pull = |batch: &[ShardTile], buffers: &mut [Vec<Scratch>]| {
        let mut wanted = Vec::new();
        for (&tile, buffers) in batch.iter().zip(buffers) {
            let sources = plan(tile).map_or(Vec::new(), |plan| plan.sources().to_vec());
            for (shard, buffer) in sources.into_iter().zip(buffers) {
                wanted.extend(shards.place(tile.of(shard)).map(|at| (at, buffer)));
            }
        }
        tiles::pull_store(world, wanted.into_iter());
    };
    let work = |&tile: &ShardTile, buffers: &mut Vec<Scratch>| match plan(tile) {
        Some(plan) => {
            shards.decode_into((tile, &plan), buffers).map_err(|bad| shards.holder(tile.of(bad)))
        }
        None => world.members.abort(LOST),
    };
    let tasks: Vec<ShardTile> = (0..).map_while(|nth| of_range.own(place, nth)).collect();
    if let Err(pe) = pipeline::run(&world.store.pool, &tasks, buffers, remote, pull, work) {
        unchanged(&world.members, view)?;
        world.found_corrupt(view, pe);
        return Err(Changed);
    }
    Ok(shards.number)
}

// ---- the scrub --------------------------------------------------------------------------------

/// Returns the present own read-only ranges, each with its number of tiles: those of the range, and
/// those of the parity over it.
fn kept_here(world: &World, protection: &Protection) -> Vec<(HeldRange, usize)> {
    let held = world.segments.own().header().readonly.held(world.job()).into_iter();
    let parity = |range| parity_len(world, protection, range) / TILE;
    let kept = held.filter(|held| held.state == RangeState::Kept);
    kept.map(|held| (held, held.range.tiles + parity(held.range))).collect()
}

/// Returns the number of these tiles.
pub fn held_tiles(world: &World, protection: &Protection) -> usize {
    kept_here(world, protection).into_iter().map(|(_, tiles)| tiles).sum()
}

/// Returns the range of the `nth` of these tiles, and its index there.
fn find(world: &World, protection: &Protection, mut nth: usize) -> Option<(HeldRange, usize)> {
    for (held, tiles) in kept_here(world, protection) {
        match nth.checked_sub(tiles) {
            None => return Some((held, nth)),
            Some(rest) => nth = rest,
        }
    }
    None
}

/// Returns the `nth` of these tiles, and the checkpoint of its seal.
pub fn tile_at(
    world: &World,
    protection: &Protection,
    nth: usize,
) -> Option<(StoreTile, CheckpointNumber)> {
    let (HeldRange { range, number, .. }, nth) = find(world, protection, nth)?;
    let layout = world.segments.layout();
    let at = match nth.checked_sub(range.tiles) {
        None => StoreTile::own(world, range.live(layout), nth),
        Some(nth) => StoreTile::own(world, range.parity(layout, world.store.agreed()), nth),
    };
    Some((at, number))
}

/// Decodes the `nth` of these tiles from the other members of the group. Returns the PEs that it
/// was decoded from.
pub fn recover(
    world: &World,
    protection: &Protection,
    nth: usize,
    out: &mut [u8],
) -> Option<Vec<Pe>> {
    let (HeldRange { range, .. }, nth) = find(world, protection, nth)?;
    let agreed = world.store.agreed();
    let of_range = RangeShards::of_others(world, protection, (range, agreed))?;
    let (_, place) = protection.place(world.me());
    let tile = of_range.own(place, nth)?;
    of_range.shards.recover(tile, of_range.lost(tile), &mut Vec::new(), out)
}
