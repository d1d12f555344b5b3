//! Read-only ranges in a recovery: what a PE has of them stays, what it has lost is decoded from
//! the others of its group.
//!
//! A PE reads what the others keep of a range where their records say that it is: in live memory,
//! or in the copy that was made when the program was to write it again. It decodes its part of the
//! range, and its parity over it.
//!
//! Invariant: while a PE lacks a range, its snapshot counts as lost, too. So a loss that is more
//! than the parity of the range covers is more than that of the checkpoint covers.

#![forbid(unsafe_code)]

use std::ops::Range;

use raidshmem_codec::code::Plan;
use raidshmem_core::layout::TILE;
use raidshmem_core::quantity::{CheckpointNumber, Pe, TileIndex};
use raidshmem_core::store::protection::{GroupLayout, Protection};
use raidshmem_core::store::readonly::{ReadOnly, TileRun};
use raidshmem_core::view::View;
use raidshmem_fabric::Read;
use raidshmem_segment::header::{HeldRange, RangeRecords, RangeState};

use super::damaged::damaged;
use super::{Changed, unchanged};
use crate::checkpoint::pipeline;
use crate::checkpoint::readonly::{copy_back, forget, parity_len, tile_of};
use crate::checkpoint::tiles::{self, Reading, Room, StoreTile};
use crate::pgas::World;

/// The verdict that the invariant rules out.
const LOST: &str = "unrecoverable: read-only memory is lost";

/// What PE `pe` says of ranges.
pub fn said_by(world: &World, pe: Pe) -> Vec<HeldRange> {
    match world.segments.near(pe) {
        Some(near) => near.header().readonly.held(world.job()),
        None => {
            let mut bytes = vec![0; RangeRecords::BYTES];
            let offset = world.segments.layout().store + RangeRecords::AT;
            world.pull(&mut [Read { pe, offset, into: &mut bytes }]);
            RangeRecords::held_in(&bytes, world.job())
        }
    }
}

/// What PE `pe` says of a range, if it holds it.
fn held_of(world: &World, pe: Pe, range: ReadOnly) -> Option<HeldRange> {
    said_by(world, pe).into_iter().find(|held| held.range == range && held.state.holds())
}

/// True if so many own tiles hold what their stamps say.
fn all_hold(world: &World, (run, count): (TileRun, usize), number: CheckpointNumber) -> bool {
    let tiles = run.first.at()..run.first.after(count).at();
    damaged(world, run.region, tiles, usize::MAX, number) == 0
}

/// Voids the record of each own range of which a tile does not hold. True if there is one.
pub fn void_damaged(world: &World, protection: &Protection) -> bool {
    let (layout, job) = (world.segments.layout(), world.job());
    let records = &world.segments.own().header().readonly;
    let mut found = false;
    for HeldRange { range, number, state } in records.held(job) {
        let parity = (range.parity(layout), parity_len(world, protection, range) / TILE);
        let bad = |run: (TileRun, usize)| !all_hold(world, run, number);
        if state.holds() && (bad((where_is(world, range, state), range.tiles)) || bad(parity)) {
            records.void(job, range);
            found = true;
        }
    }
    found
}

/// Where what the last checkpoint holds of a range is.
fn where_is(world: &World, range: ReadOnly, state: RangeState) -> TileRun {
    let layout = world.segments.layout();
    if state == RangeState::Copied { range.copy(layout) } else { range.live(layout) }
}

/// Makes the own part of `ranges`, those that the checkpoint gone back to has, what it was, and
/// guards them. The snapshot is of checkpoint `target`, `len` bytes long.
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
                let number = decode(world, protection, view, range)?;
                unchanged(&world.members, view)?;
                let held = HeldRange { number, range, state: RangeState::Kept };
                header.readonly.set(job, held);
                record.seal(job, target, len);
            }
        }
    }
    let gone = |held: &HeldRange| !ranges.contains(&held.range.range());
    for held in header.readonly.held(job).into_iter().filter(gone) {
        forget(world, protection, held.range);
    }
    world.segments.guard(ranges.to_vec());
    Ok(())
}

/// A tile to be decoded: of which shard of which stripe, and where it goes.
struct Task {
    stripe: usize,
    shard: usize,
    step: usize,
    to: StoreTile,
}

struct Decode<'a> {
    world: &'a World,
    shape: &'a GroupLayout,
    range: ReadOnly,
    number: CheckpointNumber,
    /// What each member holds, by place.
    held: Vec<Option<HeldRange>>,
}

/// Decodes the own part of a range and of its parity. The checkpoint that its tiles are sealed as
/// of.
fn decode(
    world: &World,
    protection: &Protection,
    view: &View,
    range: ReadOnly,
) -> Result<CheckpointNumber, Changed> {
    let (shape, place) = protection.place(world.me());
    let of = |&pe: &Pe| if pe == world.me() { None } else { held_of(world, pe, range) };
    let held: Vec<Option<HeldRange>> = shape.members.iter().map(of).collect();
    let Some(number) = held.iter().flatten().map(|held| held.number).max() else {
        unchanged(&world.members, view)?;
        world.members.abort(LOST);
    };
    let decode = Decode { world, shape, range, number, held };
    let tasks = decode.tasks(place);
    let far = shape.members.iter().any(|&pe| world.segments.is_far(pe));
    let rooms = || vec![Room::empty(); shape.members.len()];
    let pull = |batch: &[Task], rooms: &mut [Vec<Room>]| {
        let wanted = batch.iter().zip(rooms);
        let wanted = wanted.flat_map(|(task, rooms)| {
            let sources = decode.plan(task).map_or(Vec::new(), |plan| plan.sources().to_vec());
            sources.into_iter().filter_map(|shard| decode.source(task, shard)).zip(rooms)
        });
        tiles::pull_store(world, wanted);
    };
    let work = |task: &Task, rooms: &mut Vec<Room>| match decode.plan(task) {
        Some(plan) => decode.tile(task, &plan, rooms),
        None => world.members.abort(LOST),
    };
    if let Err(pe) = pipeline::run(&world.store.pool, &tasks, rooms, far, pull, work) {
        unchanged(&world.members, view)?;
        world.found_corrupt(view, pe);
        return Err(Changed);
    }
    Ok(number)
}

impl Decode<'_> {
    fn per_chunk(&self) -> usize {
        self.shape.chunk_len(self.range.len()) / TILE
    }

    /// All that the member at `place` has of the range.
    fn tasks(&self, place: usize) -> Vec<Task> {
        let (layout, per_chunk) = (self.world.segments.layout(), self.per_chunk());
        let (live, parity) = (self.range.live(layout), self.range.parity(layout));
        let mut tasks = Vec::new();
        for nth in 0..self.range.tiles {
            let at = self.shape.layout.place_of(place, nth / per_chunk);
            let (to, step) = (tile_of(self.world, live, nth), nth % per_chunk);
            tasks.push(Task { stripe: at.stripe, shard: at.index, step, to });
        }
        for (nth, at) in self.shape.layout.parities_of(place).iter().enumerate() {
            let shard = self.shape.layout.stripes()[at.stripe].data.len() + at.row;
            let task = |step| {
                let to = tile_of(self.world, parity, nth * per_chunk + step);
                Task { stripe: at.stripe, shard, step, to }
            };
            tasks.extend((0..per_chunk).map(task));
        }
        tasks
    }

    /// How a tile is decoded; None if too many of its stripe are lost.
    fn plan(&self, task: &Task) -> Option<Plan> {
        let stripe = &self.shape.layout.stripes()[task.stripe];
        let lost: Vec<bool> = stripe.holders().map(|member| self.held[member].is_none()).collect();
        self.shape.codes[task.stripe].plan(&lost, task.shard).ok()
    }

    /// Where a shard of a task's stripe is; None for zeroes, which are stored nowhere.
    fn source(&self, task: &Task, shard: usize) -> Option<StoreTile> {
        let stripe = &self.shape.layout.stripes()[task.stripe];
        let (member, run, nth) = match stripe.data.get(shard) {
            Some(data) => {
                let nth = data.chunk * self.per_chunk() + task.step;
                let held = self.held[data.member].filter(|_| nth < self.range.tiles)?;
                (data.member, where_is(self.world, self.range, held.state), nth)
            }
            None => {
                let parity = stripe.parity[shard - stripe.data.len()];
                let run = self.range.parity(self.world.segments.layout());
                (parity.member, run, parity.slot * self.per_chunk() + task.step)
            }
        };
        let (pe, tile) = (self.shape.members[member], TileIndex(run.first.at() + nth));
        Some(StoreTile { pe, region: run.region, tile })
    }

    /// What a tile is decoded from, with the PE of each.
    fn read<'a>(
        &'a self,
        task: &Task,
        plan: &Plan,
        rooms: &'a mut [Room],
    ) -> (Vec<Pe>, Vec<Reading<'a>>) {
        let mut rooms = rooms.iter_mut();
        let read = |&shard: &usize| match self.source(task, shard) {
            None => (self.world.me(), Reading::zeroes()),
            Some(at) => {
                let room = rooms.next().expect("a room for each member");
                (at.pe, tiles::read(self.world, at, self.number, room))
            }
        };
        plan.sources().iter().map(read).unzip()
    }

    /// Decodes a tile from others, which are checked on the way. The error is the PE of one that
    /// does not hold.
    fn tile(&self, task: &Task, plan: &Plan, rooms: &mut [Room]) -> Result<(), Pe> {
        let (pes, mut read) = self.read(task, plan, rooms);
        let sources: Vec<&[u8]> = read.iter().map(|tile| tile.bytes).collect();
        tiles::write(self.world, task.to, self.number, |out, seal| {
            let see = |nth: usize, piece: &[u8]| read[nth].see(piece);
            plan.apply_shown(&sources, out, see, |piece| seal.update(piece))
                .expect("tiles are of one length");
        });
        let bad = pes.into_iter().zip(read).find_map(|(pe, tile)| (!tile.holds()).then_some(pe));
        bad.map_or(Ok(()), Err)
    }
}

// ---- the scrub --------------------------------------------------------------------------------

/// What is kept of the own ranges that are read-only now, with the tiles of each: of the range, and
/// of the parity over it.
fn kept_here(world: &World, protection: &Protection) -> Vec<(HeldRange, usize)> {
    let held = world.segments.own().header().readonly.held(world.job()).into_iter();
    let parity = |range| parity_len(world, protection, range) / TILE;
    let kept = held.filter(|held| held.state == RangeState::Kept);
    kept.map(|held| (held, held.range.tiles + parity(held.range))).collect()
}

/// How many tiles that are.
pub fn held_tiles(world: &World, protection: &Protection) -> usize {
    kept_here(world, protection).into_iter().map(|(_, tiles)| tiles).sum()
}

/// Which range the `nth` of them is in, and which it is there.
fn find(world: &World, protection: &Protection, mut nth: usize) -> Option<(HeldRange, usize)> {
    for (held, tiles) in kept_here(world, protection) {
        match nth.checked_sub(tiles) {
            None => return Some((held, nth)),
            Some(rest) => nth = rest,
        }
    }
    None
}

/// The `nth` of them, and the checkpoint that it is sealed as of.
pub fn tile_at(
    world: &World,
    protection: &Protection,
    nth: usize,
) -> Option<(StoreTile, CheckpointNumber)> {
    let (HeldRange { range, number, .. }, nth) = find(world, protection, nth)?;
    let layout = world.segments.layout();
    let at = match nth.checked_sub(range.tiles) {
        None => tile_of(world, range.live(layout), nth),
        Some(nth) => tile_of(world, range.parity(layout), nth),
    };
    Some((at, number))
}

/// Decodes the `nth` of them from the others of the group and puts it back, if its stamp, or its
/// bytes, say that it was so. The PEs that it was decoded from.
pub fn mend(world: &World, protection: &Protection, nth: usize) -> Option<Vec<Pe>> {
    let (HeldRange { range, number, .. }, nth) = find(world, protection, nth)?;
    let (shape, place) = protection.place(world.me());
    let of = |&pe: &Pe| if pe == world.me() { None } else { held_of(world, pe, range) };
    let held = shape.members.iter().map(of).collect();
    let mut decode = Decode { world, shape, range, number, held };
    let task = decode.tasks(place).into_iter().nth(nth)?;
    let mut bytes = vec![0; TILE];
    let from = loop {
        let plan = decode.plan(&task)?;
        let mut rooms = vec![Room::empty(); shape.members.len()];
        let (pes, read) = decode.read(&task, &plan, &mut rooms);
        let checked = pes.iter().zip(read).map(|(&pe, tile)| tiles::whole(tile).ok_or(pe));
        match checked.collect::<Result<Vec<&[u8]>, Pe>>() {
            Ok(sources) => {
                plan.apply(&sources, &mut bytes).expect("tiles are of one length");
                break pes;
            }
            Err(bad) => decode.held[shape.members.iter().position(|&pe| pe == bad)?] = None,
        }
    };
    let stamp = tiles::stamp_of(world.segments, task.to.region, task.to.tile);
    let there = tiles::unchecked(world.segments, task.to.region, task.to.tile);
    let own = world.stamp(world.me(), number);
    if !own.holds(stamp, &bytes) && there != bytes {
        return None;
    }
    // Through the file: the program may not write there.
    world.segments.write_through(task.to.offset(), &bytes);
    tiles::set_stamp(world.segments, task.to.region, task.to.tile, &own.seal(&bytes));
    let mut from: Vec<Pe> = from.into_iter().filter(|&pe| pe != world.me()).collect();
    from.sort_unstable();
    Some(from)
}
