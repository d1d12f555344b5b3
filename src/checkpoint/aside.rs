//! What a checkpoint is about to overwrite, and is not on disk yet, is copied aside.
//!
//! A PE does so before barrier C, after which others write into its second snapshot. So no
//! checkpoint waits for a disk: it takes at most the time to copy what the disk has not come to.
//!
//! Invariant: nothing here makes a checkpoint fail. Where there is no room, the agent gives up what
//! it writes.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use raidshmem_core::layout::{STAMP, TILE};
use raidshmem_core::protocol::operation::StorePart;
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::store::protection::Protection;
use raidshmem_segment::aside::Kept;
use raidshmem_sys::memory;

use super::tiles;
use crate::pgas::World;

/// To be called before checkpoint `number` overwrites anything in the own store.
pub fn keep(world: &World, protection: &Protection, number: CheckpointNumber) {
    let (header, layout) = (world.segments.own().header(), world.segments.layout());
    let Some(wanted) = header.aside.wanted() else { return };
    let (snapshot, slot) = (protection.snapshot_of(number), protection.slot_of(number));
    let parts = [
        (StorePart::Snapshot, &header.snapshots[snapshot], layout.snapshots[snapshot]),
        (StorePart::Slot, &header.slots[slot], layout.slots[slot]),
    ];
    for (part, record, region) in parts {
        let Some(len) = record.holds(world.job(), wanted) else { continue };
        if header.aside.kept(part, wanted).is_some() {
            continue; // before a loss broke that checkpoint off
        }
        let count = match part {
            StorePart::Snapshot => tiles::tiles(len),
            StorePart::Slot => {
                let (shape, place) = protection.place(world.me());
                shape.layout.parities_of(place).len() * shape.chunk_len(len) / TILE
            }
        };
        let left = header.aside.read(part, count)..count;
        let fits = left.len() <= header.aside.room(wanted) && has_room(world, left.len());
        let copied = fits && copy(world, (region, layout.asides[part as usize]), left.clone());
        let tiles = copied.then_some(left.len());
        header.aside.keep(part, wanted, Kept { from: left.start, tiles, len });
    }
}

/// The machine has room for as many tiles of each PE.
fn has_room(world: &World, tiles: usize) -> bool {
    let need = (tiles * TILE * world.pes_of_machine()) as u64;
    need == 0 || memory::available().is_some_and(|available| available > need)
}

/// Copies tiles with their stamps; false if there was no memory.
fn copy(world: &World, (from, to): (usize, usize), tiles: Range<usize>) -> bool {
    let (own, layout) = (world.segments.own(), world.segments.layout());
    // Through the file: without memory that is an error, and not a signal.
    let put = |at: usize, bytes: &[u8]| world.segments.part().write_at(at, bytes).is_ok();
    let copied = AtomicBool::new(true);
    let copy = |tile: usize, (): &mut ()| {
        if !put(to + tile * TILE, own.bytes(from + tile * TILE, TILE)) {
            copied.store(false, Ordering::Relaxed); // the end of the loop shows it
        }
    };
    world.store.pool.numbers(tiles.clone(), || (), copy);
    let stamps = |region: usize| layout.stamps(region) + tiles.start * STAMP;
    let len = tiles.len() * STAMP;
    copied.into_inner() && (len == 0 || put(stamps(to), own.bytes(stamps(from), len)))
}
