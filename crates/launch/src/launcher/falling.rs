//! The search for a set while a job falls back to disk: on a thread if the sets are in one folder,
//! and by questions to the agents if each node has its own disk.
//!
//! Left out: the decision to fall back (`raidshmem_core::membership`), and the state of the search
//! (`fallback.rs`).

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::time::Instant;

use raidshmem_archive::manifest::Manifest;
use raidshmem_core::disk::{Damage, Held};
use raidshmem_core::membership::MembershipEvent;
use raidshmem_core::message::Down;
use raidshmem_core::settings::StoreLayout;
use raidshmem_report::event::What;

use super::Launcher;
use super::choosing::{DiskSearch, LISTED, SearchStep};
use super::fallback::{FoundSet, Search, SearchResult};
use super::job::job_id;
use super::storing::DiskEvent;
use crate::cli::resume::find_own;

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
        if falling.settings.store_layout == StoreLayout::Shared {
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
        let FoundSet { set, mut resume, node_of, lost: rebuilt, notes } = found;
        self.pages.begin_from(&mut resume);
        let checkpoint = resume.number;
        falling.lineage.begin_from(checkpoint, sets);
        disk.begin_again(&resume, sets, self.events.now());
        notes.iter().for_each(|line| self.events.news(line));
        let begun = Down::BeginFrom { resume, sets };
        self.nodes.send_to_all(&begun);
        self.joiner.begun = Some(begun);
        self.events.happened(What::FellBack { checkpoint, set, why, rebuilt });
        self.handle(MembershipEvent::SetChosen { number: checkpoint, node_of });
    }
}
