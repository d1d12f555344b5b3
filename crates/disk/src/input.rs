//! The file of a PE, and its translation into the PE's memory.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use raidshmem_archive::part::{Area, Extent, Head};
use raidshmem_core::layout::{Layout, TILE};
use raidshmem_core::store::coverage::Coverage;
use raidshmem_core::store::objects;
use raidshmem_core::store::private::{self, Saved};
use raidshmem_core::store::protection::Protection;
use raidshmem_core::store::stamp::Stamp;
use raidshmem_segment::Segment;
use raidshmem_sys::lock;
use raidshmem_sys::memory::Part;
use raidshmem_sys::pool::WorkerPool;

use super::files::{PeFile, SetError, TileScratch};

/// The reasons why memory cannot be filled.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file is damaged.
    #[error("--resume: {0}")]
    Set(#[from] SetError),
    /// Another build of the program wrote it, and this one lacks some of the saved data.
    #[error("--resume: {} was written by another build of the program: {why}", .path.display())]
    Build {
        /// The file.
        path: PathBuf,
        /// The mismatch.
        why: String,
    },
    /// The file is in no folder of the node.
    #[error("--resume: no disk here has {0}")]
    Nowhere(&'static str),
    /// Its memory does not fit that of this job.
    #[error("--resume: {}: {why}", .path.display())]
    Misfit {
        /// The file.
        path: PathBuf,
        /// The mismatch.
        why: &'static str,
    },
    /// The memory of the PE cannot be written, or the program cannot be read.
    #[error("--resume: {what}: {error}")]
    System {
        /// The failed operation.
        what: &'static str,
        /// The system's error.
        error: std::io::Error,
    },
}

/// The memory to fill.
pub struct LoadTarget<'a> {
    /// Its bytes, mapped.
    pub own: &'a Segment,
    /// Its memory file.
    pub part: &'a Part,
    /// True if it should have huge pages.
    pub large: bool,
    /// The job's protection.
    pub protection: &'a Protection,
    /// The stamp of its tiles.
    pub stamp: Stamp,
    /// The node of the process.
    pub node: u32,
    /// The number of PEs.
    pub n_pes: u32,
    /// The threads that read, check and seal.
    pub pool: &'a WorkerPool,
}

impl LoadTarget<'_> {
    /// Asks for huge pages for a part of it that is about to be used, if it should have them.
    pub fn ask_huge(&self, at: usize, len: usize) {
        if self.large {
            self.own.ask_huge(at, len);
        }
    }
}

impl LoadError {
    /// Returns true if the file is lost, as opposed to one that does not fit.
    pub fn is_loss(&self) -> bool {
        matches!(self, LoadError::Set(_) | LoadError::Nowhere(_))
    }
}

/// Returns the error for memory that cannot be written.
pub fn memory(error: rustix::io::Errno) -> LoadError {
    LoadError::System { what: "memory of the PE", error: error.into() }
}

/// The file of a PE.
pub struct Input {
    /// Its head and its tiles.
    pub file: PeFile<Head>,
}

/// The contents of a snapshot.
pub struct Line {
    /// The memory that it covers.
    pub coverage: Coverage,
    /// The manifest that it begins with.
    pub begin: Vec<u8>,
    /// Its last bytes, if they differ from those of the file.
    pub end: Vec<u8>,
}

impl Input {
    /// Returns the error for memory that does not fit.
    pub fn misfit(&self, why: &'static str) -> LoadError {
        LoadError::Misfit { path: self.file.path.clone(), why }
    }

    /// Returns bytes of the saved data.
    ///
    /// # Errors
    /// A tile of them is damaged.
    pub fn bytes(&self, range: Range<u64>, pool: &WorkerPool) -> Result<Vec<u8>, LoadError> {
        let first = (range.start / TILE as u64) as usize;
        let from = first as u64 * TILE as u64;
        let damages: Mutex<BTreeMap<usize, SetError>> = Mutex::default();
        let mut bytes = vec![0; (range.end - from) as usize];
        let read = |(tile, into): (usize, &mut [u8]), scratch: &mut TileScratch| match self
            .file
            .tile(first + tile, scratch)
        {
            Ok(bytes) => into.copy_from_slice(&bytes[..into.len()]),
            Err(error) => _ = lock(&damages).insert(tile, error),
        };
        pool.each(bytes.chunks_mut(TILE).enumerate(), TileScratch::default, read);
        let mut damages: BTreeMap<usize, SetError> =
            damages.into_inner().unwrap_or_else(PoisonError::into_inner);
        match damages.pop_first() {
            Some((_, error)) => Err(error.into()),
            None => Ok(bytes.split_off((range.start - from) as usize)),
        }
    }

    /// Returns the contents of the snapshot.
    ///
    /// # Errors
    /// The memory does not fit, or private memory is damaged.
    pub fn line(&self, target: &LoadTarget) -> Result<Line, LoadError> {
        let (layout, head) = (target.own.layout(), &self.file.head);
        if !head.begin.is_empty() {
            let parsed = Coverage::parse(layout, &head.begin);
            let parsed = parsed.map_err(|_| self.misfit("its manifest does not fit"))?;
            return self.of_its_extents(layout, parsed.coverage, head.begin.clone());
        }
        let is_static = |extent: &&Extent| extent.area == Area::Statics;
        let statics = head.extents.iter().filter(is_static).map(|extent| place(layout, extent));
        let (coverage, begin) = self.build(target, &statics.collect::<Vec<_>>(), false)?;
        self.of_its_extents(layout, coverage, begin)
    }

    /// Returns the coverage with `statics`, and the manifest that the snapshot begins with. If it
    /// `is_rebuilt`, load addresses are omitted: all saved memory is data.
    ///
    /// # Errors
    /// As above.
    pub fn build(
        &self,
        target: &LoadTarget,
        statics: &[Range<usize>],
        is_rebuilt: bool,
    ) -> Result<(Coverage, Vec<u8>), LoadError> {
        let (layout, pool, head) = (target.own.layout(), target.pool, &self.file.head);
        let from: u64 = head.extents.iter().map(|extent| extent.len).sum();
        let contents = self.bytes(from..head.data_len(), pool)?;
        let mut rest = contents.as_slice();
        let saved = head.regions.iter().map(|region| {
            let (contents, tail) = rest.split_at(region.len as usize);
            rest = tail;
            Saved { name: &region.name, contents }
        });
        let saved = saved.filter(|saved| !is_rebuilt || saved.name != objects::NAME);
        let private = private::encode(saved.collect::<Vec<_>>().into_iter());
        let excluded = head.excluded.iter().map(|extent| place(layout, extent));
        let excluded: Vec<Range<usize>> = excluded.collect();
        let heap = head.allocator();
        let heap =
            heap.map_err(|error| SetError::Format { path: self.file.path.clone(), error })?;
        let built = Coverage::build(layout, statics, &heap, [&excluded, &[]], &private);
        built.map_err(|_| self.misfit("its manifest does not fit"))
    }

    /// Returns the snapshot that begins with `begin`, if the rest matches the extents of the file.
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
}

/// Returns the range of an extent in the segment.
pub fn place(layout: &Layout, extent: &Extent) -> Range<usize> {
    let from = match extent.area {
        Area::Heap => layout.heap,
        Area::Statics => layout.statics,
    };
    from + extent.offset as usize..from + (extent.offset + extent.len) as usize
}
