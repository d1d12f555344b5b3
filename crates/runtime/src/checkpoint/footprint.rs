//! Memory of the own store: its allocation, and how much of it checkpoints occupy.

#![forbid(unsafe_code)]

use raidshmem_core::store::coverage::Piece;
use raidshmem_core::store::protection::Protection;

use crate::pgas::{Segments, StoreBytes, World};

/// Returns the bytes of all snapshots, and of all slots, for snapshots of `len` bytes.
pub fn footprint(segments: &Segments, protection: &Protection, len: usize) -> StoreBytes {
    let slots = protection.slots_len(segments.me(), len);
    StoreBytes { snapshots: protection.snapshots_len(len), slots }
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
