//! Reading of a PE's store without its help.
//!
//! Invariant: bytes of a snapshot or slot are used only if its record named that checkpoint after
//! they were read (its owner voids the record before it writes there) and the owner had not
//! announced spilled copies of them, which are read in that case; and only if their stamp matches.

#![forbid(unsafe_code)]

use std::sync::atomic::{Ordering, fence};

use raidshmem_core::disk::{Failure, ParityShare};
use raidshmem_core::layout::{STAMP, TILE};
use raidshmem_core::protocol::operation::StorePart;
use raidshmem_core::store::stamp::Stamp;
use raidshmem_segment::header::RegionRecord;
use raidshmem_segment::spill::Kept;

use super::claim::{SnapshotPin, refused};

/// A snapshot or the parity that a PE keeps, tile by tile.
pub trait TileSource {
    /// Returns the bytes of the snapshots of that checkpoint.
    fn line(&self) -> usize;
    /// Returns its own bytes.
    fn len(&self) -> usize;
    /// Returns its number of tiles.
    fn tiles(&self) -> usize {
        self.len().div_ceil(TILE)
    }
    /// Returns a tile, without the bytes beyond the end. Each tile is read once.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    fn tile(&self, nth: usize) -> Result<Vec<u8>, Failure>;
}

/// The snapshot of a checkpoint in the memory of a PE, or the parity that it keeps.
pub struct Source<'a> {
    claim: &'a SnapshotPin,
    stamp: Stamp,
    kind: StorePart,
    /// Index of the snapshot or slot; None if all of it was spilled.
    place: Option<usize>,
    /// Bytes of the snapshots of that checkpoint.
    line: usize,
    /// Its own bytes.
    len: usize,
}

impl TileSource for Source<'_> {
    fn line(&self) -> usize {
        self.line
    }

    fn len(&self) -> usize {
        self.len
    }

    fn tile(&self, tile: usize) -> Result<Vec<u8>, Failure> {
        let (mut bytes, stamp) = self.sealed(tile)?;
        if !self.stamp.holds(&stamp, &bytes) {
            let pe = self.stamp.pe;
            return Err(Failure::Refused(format!("a block of PE {pe} is damaged in memory")));
        }
        self.claim.spill().note_read(self.kind, tile + 1);
        bytes.truncate(self.len - tile * TILE);
        Ok(bytes)
    }
}

impl Source<'_> {
    /// Opens the snapshot of the claimed checkpoint, or its `parity`; its tiles are sealed with
    /// `stamp`.
    ///
    /// # Errors
    /// It was overwritten, and nothing of it was spilled.
    pub fn of(
        claim: &SnapshotPin,
        stamp: Stamp,
        parity: Option<ParityShare>,
    ) -> Result<Source<'_>, Failure> {
        let (header, Stamp { job, number, .. }) = (claim.header(), stamp);
        let (kind, records) = match parity {
            Some(_) => (StorePart::Slot, &header.slots),
            None => (StorePart::Snapshot, &header.snapshots),
        };
        let holds = |place: usize| Some((Some(place), records[place].holds(job, number)?));
        let spill = || claim.spill().kept(kind, number).map(|kept| (None, kept.len));
        let found = [0, 1].into_iter().find_map(holds).or_else(spill);
        let (place, line) = found.ok_or(Failure::Late)?;
        let len = parity.map_or(line, |share| share.tiles(line).saturating_mul(TILE));
        if line.max(len) > claim.layout.region_len {
            return Err(Failure::Refused("memory: a snapshot longer than its place".into()));
        }
        Ok(Source { claim, stamp, kind, place, line, len })
    }

    /// Returns the bytes of a tile and its stamp, in place or from the spill.
    fn sealed(&self, tile: usize) -> Result<(Vec<u8>, [u8; STAMP]), Failure> {
        let layout = &self.claim.layout;
        if let (Some(place), None) = (self.place, self.kept()) {
            let (regions, records) = match self.kind {
                StorePart::Snapshot => (layout.snapshots, &self.claim.header().snapshots),
                StorePart::Slot => (layout.slots, &self.claim.header().slots),
            };
            let read = self.read(regions[place], tile)?;
            // Pairs with the owner's announcement before it writes the first new bytes there.
            fence(Ordering::SeqCst);
            let is_there = self.holds(&records[place]);
            if self.kept().is_none() {
                return if is_there { Ok(read) } else { Err(Failure::Late) };
            }
        }
        match self.kept() {
            Some(Kept { from, tiles: Some(_), .. }) if from <= tile => {
                self.read(layout.spills[self.kind as usize], tile)
            }
            None => Err(Failure::Late),
            Some(_) => Err(Failure::Overtaken),
        }
    }

    fn kept(&self) -> Option<Kept> {
        self.claim.spill().kept(self.kind, self.stamp.number)
    }

    fn holds(&self, record: &RegionRecord) -> bool {
        record.holds(self.stamp.job, self.stamp.number).is_some()
    }

    fn read(&self, region: usize, tile: usize) -> Result<(Vec<u8>, [u8; STAMP]), Failure> {
        let SnapshotPin { part, layout, .. } = self.claim;
        let (mut bytes, mut stamp) = (vec![0; TILE], [0; STAMP]);
        part.read_at(region + tile * TILE, &mut bytes).map_err(|error| refused(&error))?;
        let at = layout.stamps(region) + tile * STAMP;
        part.read_at(at, &mut stamp).map_err(|error| refused(&error))?;
        Ok((bytes, stamp))
    }
}
