//! Questions about the processes of the job, and the answers so far.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use raidshmem_core::message::{Answer, Up};
use rustix::event::PollFd;
use tracing::info;

use crate::query::{Asked, QuerySocket};

/// The asker.
pub enum For {
    Somebody(UnixStream, Asked),
    /// The stall; the job ends with this status after it.
    Stall {
        end: Option<i32>,
    },
}

/// A question to all agents.
pub struct Question {
    pub number: u32,
    pub whom: For,
    /// Nodes that have not answered.
    pub waiting: BTreeSet<u32>,
    pub until: Instant,
    /// What the others have.
    pub answers: BTreeMap<u32, Answer>,
}

/// The questions that are open.
pub struct Dumps {
    /// None where the kernel refused it: nobody can ask then.
    pub socket: Option<QuerySocket>,
    pub open: Vec<Question>,
    /// Number of the next question.
    pub next: u32,
}

impl Dumps {
    pub fn new() -> Dumps {
        Dumps { socket: QuerySocket::open().ok(), open: Vec::new(), next: 0 }
    }

    /// What to poll.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.socket.iter().flat_map(QuerySocket::fds)
    }

    /// True if the job ends when a question is answered.
    pub fn end_the_job(&self) -> bool {
        self.open.iter().any(|question| matches!(question.whom, For::Stall { end: Some(_) }))
    }

    /// When an answer, or somebody who asks, is not waited for any more.
    pub fn deadline(&self) -> Option<Instant> {
        let answers = self.open.iter().map(|question| question.until);
        answers.chain(self.socket.as_ref().and_then(QuerySocket::deadline)).min()
    }
}

/// Keeps what is worth it of what a node says.
pub fn note(node: u32, message: &Up) {
    match message {
        Up::Started { proc, pid } => info!("process {proc} of node {node} is {pid}"),
        Up::Ended { proc, how } => info!("process {proc} of node {node} {how}"),
        Up::Shown { number } => info!("node {node} shows view {number}"),
        Up::Accuse { node: other, silent } => {
            let is = if *silent { "is silent" } else { "is heard again" };
            info!("node {node}: node {other} {is}");
        }
        Up::Opinion { node: other, alive } => {
            let answers = if *alive { "answers" } else { "does not answer" };
            info!("node {node}: node {other} {answers}");
        }
        Up::GiveUp { node: other, term, silent } => {
            let seconds = silent.as_secs_f64();
            info!(
                "node {node}: stops renewing the lease of node {other} (term {term}), which has \
                 been silent for {seconds:.1} s"
            );
        }
        _ => {}
    }
}
