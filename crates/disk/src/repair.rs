//! Repair of sets without a job: a file that is damaged or missing is made again from the other
//! files of its group, as the agent of its PE had written it, and must then be the one that the
//! manifest names.
//!
//! ```text
//! DIR/node-2/set-7/repair/pe-2    a file that is being made; it replaces pe-2 once it is on disk
//! ```
//!
//! A set that refers to others is left as it is: which blocks a lost file referred to is not known.
//! Those it refers to are repaired.
//!
//! Invariants: a set that cannot be repaired is left as it is; a repair that ends at any step
//! leaves every file either as it was or whole.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::SyncSender;

use raidshmem_archive::compress::TileCompressor;
use raidshmem_archive::judge::FileState;
use raidshmem_core::disk::{Content, Entry, Failure, Files};
use raidshmem_core::quantity::Pe;
use raidshmem_sys::pool::WorkerPool;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::decode::{DecodedFile, Decoder};
use super::examine::{SetFile, StoredSet};
use super::files::{PeFile, PeHead, SetError, TileScratch, io_at, name};
use super::output::Piece;
use super::sets::{self, MANIFEST};
use super::step::step;
use super::write::{Pasts, read_data, read_parity, transfer};

/// The folder, in that of a set, for files that are being made.
const WORK: &str = "repair";
/// The levels at which tiles may be compressed.
const LEVELS: std::ops::RangeInclusive<u32> = 1..=19;
/// Compressed tiles that show the level of a set.
const SAMPLES: usize = 8;
/// Tiles that are decoded ahead of the one that is written.
const AHEAD: usize = 16;

/// The result of the repair of a set.
#[derive(Debug)]
pub struct Repair {
    /// The number of the set.
    pub set: u64,
    /// The files that were made again.
    pub made: Vec<PathBuf>,
    /// The reason why the set is not whole.
    pub failed: Option<SetError>,
}

/// Repairs all sets in a folder and in its folders of nodes, newest first. Reads every byte.
///
/// # Errors
/// The folder cannot be read.
pub fn repair(folder: &Path, pool: &WorkerPool) -> Result<Vec<Repair>, SetError> {
    let mut repairs = Vec::new();
    // First what others refer to.
    for refers in [false, true] {
        let mut sets = StoredSet::list(folder)?;
        let is_next = |set: &StoredSet| set.manifest.bases.is_empty() != refers;
        let next = sets.iter_mut().filter(|set| is_next(set));
        next.for_each(|set| set.read(pool));
        for set in sets.iter().filter(|set| is_next(set)) {
            let mut made = Vec::new();
            let failed = Repairer { root: folder, set, all: &sets }.all(&mut made).err();
            repairs.push(Repair { set: set.number, made, failed });
        }
    }
    repairs.sort_by_key(|repair| std::cmp::Reverse(repair.set));
    Ok(repairs)
}

/// The repair of a set.
struct Repairer<'a> {
    root: &'a Path,
    set: &'a StoredSet,
    /// All sets, which show where files of a PE lie.
    all: &'a [StoredSet],
}

impl Repairer<'_> {
    /// Makes every file again that is not whole, and then every manifest.
    fn all(&self, made: &mut Vec<PathBuf>) -> Result<(), SetError> {
        let set = self.set;
        set.judge(true).map_err(|error| match set.manifest.parity {
            Some(_) => error,
            None => SetError::Incomplete(format!("{error}; a set in one folder has no parity")),
        })?;
        let is_whole =
            |&(content, pe): &SetFile| matches!(set.state(content, pe), FileState::Whole);
        let mut wrong: BTreeMap<PathBuf, Vec<SetFile>> = BTreeMap::new();
        let mut new: BTreeMap<PathBuf, Vec<Pe>> = BTreeMap::new();
        for file in set.files().into_iter().filter(|file| !is_whole(file)) {
            let home = match set.home(file) {
                Some(home) => home.to_owned(),
                None => self.new_home(file.1, &mut new),
            };
            wrong.entry(home).or_default().push(file);
        }
        if !wrong.is_empty() {
            set.check_is_whole()?;
        }
        let decoder = Decoder::new(set.clone())?;
        for home in set.folders.iter().filter(|home| !self.has_manifest(home)) {
            wrong.entry(home.clone()).or_default();
        }
        for (home, files) in wrong {
            self.repair_in(&home, &files, &decoder, made)?;
        }
        Ok(())
    }

    /// Returns true for the folder of a set with a valid manifest, and for one that is no set.
    fn has_manifest(&self, home: &Path) -> bool {
        let named = sets::read_manifest(home).is_ok_and(|manifest| manifest == self.set.manifest);
        named || sets::is_part_folder(home)
    }

    /// Chooses the folder for the files of a PE of which none is there: that of its node in another
    /// set, or one of a node that has no file of this set, nor of its group in `new`.
    fn new_home(&self, pe: Pe, new: &mut BTreeMap<PathBuf, Vec<Pe>>) -> PathBuf {
        let (set, parity) = (self.set, self.set.manifest.parity.as_ref());
        if let Some(home) = set.folders.iter().find(|home| home.parent() == Some(self.root)) {
            return home.clone();
        }
        let part = |node: &Path| sets::part_folder(node, set.manifest.job, set.manifest.number);
        let node_of =
            |other: &StoredSet| Some(other.home((Content::Data, pe))?.parent()?.to_owned());
        let usual = self.all.iter().find_map(node_of);
        let groups = parity.map(|parity| parity.code.groups.as_slice()).unwrap_or_default();
        let group = groups.iter().find(|group| group.contains(&pe));
        let is_free = |node: &PathBuf| {
            let beside = |pe: &Pe| group.is_some_and(|group| group.contains(pe));
            let clash =
                new.get(node).is_some_and(|pes| pes.iter().any(|it| *it != pe && beside(it)));
            !clash && !set.folders.iter().any(|home| home.parent() == Some(node))
        };
        let mut nodes = (0..).map(|node| sets::node_folder(self.root, node));
        let node = usual.or_else(|| nodes.find(is_free)).expect("numbers do not end");
        let home = set.folders.iter().find(|home| home.parent() == Some(&node));
        new.entry(node.clone()).or_default().push(pe);
        home.cloned().unwrap_or_else(|| part(&node))
    }

    /// Repairs a folder of the set.
    fn repair_in(
        &self,
        home: &Path,
        files: &[SetFile],
        decoder: &Decoder,
        made: &mut Vec<PathBuf>,
    ) -> Result<(), SetError> {
        step();
        fs::create_dir_all(home).map_err(io_at(home))?;
        let _lock = lock(home)?;
        let work = home.join(WORK);
        self.make(&work, files, decoder)?;
        for &(content, pe) in files {
            let path = home.join(name(content, pe));
            step();
            fs::rename(work.join(name(content, pe)), &path).map_err(io_at(&path))?;
            made.push(path);
        }
        if !sets::read_manifest(home).is_ok_and(|manifest| manifest == self.set.manifest) {
            sets::write_manifest(&work, &self.set.manifest.encode())?;
            let path = home.join(MANIFEST);
            step();
            fs::rename(work.join(MANIFEST), &path).map_err(io_at(&path))?;
            made.push(path);
        }
        step();
        fs::remove_dir(&work).map_err(io_at(&work))?;
        sets::sync(home)?;
        match home.parent().filter(|_| sets::is_part_folder(home)) {
            Some(node) => sets::name_part(node, home, self.set.number),
            None => Ok(()),
        }
    }

    /// Makes files in an empty folder.
    fn make(&self, work: &Path, files: &[SetFile], decoder: &Decoder) -> Result<(), SetError> {
        let set = self.set.number;
        let failed = |why: &str| SetError::Incomplete(format!("set {set}: {why}"));
        let levels = if files.is_empty() { vec![0] } else { self.levels(decoder)? };
        for level in levels {
            step();
            if let Err(error) = fs::remove_dir_all(work)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                return Err(io_at(work)(error));
            }
            fs::create_dir(work).map_err(io_at(work))?;
            let written = self.write(work, files, decoder, level);
            let written = written.map_err(|failure| match failure {
                Failure::Refused(why) => SetError::Incomplete(why),
                _ => failed("its files cannot be made"), // no other failure can be
            })?;
            if self.are_named(&written) {
                return sets::sync(work);
            }
        }
        let _ = fs::remove_dir_all(work); // else the next repair does so
        Err(failed("this build decodes other files than those of the manifest"))
    }

    fn are_named(&self, written: &Files) -> bool {
        let manifest = &self.set.manifest;
        let is_named =
            |content, &(pe, entry): &(Pe, Entry)| manifest.entry(content, pe) == Some(entry);
        written.data.iter().all(|file| is_named(Content::Data, file))
            && written.parity.iter().all(|file| is_named(Content::Parity, file))
    }

    /// Writes files as the agents of their PEs did.
    fn write(
        &self,
        work: &Path,
        files: &[SetFile],
        decoder: &Decoder,
        level: u32,
    ) -> Result<Files, Failure> {
        let (order, layout) = (decoder.order(level), decoder.layout());
        let stop = AtomicU64::new(0);
        let read = |pieces: SyncSender<Piece>| {
            files.iter().try_for_each(|&(content, pe)| {
                let file = DecodedFile::new(decoder, (content, pe));
                let file = file.map_err(|error| Failure::Refused(error.to_string()))?;
                match content {
                    Content::Data => read_data(&order, (pe, &layout), &file, &pieces, &stop),
                    Content::Parity => read_parity(&order, pe, &file, &pieces, &stop),
                }
            })
        };
        let files = (work, &mut Pasts::new());
        let (written, ()) = transfer(&order, files, AHEAD, &stop, read)?;
        Ok(written)
    }

    /// Returns the levels at which the tiles of the set may have been compressed; 0 if they are not
    /// compressed.
    fn levels(&self, decoder: &Decoder) -> Result<Vec<u32>, SetError> {
        if self.set.manifest.raw.is_none() {
            return Ok(vec![0]);
        }
        let mut samples = Vec::new();
        for pe in Pe::all(self.set.manifest.entries.len()) {
            decoder.data(pe).into_iter().for_each(|file| sample(file, &mut samples));
            decoder.parity(pe).into_iter().for_each(|file| sample(file, &mut samples));
        }
        let makes = |level: &u32| {
            let made = TileCompressor::new(*level);
            let makes = |mut zstd: TileCompressor| {
                samples.iter().all(|(tile, stored)| zstd.compress(tile) == stored)
            };
            made.is_ok_and(makes)
        };
        let levels: Vec<u32> = LEVELS.filter(makes).collect();
        match levels.is_empty() {
            true => Err(SetError::Incomplete(format!(
                "set {}: another version of zstd compressed it",
                self.set.number
            ))),
            false => Ok(levels),
        }
    }
}

/// Collects some intact compressed tiles of a file, each with its stored form.
fn sample<H: PeHead>(file: &PeFile<H>, samples: &mut Vec<(Vec<u8>, Vec<u8>)>) {
    let mut scratch = TileScratch::default();
    for nth in 0..file.head.tiles().sums.len() {
        if samples.len() >= SAMPLES {
            return;
        }
        let Ok(tile) = file.tile(nth, &mut scratch).map(<[u8]>::to_vec) else { continue };
        match file.stored(nth) {
            Ok(stored) if stored.len() < tile.len() => samples.push((tile, stored)),
            _ => {}
        }
    }
}

/// Locks a folder, so that no other repair and no job changes it.
fn lock(folder: &Path) -> Result<File, SetError> {
    let file = File::open(folder).map_err(io_at(folder))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            let why = "another process is at work there";
            Err(SetError::Strange { path: folder.to_owned(), why })
        }
        _ => Ok(file), // some file systems lack it
    }
}

#[cfg(test)]
mod tests;
