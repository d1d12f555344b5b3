//! Repair of a damaged spot of the own store: a tile from the group's tiles, a record from what is
//! left of it.

use raidshmem_core::layout::TILE;
use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::quantity::{CheckpointNumber, Pe, TileIndex};
use raidshmem_core::store::grouped::Grouped;
use raidshmem_core::store::protection::Protection;
use raidshmem_segment::header::RegionRecord;
use raidshmem_sys::lock;

use super::patrol::Spot;
use crate::checkpoint::tiles::{self, StoreTile};
use crate::pgas::{Segments, World};
use crate::recovery::decode::Shards;
use crate::recovery::readonly;

/// Returns the records of the agreed checkpoint: of the snapshot, and of its parity slot.
pub fn records<'a>(
    segments: &'a Segments,
    protection: &Protection,
    number: CheckpointNumber,
) -> [&'a RegionRecord; 2] {
    let header = segments.own().header();
    [&header.snapshots[protection.snapshot_of(number)], &header.slots[protection.slot_of(number)]]
}

/// Returns the bytes of the snapshot of checkpoint `number`, if a record of it is valid.
pub fn length(world: &World, protection: &Protection, number: CheckpointNumber) -> Option<usize> {
    records(world.segments, protection, number).iter().find_map(|r| r.holds(world.job(), number))
}

/// Returns the tile of the own store at a spot, and the checkpoint of its seal; None for the
/// header.
pub fn tile_of(
    world: &World,
    protection: &Protection,
    spot: Spot,
    number: CheckpointNumber,
) -> Option<(StoreTile, CheckpointNumber)> {
    let (segments, layout) = (world.segments, world.segments.layout());
    let (region, tile) = match spot {
        Spot::Header => return None,
        Spot::Snapshot(tile) => (protection.snapshot_at(layout, number), tile),
        Spot::Parity(tile) => (layout.slots[protection.slot_of(number)], tile),
        Spot::ReadOnly(nth) => return readonly::tile_at(world, protection, nth),
    };
    let at = StoreTile { pe: segments.me(), region, tile: TileIndex::of(tile) };
    Some((at, number))
}

/// Returns true if a member of the own group is lost, and its tiles with it.
pub fn misses_member(world: &World, protection: &Protection) -> bool {
    let (shape, _) = protection.place(world.me());
    shape.members.iter().any(|&pe| world.fewer.is_lost(pe))
}

/// Repairs `spot` of checkpoint `number`. Returns None if a call of the program holds the store
/// lock or the job is faulted; else the PEs that the spot was repaired from, or None if too much
/// else is damaged as well: then the next checkpoint is a full one here.
pub fn repair(
    world: &World,
    protection: &Protection,
    spot: Spot,
    number: CheckpointNumber,
) -> Option<Option<Vec<Pe>>> {
    let _turn = world.store.lock.try_lock()?;
    let misses = world.members.faulted() || misses_member(world, protection);
    if misses || world.store.agreed() != number {
        return None;
    }
    let repaired = put_right(world, protection, spot, number);
    if repaired.is_none() {
        // The next checkpoint must write it again, changed or not, and all parity over it.
        *lock(&world.store.history) = None;
    }
    Some(repaired)
}

fn put_right(
    world: &World,
    protection: &Protection,
    spot: Spot,
    number: CheckpointNumber,
) -> Option<Vec<Pe>> {
    let len = length(world, protection, number)?;
    let Some((at, sealed)) = tile_of(world, protection, spot, number) else {
        let grouped = Grouped { number, places: protection.places };
        let records = records(world.segments, protection, number);
        records.iter().for_each(|record| record.seal_of(world.job(), grouped, len));
        return Some(Vec::new());
    };
    let mut bytes = vec![0; TILE];
    let mut from = match spot {
        Spot::ReadOnly(nth) => readonly::recover(world, protection, nth, &mut bytes)?,
        _ => decode(world, protection, spot, (number, len), &mut bytes)?,
    };
    if !proven(world, at, sealed, &bytes) {
        return None;
    }
    if let Spot::ReadOnly(_) = spot {
        // Through the file, because the program may not write there.
        world.segments.guarded().write(at.offset(), &bytes);
        let stamp = world.stamp(world.me(), sealed).seal(&bytes);
        tiles::set_stamp(world.segments, at.region, at.tile, &stamp);
    } else {
        tiles::put(world, at, sealed, &bytes);
    }
    from.sort_unstable();
    Some(from)
}

/// Returns true if `bytes` are proven to be the tile's contents: they match its stamp, or they
/// match the tile and only the stamp was damaged. If both are damaged, the next checkpoint or a
/// recovery repairs the tile.
fn proven(world: &World, at: StoreTile, number: CheckpointNumber, bytes: &[u8]) -> bool {
    let stamp = tiles::stamp_of(world.segments, at.region, at.tile);
    let there = tiles::unchecked(world.segments, at.region, at.tile);
    let holds = world.stamp(world.me(), number).holds(stamp, bytes) || there == bytes;
    holds || breaks(Mutant::UnprovenPutBack)
}

/// Decodes the tile at `spot` from the others of its stripe. An invalid source counts as lost too.
/// Returns the PEs whose tiles were used; None if there are not enough.
fn decode(
    world: &World,
    protection: &Protection,
    spot: Spot,
    (number, len): (CheckpointNumber, usize),
    out: &mut [u8],
) -> Option<Vec<Pe>> {
    let (shape, place) = protection.place(world.me());
    let shards = Shards::of_checkpoint(world, protection, shape, (number, len));
    let own = match spot {
        Spot::Header | Spot::ReadOnly(_) => None,
        Spot::Snapshot(tile) => Some(shards.data(place, tile)),
        Spot::Parity(tile) => shards.parity(place, tile),
    }?;
    let mut lost = vec![false; shape.layout.stripes()[own.stripe].holders().count()];
    lost[own.shard] = true;
    shards.recover(own, lost, &mut Vec::new(), out)
}
