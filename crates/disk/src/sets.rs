//! The folders of checkpoints on disk: listing sets, making one, deleting old ones.
//!
//! ```text
//! DIR/set-7/manifest, pe-0, pe-1 ..     a set
//! DIR/JOB-NUMBER.part/                  a set being written; its writer holds its lock
//! DIR/node-2/                           the folder of node 2, if each node has its own disk
//! ```
//!
//! Invariants: a folder is renamed to a set after everything in it is on disk; a set that is
//! deleted loses its manifest first.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use raidshmem_archive::manifest::Manifest;
use raidshmem_core::disk::Content;
use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_sys::lock;
use raidshmem_sys::pool::WorkerPool;
use rustix::fs::{FlockOperation, flock};

use super::files::{PeFile, PeHead, SetError, TileScratch, format_at, io_at, name, open};
use super::step::step;

/// The file that makes a folder a set.
pub const MANIFEST: &str = "manifest";
/// Largest manifest in bytes.
const MANIFEST_MAX: u64 = 1 << 24;
/// The suffix of a folder that is not yet a set.
const PART: &str = ".part";

/// A set on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// Its number in its folder.
    pub number: u64,
    /// The node whose files it has, if each node has its own disk.
    pub node: Option<u32>,
    /// Its path.
    pub folder: PathBuf,
}

impl Set {
    /// Reads its manifest.
    ///
    /// # Errors
    /// It does not exist, or is incomplete.
    pub fn manifest(&self) -> Result<Manifest, SetError> {
        read_manifest(&self.folder)
    }
}

/// Reads every byte of a file; returns the damaged tiles. Every verification of a set uses this.
pub fn damages<H: PeHead + Sync>(file: &PeFile<H>, pool: &WorkerPool) -> BTreeMap<usize, SetError> {
    let found: Mutex<BTreeMap<usize, SetError>> = Mutex::default();
    let look = |tile: usize, scratch: &mut TileScratch| {
        if let Err(error) = file.tile(tile, scratch) {
            lock(&found).insert(tile, error);
        }
    };
    pool.numbers(0..file.head.tiles().sums.len(), TileScratch::default, look);
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the manifest in the folder of a set.
///
/// # Errors
/// It does not exist, or is incomplete.
pub fn read_manifest(folder: &Path) -> Result<Manifest, SetError> {
    Manifest::decode(&manifest_bytes(folder)?).map_err(format_at(&folder.join(MANIFEST)))
}

/// Reads the bytes of a manifest, valid or not.
///
/// # Errors
/// They cannot be read.
pub fn manifest_bytes(folder: &Path) -> Result<Vec<u8>, SetError> {
    let path = folder.join(MANIFEST);
    let mut bytes = Vec::new();
    let file = open(&path)?;
    file.take(MANIFEST_MAX).read_to_end(&mut bytes).map_err(io_at(&path))?;
    Ok(bytes)
}

/// Splits `DIR@7` into `DIR` and set 7, unless a folder has that whole name.
pub fn split(given: &str) -> (PathBuf, Option<u64>) {
    let number = given.rsplit_once('@').and_then(|(folder, number)| {
        let number = number.parse().ok()?;
        (!Path::new(given).is_dir()).then_some((PathBuf::from(folder), Some(number)))
    });
    number.unwrap_or_else(|| (PathBuf::from(given), None))
}

/// Returns the folder of a node below the common folder, if each node has its own disk.
pub fn node_folder(folder: &Path, node: u32) -> PathBuf {
    folder.join(format!("node-{node}"))
}

/// Lists the folders of nodes in a folder.
///
/// # Errors
/// It cannot be read.
pub fn node_folders(folder: &Path) -> Result<Vec<(u32, PathBuf)>, SetError> {
    let entries = fs::read_dir(folder).map_err(io_at(folder))?;
    let node = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let node = name.strip_prefix("node-")?.parse().ok()?;
        entry.file_type().is_ok_and(|kind| kind.is_dir()).then(|| (node, entry.path()))
    };
    let mut nodes: Vec<(u32, PathBuf)> = entries.flatten().filter_map(node).collect();
    nodes.sort_unstable();
    Ok(nodes)
}

/// Lists the sets in a folder and in its folders of nodes, newest first.
///
/// # Errors
/// A folder cannot be read.
pub fn everywhere(folder: &Path) -> Result<Vec<Set>, SetError> {
    let mut sets = list(folder)?;
    for (node, folder) in node_folders(folder)? {
        sets.extend(list(&folder)?.into_iter().map(|set| Set { node: Some(node), ..set }));
    }
    sets.sort_by_key(|set| (std::cmp::Reverse(set.number), set.node));
    Ok(sets)
}

/// Lists folders of checkpoints that are not sets: of a killed job, or without their manifest.
///
/// # Errors
/// The folder cannot be read.
pub fn parts(folder: &Path) -> Result<Vec<PathBuf>, SetError> {
    let entries = fs::read_dir(folder).map_err(io_at(folder))?;
    let is_part = |entry: &fs::DirEntry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let bare = || entry.path().join(MANIFEST).symlink_metadata().is_err();
        let name = entry.file_name().into_string().unwrap_or_default();
        is_folder && (is_part(&name) || set_number(&name).is_some() && bare())
    };
    Ok(entries.flatten().filter(is_part).map(|entry| entry.path()).collect())
}

/// Returns the folder in which a checkpoint is written before it is a set.
pub fn part_folder(folder: &Path, job: u64, number: CheckpointNumber) -> PathBuf {
    folder.join(format!("{job:016x}-{number}{PART}"))
}

/// Lists the sets in a folder, newest first.
///
/// # Errors
/// The folder cannot be read.
pub fn list(folder: &Path) -> Result<Vec<Set>, SetError> {
    let entries = fs::read_dir(folder).map_err(io_at(folder))?;
    let set = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let number = set_number(&name)?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let folder = entry.path();
        let whole = is_folder && folder.join(MANIFEST).symlink_metadata().is_ok();
        whole.then_some(Set { number, node: None, folder })
    };
    let mut sets: Vec<Set> = entries.flatten().filter_map(set).collect();
    sets.sort_by_key(|set| std::cmp::Reverse(set.number));
    Ok(sets)
}

/// Flushes a file or folder to disk.
pub fn sync(path: &Path) -> Result<(), SetError> {
    step();
    File::open(path).and_then(|file| file.sync_all()).map_err(io_at(path))
}

/// Locks the folder while something is written there.
///
/// # Errors
/// It cannot be opened.
pub fn hold(folder: &Path) -> Result<File, SetError> {
    let file = File::open(folder).map_err(io_at(folder))?;
    let _ = flock(&file, FlockOperation::NonBlockingLockShared); // some file systems lack it
    Ok(file)
}

/// Returns the number after the newest set of a folder; 1 for an empty folder.
pub fn next(folder: &Path) -> u64 {
    let newest = list(folder).ok().and_then(|sets| sets.first().map(|set| set.number));
    newest.map_or(1, |number| number.saturating_add(1))
}

/// Makes `part` a set of `folder`; returns its number, `least` or higher. A set without parity must
/// hold the files of all PEs.
///
/// # Errors
/// A file is missing, or the system's error.
pub fn commit(folder: &Path, part: &Path, bytes: &[u8], least: u64) -> Result<u64, SetError> {
    let manifest = Manifest::decode(bytes).map_err(format_at(part))?;
    let all = if manifest.parity.is_none() { manifest.entries.as_slice() } else { &[] };
    for (pe, entry) in Pe::all(all.len()).zip(all) {
        let path = part.join(name(Content::Data, pe));
        let meta = path.symlink_metadata().map_err(io_at(&path))?;
        if meta.len() != entry.len {
            let why = "not as long here as it was written; do all nodes see this folder?";
            return Err(SetError::Strange { path, why });
        }
    }
    write_manifest(part, bytes)?;
    sync(part)?;
    let mut number = next(folder).max(least);
    loop {
        let set = folder.join(format!("set-{number}"));
        step();
        match fs::rename(part, &set) {
            Ok(()) => break,
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => number += 1,
            Err(error) => return Err(io_at(&set)(error)),
        }
    }
    sync(folder)?;
    Ok(number)
}

/// Writes the manifest of a folder that has none, to disk.
///
/// # Errors
/// The system's error.
pub fn write_manifest(folder: &Path, bytes: &[u8]) -> Result<(), SetError> {
    let path = folder.join(MANIFEST);
    let write = || {
        step();
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        step();
        file.write_all(bytes)?;
        step();
        file.sync_all()
    };
    write().map_err(io_at(&path))
}

/// Makes `part`, whose checkpoint is set `number` on another disk, that set of `folder`. If the
/// folder has another of that number, `part` stays as it is, and counts there.
///
/// # Errors
/// The system's error.
pub fn name_part(folder: &Path, part: &Path, number: u64) -> Result<(), SetError> {
    let set = folder.join(format!("set-{number}"));
    step();
    match fs::rename(part, &set) {
        Ok(()) => sync(folder),
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
        Err(error) => Err(io_at(&set)(error)),
    }
}

/// Deletes a set.
///
/// # Errors
/// The system's error.
pub fn delete(set: &Set) -> Result<(), SetError> {
    let manifest = set.folder.join(MANIFEST);
    step();
    fs::remove_file(&manifest).map_err(io_at(&manifest))?;
    step();
    fs::remove_dir_all(&set.folder).map_err(io_at(&set.folder))
}

/// Returns the job and the checkpoint of each set that sets with these manifests refer to.
pub fn bases(manifests: impl Iterator<Item = Manifest>) -> BTreeSet<(u64, CheckpointNumber)> {
    let of = |it: Manifest| it.bases.into_iter().map(move |number| (it.job, number));
    let manifests = manifests.filter(|_| !breaks(Mutant::BasesPruned));
    manifests.flat_map(of).collect()
}

/// Deletes all but the newest `keep` sets and those they refer to, and leftovers of jobs that ended
/// while writing; returns the numbers of the deleted sets.
///
/// # Errors
/// The first deletion that failed.
pub fn prune(folder: &Path, keep: usize) -> Result<Vec<u64>, SetError> {
    let mut kept = list(folder)?;
    let mut old = kept.split_off(keep.min(kept.len()));
    let needed = bases(kept.iter().filter_map(|set| set.manifest().ok()));
    let is_needed = |it: Manifest| needed.contains(&(it.job, it.number));
    old.retain(|set| !set.manifest().is_ok_and(is_needed));
    old.iter().try_for_each(delete)?;
    delete_leftovers(folder, &BTreeSet::new())?;
    Ok(old.into_iter().map(|set| set.number).collect())
}

/// Deletes leftovers of jobs, except folders in `stay`.
///
/// # Errors
/// As above.
pub fn delete_leftovers(folder: &Path, stay: &BTreeSet<PathBuf>) -> Result<(), SetError> {
    for entry in fs::read_dir(folder).map_err(io_at(folder))?.flatten() {
        let (name, path) = (entry.file_name().into_string().unwrap_or_default(), entry.path());
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && !stay.contains(&path) && is_leftover(&name, &path) {
            step();
            fs::remove_dir_all(&path).map_err(io_at(&path))?;
        }
    }
    Ok(())
}

/// Returns true for a folder of ours that is not a set and is not being written.
fn is_leftover(name: &str, path: &Path) -> bool {
    let part = is_part(name);
    let set = set_number(name).is_some() && path.join(MANIFEST).symlink_metadata().is_err();
    let free = |file: File| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    (part || set) && File::open(path).is_ok_and(free)
}

/// Returns the number of the set that a folder with this name is.
fn set_number(name: &str) -> Option<u64> {
    name.strip_prefix("set-")?.parse().ok()
}

/// Returns true for the folder of a checkpoint that is not a set.
pub fn is_part_folder(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(is_part)
}

/// Returns true if a folder with this name holds a checkpoint being written.
fn is_part(name: &str) -> bool {
    let part = name.strip_suffix(PART).and_then(|name| name.split_once('-'));
    part.is_some_and(|(job, number)| {
        u64::from_str_radix(job, 16).is_ok() && number.parse::<u64>().is_ok()
    })
}

#[cfg(test)]
mod tests;
