//! Results of the agent's worker thread.

#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use raidshmem_core::message::ProcId;
use raidshmem_core::quantity::Pe;
use raidshmem_sys::process::Process;
use raidshmem_sys::socket::Outbox;

use crate::output::Sink;

/// The result of one job.
pub(super) enum AgentDone {
    /// The memory of a PE was created.
    Made { pe: Pe, memory: u32, result: rustix::io::Result<()> },
    /// A process was started, or failed to start.
    Started(Box<Started>),
    /// Unused memory was freed; what could not be freed stays until the job ends.
    Wiped,
}

/// A process that was started, or failed to start.
pub(super) struct Started {
    pub proc: ProcId,
    /// The time at which its start began.
    pub begun: Instant,
    pub result: Result<Process, String>,
    pub new: NewProcess,
}

/// The connection and the parent-death pipe of a new process.
pub(super) struct NewProcess {
    /// True if it was started for its PE number.
    pub meant: bool,
    pub channel: Outbox,
    pub sink: Option<Arc<Sink>>,
    pub parent_death: OwnedFd,
}
