//! The folders of checkpoints on disk: which sets there are, making one, deleting old ones.
//!
//! ```text
//! DIR/set-7/manifest, pe-0, pe-1 ..     a set
//! DIR/JOB-NUMBER.part/                  one that is being written: whoever writes holds its lock
//! ```
//!
//! Invariants: a folder gets the name of a set after everything in it is on disk; a set that is
//! deleted loses its manifest first.

#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use raidshmem_archive::error::FormatError;
use raidshmem_archive::manifest::Manifest;
use raidshmem_archive::part::{self, Head};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_sys::pool::{self, WorkerPool};
use raidshmem_sys::{lock, process};
use rustix::fs::{FlockOperation, flock};

/// The file that makes a folder a set.
const MANIFEST: &str = "manifest";
/// Largest manifest in bytes.
const MANIFEST_MAX: u64 = 1 << 24;
/// The end of the name of a folder that is no set yet.
const PART: &str = ".part";

/// Why a file or folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// What the system says.
    #[error("{}: {error}", .path.display())]
    Io {
        /// Of which file or folder.
        path: PathBuf,
        /// What it says.
        error: io::Error,
    },
    /// It is no file of a set, or damaged.
    #[error("{}: {error}", .path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// What does not fit.
        error: FormatError,
    },
    /// It is not what it should be.
    #[error("{}: {why}", .path.display())]
    Strange {
        /// Which file or folder.
        path: PathBuf,
        /// Why.
        why: &'static str,
    },
}

fn io_at(path: &Path) -> impl Fn(io::Error) -> SetError {
    move |error| SetError::Io { path: path.to_owned(), error }
}

fn format_at(path: &Path) -> impl Fn(FormatError) -> SetError {
    move |error| SetError::Format { path: path.to_owned(), error }
}

/// Opens a file of a set: a plain file of this user, or of root.
///
/// # Errors
/// It is something else, or cannot be opened.
pub fn open(path: &Path) -> Result<File, SetError> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(io_at(path))?;
    let meta = file.metadata().map_err(io_at(path))?;
    let strange = |why| SetError::Strange { path: path.to_owned(), why };
    match () {
        () if !meta.is_file() => Err(strange("expected a plain file")),
        () if !is_ours(meta.uid()) => Err(strange("it belongs to another user")),
        () => Ok(file),
    }
}

fn is_ours(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

/// A set that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// Its number in its folder.
    pub number: u64,
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

    /// Reads every byte of it, with a thread on each processor.
    ///
    /// # Errors
    /// The first file that does not hold.
    pub fn verify(&self) -> Result<Manifest, SetError> {
        let manifest = self.manifest()?;
        let cpus = process::usable();
        let pool = WorkerPool::new(pool::fair(cpus.len(), 1), cpus);
        for pe in Pe::all(manifest.entries.len()) {
            let (file, head, at) = open_part(&self.folder, &manifest, pe)?;
            let path = self.folder.join(part_name(pe));
            let tiles = Tiles { file: &file, path: &path, head: &head, at };
            let bad = Mutex::new(None);
            let look = |tile: usize, room: &mut Vec<u8>| {
                if let Err(error) = tiles.read(tile, room) {
                    let mut bad = lock(&bad);
                    if bad.as_ref().is_none_or(|&(first, _)| tile < first) {
                        *bad = Some((tile, error));
                    }
                }
            };
            pool.numbers(0..head.sums.len(), Vec::new, look);
            if let Some((_, error)) = lock(&bad).take() {
                return Err(error);
            }
        }
        Ok(manifest)
    }
}

/// The tiles of the file of a PE.
pub struct Tiles<'a> {
    /// The file.
    pub file: &'a File,
    /// Where it is.
    pub path: &'a Path,
    /// What it begins with.
    pub head: &'a Head,
    /// Where its first tile begins.
    pub at: u64,
}

impl Tiles<'_> {
    /// Makes `into` the bytes of a tile, which hold.
    ///
    /// # Errors
    /// They cannot be read, or do not hold.
    pub fn read(&self, tile: usize, into: &mut Vec<u8>) -> Result<(), SetError> {
        let range = self.head.tile(tile);
        into.resize((range.end - range.start) as usize, 0);
        read_exact(self.file, self.path, self.at + range.start, into)?;
        self.head.check(tile, into).map_err(format_at(self.path))
    }
}

/// Fills `bytes` from a file.
pub fn read_exact(file: &File, path: &Path, at: u64, bytes: &mut [u8]) -> Result<(), SetError> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at).map_err(io_at(path))
}

/// The manifest in the folder of a set.
///
/// # Errors
/// It is not there, or not whole.
pub fn read_manifest(folder: &Path) -> Result<Manifest, SetError> {
    let path = folder.join(MANIFEST);
    let mut bytes = Vec::new();
    let file = open(&path)?;
    file.take(MANIFEST_MAX).read_to_end(&mut bytes).map_err(io_at(&path))?;
    Manifest::decode(&bytes).map_err(format_at(&path))
}

/// The file of a PE, its head, and where its tiles begin; it must be the one that the manifest
/// names.
///
/// # Errors
/// It is not there, not whole, or of another set.
pub fn open_part(
    folder: &Path,
    manifest: &Manifest,
    pe: Pe,
) -> Result<(File, Head, u64), SetError> {
    let path = folder.join(part_name(pe));
    let file = open(&path)?;
    let len = file.metadata().map_err(io_at(&path))?.len();
    let strange = |why| SetError::Strange { path: path.clone(), why };
    let entry = manifest.entries.get(pe.at()).ok_or(strange("its set has no such PE"))?;
    if len != entry.len {
        let (expected, found) = (entry.len, len);
        return Err(format_at(&path)(FormatError::Short { expected, found }));
    }
    let mut begin = [0; part::BEGIN];
    read_exact(&file, &path, 0, &mut begin)?;
    let head_len = Head::len_of(&begin).map_err(format_at(&path))?;
    if head_len as u64 > len {
        let (expected, found) = (head_len as u64, len);
        return Err(format_at(&path)(FormatError::Short { expected, found }));
    }
    let mut bytes = vec![0; head_len];
    read_exact(&file, &path, 0, &mut bytes)?;
    let head = Head::decode(&bytes).map_err(format_at(&path))?;
    let sum = bytes.last_chunk::<4>().map(|sum| u32::from_le_bytes(*sum));
    let at = Head::data_at(head_len);
    let of_set = (head.job, head.number) == (manifest.job, manifest.number)
        && (head.pe, head.n_pes as usize) == (pe, manifest.entries.len())
        && head.heap_len == manifest.heap_len
        && sum == Some(entry.sum)
        && at + head.data_len() == len;
    if of_set { Ok((file, head, at)) } else { Err(strange("it belongs to another set")) }
}

/// The name of the file of a PE.
pub fn part_name(pe: Pe) -> String {
    format!("pe-{pe}")
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
        whole.then_some(Set { number, folder })
    };
    let mut sets: Vec<Set> = entries.flatten().filter_map(set).collect();
    sets.sort_by_key(|set| std::cmp::Reverse(set.number));
    Ok(sets)
}

/// Has what was written to a file or folder reach the disk.
pub fn sync(path: &Path) -> Result<(), SetError> {
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

/// Makes what was written to `part` a set of `folder`, and says its number.
///
/// # Errors
/// A file is not there, or what the system says.
pub fn commit(folder: &Path, part: &Path, bytes: &[u8]) -> Result<u64, SetError> {
    let manifest = Manifest::decode(bytes).map_err(format_at(part))?;
    for (pe, entry) in Pe::all(manifest.entries.len()).zip(&manifest.entries) {
        let path = part.join(part_name(pe));
        let meta = path.symlink_metadata().map_err(io_at(&path))?;
        if meta.len() != entry.len {
            let why = "not as long here as it was written; do all nodes see this folder?";
            return Err(SetError::Strange { path, why });
        }
    }
    let path = part.join(MANIFEST);
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(io_at(&path))?;
    sync(part)?;
    let mut number = list(folder)?.first().map_or(1, |set| set.number.saturating_add(1));
    loop {
        let set = folder.join(format!("set-{number}"));
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
    fs::remove_file(&manifest).map_err(io_at(&manifest))?;
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
    for entry in fs::read_dir(folder).map_err(io_at(folder))?.flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && is_left_behind(&name, &entry.path()) {
            fs::remove_dir_all(entry.path()).map_err(io_at(&entry.path()))?;
        }
    }
    Ok(old.into_iter().map(|set| set.number).collect())
}

/// A folder of ours that is no set, and that nobody is writing.
fn is_left_behind(name: &str, path: &Path) -> bool {
    let part = name.strip_suffix(PART).and_then(|name| name.split_once('-'));
    let part = part.is_some_and(|(job, number)| {
        u64::from_str_radix(job, 16).is_ok() && number.parse::<u64>().is_ok()
    });
    let set = name.strip_prefix("set-").is_some_and(|number| number.parse::<u64>().is_ok());
    let set = set && path.join(MANIFEST).symlink_metadata().is_err();
    let free = |file: File| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    (part || set) && File::open(path).is_ok_and(free)
}

#[cfg(test)]
mod tests;
