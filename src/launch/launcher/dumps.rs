//! Who wants to know what the processes of the job did last, and what was answered so far.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use raidshmem_core::message::{Traced, Up};
use tracing::info;

use crate::launch::dump::Door;

/// Who asked.
pub enum For {
    Somebody(UnixStream),
    /// The stall; the job ends with this status after it.
    Stall {
        end: Option<i32>,
    },
}

/// A question to all agents.
pub struct Question {
    pub whom: For,
    /// Nodes that have not answered.
    pub waiting: BTreeSet<u32>,
    pub until: Instant,
    pub processes: Vec<String>,
    pub events: Vec<Traced>,
}

/// The questions that are open.
pub struct Dumps {
    /// None where the kernel refused it: nobody can ask then.
    pub door: Option<Door>,
    pub open: Vec<Question>,
}

impl Dumps {
    pub fn new() -> Dumps {
        Dumps { door: Door::open().ok(), open: Vec::new() }
    }

    /// True if the job ends when a question is answered.
    pub fn end_the_job(&self) -> bool {
        self.open.iter().any(|question| matches!(question.whom, For::Stall { end: Some(_) }))
    }

    /// When an answer is not waited for any more.
    pub fn deadline(&self) -> Option<Instant> {
        self.open.iter().map(|question| question.until).min()
    }
}

/// Keeps what is worth it of what a node says.
pub fn note(node: u32, message: &Up) {
    match message {
        Up::Started { proc, pid } => info!("process {proc} of node {node} is {pid}"),
        Up::Ended { proc, how } => info!("process {proc} of node {node} ended: {how:?}"),
        Up::Shown { number } => info!("node {node} shows view {number}"),
        Up::Accuse { .. } | Up::Opinion { .. } => info!("node {node}: {message:?}"),
        _ => {}
    }
}
