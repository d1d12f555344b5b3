//! The state of a lost node that has not ended yet, and the results of the worker's cleanup.

#![forbid(unsafe_code)]

use std::time::Instant;

use raidshmem_core::quantity::Pe;

use super::fallback::SearchResult;

/// A lost node that has not ended yet.
pub(super) struct NodeTeardown {
    /// True once its agent, or its remote starter, has ended; its processes are being ended.
    pub without_agent: bool,
    /// True if its earlier messages still count.
    pub trusted: bool,
    /// The time to report that its end takes long.
    pub late: Option<Instant>,
}

/// The result of a job of the worker.
pub(super) enum WorkerDone {
    /// The last lines of a node were printed.
    Lines { node: u32 },
    /// The search for a set is over.
    Searched(SearchResult),
    /// The agent of a node that did not join has ended.
    NotJoined,
    /// The memory of a PE was wiped.
    Wiped { pe: Pe, memory: u32, result: rustix::io::Result<()> },
}
