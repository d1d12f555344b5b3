//! Reading the store of a PE without its help.
//!
//! Invariant: bytes of a snapshot or slot are believed only if its record spoke of that checkpoint
//! before and after they were read (its owner voids the record before it writes there), and only if
//! their stamp holds.

#![forbid(unsafe_code)]

use std::sync::atomic::{Ordering, fence};

use raidshmem_core::disk::{Failure, ParityShare};
use raidshmem_core::layout::{Layout, STAMP, TILE};
use raidshmem_core::quantity::{CheckpointNumber, Incarnation, Pe};
use raidshmem_core::store::stamp::Stamp;
use raidshmem_segment::Headed;
use raidshmem_segment::header::RegionRecord;
use raidshmem_sys::memory::Part;

/// The snapshot of a checkpoint in the memory of a PE, or the parity that it keeps.
pub struct Source {
    part: Part,
    layout: Layout,
    headed: Headed,
    stamp: Stamp,
    /// Which of the two snapshots or slots.
    place: usize,
    /// It is a slot.
    is_parity: bool,
    /// Bytes of the snapshots of that checkpoint.
    pub line: usize,
    /// Its own bytes.
    pub len: usize,
}

/// Whose memory it is.
#[derive(Debug, Clone, Copy)]
pub struct MemoryOwner {
    pub job: u64,
    pub pe: Pe,
    /// Tiles in memory have checksums.
    pub checksum: bool,
}

impl Source {
    /// The snapshot of checkpoint `number`, or that `parity`.
    ///
    /// # Errors
    /// It is not there any more, or the memory cannot be mapped.
    pub fn of(
        part: Part,
        layout: Layout,
        owner: MemoryOwner,
        number: CheckpointNumber,
        parity: Option<ParityShare>,
    ) -> Result<Source, Failure> {
        let refused = |error: rustix::io::Errno| Failure::Refused(format!("memory: {error}"));
        let headed = Headed::of(&part, &layout).map_err(refused)?;
        let MemoryOwner { job, pe, checksum } = owner;
        let is_parity = parity.is_some();
        let holds = |place: usize| record(&headed, is_parity, place).holds(job, number);
        let found = [0, 1].into_iter().find_map(|place| Some((place, holds(place)?)));
        let (place, line) = found.ok_or(Failure::Overtaken)?;
        let len = parity.map_or(line, |share| share.tiles(line).saturating_mul(TILE));
        if line.max(len) > layout.region_len {
            return Err(Failure::Refused("memory: a snapshot longer than its place".into()));
        }
        // Any process that was the PE may have written a tile.
        let incarnation = Incarnation(u32::MAX);
        let stamp = Stamp { number, job, pe, incarnation, whole: checksum };
        Ok(Source { part, layout, headed, stamp, place, is_parity, line, len })
    }

    /// Tiles that it has.
    pub fn tiles(&self) -> usize {
        self.len.div_ceil(TILE)
    }

    /// A tile of it, as far as it has bytes.
    ///
    /// # Errors
    /// It was overwritten meanwhile, or is damaged.
    pub fn tile(&self, tile: usize) -> Result<Vec<u8>, Failure> {
        let refused = |error: rustix::io::Errno| Failure::Refused(format!("memory: {error}"));
        let regions = if self.is_parity { self.layout.slots } else { self.layout.snapshots };
        let region = regions[self.place];
        let (mut bytes, mut stamp) = (vec![0; TILE], [0; STAMP]);
        self.part.read_at(region + tile * TILE, &mut bytes).map_err(refused)?;
        let at = self.layout.stamps(region) + tile * STAMP;
        self.part.read_at(at, &mut stamp).map_err(refused)?;
        // Pairs with the owner's voiding of the record before it writes the first of new bytes.
        fence(Ordering::SeqCst);
        let record = record(&self.headed, self.is_parity, self.place);
        if record.holds(self.stamp.job, self.stamp.number).is_none() {
            return Err(Failure::Overtaken);
        }
        if !self.stamp.holds(&stamp, &bytes) {
            let pe = self.stamp.pe;
            return Err(Failure::Refused(format!("a block of PE {pe} is damaged in memory")));
        }
        bytes.truncate(self.len - tile * TILE);
        Ok(bytes)
    }
}

fn record(headed: &Headed, is_parity: bool, place: usize) -> &RegionRecord {
    let header = headed.header();
    let records = if is_parity { &header.slots } else { &header.snapshots };
    &records[place]
}
