//! Loading of a PE's memory from its file: its snapshot becomes that of the checkpoint, as if the
//! process had died right after it. The recovery does the rest.
//!
//! If each node has its own disk, the parity that the PE keeps is filled in too. A file or a tile
//! that is missing or damaged leaves its part of the memory void: the recovery reconstructs it, or
//! reports that it cannot.
//!
//! Invariant: the record of the snapshot is sealed after the last tile was verified, so a process
//! that dies here leaves memory that does not count.

#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::atomic::Ordering;

use raidshmem_archive::owner::Owner;
use raidshmem_archive::parity::ParityHead;
use raidshmem_archive::part::Head;
use raidshmem_archive::program::{self, Program};
use raidshmem_core::disk::Resume;
use raidshmem_core::layout::TILE;
use raidshmem_core::page::PAGE;
use raidshmem_core::store::grouped::Grouped;
use raidshmem_core::store::phase::Phase;

use super::files::{PeFile, PeHead, SetError};
use super::fill::{Filling, fill};
use super::heap_at;
use super::input::{Input, LoadError, LoadTarget};
use super::rebuilt;

/// Fills the memory from the set, unless it holds that checkpoint already. Returns the reasons why
/// data or parity was skipped that other PEs may reconstruct.
///
/// # Errors
/// The mismatch, as text.
pub fn load(resume: &Resume, target: &LoadTarget) -> Result<Vec<LoadError>, LoadError> {
    let LoadTarget { own: segment, protection, stamp, .. } = *target;
    let (header, number, job) = (segment.header(), resume.number, stamp.job);
    let (snapshot, slot) = (protection.snapshot_of(number), protection.slot_of(number));
    let record = &header.snapshots[snapshot];
    if record.holds(job, number).is_some() {
        return Ok(Vec::new()); // an earlier process did it
    }
    record.void();
    header.slots[slot].void();
    let own = std::fs::read("/proc/self/exe");
    let own = own.map_err(|error| LoadError::System { what: "this program", error })?;
    let own = program::read(&own);
    // Without parity that this job can use, a missing file is reported.
    let has_parity = resume.folders.groups().is_some();
    let mut left_out = Vec::new();
    let mut or_left_out = |tried: Result<Option<Loaded>, LoadError>| match tried {
        Ok(loaded) => Ok(loaded.map(|Loaded { len, damage }| {
            left_out.extend(damage.map(LoadError::from));
            len
        })),
        Err(error) if has_parity && error.is_loss() => {
            left_out.push(error);
            Ok(None)
        }
        Err(error) => Err(error),
    };
    let data = or_left_out(load_data(resume, target, snapshot, &own).map(Some))?;
    let parity = match has_parity {
        true => or_left_out(load_parity(resume, target, data, &own.build))?,
        false => None,
    };
    // A slot without its parity is sealed too: its checksum fails, and it is recomputed.
    if let Some(len) = parity.or(data) {
        let (shape, place) = protection.place(stamp.pe);
        target.ask_huge(segment.layout().slots[slot], shape.parity_len(place, len));
        let grouped = Grouped { number, places: protection.places };
        header.slots[slot].seal_of(job, grouped, len);
    }
    header.decision.store(0, Ordering::SeqCst);
    if let Some(len) = data {
        record.seal(job, number, len);
        header.phase.store(Phase::Agreed(number).pack(), Ordering::SeqCst);
    }
    Ok(left_out)
}

/// Finds the file of the PE in the folders of its node.
fn find<H: PeHead>(
    resume: &Resume,
    target: &LoadTarget,
    what: &'static str,
) -> Result<PeFile<H>, LoadError> {
    let LoadTarget { own, stamp, n_pes, .. } = *target;
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
        let heap_fits = heap_len.next_multiple_of(PAGE as u64) == own.layout().heap_len as u64;
        if heap_fits && (job, number, pe, of) == (resume.job, resume.number, stamp.pe, n_pes) {
            return Ok(file);
        }
        let why = "it belongs to another set";
        found = Err(SetError::Strange { path: file.path, why }.into());
    }
    found
}

/// The data filled in from a file.
struct Loaded {
    /// Bytes of the snapshot, or of those that the parity protects.
    len: usize,
    /// The error of the first tile that was skipped.
    damage: Option<SetError>,
}

/// Fills a snapshot from the PE's file.
fn load_data(
    resume: &Resume,
    target: &LoadTarget,
    place: usize,
    own: &Program,
) -> Result<Loaded, LoadError> {
    let input = Input { file: find::<Head>(resume, target, "the file of this PE")? };
    if input.file.head.heap_at != heap_at(target.own.layout()) {
        return Err(input.misfit("its symmetric heap began at another address"));
    }
    let is_same = own.build == input.file.head.build;
    let line = match is_same {
        true => input.line(target)?,
        false => rebuilt::line(&input, target, own, resume.rebuilt)?,
    };
    // Parity reconstructs damaged tiles only if memory is unchanged.
    let has_parity = resume.folders.groups().is_some();
    let (region, len) = (target.own.layout().snapshots[place], line.coverage.len());
    let filling = Filling { region, len, begin: &line.begin, end: &line.end };
    let damage = fill(target, &filling, &input.file)?;
    match damage {
        Some(error) if !(is_same && has_parity) => Err(error.into()),
        damage => Ok(Loaded { len, damage }),
    }
}

/// Fills the slot of the checkpoint from the PE's parity file, for snapshots of `data` bytes if
/// that is known. Returns None if it protects snapshots of another build of the program.
fn load_parity(
    resume: &Resume,
    target: &LoadTarget,
    data: Option<usize>,
    build: &[u8],
) -> Result<Option<Loaded>, LoadError> {
    let LoadTarget { own, protection, stamp, .. } = *target;
    let layout = own.layout();
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
    let len = shape.parity_len(place, line);
    if file.head.sums.len() != len / TILE {
        return Err(strange("it is of another group").into());
    }
    let region = layout.slots[protection.slot_of(resume.number)];
    let damage = fill(target, &Filling { region, len, begin: &[], end: &[] }, &file)?;
    Ok(Some(Loaded { len: line, damage }))
}
