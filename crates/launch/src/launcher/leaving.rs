//! What is known of a node that is lost and has not ended yet, and what the worker does for that.

#![forbid(unsafe_code)]

use std::time::Instant;

use raidshmem_core::quantity::Pe;

/// A lost node that has not ended yet.
pub(super) struct Leaving {
    /// Its agent, or what started that elsewhere, has ended; its processes are being ended.
    pub without_agent: bool,
    /// Its earlier messages still count.
    pub heard: bool,
    /// When people are told that it takes long.
    pub late: Option<Instant>,
}

/// What the worker has done.
pub(super) enum WorkerDone {
    /// The last lines of a node were printed.
    Lines { node: u32 },
    /// The memory of a PE was taken away.
    Wiped { pe: Pe, memory: u32, result: rustix::io::Result<()> },
}
