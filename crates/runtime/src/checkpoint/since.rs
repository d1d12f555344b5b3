//! The writes since the restart, as one number.
//!
//! Live memory is compared word by word with the snapshot that it was restored from, and the
//! present manifest with the saved one. The number is equal on two PEs that wrote the same values
//! to the same offsets, however much their memory differed. If no snapshot is kept (`single`), a
//! digest of live memory from the restart is compared: then the number only tells if something was
//! written.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use raidshmem_core::layout::TILE;
use raidshmem_core::quantity::{CheckpointNumber, TileIndex};
use raidshmem_core::store::protection::Protection;
use twox_hash::XxHash3_128;

use super::tiles::{self, LiveTile};
use crate::pgas::World;

/// Returns a digest of what differs from checkpoint `number`, restored last; 0 if nothing does.
pub fn written(world: &World, protection: &Protection, number: CheckpointNumber) -> u64 {
    let (at, covered) = (world.segments.layout().manifest, world.memory.covered());
    let Ok(manifest) = world.memory.manifest() else { return 1 };
    let sum =
        AtomicU64::new(differences(0, world.segments.own().bytes(at, manifest.len()), &manifest));
    if protection.mode.keeps_snapshot() {
        let region = protection.snapshot_at(world.segments.layout(), number);
        let compare = |at: usize, scratch: &mut Vec<u8>| {
            let tile = TileIndex::of(at);
            let kept = tiles::unchecked(world.segments, region, tile);
            let live =
                tiles::live(world.segments, LiveTile { pe: world.me(), tile }, &covered, scratch);
            // Relaxed: the end of the loop publishes it.
            sum.fetch_add(differences(tile.offset(), kept, live), Ordering::Relaxed);
        };
        let count = tiles::tiles(covered.len());
        world.store.pool.numbers(0..count, || vec![0; TILE], compare);
    } else {
        sum.fetch_add(live(world) ^ world.sites.resumed(), Ordering::Relaxed);
    }
    sum.into_inner()
}

/// Returns a digest of covered memory, for the case that no snapshot is kept.
pub fn live(world: &World) -> u64 {
    let covered = world.memory.covered();
    let mut scratch = vec![0; TILE];
    let digest = |tile: TileIndex| {
        let bytes =
            tiles::live(world.segments, LiveTile { pe: world.me(), tile }, &covered, &mut scratch);
        (XxHash3_128::oneshot(bytes) as u64).rotate_left(tile.at() as u32)
    };
    TileIndex::all(tiles::tiles(covered.len())).map(digest).fold(0, u64::wrapping_add)
}

/// Returns the sum over all differing words at `offset`, each hashed with its place; 0 if none
/// differs.
fn differences(offset: usize, was: &[u8], is: &[u8]) -> u64 {
    if was == is {
        return 0;
    }
    let words = |bytes: &[u8]| -> Vec<u64> {
        let word =
            |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        bytes.chunks(8).map(word).collect()
    };
    let pairs = words(was).into_iter().zip(words(is)).enumerate();
    let one = |(index, (was, is)): (usize, (u64, u64))| {
        let mixed =
            XxHash3_128::oneshot(&[is, (offset + index * 8) as u64].map(u64::to_le_bytes).concat());
        if was == is { 0 } else { mixed as u64 | 1 }
    };
    pairs.map(one).fold(0, u64::wrapping_add).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_writes_to_unequal_memory_are_equal() {
        let (one, other) = ([1u8; 64], [2u8; 64]);
        let write = |memory: &[u8; 64], at: usize, value: u8| {
            let mut memory = *memory;
            memory[at..at + 8].fill(value);
            memory
        };
        let of = |memory: &[u8; 64], at, value| differences(0, memory, &write(memory, at, value));
        assert_eq!(differences(0, &one, &one), 0);
        assert_eq!(of(&one, 8, 7), of(&other, 8, 7));
        assert_ne!(of(&one, 8, 7), of(&one, 16, 7));
        assert_ne!(of(&one, 8, 7), of(&one, 8, 6));
        assert_ne!(of(&one, 8, 7), 0);
    }
}
