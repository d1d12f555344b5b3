//! The file of a PE, and what it makes of the PE's memory.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use raidshmem_archive::part::{Area, Extent, Head};
use raidshmem_core::layout::{Layout, STAMP, TILE};
use raidshmem_core::store::coverage::Coverage;
use raidshmem_core::store::private::{self, Saved};
use raidshmem_core::store::protection::Protection;
use raidshmem_core::store::stamp::Stamp;
use raidshmem_segment::header::Header;
use raidshmem_sys::lock;
use raidshmem_sys::memory::Part;
use raidshmem_sys::pool::WorkerPool;

use super::files::{PeFile, SetError};

/// Tiles that are read at a time.
const BATCH: usize = 256;

/// Why memory cannot be filled.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file does not hold.
    #[error("--resume: {0}")]
    Set(#[from] SetError),
    /// Another build of the program wrote it, and this one has not all that was saved.
    #[error("--resume: {} was written by another build of the program: {why}", .path.display())]
    Build {
        /// Which file.
        path: PathBuf,
        /// What does not fit.
        why: String,
    },
    /// The file is in no folder of the node.
    #[error("--resume: no disk here has {0}")]
    Nowhere(&'static str),
    /// Its memory does not fit into that of this job.
    #[error("--resume: {}: {why}", .path.display())]
    Misfit {
        /// Which file.
        path: PathBuf,
        /// What does not fit.
        why: &'static str,
    },
    /// The memory of the PE cannot be written, or the program not be read.
    #[error("--resume: {what}: {error}")]
    System {
        /// What was done.
        what: &'static str,
        /// What the system says.
        error: std::io::Error,
    },
}

/// The memory that is filled.
pub struct LoadTarget<'a> {
    /// Its bytes.
    pub part: &'a Part,
    /// Where its parts are.
    pub layout: &'a Layout,
    /// The header of its store.
    pub header: &'a Header,
    /// How the job is protected.
    pub protection: &'a Protection,
    /// What its tiles are sealed with.
    pub stamp: Stamp,
    /// The node of the process.
    pub node: u32,
    /// How many PEs there are.
    pub n_pes: u32,
    /// Who reads, checks and seals.
    pub pool: &'a WorkerPool,
}

impl LoadError {
    /// The file is lost, and not one that does not fit.
    pub fn is_loss(&self) -> bool {
        matches!(self, LoadError::Set(_) | LoadError::Nowhere(_))
    }
}

/// The system does not let the memory be written.
pub fn memory(error: rustix::io::Errno) -> LoadError {
    LoadError::System { what: "memory of the PE", error: error.into() }
}

/// The file of a PE.
pub struct Input {
    /// Its head, and its tiles.
    pub file: PeFile<Head>,
}

/// What a snapshot is to be.
pub struct Line {
    /// What of memory it is of.
    pub coverage: Coverage,
    /// The manifest that it begins with.
    pub begin: Vec<u8>,
    /// Its last bytes, where they are not those of the file.
    pub end: Vec<u8>,
}

impl Input {
    /// Its memory does not fit.
    pub fn misfit(&self, why: &'static str) -> LoadError {
        LoadError::Misfit { path: self.file.path.clone(), why }
    }

    /// The bytes of these tiles, and which of them do not hold.
    fn tiles(
        &self,
        range: Range<usize>,
        pool: &WorkerPool,
    ) -> (Vec<u8>, BTreeMap<usize, SetError>) {
        let rooms: Vec<Mutex<Vec<u8>>> = range.clone().map(|_| Mutex::default()).collect();
        let damages = Mutex::new(BTreeMap::new());
        let read = |tile: usize, (): &mut ()| {
            if let Err(error) = self.file.tile(tile, &mut lock(&rooms[tile - range.start])) {
                lock(&damages).insert(tile, error);
            }
        };
        pool.numbers(range.clone(), || (), read);
        let bytes = rooms.iter().flat_map(|room| std::mem::take(&mut *lock(room))).collect();
        (bytes, damages.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Bytes of what is saved.
    ///
    /// # Errors
    /// A tile of them does not hold.
    pub fn bytes(&self, range: Range<u64>, pool: &WorkerPool) -> Result<Vec<u8>, LoadError> {
        let first = (range.start / TILE as u64) as usize;
        let from = first as u64 * TILE as u64;
        let tiles = first..range.end.div_ceil(TILE as u64) as usize;
        let (mut bytes, mut damages) = self.tiles(tiles, pool);
        if let Some((_, error)) = damages.pop_first() {
            return Err(error.into());
        }
        bytes.truncate((range.end - from) as usize);
        Ok(bytes.split_off((range.start - from) as usize))
    }

    /// What the memory covers.
    ///
    /// # Errors
    /// It does not fit, or private memory does not hold.
    pub fn line(&self, target: &LoadTarget) -> Result<Line, LoadError> {
        let (layout, head) = (target.layout, &self.file.head);
        if !head.begin.is_empty() {
            let parsed = Coverage::parse(layout, &head.begin);
            let parsed = parsed.map_err(|_| self.misfit("its manifest does not fit"))?;
            return self.of_its_extents(layout, parsed.coverage, head.begin.clone());
        }
        let is_static = |extent: &&Extent| extent.area == Area::Statics;
        let statics = head.extents.iter().filter(is_static).map(|extent| place(layout, extent));
        let (coverage, begin) = self.build(target, &statics.collect::<Vec<_>>())?;
        self.of_its_extents(layout, coverage, begin)
    }

    /// What the memory covers if these are the statics, and the manifest that it begins with.
    ///
    /// # Errors
    /// As above.
    pub fn build(
        &self,
        target: &LoadTarget,
        statics: &[Range<usize>],
    ) -> Result<(Coverage, Vec<u8>), LoadError> {
        let (layout, pool, head) = (target.layout, target.pool, &self.file.head);
        let from: u64 = head.extents.iter().map(|extent| extent.len).sum();
        let contents = self.bytes(from..head.data_len(), pool)?;
        let mut rest = contents.as_slice();
        let saved = head.regions.iter().map(|region| {
            let (contents, tail) = rest.split_at(region.len as usize);
            rest = tail;
            Saved { name: &region.name, contents }
        });
        let private = private::encode(saved.collect::<Vec<_>>().into_iter());
        let excluded = head.excluded.iter().map(|extent| place(layout, extent));
        let excluded: Vec<Range<usize>> = excluded.collect();
        let heap = head.allocator();
        let heap =
            heap.map_err(|error| SetError::Format { path: self.file.path.clone(), error })?;
        let built = Coverage::build(layout, statics, &heap, &excluded, &private);
        built.map_err(|_| self.misfit("its manifest does not fit"))
    }

    /// The line that begins so, if the rest are the extents of the file.
    fn of_its_extents(
        &self,
        layout: &Layout,
        coverage: Coverage,
        begin: Vec<u8>,
    ) -> Result<Line, LoadError> {
        let covered = coverage.pieces(begin.len()..coverage.len());
        let covered = covered.map(|piece| piece.at..piece.at + piece.len);
        match covered.eq(self.file.head.extents.iter().map(|extent| place(layout, extent))) {
            true => Ok(Line { coverage, begin, end: Vec::new() }),
            false => Err(self.misfit("its extents are not those of its heap")),
        }
    }

    /// Writes the line, with the bytes of the file between its begin and its end, as the tiles of a
    /// snapshot. The first tile of the file that does not hold: what it is part of has no stamp.
    ///
    /// # Errors
    /// The memory cannot be written.
    pub fn fill(
        &self,
        target: &LoadTarget,
        place: usize,
        line: Line,
    ) -> Result<Option<SetError>, LoadError> {
        let region = target.layout.snapshots[place];
        let stamps = target.layout.stamps(region);
        let Line { coverage, begin, end } = line;
        let (begun, mut gaps, mut first) = (begin.len(), BTreeSet::new(), None);
        let len = coverage.len() - end.len();
        let files = (len - begin.len()).div_ceil(TILE);
        let (mut line, mut next, mut done) = (begin, 0, 0);
        loop {
            let batch = next..files.min(next + BATCH);
            next = batch.end;
            let (bytes, damages) = self.tiles(batch, target.pool);
            line.extend(bytes);
            for (tile, error) in damages {
                let at = begun + tile * TILE;
                gaps.extend([at / TILE, at.div_ceil(TILE)]);
                first.get_or_insert(error);
            }
            if next == files {
                line.truncate(len - done * TILE);
                line.extend(&end);
                line.resize(line.len().next_multiple_of(TILE), 0);
            }
            let (whole, bad) = (line.len() / TILE, Mutex::new(None));
            let write = |tile: usize, (): &mut ()| {
                let bytes = &line[tile * TILE..][..TILE];
                let at = done + tile;
                let written = target.part.write_at(region + at * TILE, bytes);
                let whole = || target.stamp.seal(bytes);
                let seal = if gaps.contains(&at) { [0; STAMP] } else { whole() };
                let sealed =
                    written.and_then(|()| target.part.write_at(stamps + at * STAMP, &seal));
                sealed.unwrap_or_else(|error| *lock(&bad) = Some(error));
            };
            target.pool.numbers(0..whole, || (), write);
            if let Some(error) = lock(&bad).take() {
                return Err(memory(error));
            }
            if next == files {
                return Ok(first);
            }
            done += whole;
            line.drain(..whole * TILE);
        }
    }
}

/// Where an extent lies in the segment.
pub fn place(layout: &Layout, extent: &Extent) -> Range<usize> {
    let from = match extent.area {
        Area::Heap => layout.heap,
        Area::Statics => layout.statics,
    };
    from + extent.offset as usize..from + (extent.offset + extent.len) as usize
}
