//! What the worker of an agent hands back.

#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use raidshmem_core::message::ProcId;
use raidshmem_core::quantity::Pe;
use raidshmem_sys::process::Process;
use raidshmem_sys::socket::Outbox;

use crate::output::Sink;

/// What was done.
pub(super) enum AgentDone {
    /// The memory of a PE was made.
    Made { pe: Pe, memory: u32, result: rustix::io::Result<()> },
    /// A process was started; or why not.
    Started(Box<Started>),
    /// Memory that nobody needs any more was given back, or lies there until the job ends.
    Wiped,
}

/// A process, with its connection and its parent-death pipe.
pub(super) struct Started {
    pub proc: ProcId,
    /// When its start began.
    pub begun: Instant,
    pub meant: bool,
    pub channel: Outbox,
    pub sink: Option<Arc<Sink>>,
    pub parent_death: OwnedFd,
    pub result: Result<Process, String>,
}
