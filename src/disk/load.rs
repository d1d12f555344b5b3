//! The memory of a PE from its file: its snapshot becomes that of the checkpoint, as if the process
//! had died right after it. The recovery does the rest.
//!
//! Invariant: the record of the snapshot is sealed after the last tile held; so a process that dies
//! here leaves memory that does not count.

#![forbid(unsafe_code)]

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use raidshmem_archive::part::{Area, Extent, Head};
use raidshmem_archive::program;
use raidshmem_core::disk::Resume;
use raidshmem_core::layout::{Layout, STAMP, TILE};
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::store::coverage::Coverage;
use raidshmem_core::store::phase::Phase;
use raidshmem_core::store::private::{self, Saved};
use raidshmem_core::store::protection::Protection;
use raidshmem_core::store::stamp::Stamp;
use raidshmem_segment::header::Header;
use raidshmem_sys::lock;
use raidshmem_sys::memory::Part;
use raidshmem_sys::pool::WorkerPool;

use super::heap_at;
use super::sets::{self, SetError, Tiles};

/// Tiles that are read at a time.
const BATCH: usize = 256;

/// Why memory cannot be filled.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file does not hold.
    #[error("--resume: {0}")]
    Set(#[from] SetError),
    /// The program is not the one that was saved.
    #[error(
        "--resume: {} was written by another build of the program; expected the same executable",
        .0.display()
    )]
    Build(PathBuf),
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
    /// Who reads, checks and seals.
    pub pool: &'a WorkerPool,
}

/// Fills the memory from the set, unless it holds that checkpoint already.
///
/// # Errors
/// What does not fit, in words.
pub fn load(resume: &Resume, target: &LoadTarget) -> Result<(), LoadError> {
    let LoadTarget { header, protection, stamp, .. } = *target;
    let (number, job) = (resume.number, stamp.job);
    let record = &header.snapshots[protection.snapshot_of(number)];
    if record.holds(job, number).is_some() {
        return Ok(()); // a process before this one did it
    }
    record.void();
    let folder = Path::new(&resume.folder);
    let manifest = sets::read_manifest(folder)?;
    let pe = stamp.pe;
    let (file, head, data_at) = sets::open_part(folder, &manifest, pe)?;
    let path = folder.join(sets::part_name(pe));
    let input = Input { file, path, head, data_at };
    input.fits(target, number)?;
    let (coverage, begin) = input.line(target)?;
    input.fill(target, protection.snapshot_of(number), begin, coverage.len())?;
    record.seal(job, number, coverage.len());
    // Parity is not on disk: what the slot holds does not hold, and is computed anew.
    header.slots[protection.slot_of(number)].seal(job, number, coverage.len());
    header.decision.store(0, Ordering::SeqCst);
    header.phase.store(Phase::Agreed(number).pack(), Ordering::SeqCst);
    Ok(())
}

/// The file of a PE.
struct Input {
    file: File,
    path: PathBuf,
    head: Head,
    data_at: u64,
}

impl Input {
    fn misfit(&self, why: &'static str) -> LoadError {
        LoadError::Misfit { path: self.path.clone(), why }
    }

    fn fits(&self, target: &LoadTarget, number: CheckpointNumber) -> Result<(), LoadError> {
        let own = std::fs::read("/proc/self/exe");
        let own = own.map_err(|error| LoadError::System { what: "this program", error })?;
        match () {
            () if program::read(&own).build != self.head.build => {
                Err(LoadError::Build(self.path.clone()))
            }
            () if self.head.heap_at != heap_at(target.layout) => {
                Err(self.misfit("its symmetric heap began at another address"))
            }
            () if self.head.number != number => Err(self.misfit("it is of another checkpoint")),
            () => Ok(()),
        }
    }

    /// The bytes of these tiles, if they hold.
    fn tiles(&self, range: Range<usize>, pool: &WorkerPool) -> Result<Vec<u8>, LoadError> {
        let tiles =
            Tiles { file: &self.file, path: &self.path, head: &self.head, at: self.data_at };
        let rooms: Vec<Mutex<Vec<u8>>> = range.clone().map(|_| Mutex::default()).collect();
        let bad = Mutex::new(None);
        let read = |tile: usize, (): &mut ()| {
            if let Err(error) = tiles.read(tile, &mut lock(&rooms[tile - range.start])) {
                lock(&bad).get_or_insert(error);
            }
        };
        pool.numbers(range.clone(), || (), read);
        match bad.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error.into()),
            None => Ok(rooms.iter().flat_map(|room| std::mem::take(&mut *lock(room))).collect()),
        }
    }

    /// Bytes of what is saved.
    fn bytes(&self, range: Range<u64>, pool: &WorkerPool) -> Result<Vec<u8>, LoadError> {
        let first = (range.start / TILE as u64) as usize;
        let from = first as u64 * TILE as u64;
        let mut bytes = self.tiles(first..range.end.div_ceil(TILE as u64) as usize, pool)?;
        bytes.truncate((range.end - from) as usize);
        Ok(bytes.split_off((range.start - from) as usize))
    }

    /// What the memory covers, and the manifest that it begins with.
    fn line(&self, target: &LoadTarget) -> Result<(Coverage, Vec<u8>), LoadError> {
        let LoadTarget { layout, pool, .. } = *target;
        let head = &self.head;
        let from: u64 = head.extents.iter().map(|extent| extent.len).sum();
        let contents = self.bytes(from..head.data_len(), pool)?;
        let mut rest = contents.as_slice();
        let saved = head.regions.iter().map(|region| {
            let (contents, tail) = rest.split_at(region.len as usize);
            rest = tail;
            Saved { name: &region.name, contents }
        });
        let private = private::encode(saved.collect::<Vec<_>>().into_iter());
        let place = |extent: &Extent| {
            let from = match extent.area {
                Area::Heap => layout.heap,
                Area::Statics => layout.statics,
            };
            from + extent.offset as usize..from + (extent.offset + extent.len) as usize
        };
        let is_static = |extent: &&Extent| extent.area == Area::Statics;
        let statics: Vec<Range<usize>> = head.extents.iter().filter(is_static).map(place).collect();
        let excluded: Vec<Range<usize>> = head.excluded.iter().map(place).collect();
        let heap = head.allocator();
        let heap = heap.map_err(|error| SetError::Format { path: self.path.clone(), error })?;
        let built = Coverage::build(layout, &statics, &heap, &excluded, &private);
        let (coverage, begin) = built.map_err(|_| self.misfit("its manifest does not fit"))?;
        let covered = coverage.pieces(begin.len()..coverage.len());
        let covered = covered.map(|piece| piece.at..piece.at + piece.len);
        match covered.eq(head.extents.iter().map(place)) {
            true => Ok((coverage, begin)),
            false => Err(self.misfit("its extents are not those of its heap")),
        }
    }

    /// Writes `begin` and the extents' bytes, `len` in all, as the tiles of a snapshot.
    fn fill(
        &self,
        target: &LoadTarget,
        place: usize,
        begin: Vec<u8>,
        len: usize,
    ) -> Result<(), LoadError> {
        let region = target.layout.snapshots[place];
        let stamps = target.layout.stamps(region);
        let files = (len - begin.len()).div_ceil(TILE);
        let (mut line, mut next, mut done) = (begin, 0, 0);
        loop {
            let batch = next..files.min(next + BATCH);
            next = batch.end;
            line.extend(self.tiles(batch, target.pool)?);
            if next == files {
                line.truncate(len - done * TILE);
                line.resize(line.len().next_multiple_of(TILE), 0);
            }
            let (whole, bad) = (line.len() / TILE, Mutex::new(None));
            let write = |tile: usize, (): &mut ()| {
                let bytes = &line[tile * TILE..][..TILE];
                let at = done + tile;
                let written = target.part.write_at(region + at * TILE, bytes);
                let seal = target.stamp.seal(bytes);
                let sealed =
                    written.and_then(|()| target.part.write_at(stamps + at * STAMP, &seal));
                sealed.unwrap_or_else(|error| *lock(&bad) = Some(error));
            };
            target.pool.numbers(0..whole, || (), write);
            if let Some(error) = lock(&bad).take() {
                let what = "memory of the PE";
                return Err(LoadError::System { what, error: error.into() });
            }
            if next == files {
                return Ok(());
            }
            done += whole;
            line.drain(..whole * TILE);
        }
    }
}
