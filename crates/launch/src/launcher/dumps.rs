//! Questions about the job's processes, and the answers so far.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use raidshmem_core::message::{Answer, Up};
use rustix::event::PollFd;
use tracing::info;

use crate::query::{Asked, QuerySocket};

/// The recipient of an answer.
pub enum For {
    Somebody(UnixStream, Asked),
    /// The report of a stall, after which the job ends if there is a status.
    Stall {
        end: Option<i32>,
    },
}

/// A question to all agents.
pub struct Question {
    pub number: u32,
    pub whom: For,
    /// Nodes that have not answered yet.
    pub waiting: BTreeSet<u32>,
    pub until: Instant,
    /// The answers received so far.
    pub answers: BTreeMap<u32, Answer>,
}

/// The open questions.
pub struct Dumps {
    /// None if the kernel refused it: no queries are possible then.
    pub socket: Option<QuerySocket>,
    pub open: Vec<Question>,
    /// The number of the next question.
    pub next: u32,
}

impl Dumps {
    pub fn new() -> Dumps {
        Dumps { socket: QuerySocket::open().ok(), open: Vec::new(), next: 0 }
    }

    /// Returns the descriptors to poll.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.socket.iter().flat_map(QuerySocket::fds)
    }

    /// Returns true if the job will end once a question is answered.
    pub fn end_the_job(&self) -> bool {
        self.open.iter().any(|question| matches!(question.whom, For::Stall { end: Some(_) }))
    }

    /// Returns the next deadline of an answer or of a silent caller.
    pub fn deadline(&self) -> Option<Instant> {
        let answers = self.open.iter().map(|question| question.until);
        answers.chain(self.socket.as_ref().and_then(QuerySocket::deadline)).min()
    }
}

/// Records noteworthy messages of a node in the trace.
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
