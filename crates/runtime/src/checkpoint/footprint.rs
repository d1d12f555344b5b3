//! Memory of the own store: the amount that a checkpoint takes, and its allocation.

#![forbid(unsafe_code)]

use raidshmem_core::layout::TILE;
use raidshmem_core::store::coverage::Piece;
use raidshmem_core::store::protection::Protection;

use super::tiles;
use crate::pgas::{Segments, StoreBytes, World};

/// Returns the bytes of all snapshots, and of all slots, for snapshots of `len` bytes.
pub fn footprint(segments: &Segments, protection: &Protection, len: usize) -> StoreBytes {
    let (shape, place) = protection.place(segments.me());
    let snapshot = if protection.mode.keeps_snapshot() { tiles::tiles(len) * TILE } else { 0 };
    let slot = shape.parity_len(place, len);
    let (snapshots, slots) = (snapshot * protection.snapshots, slot * protection.mode.slots());
    StoreBytes { snapshots, slots }
}

/// Returns the parts of the own store for snapshots of `len` bytes and for their parity. Once
/// touched, they are backed by huge pages where these fit.
pub fn reserve(segments: &Segments, protection: &Protection, len: usize) -> Vec<Piece> {
    let StoreBytes { snapshots, slots } = footprint(segments, protection, len);
    let (layout, counts) = (segments.layout(), (protection.snapshots, protection.mode.slots()));
    let snapshots =
        layout.snapshots[..counts.0].iter().map(|&at| Piece { at, len: snapshots / counts.0 });
    let slots = layout.slots[..counts.1].iter().map(|&at| Piece { at, len: slots / counts.1 });
    let parts = snapshots.chain(slots);
    parts.inspect(|part| segments.ask_huge(part.at, part.len)).collect()
}

/// Touches the memory by which the store grows, all snapshots and slots at once, so that no later
/// checkpoint pays for it.
pub fn prepare(world: &World, protection: &Protection, len: usize) {
    let (needed, used) = (footprint(world.segments, protection, len), world.store.used());
    if needed.snapshots > used.snapshots || needed.slots > used.slots {
        let parts = reserve(world.segments, protection, len);
        parts.iter().for_each(|part| world.segments.own().populate(part.at, part.len));
    }
}

/// Records how much of the store a checkpoint of `len` bytes occupies.
pub fn account(world: &World, protection: &Protection, len: usize) {
    world.store.note_used(footprint(world.segments, protection, len));
}
