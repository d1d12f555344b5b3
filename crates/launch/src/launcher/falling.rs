//! The search for a set while a job falls back to disk: on a thread if the sets are in one folder,
//! and by questions to the agents if each node has its own disk.
//!
//! Left out: the decision to fall back (`raidshmem_core::membership`).

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use raidshmem_archive::choose::{Chosen, Wanted};
use raidshmem_archive::lineage::Lineage;
use raidshmem_archive::manifest::Manifest;
use raidshmem_core::disk::{Damage, Folders, Held, Resume};
use raidshmem_core::membership::MembershipEvent;
use raidshmem_core::message::{Down, Job};
use raidshmem_core::quantity::Pe;
use raidshmem_core::settings::StoreLayout;
use raidshmem_core::store::protection::Protection;
use raidshmem_report::event::What;

use super::Launcher;
use super::choosing::{DiskSearch, LISTED, SearchStep};
use super::job::job_id;
use super::storing::DiskEvent;
use crate::cli::ready::Ready;
use crate::cli::resume::{OwnSet, find_own};

/// The sets that a job may fall back to, and the search under way.
pub(super) struct FallBack {
    folder: String,
    layout: StoreLayout,
    nodes: u32,
    /// Computes the groups that the parity on disk is of.
    protect: Box<dyn Fn() -> Option<Protection>>,
    /// True if another build of the program may restore a set.
    rebuilt: bool,
    lineage: Lineage,
    /// The reason why the data in memory was given up.
    why: String,
    search: Option<Search>,
}

/// A search on the disks of the nodes.
struct Search {
    /// The node on which each PE begins, unless its file is elsewhere.
    home: Vec<u32>,
    /// The sets of each node; None until it has answered.
    held: BTreeMap<u32, Option<Vec<Held>>>,
    /// The time at which nodes that have not answered count as without sets.
    until: Instant,
    /// The nodes that read their files.
    reading: BTreeSet<u32>,
    disks: DiskSearch,
}

/// A set that was found.
pub(super) struct FoundSet {
    set: u64,
    resume: Resume,
    /// The node on which each PE begins.
    node_of: Vec<u32>,
    /// The PEs whose files are on no disk.
    lost: Vec<Pe>,
    notes: Vec<String>,
}

/// The result of a search; the error says why no set holds.
pub(super) type SearchResult = Result<FoundSet, String>;

impl FallBack {
    /// Returns None without `SHMEM_FT_STORE`.
    pub fn new(ready: &Ready, job: &Job) -> Option<FallBack> {
        let begun = ready.resume.as_ref().map(|resume| (resume.job, resume.number));
        let (settings, domains) = (ready.settings.clone(), ready.protected.site.domains.clone());
        let places: Vec<usize> = ready.shape.node_of.iter().map(|&node| node as usize).collect();
        Some(FallBack {
            folder: ready.settings.store.clone()?,
            layout: ready.settings.store_layout,
            nodes: ready.shape.nodes,
            protect: Box::new(move || Protection::new(&settings, &places, &domains).ok().flatten()),
            rebuilt: ready.resume.as_ref().is_some_and(|resume| resume.rebuilt),
            lineage: Lineage::new(job.id, begun),
            why: String::new(),
            search: None,
        })
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
    fn step(&mut self) -> Option<Result<SearchStep, String>> {
        let search = self.search.as_mut().filter(|search| search.is_complete())?;
        let hosts: Vec<Vec<Held>> = (0..self.nodes)
            .map(|node| search.held.get(&node).cloned().flatten().unwrap_or_default())
            .collect();
        let (protect, lineage) = (&self.protect, &self.lineage);
        let wanted = Wanted {
            set: None,
            home: &search.home,
            protect: &|_| protect(),
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
    fn is_listing(&self) -> bool {
        self.held.values().any(Option::is_none)
    }

    fn is_complete(&self) -> bool {
        !self.is_listing() && self.reading.is_empty()
    }

    /// Stops waiting for a node, whose files are gone.
    fn lose(&mut self, node: u32) {
        self.held.remove(&node);
        self.reading.remove(&node);
        self.disks.damages.retain(|(host, _)| *host != node as usize);
    }
}

impl FoundSet {
    fn of_node_disks(chosen: Chosen, rebuilt: bool) -> FoundSet {
        let Chosen { set, manifest, node_of, folders, parity, lost, passed, .. } = chosen;
        let folders = Folders::Local { of: folders, parity };
        let Manifest { job, number, .. } = manifest;
        let resume = Resume { job, number, folders, rebuilt };
        FoundSet { set, resume, node_of, lost, notes: passed }
    }

    fn of_folder(found: OwnSet, node_of: Vec<u32>, rebuilt: bool) -> FoundSet {
        let OwnSet { set, resume, notes } = found;
        FoundSet { set, resume: Resume { rebuilt, ..resume }, node_of, lost: Vec::new(), notes }
    }
}

impl Launcher {
    /// Gives up the data in memory: no checkpoint of it is written to disk any more.
    pub(super) fn give_up_memory(&mut self, why: &str) {
        self.schedule(DiskEvent::Lost);
        self.falling.iter_mut().for_each(|falling| falling.give_up(why));
    }

    /// Begins to look for the newest set that holds.
    pub(super) fn choose_set(&mut self, home: Vec<u32>) {
        let Some(falling) = &mut self.falling else { return };
        let (folder, lineage, rebuilt) =
            (falling.folder.clone(), falling.lineage.clone(), falling.rebuilt);
        if falling.layout == StoreLayout::Shared {
            return self.cleanup.search(move || {
                let may_be = |manifest: &Manifest| lineage.holds(manifest.job, manifest.number);
                let found = find_own(&folder, &may_be)?;
                Ok(FoundSet::of_folder(found, home, rebuilt))
            });
        }
        let nodes: Vec<u32> =
            self.nodes.connected().filter(|&node| !self.nodes.is_leaving(node)).collect();
        falling.search = Some(Search {
            home,
            held: nodes.iter().map(|&node| (node, None)).collect(),
            until: Instant::now() + LISTED,
            reading: BTreeSet::new(),
            disks: DiskSearch::default(),
        });
        for node in nodes {
            self.nodes.send(node, &Down::List { folder: folder.clone() }, &[]);
        }
        self.continue_search();
    }

    /// Takes a node's list of the sets on its disk.
    pub(super) fn add_held(&mut self, node: u32, held: Vec<Held>) {
        let search = self.falling.as_mut().and_then(|falling| falling.search.as_mut());
        if let Some(entry) = search.and_then(|search| search.held.get_mut(&node)) {
            *entry = Some(held);
        }
        self.continue_search();
    }

    /// Takes the damage that a node found in its files.
    pub(super) fn add_damages(&mut self, node: u32, damages: Vec<Damage>) {
        if let Some(search) = self.falling.as_mut().and_then(|falling| falling.search.as_mut()) {
            search.reading.remove(&node);
            search.disks.damages.extend(damages.into_iter().map(|it| (node as usize, it)));
        }
        self.continue_search();
    }

    /// Continues a search without a node that was lost.
    pub(super) fn search_without(&mut self, node: u32) {
        let search = self.falling.as_mut().and_then(|falling| falling.search.as_mut());
        search.into_iter().for_each(|search| search.lose(node));
        self.continue_search();
    }

    /// Stops waiting for nodes that did not list their disks in time.
    pub(super) fn check_search(&mut self) {
        let Some(falling) = &mut self.falling else { return };
        if falling.left(Instant::now()).is_none_or(|left| !left.is_zero()) {
            return;
        }
        for held in falling.search.iter_mut().flat_map(|search| search.held.values_mut()) {
            held.get_or_insert_default();
        }
        self.continue_search();
    }

    fn continue_search(&mut self) {
        let Some(falling) = &mut self.falling else { return };
        match falling.step() {
            None => {}
            Some(Ok(SearchStep::Read(folders))) => {
                for (host, folders) in folders {
                    self.nodes.send(host as u32, &Down::Check { folders }, &[]);
                }
            }
            Some(Ok(SearchStep::Chosen(chosen))) => {
                let found = FoundSet::of_node_disks(*chosen, falling.rebuilt);
                self.found_set(Ok(found));
            }
            Some(Err(why)) => self.found_set(Err(why)),
        }
    }

    /// Begins again from the set that was found; if there is none, the job ends.
    pub(super) fn found_set(&mut self, found: SearchResult) {
        let (Some(falling), Some(disk)) = (&mut self.falling, &mut self.disk) else { return };
        falling.search = None;
        let why = falling.why.clone();
        let (found, sets) = match found.and_then(|found| {
            let sets = job_id().map_err(|error| format!("random number of the job: {error}"))?;
            Ok((found, sets))
        }) {
            Ok(found) => found,
            Err(none) => {
                let why = format!("unrecoverable: {why}; on disk: {none}");
                return self.handle(MembershipEvent::NoSet { why });
            }
        };
        let FoundSet { set, resume, node_of, lost: rebuilt, notes } = found;
        let checkpoint = resume.number;
        falling.lineage.begin_from(checkpoint, sets);
        disk.begin_again(checkpoint, sets, self.events.now());
        notes.iter().for_each(|line| self.events.news(line));
        self.nodes.send_to_all(&Down::BeginFrom { resume, sets });
        self.events.happened(What::FellBack { checkpoint, set, why, rebuilt });
        self.handle(MembershipEvent::SetChosen { number: checkpoint, node_of });
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
