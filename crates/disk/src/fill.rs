//! A part of a PE's store from a file: the tiles of the file are read, checked, written to memory
//! and sealed there, a run of them by one thread at a time.
//!
//! What is written goes through the memory file: without memory that is an error, and not a signal.
//! Its pages come before, huge ones where the job has them. Those of the file go as soon as it was
//! read: else there would be another copy of all in memory.
//!
//! Invariant: a tile has a stamp only if every byte of it is what it is to be.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use raidshmem_core::layout::{STAMP, TILE};
use raidshmem_core::page::{HUGE, PAGE};
use raidshmem_sys::lock;
use rustix::io::Errno;

use super::files::{PeFile, PeHead, SetError, TileRoom};
use super::input::{LoadError, LoadTarget, memory};

/// Tiles of a file that a thread takes at a time: a huge page of memory.
const RUN: usize = HUGE / TILE;

/// What the part is to hold: `begin`, the bytes of the file, `end`, and zeroes as far as its last
/// tile goes.
pub struct Filling<'a> {
    /// Where the part begins in the segment.
    pub region: usize,
    /// Bytes before the zeroes.
    pub len: usize,
    /// The first of them.
    pub begin: &'a [u8],
    /// The last.
    pub end: &'a [u8],
}

impl Filling<'_> {
    /// Bytes of it with the zeroes.
    fn whole(&self) -> usize {
        self.len.next_multiple_of(TILE)
    }

    /// Where the bytes of the file lie in it.
    fn of_file(&self) -> Range<usize> {
        self.begin.len()..self.len - self.end.len()
    }

    /// Where these tiles of the file lie in it.
    fn place(&self, tiles: Range<usize>) -> Range<usize> {
        let Range { start, end } = self.of_file();
        start + tiles.start * TILE..end.min(start + tiles.end * TILE)
    }

    /// The tiles of the file that have bytes of a tile of it.
    fn sources(&self, tile: usize) -> Range<usize> {
        let Range { start, end } = self.of_file();
        let nth = |at: usize| at.clamp(start, end) - start;
        let (from, to) = (nth(tile * TILE), nth((tile + 1) * TILE));
        if from == to { 0..0 } else { from / TILE..to.div_ceil(TILE) }
    }
}

/// A part that is being filled.
struct Filler<'a> {
    target: &'a LoadTarget<'a>,
    filling: &'a Filling<'a>,
    /// Tiles of the file that do not hold.
    damages: Mutex<BTreeMap<usize, SetError>>,
    /// What the system said of the memory.
    bad: Mutex<Option<Errno>>,
}

/// Fills the part. The first tile of the file that does not hold: what it is part of has no stamp.
///
/// # Errors
/// The memory cannot be written.
pub fn fill<H: PeHead + Sync>(
    target: &LoadTarget,
    filling: &Filling,
    file: &PeFile<H>,
) -> Result<Option<SetError>, LoadError> {
    let (damages, bad) = (Mutex::default(), Mutex::default());
    let filler = Filler { target, filling, damages, bad };
    let Filling { region, len, begin, end } = *filling;
    target.ask_huge(region, filling.whole());
    let tiles = filling.of_file().len().div_ceil(TILE);
    let runs = (0..tiles).step_by(RUN).map(|from| from..tiles.min(from + RUN));
    target.pool.each(runs, TileRoom::default, |run, room| filler.run(file, run, room));
    filler.write(0, begin);
    filler.write(len - end.len(), end);
    filler.write(len, &vec![0; filling.whole() - len]);
    let between = |tile: &usize| {
        let sources = filling.sources(*tile);
        let is_inside = |run: usize| {
            let Range { start, end } = filling.place(run * RUN..tiles.min((run + 1) * RUN));
            start <= tile * TILE && (tile + 1) * TILE <= end
        };
        sources.is_empty() || !is_inside(sources.start / RUN)
    };
    (0..filling.whole() / TILE).filter(between).for_each(|tile| filler.seal(tile));
    let Filler { damages, bad, .. } = filler;
    let damages = damages.into_inner().unwrap_or_else(PoisonError::into_inner);
    match bad.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(memory(error)),
        None => Ok(damages.into_values().next()),
    }
}

impl Filler<'_> {
    /// Some tiles of the file, and the seals of those that lie in them whole.
    fn run<H: PeHead>(&self, file: &PeFile<H>, tiles: Range<usize>, room: &mut TileRoom) {
        let place = self.filling.place(tiles.clone());
        let from = (self.filling.region + place.start) / PAGE * PAGE;
        self.target.own.populate(from, self.filling.region + place.end - from);
        for tile in tiles.clone() {
            match file.tile(tile, room) {
                Ok(bytes) => {
                    let Range { start, end } = self.filling.place(tile..tile + 1);
                    self.write(start, &bytes[..end - start]);
                }
                Err(error) => {
                    lock(&self.damages).insert(tile, error);
                }
            }
        }
        file.let_go(tiles);
        let whole = place.start.div_ceil(TILE)..place.end / TILE;
        whole.for_each(|tile| self.seal(tile));
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        self.put(self.filling.region + at, bytes);
    }

    /// Gives a tile that is written its stamp.
    fn seal(&self, tile: usize) {
        let (LoadTarget { own, stamp, .. }, region) = (self.target, self.filling.region);
        let is_damaged = lock(&self.damages).range(self.filling.sources(tile)).next().is_some();
        let seal = match is_damaged {
            true => [0; STAMP],
            false => stamp.seal(own.bytes(region + tile * TILE, TILE)),
        };
        self.put(own.layout().stamps(region) + tile * STAMP, &seal);
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        if let Err(error) = self.target.part.write_at(at, bytes) {
            *lock(&self.bad) = Some(error);
        }
    }
}
