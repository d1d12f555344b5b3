//! The memory of the PEs on this node: one file with a place for every PE of the job.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use raidshmem_control::trace;
use raidshmem_core::layout::Layout;
use raidshmem_core::message::{Job, Traced};
use raidshmem_core::page::PAGE;
use raidshmem_core::placement::pages::PageRuns;
use raidshmem_core::quantity::Pe;
use raidshmem_core::settings::Fabric;
use raidshmem_core::view::View;
use raidshmem_segment::Traced as Mapped;
use raidshmem_sys::memory::{Mapping, Part};

use super::binder::Binder;
use super::done::AgentDone;
use crate::worker::Worker;

/// The memory of a node.
pub(super) struct NodeMemory {
    node: u32,
    file: Arc<OwnedFd>,
    layout: Layout,
    /// PEs whose memory is on this node.
    here: BTreeSet<Pe>,
    binder: Arc<Binder>,
    /// True if only agents can free memory, since nodes do not map each other.
    is_alone: bool,
}

impl NodeMemory {
    /// Takes over the file of a node, without memory of a PE.
    pub fn new(job: &Job, node: u32, file: Arc<OwnedFd>, binder: Arc<Binder>) -> NodeMemory {
        let layout = Layout::new(job.heap_len as usize, job.n_pes as usize);
        let is_alone = job.fabric != Fabric::Shm;
        NodeMemory { node, file, layout, here: BTreeSet::new(), binder, is_alone }
    }

    /// Returns the memory of a PE, if it is on this node.
    pub fn part(&self, pe: Pe) -> Part {
        let len = self.layout.total;
        Part::new(Arc::clone(&self.file), pe.at() * len, len)
    }

    /// Returns the memories of these PEs.
    pub fn parts(&self, pes: Vec<Pe>) -> Vec<(Pe, Part)> {
        pes.into_iter().map(|pe| (pe, self.part(pe))).collect()
    }

    /// Returns the layout of each memory.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Maps the control words of a PE.
    pub fn control(&self, pe: Pe) -> Option<Mapping> {
        self.part(pe).map(0, PAGE, None, true).ok()
    }

    /// Creates the memory of a PE: wipes its part of the file, which may hold older memory of the
    /// PE. Its pages shall lie on the NUMA nodes of `pages`.
    pub fn make(
        &mut self,
        (pe, memory): (Pe, u32),
        pages: PageRuns,
        worker: &mut Worker<AgentDone>,
    ) {
        let (binder, part) = (Arc::clone(&self.binder), self.part(pe));
        self.here.insert(pe);
        worker.begin(move || {
            let result = part.wipe();
            binder.place_memory(pe, &part, &pages);
            AgentDone::Made { pe, memory, result }
        });
    }

    /// Frees the memory of PEs that moved to another node; processes here may still map it. If
    /// nodes map each other, the launcher does so instead.
    pub fn free_moved(&mut self, view: &View, worker: &mut Worker<AgentDone>) {
        if !self.is_alone {
            return;
        }
        let stays = |pe: &Pe| view.pes[pe.at()].node == self.node;
        let (stay, left): (BTreeSet<Pe>, BTreeSet<Pe>) =
            std::mem::take(&mut self.here).into_iter().partition(stays);
        self.here = stay;
        for part in left.into_iter().map(|pe| self.part(pe)) {
            worker.begin(move || {
                let _ = part.wipe(); // otherwise freed at the end of the job
                AgentDone::Wiped
            });
        }
    }

    /// Frees all memory at once, because this process may linger.
    pub fn wipe_all(&self) {
        for &pe in &self.here {
            let _ = self.part(pe).wipe(); // otherwise freed once this process ends
        }
    }

    /// Returns the last events of these PEs, at most `most` in all.
    pub fn events_of_all(&self, pes: impl Iterator<Item = Pe>, most: usize) -> Vec<Traced> {
        let each = most / self.here.len().max(1);
        pes.flat_map(|pe| self.events_of(pe, each)).collect()
    }

    /// Returns the last events of a PE here, at most `most`.
    pub fn events_of(&self, pe: Pe, most: usize) -> Vec<Traced> {
        let Ok(mapped) = Mapped::of(&self.part(pe), &self.layout) else { return Vec::new() };
        trace::last_events(mapped.ring(), most, |incarnation| match incarnation {
            0 => format!("PE {pe}"),
            n => format!("PE {pe} (incarnation {n})"),
        })
    }
}
