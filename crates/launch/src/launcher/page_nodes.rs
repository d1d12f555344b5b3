//! The NUMA nodes of each PE's pages, which PEs report at checkpoints: for memory that is made
//! again after a loss, and for the manifests of sets on disk.
//!
//! Invariant: a table is only advice. One that is older or newer than the checkpoint that the job
//! rolls back to costs time, and no byte.

#![forbid(unsafe_code)]

use raidshmem_core::disk::Resume;
use raidshmem_core::placement::pages::PageRuns;
use raidshmem_core::quantity::Pe;

use crate::cli::ready::Ready;

/// The last table of each PE.
pub(super) struct PageNodes {
    of: Vec<PageRuns>,
    /// False if pages are not placed (`SHMEM_FT_AFFINITY`).
    is_on: bool,
}

impl PageNodes {
    /// Returns those of a job before it begins, perhaps from a set.
    pub fn new(ready: &mut Ready) -> PageNodes {
        let of = vec![PageRuns::default(); ready.shape.node_of.len()];
        let mut nodes = PageNodes { of, is_on: ready.settings.affinity };
        ready.resume.iter_mut().for_each(|resume| nodes.begin_from(resume));
        nodes
    }

    /// Takes those of the set that the job begins from, if it has any: agents get each with the
    /// order to make the memory.
    pub fn begin_from(&mut self, resume: &mut Resume) {
        let pages = std::mem::take(&mut resume.pages);
        if self.is_on && pages.len() == self.of.len() {
            self.of = pages;
        }
    }

    /// Takes note of a PE's report, if that is sound: a manifest must be readable again.
    pub fn note(&mut self, pe: Pe, pages: &PageRuns) {
        let pages = PageRuns::of(pages.runs().to_vec());
        if let (Some(of), Some(pages)) = (self.of.get_mut(pe.at()), pages) {
            *of = pages;
        }
    }

    /// Returns those of a PE.
    pub fn of(&self, pe: Pe) -> PageRuns {
        self.of.get(pe.at()).cloned().unwrap_or_default()
    }

    /// Returns those of all PEs for a manifest: none if none are known of any.
    pub fn of_all(&self) -> Vec<PageRuns> {
        let any = self.of.iter().any(|pages| !pages.is_empty());
        if any { self.of.clone() } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use raidshmem_core::disk::Folders;
    use raidshmem_core::placement::pages::PageRun;
    use raidshmem_core::quantity::CheckpointNumber;

    use super::*;

    #[test]
    fn a_set_begins_them_and_reports_replace_them() {
        let runs = |node| PageRuns::of(vec![PageRun { first: 1, pages: 2, node }]).expect("a run");
        let (folders, number) = (Folders::Shared(String::new()), CheckpointNumber(1));
        let (job, rebuilt) = (1, false);
        let resume = |pages| Resume { job, number, folders: folders.clone(), rebuilt, pages };
        let nodes = |is_on| PageNodes { of: vec![PageRuns::default(); 2], is_on };
        let (mut off, mut nodes) = (nodes(false), nodes(true));
        assert_eq!(nodes.of_all(), [], "no NUMA, no table");
        for nodes in [&mut off, &mut nodes] {
            let mut from = resume(vec![PageRuns::default(), runs(1)]);
            nodes.begin_from(&mut from);
            assert!(from.pages.is_empty());
        }
        assert_eq!(off.of_all(), []);
        nodes.begin_from(&mut resume(Vec::new()));
        assert_eq!((nodes.of(Pe(0)), nodes.of(Pe(1))), (PageRuns::default(), runs(1)));
        nodes.note(Pe(0), &runs(3));
        nodes.note(Pe(9), &runs(3));
        assert_eq!(nodes.of_all(), [runs(3), runs(1)]);
    }
}
