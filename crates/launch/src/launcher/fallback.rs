//! The sets that a job may fall back to, and the search for the newest that holds (`falling.rs`).
//!
//! Left out: the decision to fall back (`raidshmem_core::membership`).

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use raidshmem_archive::choose::{Chosen, Wanted};
use raidshmem_archive::lineage::Lineage;
use raidshmem_archive::manifest::Manifest;
use raidshmem_core::disk::{Folders, Held, Resume};
use raidshmem_core::message::Job;
use raidshmem_core::quantity::Pe;
use raidshmem_core::settings::Settings;

use super::choosing::{DiskSearch, SearchStep};
use crate::cli::ready::Ready;
use crate::cli::resume::OwnSet;

/// The sets that a job may fall back to, and the search under way.
pub(super) struct FallBack {
    pub folder: String,
    pub settings: Settings,
    pub nodes: u32,
    /// True if another build of the program may restore a set.
    pub rebuilt: bool,
    pub lineage: Lineage,
    /// The reason why the data in memory was given up.
    pub why: String,
    pub search: Option<Search>,
}

/// A search on the disks of the nodes.
pub(super) struct Search {
    /// The node on which each PE begins, unless its file is elsewhere.
    pub home: Vec<u32>,
    /// The sets of each node; None until it has answered.
    pub held: BTreeMap<u32, Option<Vec<Held>>>,
    /// The time at which nodes that have not answered count as without sets.
    pub until: Instant,
    /// The nodes that read their files.
    pub reading: BTreeSet<u32>,
    pub disks: DiskSearch,
}

/// A set that was found.
pub(super) struct FoundSet {
    pub set: u64,
    pub resume: Resume,
    /// The node on which each PE begins.
    pub node_of: Vec<u32>,
    /// The PEs whose files are on no disk.
    pub lost: Vec<Pe>,
    pub notes: Vec<String>,
}

/// The result of a search; the error says why no set holds.
pub(super) type SearchResult = Result<FoundSet, String>;

impl FallBack {
    /// Returns None without `SHMEM_FT_STORE`.
    pub fn new(ready: &Ready, job: &Job) -> Option<FallBack> {
        let begun = ready.resume.as_ref().map(|resume| (resume.job, resume.number));
        let settings = ready.settings.clone();
        Some(FallBack {
            folder: settings.store.clone()?,
            settings,
            nodes: ready.shape.nodes,
            rebuilt: ready.resume.as_ref().is_some_and(|resume| resume.rebuilt),
            lineage: Lineage::new(job.id, begun),
            why: String::new(),
            search: None,
        })
    }

    /// Takes note of a node that has joined.
    pub fn add_node(&mut self, node: u32) {
        self.nodes = self.nodes.max(node + 1);
    }

    /// Records why the data in memory was given up.
    pub fn give_up(&mut self, why: &str) {
        self.why = why.strip_prefix("unrecoverable: ").unwrap_or(why).to_owned();
    }

    /// Returns the line that explains how to continue later.
    pub fn advice(&self) -> String {
        format!("oshrun --resume {} continues from the newest set that holds", self.folder)
    }

    /// Returns the time until nodes that have not listed their disks are no longer waited for.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let search = self.search.as_ref().filter(|search| search.is_listing())?;
        Some(search.until.saturating_duration_since(now))
    }

    /// Chooses among the sets that the nodes list, once all have answered, or says what to read.
    pub fn step(&mut self) -> Option<Result<SearchStep, String>> {
        let search = self.search.as_mut().filter(|search| search.is_complete())?;
        let hosts: Vec<Vec<Held>> = (0..self.nodes)
            .map(|node| search.held.get(&node).cloned().flatten().unwrap_or_default())
            .collect();
        let (settings, lineage) = (&self.settings, &self.lineage);
        let wanted = Wanted {
            set: None,
            home: &search.home,
            scheme: settings.backup_mode.scheme(settings.parity),
            damages: &[],
            may_be: &|manifest: &Manifest| lineage.holds(manifest.job, manifest.number),
            are_nodes: true,
        };
        let step = search.disks.step(&hosts, wanted);
        if let Ok(SearchStep::Read(folders)) = &step {
            search.reading = folders.keys().map(|&host| host as u32).collect();
        }
        Some(step)
    }
}

impl Search {
    pub fn is_listing(&self) -> bool {
        self.held.values().any(Option::is_none)
    }

    pub fn is_complete(&self) -> bool {
        !self.is_listing() && self.reading.is_empty()
    }

    /// Stops waiting for a node, whose files are gone.
    pub fn lose(&mut self, node: u32) {
        self.held.remove(&node);
        self.reading.remove(&node);
        self.disks.damages.retain(|(host, _)| *host != node as usize);
    }
}

impl FoundSet {
    pub fn of_node_disks(chosen: Chosen, rebuilt: bool) -> FoundSet {
        let Chosen { set, manifest, node_of, folders, groups, lost, passed, .. } = chosen;
        let folders = Folders::Local { of: folders, groups };
        let Manifest { job, number, pages, .. } = manifest;
        let resume = Resume { job, number, folders, rebuilt, pages };
        FoundSet { set, resume, node_of, lost, notes: passed }
    }

    pub fn of_folder(found: OwnSet, node_of: Vec<u32>, rebuilt: bool) -> FoundSet {
        let OwnSet { set, resume, notes } = found;
        FoundSet { set, resume: Resume { rebuilt, ..resume }, node_of, lost: Vec::new(), notes }
    }
}

/// Returns true if the job begins from a set in the folder to which it writes further ones.
pub(super) fn begins_in_store(ready: &Ready) -> bool {
    let (Some(store), Some(resume)) = (&ready.settings.store, &ready.resume) else { return false };
    let is_in = |folder: &String| Path::new(folder).starts_with(store);
    match &resume.folders {
        Folders::Shared(folder) => is_in(folder),
        Folders::Local { of, .. } => of.iter().flatten().any(is_in),
    }
}
