//! Slow work after the loss of a node or a PE, done outside the loop that renews leases: the last
//! lines of a node, and wiping memory.
//!
//! Invariant: the membership machine learns that a memory is wiped only after the wipe.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use raidshmem_core::layout::Layout;
use raidshmem_core::message::{Down, Job};
use raidshmem_core::quantity::Pe;
use raidshmem_sys::memory::Part;

use super::ending::LAST_LINES;
use super::fallback::SearchResult;
use super::gather::{Node, end_one};
use super::nodes::Nodes;
use super::teardown::WorkerDone;
use crate::worker::Worker;

/// The memory files of nodes that map each other, and the thread that cleans up.
pub(super) struct Cleanup {
    worker: Worker<WorkerDone>,
    files: BTreeMap<u32, Arc<OwnedFd>>,
    /// Bytes of a PE's memory in one of these files.
    total: usize,
    memories: BTreeMap<(Pe, u32), Part>,
}

impl Cleanup {
    /// Starts the thread.
    ///
    /// # Errors
    /// Too few threads or descriptors.
    pub fn new(job: &Job) -> std::io::Result<Cleanup> {
        let total = Layout::new(job.heap_len as usize, job.n_pes as usize).total;
        let (files, memories) = Default::default();
        Ok(Cleanup { worker: Worker::new()?, files, total, memories })
    }

    /// Keeps the memory file of a node.
    pub fn keep(&mut self, node: u32, file: Arc<OwnedFd>) {
        self.files.insert(node, file);
    }

    /// Sends the memory files of all other nodes to a node that has joined.
    pub fn share_all(&self, node: u32, nodes: &mut Nodes) {
        for (&other, file) in self.files.iter().filter(|(other, _)| **other != node) {
            nodes.send(node, &Down::File { node: other }, &[Arc::clone(file)]);
        }
    }

    /// Ends the agent of a node that does not join.
    pub fn end_agent(&mut self, entry: Node) {
        self.worker.begin(move || {
            end_one(entry);
            WorkerDone::NotJoined
        });
    }

    /// Records that the node has made a memory of a PE in its file.
    pub fn add(&mut self, node: u32, pe: Pe, memory: u32) {
        if let Some(file) = self.files.get(&node) {
            let part = Part::new(Arc::clone(file), pe.at() * self.total, self.total);
            self.memories.insert((pe, memory), part);
        }
    }

    /// Wipes a lost memory, if this process holds it.
    pub fn wipe(&mut self, pe: Pe, memory: u32) {
        let part = self.memories.remove(&(pe, memory));
        self.worker.begin(move || {
            let result = part.map_or(Ok(()), |part| part.wipe());
            WorkerDone::Wiped { pe, memory, result }
        });
    }

    /// Searches for a set, which reads whole files.
    pub fn search(&mut self, search: impl FnOnce() -> SearchResult + Send + 'static) {
        self.worker.begin(move || WorkerDone::Searched(search()));
    }

    /// Prints the last lines of a node that has ended, if it is `trusted`.
    pub fn finish_lines(&mut self, node: u32, mut entry: Node, trusted: bool) {
        self.worker.begin(move || {
            let limit = if trusted { LAST_LINES / 10 } else { Duration::ZERO };
            entry.finish_output(limit, || false);
            WorkerDone::Lines { node }
        });
    }

    /// Takes the results since the last call.
    pub fn results(&mut self) -> Vec<WorkerDone> {
        self.worker.results()
    }
}

impl AsFd for Cleanup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.worker.as_fd()
    }
}
