//! A set with all of its folders, as it is on disk: the state of each of its files.
//!
//! A file is looked for in every folder of its set. If it is nowhere, it belongs next to the other
//! file of its PE.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use raidshmem_archive::judge::{FileState, judge};
use raidshmem_archive::manifest::Manifest;
use raidshmem_archive::parity::ParityHead;
use raidshmem_archive::part::Head;
use raidshmem_core::disk::{Content, Damage, Held};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_sys::pool::WorkerPool;

use super::files::{PeFile, PeHead, SetError};
use super::held::{self, names};
use super::sets::{self, Set};

/// A set, in one folder or in those of several nodes.
#[derive(Debug, Clone)]
pub struct StoredSet {
    /// Its number.
    pub number: u64,
    /// Its manifest.
    pub manifest: Manifest,
    /// Its folders.
    pub folders: Vec<PathBuf>,
    /// The folder of each file that is there, and of each that should be.
    homes: BTreeMap<(Content, Pe), PathBuf>,
    damages: BTreeMap<(Content, Pe), Damage>,
}

/// A file of a set.
pub type SetFile = (Content, Pe);

impl StoredSet {
    /// Lists the sets in a folder and in its folders of nodes, newest first. Reads the heads of
    /// their files.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list(folder: &Path) -> Result<Vec<StoredSet>, SetError> {
        let mut all: BTreeMap<(u64, CheckpointNumber), Folders> = BTreeMap::new();
        for set in sets::list(folder)? {
            let Ok(manifest) = set.manifest() else { continue };
            let folders = all.entry((manifest.job, manifest.number)).or_default();
            folders.add(Some(set.number), Some(manifest), set.folder);
        }
        for Held { folder, job, number, set, .. } in held::list(folder) {
            let (set, bytes) = set.unzip();
            let manifest = bytes.and_then(|bytes| Manifest::decode(&bytes).ok());
            all.entry((job, number)).or_default().add(set, manifest, PathBuf::from(folder));
        }
        let of = |found: Folders| Some(StoredSet::new(found.number, found.manifest?, found.all));
        let mut sets: Vec<StoredSet> = all.into_values().filter_map(of).collect();
        sets.sort_by_key(|set| std::cmp::Reverse((set.number, set.manifest.seconds)));
        Ok(sets)
    }

    /// Returns the set in one folder. Reads the heads of its files.
    ///
    /// # Errors
    /// Its manifest cannot be read.
    pub fn of(set: &Set) -> Result<StoredSet, SetError> {
        Ok(StoredSet::new(set.number, set.manifest()?, vec![set.folder.clone()]))
    }

    fn new(number: u64, manifest: Manifest, folders: Vec<PathBuf>) -> StoredSet {
        let (homes, damages) = (BTreeMap::new(), BTreeMap::new());
        let mut set = StoredSet { number, manifest, folders, homes, damages };
        let mut there: BTreeMap<SetFile, Vec<PathBuf>> = BTreeMap::new();
        for folder in &set.folders {
            for file in names(folder) {
                there.entry(file).or_default().push(folder.clone());
            }
        }
        for file @ (content, pe) in set.files() {
            let beside = [Content::Data, Content::Parity].map(|content| there.get(&(content, pe)));
            let sibling = beside.into_iter().flatten().flatten().next();
            let only = set.folders.first().filter(|_| set.manifest.parity.is_none());
            let copies = there.get(&file).map(Vec::as_slice).unwrap_or_default();
            let intact = copies.iter().find(|home| set.check(file, home, None).is_none());
            let home = intact.or(copies.first()).or(sibling).or(only);
            let Some(home) = home.cloned() else { continue };
            if let Some(damage) = set.check(file, &home, None) {
                set.damages.insert((content, pe), damage);
            }
            set.homes.insert(file, home);
        }
        set
    }

    /// Returns all files that the manifest names.
    pub fn files(&self) -> Vec<SetFile> {
        let both = |pe| [(Content::Data, pe), (Content::Parity, pe)];
        let all = Pe::all(self.manifest.entries.len()).flat_map(both);
        all.filter(|&(content, pe)| self.manifest.entry(content, pe).is_some()).collect()
    }

    /// Reads every byte of the files that seem intact.
    pub fn read(&mut self, pool: &WorkerPool) {
        for (&file, home) in &self.homes {
            if !self.damages.contains_key(&file) {
                let damage = self.check(file, home, Some(pool));
                self.damages.extend(damage.map(|damage| (file, damage)));
            }
        }
    }

    /// Returns the damage of a file; without a pool, of its head.
    fn check(
        &self,
        (content, pe): SetFile,
        home: &Path,
        pool: Option<&WorkerPool>,
    ) -> Option<Damage> {
        let manifest = &self.manifest;
        match content {
            Content::Data => {
                held::damage::<Head>(home, pe, PeFile::open_named(home, manifest, pe), pool)
            }
            Content::Parity => {
                held::damage::<ParityHead>(home, pe, PeFile::open_named(home, manifest, pe), pool)
            }
        }
    }

    /// Opens a file.
    ///
    /// # Errors
    /// It is not there, or its head is damaged.
    pub fn open<H: PeHead>(&self, pe: Pe) -> Result<PeFile<H>, SetError> {
        match self.home((H::CONTENT, pe)) {
            Some(home) => PeFile::open_named(home, &self.manifest, pe),
            None => Err(SetError::Incomplete(format!("no disk here has the file of PE {pe}"))),
        }
    }

    /// Returns the folder of a file; None if no file of its PE is there.
    pub fn home(&self, file: SetFile) -> Option<&Path> {
        self.homes.get(&file).map(PathBuf::as_path)
    }

    /// Returns the state of a file.
    pub fn state(&self, content: Content, pe: Pe) -> FileState<'_> {
        match self.damages.get(&(content, pe)) {
            Some(damage) => FileState::Damaged(damage),
            None if self.homes.contains_key(&(content, pe)) => FileState::Whole,
            None => FileState::Missing,
        }
    }

    /// Returns the first damage found in a folder of the set.
    pub fn damage_in(&self, folder: &Path) -> Option<&Damage> {
        self.damages.values().find(|damage| Path::new(&damage.folder) == folder)
    }

    /// Returns the newest set of `all` that refers to this one, if this one cannot hold: it refers
    /// to a set that is deleted. Pruning leaves such a set for the blocks that others have there.
    pub fn is_only_for(&self, all: &[StoredSet]) -> Option<u64> {
        let (job, number) = (self.manifest.job, self.manifest.number);
        let has = |base: &CheckpointNumber| {
            all.iter().any(|set| (set.manifest.job, set.manifest.number) == (job, *base))
        };
        let refers =
            |set: &&StoredSet| set.manifest.job == job && set.manifest.bases.contains(&number);
        let holds = self.manifest.bases.iter().all(has);
        let newest = all.iter().filter(refers).map(|set| set.number).max();
        newest.filter(|_| !holds)
    }

    /// Checks that all data of the set can be read, or if it `decodes`, computed from parity.
    ///
    /// # Errors
    /// Some cannot.
    pub fn judge(&self, decodes: bool) -> Result<(), SetError> {
        let code = self.manifest.parity.as_ref().map(|parity| &parity.code);
        let groups = code.filter(|_| decodes).map(|code| code.groups()).transpose();
        let judged = groups.and_then(|groups| {
            let states = |content, pe| self.state(content, pe);
            judge(&self.manifest, groups.as_deref(), &states)
        });
        judged.map_err(SetError::Incomplete)
    }
}

/// The folders found of a checkpoint.
#[derive(Default)]
struct Folders {
    number: u64,
    manifest: Option<Manifest>,
    all: Vec<PathBuf>,
}

impl Folders {
    fn add(&mut self, number: Option<u64>, manifest: Option<Manifest>, folder: PathBuf) {
        self.number = self.number.max(number.unwrap_or(0));
        self.manifest = self.manifest.take().or(manifest);
        self.all.push(folder);
    }
}
