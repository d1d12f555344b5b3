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
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::store::protection::Protection;
use raidshmem_segment::Segment;
use raidshmem_segment::aside::Kept;
use raidshmem_sys::memory::{self, Part};
use raidshmem_sys::pool::WorkerPool;

use super::tiles;
use crate::pgas::World;

/// To be called before checkpoint `number` overwrites anything in the own store.
pub fn keep(world: &World, protection: &Protection, number: CheckpointNumber) {
    let (segments, pool) = (world.segments, &world.store.pool);
    let (own, part, pe, job) = (segments.own(), segments.part(), segments.me(), world.job());
    Keeper { own, part, pe, job, protection, pool, sharing: world.pes_of_machine() }.keep(number);
}

/// The store of a PE, for who copies.
pub struct Keeper<'a> {
    /// The memory, mapped.
    pub own: &'a Segment,
    /// The memory.
    pub part: &'a Part,
    /// Its PE.
    pub pe: Pe,
    /// The job.
    pub job: u64,
    /// How it is protected.
    pub protection: &'a Protection,
    /// Who copies.
    pub pool: &'a WorkerPool,
    /// PEs of the machine, which may copy as much at the same time.
    pub sharing: usize,
}

impl Keeper<'_> {
    /// Copies what the agent wants, and has not read, of what checkpoint `number` overwrites.
    pub fn keep(&self, number: CheckpointNumber) {
        let (header, layout) = (self.own.header(), self.own.layout());
        let Some(wanted) = header.aside.wanted() else { return };
        let snapshot = self.protection.snapshot_of(number);
        let slot = self.protection.slot_of(number);
        let parts = [
            (StorePart::Snapshot, &header.snapshots[snapshot], layout.snapshots[snapshot]),
            (StorePart::Slot, &header.slots[slot], layout.slots[slot]),
        ];
        for (part, record, region) in parts {
            let Some(len) = record.holds(self.job, wanted) else { continue };
            if header.aside.kept(part, wanted).is_some() {
                continue; // before a loss broke that checkpoint off
            }
            let count = self.tiles(part, len);
            let left = header.aside.read(part, count)..count;
            let fits = left.len() <= header.aside.room(wanted) && self.has_memory(left.len());
            let copied = fits && self.copy((region, layout.asides[part as usize]), left.clone());
            let tiles = copied.then_some(left.len());
            header.aside.keep(part, wanted, Kept { from: left.start, tiles, len });
        }
    }

    /// Tiles of a part of the store, of snapshots of `len` bytes.
    fn tiles(&self, part: StorePart, len: usize) -> usize {
        let (shape, place) = self.protection.place(self.pe);
        match part {
            StorePart::Snapshot => tiles::tiles(len),
            StorePart::Slot => shape.layout.parities_of(place).len() * shape.chunk_len(len) / TILE,
        }
    }

    /// The machine has memory for as many tiles of each PE.
    fn has_memory(&self, tiles: usize) -> bool {
        let need = (tiles * TILE * self.sharing) as u64;
        need == 0 || memory::available().is_some_and(|available| available > need)
    }

    /// Copies tiles with their stamps; false if there was no memory.
    fn copy(&self, (from, to): (usize, usize), tiles: Range<usize>) -> bool {
        // Through the file: without memory that is an error, and not a signal.
        let put = |at: usize, bytes: &[u8]| self.part.write_at(at, bytes).is_ok();
        let copied = AtomicBool::new(true);
        let copy = |tile: usize, (): &mut ()| {
            if !put(to + tile * TILE, self.own.bytes(from + tile * TILE, TILE)) {
                copied.store(false, Ordering::Relaxed); // the end of the loop shows it
            }
        };
        self.pool.numbers(tiles.clone(), || (), copy);
        let stamps = |region: usize| self.own.layout().stamps(region) + tiles.start * STAMP;
        let len = tiles.len() * STAMP;
        copied.into_inner() && (len == 0 || put(stamps(to), self.own.bytes(stamps(from), len)))
    }
}
