//! The memory of a PE, in miniature: control words, live data, snapshots, two parity slots.
//!
//! A tile is 16 bytes and carries the library's real stamp; everything else that the protocol reads
//! or writes in a PE's memory is a plain word here.

use std::collections::BTreeMap;

use raidshmem_core::layout::STAMP;
use raidshmem_core::plan::StoreFinding;
use raidshmem_core::quantity::{CheckpointNumber, ViewNumber};
use raidshmem_core::store::delta::TileSet;
use raidshmem_core::store::phase::Phase;
use raidshmem_core::store::site::{Called, Progress};
use raidshmem_core::store::stamp::{Renewal, Stamp};
use raidshmem_core::tree::post::WORDS;

use super::mailbox::Half;
use super::watch::Written;

/// Bytes under one stamp.
pub const TILE: usize = 16;

/// Returns the tiles that `len` bytes occupy.
pub fn tiles(len: usize) -> usize {
    len.div_ceil(TILE)
}

/// A snapshot or parity slot: sealed tiles and the record that describes them.
#[derive(Debug, Clone, Default)]
pub struct Region {
    /// Checkpoint held, 0 while it is being written; length of its snapshots.
    pub record: (CheckpointNumber, usize),
    /// The view that names the groups of the parity.
    pub places: ViewNumber,
    bytes: Vec<u8>,
    stamps: Vec<[u8; STAMP]>,
}

impl Region {
    pub fn tile(&self, tile: usize) -> &[u8] {
        self.bytes.get(tile * TILE..(tile + 1) * TILE).unwrap_or(&[0; TILE])
    }

    /// Writes a tile and seals it.
    pub fn write(&mut self, tile: usize, bytes: &[u8], stamp: &Stamp) {
        if self.stamps.len() <= tile {
            self.stamps.resize(tile + 1, [0; STAMP]);
            self.bytes.resize((tile + 1) * TILE, 0);
        }
        self.bytes[tile * TILE..(tile + 1) * TILE].copy_from_slice(bytes);
        self.stamps[tile] = stamp.seal(bytes);
    }

    pub fn holds(&self, tile: usize, stamp: &Stamp) -> bool {
        self.stamps.get(tile).is_some_and(|seal| stamp.holds(seal, self.tile(tile)))
    }

    /// Replaces the old stamp of an unchanged tile with the new one. Returns false if it does not
    /// have the old one.
    pub fn renew(&mut self, tile: usize, old: &Stamp, new: &Stamp) -> bool {
        let Some(stamp) = self.stamps.get_mut(tile) else { return false };
        let renewed = Renewal::new(*old, *new, TILE).of(stamp);
        renewed.inspect(|renewed| *stamp = *renewed).is_some()
    }

    /// Flips the same bit of every tile.
    pub fn flip_all(&mut self, random: u64) {
        let bit = (random % (TILE * 8) as u64) as usize;
        self.bytes.chunks_mut(TILE).for_each(|tile| tile[bit / 8] ^= 1 << (bit % 8));
    }

    /// Flips a bit of the tiles or of their stamps. Returns false if the memory is empty.
    pub fn flip(&mut self, random: u64) -> bool {
        let bits = self.bytes.len() * 8;
        if bits == 0 {
            return false;
        }
        let (bit, stamps) = ((random >> 1) as usize, random & 1 == 1);
        if stamps {
            let stamp = bit / (STAMP * 8) % self.stamps.len();
            self.stamps[stamp][bit / 8 % STAMP] ^= 1 << (bit % 8);
        } else {
            self.bytes[bit % bits / 8] ^= 1 << (bit % 8);
        }
        true
    }
}

/// The state that a PE publishes to all others in the course of the protocol.
#[derive(Debug, Clone, Copy, Default)]
pub struct Posted {
    /// The packed [`Phase`], or 0.
    pub phase: u64,
    /// The checkpoint decided on, plus one.
    pub decision: u64,
    pub findings: StoreFinding,
    pub found_len: usize,
    /// True if it is in `shmem_finalize`.
    pub ending: bool,
    /// Its current call.
    pub call: Called,
}

/// One memory file of a PE.
#[derive(Debug, Clone)]
pub struct Memory {
    pub posted: Posted,
    /// Posts of remote PEs, by PE and half.
    pub mailbox: BTreeMap<(usize, usize), Half>,
    /// Its last posts up and down the tree.
    pub posts: [[u64; WORDS]; 2],
    /// The gate: arrivals, releases.
    pub gate: (u64, u64),
    /// Its process' progress since the restart, and the view of that.
    pub progress: Option<(ViewNumber, Progress)>,
    pub live: Vec<u8>,
    /// The tiles that changed since the last checkpoint, as this PE reports.
    pub changes: TileSet,
    /// Its process' writes to others, as it reports.
    pub written: Written,
    pub snapshots: [Region; 2],
    pub slots: [Region; 2],
}

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            posted: Posted::default(),
            mailbox: BTreeMap::new(),
            posts: [[0; WORDS]; 2],
            gate: (0, 0),
            progress: None,
            live: Vec::new(),
            changes: TileSet::default(),
            written: Written::default(),
            snapshots: Default::default(),
            slots: Default::default(),
        }
    }
}

impl Memory {
    pub fn set_phase(&mut self, phase: Phase) {
        self.posted.phase = phase.pack();
    }

    /// Returns a tile of live data; zeros beyond its end.
    pub fn live_tile(&self, tile: usize) -> [u8; TILE] {
        let mut bytes = [0; TILE];
        let from = (tile * TILE).min(self.live.len());
        let piece = &self.live[from..self.live.len().min(from + TILE)];
        bytes[..piece.len()].copy_from_slice(piece);
        bytes
    }
}

/// A small generator (SplitMix64): the same numbers from the same seed, on every machine.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// Draws a number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}
