//! The spill of a PE: copies of tiles of a checkpoint that is about to be overwritten before the
//! agent has read them.
//!
//! Invariant: a failure here never fails a checkpoint. If the spill is full, the agent abandons the
//! set that it writes.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use raidshmem_core::layout::{STAMP, TILE};
use raidshmem_core::protocol::operation::StorePart;
use raidshmem_core::quantity::{CheckpointNumber, Pe, TileIndex};
use raidshmem_core::store::protection::Protection;
use raidshmem_segment::Segment;
use raidshmem_segment::spill::Kept;
use raidshmem_sys::memory::{self, Part};
use raidshmem_sys::pool::WorkerPool;

/// The store of a PE, for copying tiles to the spill.
pub struct SpillCopier<'a> {
    /// The memory, mapped.
    pub own: &'a Segment,
    /// The memory.
    pub part: &'a Part,
    /// Its PE.
    pub pe: Pe,
    /// The job.
    pub job: u64,
    /// The job's protection.
    pub protection: &'a Protection,
    /// The threads that copy.
    pub pool: &'a WorkerPool,
    /// PEs of the machine, which may copy as much at the same time.
    pub sharing: usize,
}

impl SpillCopier<'_> {
    /// Copies the tiles that checkpoint `number` overwrites, and that the agent wants but has not
    /// read.
    pub fn keep(&self, number: CheckpointNumber) {
        let (header, layout) = (self.own.header(), self.own.layout());
        let Some(wanted) = header.spill.wanted() else { return };
        let snapshot = self.protection.snapshot_of(number);
        let slot = self.protection.slot_of(number);
        let parts = [
            (StorePart::Snapshot, &header.snapshots[snapshot], layout.snapshots[snapshot]),
            (StorePart::Slot, &header.slots[slot], layout.slots[slot]),
        ];
        for (part, record, region) in parts {
            let Some(len) = record.holds(self.job, wanted) else { continue };
            if header.spill.kept(part, wanted).is_some() {
                continue; // from before a loss interrupted that checkpoint
            }
            let count = self.tiles(part, len);
            let left = header.spill.read(part, count)..count;
            let fits = left.len() <= header.spill.free_tiles(wanted) && self.has_memory(left.len());
            let copied = fits && self.copy((region, layout.spills[part as usize]), left.clone());
            let tiles = copied.then_some(left.len());
            header.spill.keep(part, wanted, Kept { from: left.start, tiles, len });
        }
    }

    /// Returns the tiles of a part of the store, for snapshots of `len` bytes.
    fn tiles(&self, part: StorePart, len: usize) -> usize {
        let (shape, place) = self.protection.place(self.pe);
        match part {
            StorePart::Snapshot => len.div_ceil(TILE),
            StorePart::Slot => shape.parity_len(place, len) / TILE,
        }
    }

    /// Returns true if the machine has memory for `tiles` tiles of each PE.
    fn has_memory(&self, tiles: usize) -> bool {
        let need = (tiles * TILE * self.sharing) as u64;
        need == 0 || memory::available().is_some_and(|available| available > need)
    }

    /// Copies tiles with their stamps; returns false if there was no memory.
    fn copy(&self, (from, to): (usize, usize), tiles: Range<usize>) -> bool {
        // Through the file: lack of memory is then an error, not a signal.
        let put = |at: usize, bytes: &[u8]| self.part.write_at(at, bytes).is_ok();
        let copied = AtomicBool::new(true);
        let copy = |nth: usize, (): &mut ()| {
            let tile = TileIndex::of(nth).offset();
            if !put(to + tile, self.own.bytes(from + tile, TILE)) {
                copied.store(false, Ordering::Relaxed); // checked after the loop
            }
        };
        self.pool.numbers(tiles.clone(), || (), copy);
        let stamps = |region: usize| self.own.layout().stamps(region) + tiles.start * STAMP;
        let len = tiles.len() * STAMP;
        copied.into_inner() && (len == 0 || put(stamps(to), self.own.bytes(stamps(from), len)))
    }
}
