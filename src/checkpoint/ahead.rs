//! Memory that the next checkpoint will take, touched when the heap grows, so that the first
//! checkpoint costs what the later ones do.
//!
//! What is touched: the new block itself, which a checkpoint reads whether the program has written
//! it or not; the part of the own store that awaits it; and the peers' pages that this PE will read
//! for its parity. Only in a job that keeps checkpoints.
//!
//! Invariant: nothing here decides whether a checkpoint can be made, and a failure is no error:
//! what is not touched here is faulted in later. Memory that would not be given to a checkpoint
//! (`SHMEM_FT_MEMORY_LIMIT`), or of which the machine is short, is left alone.

#![forbid(unsafe_code)]

use super::{prepare, room, tiles};
use crate::pgas::World;
use crate::segment::layout::TILE;
use crate::store::coverage::Coverage;
use crate::store::protection::Protection;

/// Growth of the heap that is not worth a look, in bytes.
const LITTLE: usize = 1 << 20;

/// To be called when the block of `len` bytes at `offset` of the heap is new.
pub fn touch(world: &World, offset: usize, len: usize) {
    let Some(protection) = world.protection().filter(|_| !world.faulted()) else { return };
    let (had, _) = world.store_used();
    // Small blocks one after the other are taken together; the last are left to the checkpoint.
    if world.heap_usage().1 <= had + LITTLE.max(had / 16) {
        return;
    }
    let Ok(coverage) = world.cover() else { return };
    if !affordable(world, protection, coverage.len(), len) {
        return;
    }
    world.segment().populate(world.layout().heap + offset, len, true);
    prepare(world, protection, coverage.len());
    super::account(world, protection, coverage.len());
    look(world, protection, &coverage);
}

/// True if all PEs together may take the store for `len` bytes, and with it and the new block would
/// take at most half of what the machine has free.
fn affordable(world: &World, protection: &Protection, len: usize, block: usize) -> bool {
    let (snapshot, slots) = room(world, protection, len);
    let (hold, pes) = ((snapshot + slots) as u64, world.n_pes() as u64);
    let available = crate::sys::memory::available().unwrap_or(0);
    let limit = world.settings().memory_limit.unwrap_or(u64::MAX);
    hold.saturating_mul(pes) <= limit && (hold + block as u64).saturating_mul(pes) <= available / 2
}

/// Maps the peers' pages that this PE protects.
pub fn look(world: &World, protection: &Protection, coverage: &Coverage) {
    let (shape, place) = protection.place(world.me());
    let chunk = shape.chunk_len(coverage.len());
    for parity in shape.layout.parities_of(place) {
        for data in &shape.layout.stripes()[parity.stripe].data {
            let from = data.chunk * chunk / TILE;
            tiles::map(world, shape.members[data.member], coverage, from..from + chunk / TILE);
        }
    }
}
