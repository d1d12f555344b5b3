//! The memory of a PE from its file: its snapshot becomes that of the checkpoint, as if the process
//! had died right after it. The recovery does the rest.
//!
//! Where each node has its own disk, the parity that the PE keeps is filled in too, and what is
//! missing or does not hold, a file or a tile of one, leaves its part of the memory void: the
//! recovery makes up for it, or says that it cannot.
//!
//! Invariant: the record of the snapshot is sealed after the last tile held; so a process that dies
//! here leaves memory that does not count.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use raidshmem_archive::owner::Owner;
use raidshmem_archive::parity::ParityHead;
use raidshmem_archive::part::{Area, Extent, Head};
use raidshmem_archive::program::{self, Program};
use raidshmem_core::disk::{Folders, Resume};
use raidshmem_core::layout::{Layout, STAMP, TILE};
use raidshmem_core::page::PAGE;
use raidshmem_core::store::coverage::Coverage;
use raidshmem_core::store::phase::Phase;
use raidshmem_core::store::private::{self, Saved};
use raidshmem_core::store::protection::Protection;
use raidshmem_core::store::stamp::Stamp;
use raidshmem_segment::header::Header;
use raidshmem_sys::lock;
use raidshmem_sys::memory::Part;
use raidshmem_sys::pool::WorkerPool;

use super::files::{PeFile, PeHead, SetError};
use super::heap_at;

mod rebuilt;

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

/// Fills the memory from the set, unless it holds that checkpoint already. Why data or parity was
/// left out that others may make up for.
///
/// # Errors
/// What does not fit, in words.
pub fn load(resume: &Resume, target: &LoadTarget) -> Result<Vec<LoadError>, LoadError> {
    let LoadTarget { header, protection, stamp, .. } = *target;
    let (number, job) = (resume.number, stamp.job);
    let (snapshot, slot) = (protection.snapshot_of(number), protection.slot_of(number));
    let record = &header.snapshots[snapshot];
    if record.holds(job, number).is_some() {
        return Ok(Vec::new()); // a process before this one did it
    }
    record.void();
    header.slots[slot].void();
    let own = std::fs::read("/proc/self/exe");
    let own = own.map_err(|error| LoadError::System { what: "this program", error })?;
    let own = program::read(&own);
    let (mut left_out, is_local) = (Vec::new(), matches!(resume.folders, Folders::Local { .. }));
    let mut or_left_out = |tried: Result<Option<Loaded>, LoadError>| match tried {
        Ok(loaded) => Ok(loaded.map(|Loaded { len, damage }| {
            left_out.extend(damage.map(LoadError::from));
            len
        })),
        Err(error) if is_local && error.is_loss() => {
            left_out.push(error);
            Ok(None)
        }
        Err(error) => Err(error),
    };
    let data = or_left_out(load_data(resume, target, snapshot, &own).map(Some))?;
    let parity = match resume.folders {
        Folders::Local { parity: true, .. } => {
            or_left_out(load_parity(resume, target, data, &own.build))?
        }
        _ => None,
    };
    // A slot without its parity is sealed too: it does not hold, and is computed anew.
    if let Some(len) = parity.or(data) {
        header.slots[slot].seal(job, number, len);
    }
    header.decision.store(0, Ordering::SeqCst);
    if let Some(len) = data {
        record.seal(job, number, len);
        header.phase.store(Phase::Agreed(number).pack(), Ordering::SeqCst);
    }
    Ok(left_out)
}

impl LoadError {
    /// The file is lost, and not one that does not fit.
    fn is_loss(&self) -> bool {
        matches!(self, LoadError::Set(_) | LoadError::Nowhere(_))
    }
}

/// The file of the PE, in whichever folder of its node it is.
fn find<H: PeHead>(
    resume: &Resume,
    target: &LoadTarget,
    what: &'static str,
) -> Result<PeFile<H>, LoadError> {
    let LoadTarget { layout, stamp, n_pes, .. } = *target;
    let mut found = Err(LoadError::Nowhere(what));
    for folder in resume.folders.at(target.node) {
        let file = match PeFile::<H>::open(Path::new(folder), stamp.pe) {
            Ok(file) => file,
            Err(error) => {
                found = Err(error.into());
                continue;
            }
        };
        let Owner { job, number, pe, n_pes: of, heap_len } = H::owner(&file.head);
        let heap_fits = heap_len.next_multiple_of(PAGE as u64) == layout.heap_len as u64;
        if heap_fits && (job, number, pe, of) == (resume.job, resume.number, stamp.pe, n_pes) {
            return Ok(file);
        }
        let why = "it belongs to another set";
        found = Err(SetError::Strange { path: file.path, why }.into());
    }
    found
}

/// What was filled in from a file.
struct Loaded {
    /// Bytes of the snapshot, or of those that the parity is of.
    len: usize,
    /// The first of its tiles that were left out.
    damage: Option<SetError>,
}

/// Makes a snapshot that of the PE's file.
fn load_data(
    resume: &Resume,
    target: &LoadTarget,
    place: usize,
    own: &Program,
) -> Result<Loaded, LoadError> {
    let input = Input { file: find::<Head>(resume, target, "the file of this PE")? };
    if input.file.head.heap_at != heap_at(target.layout) {
        return Err(input.misfit("its symmetric heap began at another address"));
    }
    let is_same = own.build == input.file.head.build;
    let line = match is_same {
        true => input.line(target)?,
        false => rebuilt::line(&input, target, own, resume.rebuilt)?,
    };
    // Parity makes up for tiles in memory that is as it was.
    let has_parity = matches!(resume.folders, Folders::Local { parity: true, .. });
    let len = line.coverage.len();
    let damage = input.fill(target, place, line)?;
    match damage {
        Some(error) if !(is_same && has_parity) => Err(error.into()),
        damage => Ok(Loaded { len, damage }),
    }
}

/// Makes the slot of the checkpoint what the PE's parity file holds, of snapshots of `data` bytes if
/// that is known. None if it is of those of another build of the program.
fn load_parity(
    resume: &Resume,
    target: &LoadTarget,
    data: Option<usize>,
    build: &[u8],
) -> Result<Option<Loaded>, LoadError> {
    let LoadTarget { part, layout, protection, stamp, pool, .. } = *target;
    let file = find::<ParityHead>(resume, target, "the parity of this PE")?;
    if file.head.build != build {
        return Ok(None);
    }
    let (shape, place) = protection.place(stamp.pe);
    let line = file.head.line as usize;
    let strange = |why| SetError::Strange { path: file.path.clone(), why };
    if line > layout.region_len || data.is_some_and(|data| data != line) {
        return Err(strange("it is of data of another length").into());
    }
    let tiles = shape.layout.parities_of(place).len() * shape.chunk_len(line) / TILE;
    if file.head.sums.len() != tiles {
        return Err(strange("it is of another group").into());
    }
    let region = layout.slots[protection.slot_of(resume.number)];
    let (damages, bad) = (Mutex::new(BTreeMap::new()), Mutex::new(None));
    let copy = |tile: usize, room: &mut Vec<u8>| {
        let at = layout.stamps(region) + tile * STAMP;
        let done = match file.tile(tile, room) {
            Ok(()) => part
                .write_at(region + tile * TILE, room)
                .and_then(|()| part.write_at(at, &stamp.seal(room))),
            Err(error) => {
                lock(&damages).insert(tile, error);
                part.write_at(at, &[0; STAMP])
            }
        };
        done.unwrap_or_else(|error| *lock(&bad) = Some(error));
    };
    pool.numbers(0..tiles, Vec::new, copy);
    let damage = lock(&damages).pop_first().map(|(_, error)| error);
    let bad = lock(&bad).take();
    bad.map_or(Ok(Some(Loaded { len: line, damage })), |error| Err(memory(error)))
}

fn memory(error: rustix::io::Errno) -> LoadError {
    LoadError::System { what: "memory of the PE", error: error.into() }
}

/// The file of a PE.
struct Input {
    file: PeFile<Head>,
}

/// What a snapshot is to be.
struct Line {
    coverage: Coverage,
    /// The manifest that it begins with.
    begin: Vec<u8>,
    /// Its last bytes, where they are not those of the file.
    end: Vec<u8>,
}

impl Input {
    fn misfit(&self, why: &'static str) -> LoadError {
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

    /// Bytes of what is saved, if they hold.
    fn bytes(&self, range: Range<u64>, pool: &WorkerPool) -> Result<Vec<u8>, LoadError> {
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
    fn line(&self, target: &LoadTarget) -> Result<Line, LoadError> {
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
    fn build(
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
    fn fill(
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
                gaps.extend([at / TILE, (at + TILE - 1) / TILE]);
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
fn place(layout: &Layout, extent: &Extent) -> Range<usize> {
    let from = match extent.area {
        Area::Heap => layout.heap,
        Area::Statics => layout.statics,
    };
    from + extent.offset as usize..from + (extent.offset + extent.len) as usize
}
