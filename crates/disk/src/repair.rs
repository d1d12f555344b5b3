//! Repair of sets without a job: a file that is damaged or missing is made again from the other
//! files of its group, as the agent of its PE had written it, and must then be the one that the
//! manifest names. A file that referred to others does so again, as its head says, or else as the
//! file of the set before shows which blocks had not changed. If neither is left, it gets all of
//! its blocks, and the manifests name that file, unless a file of a later set refers to the one
//! that it replaces.
//!
//! ```text
//! DIR/node-2/set-7/repair/pe-2    a file that is being made; it replaces pe-2 once it is on disk
//! ```
//!
//! Older sets are repaired first: later ones may refer to them.
//!
//! Invariants: a set that cannot be repaired is left as it is; a repair that ends at any step
//! leaves every file either as it was or whole.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::SyncSender;

use raidshmem_archive::compress::TileCompressor;
use raidshmem_archive::judge::FileState;
use raidshmem_archive::manifest::Manifest;
use raidshmem_archive::parity::ParityHead;
use raidshmem_archive::part::Head;
use raidshmem_archive::references::Past;
use raidshmem_core::disk::{Content, Entry, Failure};
use raidshmem_core::quantity::Pe;
use raidshmem_sys::pool::WorkerPool;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::decode::{DecodedFile, Decoder};
use super::examine::{SetFile, StoredSet};
use super::files::{PeFile, PeHead, SetError, TileScratch, io_at, name};
use super::output::{Piece, digest};
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

/// Repairs all sets in a folder and in its folders of nodes, newest first, except those that are
/// there only for others. Reads every byte.
///
/// # Errors
/// The folder cannot be read.
pub fn repair(folder: &Path, pool: &WorkerPool) -> Result<Vec<Repair>, SetError> {
    let mut repairs = Vec::new();
    let id = |set: &StoredSet| (set.manifest.number, set.manifest.job);
    let ids: BTreeSet<_> = StoredSet::list(folder)?.iter().map(id).collect();
    for next in ids {
        let mut sets = StoredSet::list(folder)?;
        let Some(at) = sets.iter().position(|set| id(set) == next) else { continue };
        if sets[at].is_only_for(&sets).is_some() {
            continue;
        }
        sets[at].read(pool);
        let (set, mut made) = (&sets[at], Vec::new());
        let failed = Repairer { root: folder, set, all: &sets }.all(&mut made).err();
        repairs.push(Repair { set: set.number, made, failed });
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
        let decoder = Decoder::new(set.clone())?;
        for home in set.folders.iter().filter(|home| !self.has_manifest(home, &set.manifest)) {
            wrong.entry(home.clone()).or_default();
        }
        let mut works = BTreeMap::new();
        let mut manifest = set.manifest.clone();
        for (home, files) in &wrong {
            let work = Work::new(home)?;
            self.make(&work.folder, files, &decoder, &mut manifest)?;
            works.insert(home.clone(), work);
        }
        for home in set.folders.iter().filter(|home| !self.has_manifest(home, &manifest)) {
            if !works.contains_key(home) {
                works.insert(home.clone(), Work::new(home)?);
            }
        }
        let files = |home: &PathBuf| wrong.get(home).map(Vec::as_slice).unwrap_or_default();
        works
            .into_iter()
            .try_for_each(|(home, work)| self.replace((&home, files(&home)), work, &manifest, made))
    }

    /// Returns true for the folder of a set with this manifest, and for one that is no set.
    fn has_manifest(&self, home: &Path, manifest: &Manifest) -> bool {
        sets::read_manifest(home).is_ok_and(|it| it == *manifest) || sets::is_part_folder(home)
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

    /// Moves the files that were made to their folder of the set, and then the manifest.
    fn replace(
        &self,
        (home, files): (&Path, &[SetFile]),
        work: Work,
        manifest: &Manifest,
        made: &mut Vec<PathBuf>,
    ) -> Result<(), SetError> {
        for &(content, pe) in files {
            let path = home.join(name(content, pe));
            step();
            fs::rename(work.folder.join(name(content, pe)), &path).map_err(io_at(&path))?;
            made.push(path);
        }
        if !sets::read_manifest(home).is_ok_and(|it| it == *manifest) {
            sets::write_manifest(&work.folder, &manifest.encode())?;
            let path = home.join(MANIFEST);
            step();
            fs::rename(work.folder.join(MANIFEST), &path).map_err(io_at(&path))?;
            made.push(path);
        }
        drop(work);
        sets::sync(home)?;
        match home.parent().filter(|_| sets::is_part_folder(home)) {
            Some(node) => sets::name_part(node, home, self.set.number),
            None => Ok(()),
        }
    }

    /// Makes files in an empty folder. The manifest then names those that are others than before.
    fn make(
        &self,
        work: &Path,
        files: &[SetFile],
        decoder: &Decoder,
        manifest: &mut Manifest,
    ) -> Result<(), SetError> {
        let levels = if files.is_empty() { vec![0] } else { self.levels(decoder)? };
        for &file in files {
            if !self.make_named(work, file, decoder, &levels)? {
                self.check_no_other_refers_to(file)?;
                let level = levels.first().copied().unwrap_or_default();
                let entry = self.write(work, file, decoder, (level, None))?;
                manifest.rename(file.0, file.1, entry);
            }
        }
        sets::sync(work)
    }

    /// Makes the file that the manifest names. False if that cannot be done, and another may take
    /// its place.
    fn make_named(
        &self,
        work: &Path,
        file @ (content, pe): SetFile,
        decoder: &Decoder,
        levels: &[u32],
    ) -> Result<bool, SetError> {
        let (refers, path) = (!self.set.manifest.bases.is_empty(), work.join(name(content, pe)));
        let entry = self.set.manifest.entry(content, pe);
        let earlier = self.all.iter().filter(|set| refers && self.precedes(set));
        let pasts = std::iter::once_with(|| past_of(self.set, file, Time::Before));
        let pasts = pasts.chain(earlier.map(|set| past_of(set, file, Time::After))).flatten();
        for past in pasts.map(Some).chain([None]) {
            for &level in levels {
                if Some(self.write(work, file, decoder, (level, past.clone()))?) == entry {
                    return Ok(true);
                }
                fs::remove_file(&path).map_err(io_at(&path))?;
            }
        }
        let why = "this build decodes other files than those of the manifest";
        let failed = || SetError::Incomplete(format!("set {}: {why}", self.set.number));
        refers.then_some(false).ok_or_else(failed)
    }

    /// True for a set that the files of this one may refer to.
    fn precedes(&self, other: &StoredSet) -> bool {
        let (it, own) = (&other.manifest, &self.set.manifest);
        it.job == own.job && it.number < own.number
    }

    /// Returns an error if a whole file of a later set refers to this file, as it was.
    fn check_no_other_refers_to(&self, (content, pe): SetFile) -> Result<(), SetError> {
        let number = self.set.manifest.number;
        let refers = |set: &&StoredSet| {
            let references = match content {
                Content::Data => set.open::<Head>(pe).map(|it| it.head.references),
                Content::Parity => set.open::<ParityHead>(pe).map(|it| it.head.references),
            };
            references.is_ok_and(|it| it.used().any(|(_, base)| base.number == number))
        };
        let mut later = self.all.iter().filter(|set| set.manifest.job == self.set.manifest.job);
        match later.find(refers) {
            None => Ok(()),
            Some(StoredSet { number, .. }) => Err(SetError::Incomplete(format!(
                "set {number} refers to it as it was; oshinfo store DIR@{} --copy TO writes it \
                 whole",
                self.set.number
            ))),
        }
    }

    /// Writes a file as the agent of its PE did, after a past one. Returns its entry.
    fn write(
        &self,
        work: &Path,
        file @ (content, pe): SetFile,
        decoder: &Decoder,
        (level, past): (u32, Option<Past>),
    ) -> Result<Entry, SetError> {
        let (mut order, layout) = (decoder.order(level), decoder.layout());
        order.how.base = past.as_ref().map(Past::number);
        order.how.incremental = past.is_some();
        let mut pasts: Pasts = past.map(|past| (file, past)).into_iter().collect();
        let stop = AtomicU64::new(0);
        let read = |pieces: SyncSender<Piece>| {
            let decoded = DecodedFile::new(decoder, file);
            let decoded = decoded.map_err(|error| Failure::Refused(error.to_string()))?;
            match content {
                Content::Data => read_data(&order, (pe, &layout), &decoded, &pieces, &stop),
                Content::Parity => read_parity(&order, pe, &decoded, &pieces, &stop),
            }
        };
        let written = transfer(&order, (work, &mut pasts), AHEAD, &stop, read);
        let (files, ()) = written.map_err(|failure| {
            let set = self.set.number;
            SetError::Incomplete(match failure {
                Failure::Refused(why) => why,
                _ => format!("set {set}: its files cannot be made"), // no other failure can be
            })
        })?;
        let entry = files.data.into_iter().chain(files.parity).map(|(_, entry)| entry).next();
        entry.ok_or_else(|| SetError::Incomplete(format!("PE {pe} has no such file")))
    }

    /// Returns the levels at which the tiles of the set may have been compressed; 0 if they are not
    /// compressed.
    fn levels(&self, decoder: &Decoder) -> Result<Vec<u32>, SetError> {
        let pes = || Pe::all(self.set.manifest.entries.len());
        let is_compressed = |pe: Pe| {
            decoder.data(pe).is_some_and(|file| !file.head.stored.is_empty())
                || decoder.parity(pe).is_some_and(|file| !file.head.stored.is_empty())
        };
        if !pes().any(is_compressed) {
            return Ok(vec![0]);
        }
        let mut samples = Vec::new();
        for pe in pes() {
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

/// The empty folder for the files of a part of a set, which no other repair and no job changes; it
/// goes with this.
struct Work {
    folder: PathBuf,
    _lock: File,
}

impl Work {
    fn new(home: &Path) -> Result<Work, SetError> {
        step();
        fs::create_dir_all(home).map_err(io_at(home))?;
        let (folder, _lock) = (home.join(WORK), lock(home)?);
        step();
        if let Err(error) = fs::remove_dir_all(&folder)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(io_at(&folder)(error));
        }
        fs::create_dir(&folder).map_err(io_at(&folder))?;
        Ok(Work { folder, _lock })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        step();
        let _ = fs::remove_dir_all(&self.folder); // else the next repair does so
    }
}

/// The time, around the writing of a file, of what an agent remembers.
#[derive(Clone, Copy, PartialEq)]
enum Time {
    /// It shows in the references of the file.
    Before,
    /// It shows in all tiles of the file.
    After,
}

/// Returns what an agent remembered before or after it wrote a file, if the tiles that show it can
/// be read.
fn past_of(set: &StoredSet, (content, pe): SetFile, time: Time) -> Option<Past> {
    fn of<H: PeHead>(file: &PeFile<H>, time: Time) -> Option<Past> {
        let (owner, mut scratch) = (H::owner(&file.head), TileScratch::default());
        let (tiles, references) = (file.head.tiles(), file.head.references());
        let mut read = |nth| Some(digest(owner.job, file.tile(nth, &mut scratch).ok()?));
        let all = 0..tiles.sums.len();
        match time {
            Time::Before => {
                let digest =
                    |nth| if tiles.is_here(nth) { Some(None) } else { read(nth).map(Some) };
                let digests: Option<Vec<Option<u128>>> = all.map(digest).collect();
                Past::before(owner, references, &digests?)
            }
            Time::After => {
                let digests: Option<Vec<u128>> = all.map(read).collect();
                Some(Past::new(owner, file.entry, references, &digests?))
            }
        }
    }
    match content {
        Content::Data => of::<Head>(&set.open(pe).ok()?, time),
        Content::Parity => of::<ParityHead>(&set.open(pe).ok()?, time),
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
