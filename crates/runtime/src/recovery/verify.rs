//! The check of the own store, and the findings of the other members of the group.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use raidshmem_core::layout::TILE;
use raidshmem_core::message::RecoveryStep;
use raidshmem_core::plan::{self, StoreFinding, Unrecoverable, bits};
use raidshmem_core::quantity::{CheckpointNumber, Pe, TileIndex};
use raidshmem_core::status::PeerStatus;
use raidshmem_core::store::protection::Protection;

use super::damaged::damaged;
use super::readonly;
use crate::checkpoint::tiles::{self, StoreTile};
use crate::pgas::World;

/// Checks the own store as of checkpoint `target` and publishes missing and damaged chunks. With
/// `all` it checks every tile, otherwise only the presence of a snapshot and of parity; tiles are
/// then checked on use in this recovery: in a rebuild, when live memory is restored, and at the end
/// for parity not used by then. Sets `empty` if there is neither snapshot nor parity.
pub fn verify(
    world: &World,
    protection: &Protection,
    target: CheckpointNumber,
    all: bool,
    empty: &mut bool,
) {
    world.members.report_step(RecoveryStep::Verify);
    let (shape, place) = protection.place(world.me());
    let header = world.segments.own().header();
    let slot = protection.slot_of(target);
    let whole = StoreFinding::lost(&shape.layout, place);
    let mut found = whole;
    world.segments.unshadow();
    let lacks = all && readonly::void_damaged(world, protection, target);
    let snapshot = header.snapshots[protection.snapshot_of(target)].holds(world.job(), target);
    let parity = header.slots[slot].holds(world.job(), target);
    if let Some(len) = snapshot.filter(|_| protection.mode.keeps_snapshot()) {
        let per_chunk = shape.chunk_len(len) / TILE;
        let region = protection.snapshot_at(world.segments.layout(), target);
        if world.members.is_new() {
            let first = StoreTile { pe: world.me(), region, tile: TileIndex(0) };
            tiles::map_store(world.segments, first, tiles::tiles(len));
        }
        let count = if all { tiles::tiles(len) } else { 0 };
        found.snapshot = damaged(world, region, 0..count, per_chunk, target);
    }
    if let Some(len) = parity {
        let per_chunk = shape.chunk_len(len) / TILE;
        let region = world.segments.layout().slots[slot];
        let held = shape.parity_len(place, len) / TILE;
        if world.members.is_new() {
            let first = StoreTile { pe: world.me(), region, tile: TileIndex(0) };
            tiles::map_store(world.segments, first, held);
        }
        let count = if all { held } else { 0 };
        found.parity = damaged(world, region, 0..count, per_chunk, target);
    }
    if lacks {
        found = whole; // a missing range has no finding of its own
    }
    *empty |= snapshot.is_none() && parity.is_none();
    let words = &world.segments.own().words().findings;
    words.snapshot.store(found.snapshot, Ordering::SeqCst);
    words.parity.store(found.parity, Ordering::SeqCst);
    words.empty.store(u64::from(*empty), Ordering::SeqCst);
    words.len.store(snapshot.or(parity).unwrap_or(0) as u64, Ordering::SeqCst);
}

/// Returns the findings of the members of the own group, by place, if snapshots are `len` bytes
/// long.
pub fn findings(world: &World, protection: &Protection, len: u64) -> Vec<StoreFinding> {
    let (shape, _) = protection.place(world.me());
    let finding = |(place, &pe): (usize, &Pe)| {
        let PeerStatus { bad_snapshot, bad_parity, found_len, found_empty } =
            world.comm.status_of(pe);
        match found_len == len {
            true => {
                StoreFinding { snapshot: bad_snapshot, parity: bad_parity, empty: found_empty == 1 }
            }
            false => StoreFinding::lost(&shape.layout, place),
        }
    };
    shape.members.iter().enumerate().map(finding).collect()
}

/// Returns the plan's verdict on the own group.
pub fn check(
    world: &World,
    protection: &Protection,
    findings: &[StoreFinding],
) -> Result<(), Unrecoverable> {
    let group = protection.plan.of[world.me().at()].group;
    let (shape, keeps) = (&protection.shapes[group], protection.mode.keeps_snapshot());
    plan::check(group, &shape.layout, &shape.members, findings, keeps)
}

/// Returns true if, by the findings, the own snapshot is incomplete.
pub fn misses_snapshot(world: &World, protection: &Protection, findings: &[StoreFinding]) -> bool {
    let (shape, place) = protection.place(world.me());
    findings[place].snapshot & bits(shape.layout.chunks()) != 0
}
