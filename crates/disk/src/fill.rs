//! Filling of a part of a PE's store from a file: tiles of the file are read, checked and sealed,
//! each thread taking a run of them at a time.
//!
//! A MiB at a time is read into its place and checked there; tiles that are compressed, or that
//! cannot be read so, one by one. Writes through the memory file would take turns with those of all
//! PEs of the node, as the kernel locks the file. Either way lack of memory is an error, not a
//! signal. Pages are prefaulted, huge ones if the job uses them. Those of the file are released as
//! soon as it was read: otherwise memory would hold another copy of everything.
//!
//! Invariant: a tile has a stamp only if every byte of it is correct.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use raidshmem_core::layout::{STAMP, TILE};
use raidshmem_core::page::{HUGE, PAGE};
use raidshmem_segment::bytes;
use raidshmem_sys::lock;
use rustix::io::Errno;

use super::files::{PeFile, PeHead, SetError, Stretch, TileScratch};
use super::input::{LoadError, LoadTarget, memory};

/// Tiles of a file that a thread takes at a time: a huge page of memory.
const RUN: usize = HUGE / TILE;
/// Tiles of a file that are read at once: they stay in the cache until they are checked.
const READ: usize = (1 << 20) / TILE;

/// The contents of the part: `begin`, the bytes of the file, `end`, and zeroes to the end of its
/// last tile.
pub struct Filling<'a> {
    /// Offset of the part in the segment.
    pub region: usize,
    /// Bytes before the zeroes.
    pub len: usize,
    /// The first of them.
    pub begin: &'a [u8],
    /// The last.
    pub end: &'a [u8],
}

impl Filling<'_> {
    /// Returns its length with the zeroes.
    fn whole(&self) -> usize {
        self.len.next_multiple_of(TILE)
    }

    /// Returns the bytes of it that come from the file.
    fn of_file(&self) -> Range<usize> {
        self.begin.len()..self.len - self.end.len()
    }

    /// Returns the bytes of it that come from these tiles of the file.
    fn place(&self, tiles: Range<usize>) -> Range<usize> {
        let Range { start, end } = self.of_file();
        start + tiles.start * TILE..end.min(start + tiles.end * TILE)
    }

    /// Returns the tiles of the file with bytes in a tile of it.
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
    /// Damaged tiles of the file.
    damages: Mutex<BTreeMap<usize, SetError>>,
    /// The system's error in writing the memory.
    bad: Mutex<Option<Errno>>,
}

/// Fills the part. Returns the error of the first damaged tile of the file; the tiles of memory
/// that contain its bytes get no stamp.
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
    target.pool.each(runs, TileScratch::default, |run, scratch| filler.run(file, run, scratch));
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
    /// Fills in some tiles of the file, and seals the tiles of memory that lie wholly inside.
    fn run<H: PeHead>(&self, file: &PeFile<H>, tiles: Range<usize>, scratch: &mut TileScratch) {
        let place = self.filling.place(tiles.clone());
        let from = (self.filling.region + place.start) / PAGE * PAGE;
        self.target.own.populate(from, self.filling.region + place.end - from);
        let (mut next, mut sealed) = (tiles.start, place.start.div_ceil(TILE));
        while next < tiles.end {
            next = match self.read(file, next..tiles.end.min(next + READ)) {
                Some(end) => end,
                None => {
                    self.copy(file, next, scratch);
                    next + 1
                }
            };
            let whole = self.filling.place(tiles.start..next).end / TILE;
            (sealed..whole).for_each(|tile| self.seal(tile));
            sealed = sealed.max(whole);
        }
        file.let_go(tiles);
    }

    /// Reads the first of some tiles into their place. Returns the first tile that was not read;
    /// None if the first of them cannot be read so.
    fn read<H: PeHead>(&self, file: &PeFile<H>, tiles: Range<usize>) -> Option<usize> {
        let Stretch { tiles, file: holder, at, len } = file.stretch(tiles)?;
        let (own, region) = (self.target.own, self.filling.region);
        let place = self.filling.place(tiles.clone());
        if place.len() != len {
            return None; // other bytes end the part
        }
        bytes::fill(own, (region + place.start, len), (holder, at)).ok()?;
        for tile in tiles.clone() {
            let Range { start, end } = self.filling.place(tile..tile + 1);
            if let Err(error) = file.check(tile, own.bytes(region + start, end - start)) {
                lock(&self.damages).insert(tile, error);
            }
        }
        Some(tiles.end)
    }

    /// Copies a tile, by way of `scratch`.
    fn copy<H: PeHead>(&self, file: &PeFile<H>, tile: usize, scratch: &mut TileScratch) {
        match file.tile(tile, scratch) {
            Ok(bytes) => {
                let Range { start, end } = self.filling.place(tile..tile + 1);
                self.write(start, &bytes[..end - start]);
            }
            Err(error) => _ = lock(&self.damages).insert(tile, error),
        }
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        self.put(self.filling.region + at, bytes);
    }

    /// Stamps a tile that is written.
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
