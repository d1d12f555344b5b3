//! The folders of checkpoints on disk: which sets there are, making one, deleting old ones.
//!
//! ```text
//! DIR/set-7/manifest, pe-0, pe-1 ..     a set
//! DIR/JOB-NUMBER.part/                  one that is being written: whoever writes holds its lock
//! DIR/node-2/                           the same of node 2 where each has its own disk
//! ```
//!
//! Invariants: a folder gets the name of a set after everything in it is on disk; a set that is
//! deleted loses its manifest first.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use raidshmem_archive::manifest::Manifest;
use raidshmem_archive::parity::ParityHead;
use raidshmem_archive::part::Head;
use raidshmem_core::disk::Content;
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_sys::lock;
use raidshmem_sys::pool::WorkerPool;
use rustix::fs::{FlockOperation, flock};

use super::files::{PeFile, PeHead, SetError, TileRoom, format_at, io_at, name, open};
use super::step::step;

/// The file that makes a folder a set.
const MANIFEST: &str = "manifest";
/// Largest manifest in bytes.
const MANIFEST_MAX: u64 = 1 << 24;
/// The end of the name of a folder that is no set yet.
const PART: &str = ".part";

/// A set that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// Its number in its folder.
    pub number: u64,
    /// The node whose files it has, where each has its own disk.
    pub node: Option<u32>,
    /// Where it is.
    pub folder: PathBuf,
}

impl Set {
    /// Its manifest.
    ///
    /// # Errors
    /// It is not there, or not whole.
    pub fn manifest(&self) -> Result<Manifest, SetError> {
        read_manifest(&self.folder)
    }

    /// Reads every byte of it.
    ///
    /// # Errors
    /// The first file that does not hold.
    pub fn verify(&self, pool: &WorkerPool) -> Result<Manifest, SetError> {
        let manifest = self.manifest()?;
        for pe in Pe::all(manifest.entries.len()) {
            if self.has(&manifest, Content::Data, pe) {
                verify(&self.open::<Head>(&manifest, pe)?, pool)?;
            }
            if self.has(&manifest, Content::Parity, pe) {
                verify(&self.open::<ParityHead>(&manifest, pe)?, pool)?;
            }
        }
        Ok(manifest)
    }

    /// The files that it should have: all, or on the disk of one node both files of each PE that
    /// has one there.
    fn has(&self, manifest: &Manifest, content: Content, pe: Pe) -> bool {
        manifest.entry(content, pe).is_some() && (manifest.parity.is_none() || self.keeps(pe))
    }

    /// True if there is a file of the PE.
    fn keeps(&self, pe: Pe) -> bool {
        let is_there = |content| self.folder.join(name(content, pe)).symlink_metadata().is_ok();
        is_there(Content::Data) || is_there(Content::Parity)
    }

    /// Checks that the files begin as they should.
    ///
    /// # Errors
    /// The first that does not.
    pub fn look(&self) -> Result<Manifest, SetError> {
        let manifest = self.manifest()?;
        for pe in Pe::all(manifest.entries.len()) {
            self.open::<Head>(&manifest, pe)?;
        }
        Ok(manifest)
    }

    /// The file of a PE; it must be the one that the manifest names.
    fn open<H: PeHead>(&self, manifest: &Manifest, pe: Pe) -> Result<PeFile<H>, SetError> {
        let opened = PeFile::open_of(&self.folder, manifest.owner(pe))?;
        match manifest.entry(H::CONTENT, pe) == Some(opened.entry) {
            true => Ok(opened),
            false => {
                let why = "it belongs to another set";
                Err(SetError::Strange { path: opened.path, why })
            }
        }
    }
}

/// Reads every byte of a file: the tiles that do not hold. Whoever asks whether a set holds asks
/// here.
pub fn damages<H: PeHead + Sync>(file: &PeFile<H>, pool: &WorkerPool) -> BTreeMap<usize, SetError> {
    let found: Mutex<BTreeMap<usize, SetError>> = Mutex::default();
    let look = |tile: usize, room: &mut TileRoom| {
        if let Err(error) = file.tile(tile, room) {
            lock(&found).insert(tile, error);
        }
    };
    pool.numbers(0..file.head.tiles().sums.len(), TileRoom::default, look);
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn verify<H: PeHead + Sync>(file: &PeFile<H>, pool: &WorkerPool) -> Result<(), SetError> {
    damages(file, pool).pop_first().map_or(Ok(()), |(_, error)| Err(error))
}

/// The manifest in the folder of a set.
///
/// # Errors
/// It is not there, or not whole.
pub fn read_manifest(folder: &Path) -> Result<Manifest, SetError> {
    Manifest::decode(&manifest_bytes(folder)?).map_err(format_at(&folder.join(MANIFEST)))
}

/// Its bytes, whatever they are.
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

/// The folder of a node below that of all, where each has its own disk.
pub fn node_folder(folder: &Path, node: u32) -> PathBuf {
    folder.join(format!("node-{node}"))
}

/// The folders of nodes in a folder.
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

/// The sets in a folder and in those of nodes there, the newest first.
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

/// Folders that are no sets, of which a killed job may have left some.
///
/// # Errors
/// The folder cannot be read.
pub fn parts(folder: &Path) -> Result<Vec<PathBuf>, SetError> {
    let entries = fs::read_dir(folder).map_err(io_at(folder))?;
    let is_part = |entry: &fs::DirEntry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_folder && entry.file_name().into_string().is_ok_and(|name| is_part(&name))
    };
    Ok(entries.flatten().filter(is_part).map(|entry| entry.path()).collect())
}

/// The folder in which a checkpoint is written before it is a set.
pub fn part_folder(folder: &Path, job: u64, number: CheckpointNumber) -> PathBuf {
    folder.join(format!("{job:016x}-{number}{PART}"))
}

/// The sets in a folder, the newest first.
///
/// # Errors
/// The folder cannot be read.
pub fn list(folder: &Path) -> Result<Vec<Set>, SetError> {
    let entries = fs::read_dir(folder).map_err(io_at(folder))?;
    let set = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let number = name.strip_prefix("set-")?.parse().ok()?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let folder = entry.path();
        let whole = is_folder && folder.join(MANIFEST).symlink_metadata().is_ok();
        whole.then_some(Set { number, node: None, folder })
    };
    let mut sets: Vec<Set> = entries.flatten().filter_map(set).collect();
    sets.sort_by_key(|set| std::cmp::Reverse(set.number));
    Ok(sets)
}

/// Has what was written to a file or folder reach the disk.
pub fn sync(path: &Path) -> Result<(), SetError> {
    step();
    File::open(path).and_then(|file| file.sync_all()).map_err(io_at(path))
}

/// Holds the folder while something is written there.
///
/// # Errors
/// It cannot be opened.
pub fn hold(folder: &Path) -> Result<File, SetError> {
    let file = File::open(folder).map_err(io_at(folder))?;
    let _ = flock(&file, FlockOperation::NonBlockingLockShared); // not every file system has it
    Ok(file)
}

/// The lowest number that a set in a folder may get; 1 if there is none.
pub fn next(folder: &Path) -> u64 {
    let newest = list(folder).ok().and_then(|sets| sets.first().map(|set| set.number));
    newest.map_or(1, |number| number.saturating_add(1))
}

/// Makes what was written to `part` a set of `folder`, and says its number: `least` or a higher
/// one. Where it holds the files of all it must be all of them.
///
/// # Errors
/// A file is not there, or what the system says.
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
    let path = part.join(MANIFEST);
    let write = || {
        step();
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        step();
        file.write_all(bytes)?;
        step();
        file.sync_all()
    };
    write().map_err(io_at(&path))?;
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

/// Deletes a set.
///
/// # Errors
/// What the system says.
pub fn delete(set: &Set) -> Result<(), SetError> {
    let manifest = set.folder.join(MANIFEST);
    step();
    fs::remove_file(&manifest).map_err(io_at(&manifest))?;
    step();
    fs::remove_dir_all(&set.folder).map_err(io_at(&set.folder))
}

/// Deletes all but the newest `keep` sets, and what jobs left behind that ended while they wrote;
/// the numbers of the sets that are gone.
///
/// # Errors
/// The first thing that could not be deleted.
pub fn prune(folder: &Path, keep: usize) -> Result<Vec<u64>, SetError> {
    let old: Vec<Set> = list(folder)?.into_iter().skip(keep).collect();
    old.iter().try_for_each(delete)?;
    delete_left_behind(folder, &BTreeSet::new())?;
    Ok(old.into_iter().map(|set| set.number).collect())
}

/// Deletes what jobs left behind, but for folders that stay.
///
/// # Errors
/// As above.
pub fn delete_left_behind(folder: &Path, stay: &BTreeSet<PathBuf>) -> Result<(), SetError> {
    for entry in fs::read_dir(folder).map_err(io_at(folder))?.flatten() {
        let (name, path) = (entry.file_name().into_string().unwrap_or_default(), entry.path());
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && !stay.contains(&path) && is_left_behind(&name, &path) {
            step();
            fs::remove_dir_all(&path).map_err(io_at(&path))?;
        }
    }
    Ok(())
}

/// A folder of ours that is no set, and that nobody is writing.
fn is_left_behind(name: &str, path: &Path) -> bool {
    let part = is_part(name);
    let set = name.strip_prefix("set-").is_some_and(|number| number.parse::<u64>().is_ok());
    let set = set && path.join(MANIFEST).symlink_metadata().is_err();
    let free = |file: File| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    (part || set) && File::open(path).is_ok_and(free)
}

/// The name is that of a folder in which a checkpoint is written.
fn is_part(name: &str) -> bool {
    let part = name.strip_suffix(PART).and_then(|name| name.split_once('-'));
    part.is_some_and(|(job, number)| {
        u64::from_str_radix(job, 16).is_ok() && number.parse::<u64>().is_ok()
    })
}

#[cfg(test)]
mod tests;
