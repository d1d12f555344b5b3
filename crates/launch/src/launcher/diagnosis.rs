//! Diagnosis of a job: waits that last too long, and questions about the processes and their last
//! events, for a caller and when the job stalls.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use raidshmem_control::trace;
use raidshmem_core::detector::MachineTime;
use raidshmem_core::ended::UNRECOVERABLE;
use raidshmem_core::message::{Answer, Down, Traced, Up, Wait};
use raidshmem_core::quantity::Pe;
use raidshmem_core::stall::{StallAction, Stalls};
use raidshmem_core::view::PeState;
use rustix::event::PollFd;
use tracing::info;

use super::event_bus::EventBus;
use super::nodes::Nodes;
use crate::dump;
use crate::query::{Asked, QuerySocket};

/// Time limit for the agents' answers.
const ANSWERS: Duration = Duration::from_secs(2);
/// The number of events printed for a job that stalls.
const SHOWN: usize = 20;

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
    number: u32,
    pub whom: For,
    until: Instant,
    pub answers: Answers,
}

/// The answers to a question.
pub struct Answers {
    /// The answers received so far.
    pub of: BTreeMap<u32, Answer>,
    /// Nodes that have not answered yet.
    waiting: BTreeSet<u32>,
}

impl Answers {
    fn add(&mut self, node: u32, answer: Answer) {
        if self.waiting.remove(&node) {
            self.of.insert(node, answer);
        }
    }

    /// Returns the text of `oshrun --dump`.
    pub fn dump(self) -> String {
        let mut lines = vec![format!("launcher: process {}", std::process::id())];
        lines.extend(self.of.iter().flat_map(|(&node, answer)| dump::processes(node, answer)));
        lines.extend(self.waiting.iter().map(|node| format!("node {node}: no answer")));
        let lines = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        lines + &dump::text(self.all_events())
    }

    /// Prints the last events of a job that stalls.
    pub fn print(self, events: &mut EventBus) {
        let text = dump::text(self.all_events());
        let lines: Vec<&str> = text.lines().collect();
        events.news("last events (oshrun --dump shows more of a running job):");
        let skipped = lines.len().saturating_sub(SHOWN);
        lines[skipped..].iter().for_each(|line| events.news(&format!("  {line}")));
    }

    /// Returns the events of the agents and of this process.
    fn all_events(self) -> Vec<Traced> {
        let mut events = trace::last_events(trace::own(), usize::MAX, |_| "launcher".to_owned());
        events.extend(self.of.into_values().flat_map(|answer| answer.events));
        events
    }
}

/// The waits of the job, and the open questions.
pub struct Diagnosis {
    stalls: Stalls,
    /// None if the kernel refused it: no queries are possible then.
    socket: Option<QuerySocket>,
    open: Vec<Question>,
    /// The number of the next question.
    next: u32,
}

impl Diagnosis {
    /// Creates the diagnosis of a job that stalls after `limit`.
    pub fn new(limit: Duration) -> Diagnosis {
        let (stalls, socket) = (Stalls::new(limit), QuerySocket::open().ok());
        Diagnosis { stalls, socket, open: Vec::new(), next: 0 }
    }

    /// Returns the descriptors to poll.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.socket.iter().flat_map(QuerySocket::fds)
    }

    /// Returns the next deadline of an answer or of a silent caller.
    pub fn deadline(&self) -> Option<Instant> {
        let answers = self.open.iter().map(|question| question.until);
        answers.chain(self.socket.as_ref().and_then(QuerySocket::deadline)).min()
    }

    /// Handles a node's report of long waits and stopped PEs, in a job with PEs of these states.
    pub fn add_waits(
        &mut self,
        time: MachineTime,
        report: (u32, Vec<Wait>, Vec<Pe>),
        standing: &[PeState],
    ) -> Option<StallAction> {
        self.stalls.hear(time, report, standing)
    }

    /// Checks whether a job that has not started stalls.
    pub fn check(&mut self, time: MachineTime, standing: &[PeState]) -> Option<StallAction> {
        self.stalls.look(time, standing)
    }

    /// Forgets the waits of a lost node.
    pub fn forget(&mut self, node: u32) {
        self.stalls.forget(node);
    }

    /// Reports a stall, unless the job ends as soon as an earlier one is reported.
    pub fn report(&mut self, stall: StallAction, nodes: &mut Nodes, events: &mut EventBus) {
        let ends = |question: &Question| matches!(question.whom, For::Stall { end: Some(_) });
        if self.open.iter().any(ends) {
            return;
        }
        match stall {
            StallAction::Say(line) => {
                events.news(&line);
                self.ask(For::Stall { end: None }, nodes);
            }
            StallAction::End(words) => {
                events.print_verdict(&words);
                self.ask(For::Stall { end: Some(UNRECOVERABLE) }, nodes);
            }
        }
    }

    /// Accepts callers, and returns those whose requests are complete.
    pub fn callers(&mut self, now: Instant) -> Vec<(UnixStream, Asked)> {
        self.socket.as_mut().map(|socket| socket.asked(now)).unwrap_or_default()
    }

    /// Asks all agents.
    pub fn ask(&mut self, whom: For, nodes: &mut Nodes) {
        let waiting: BTreeSet<u32> = nodes.connected().collect();
        let number = self.next;
        self.next = number.wrapping_add(1);
        let events = !matches!(whom, For::Somebody(_, Asked::Status(_)));
        for &node in &waiting {
            nodes.send(node, &Down::Dump { question: number, events }, &[]);
        }
        let answers = Answers { of: BTreeMap::new(), waiting };
        self.open.push(Question { number, whom, until: Instant::now() + ANSWERS, answers });
    }

    /// Adds an agent's answer.
    pub fn add_answer(&mut self, node: u32, answer: Answer) {
        let mut open = self.open.iter_mut();
        if let Some(question) = open.find(|question| question.number == answer.question) {
            question.answers.add(node, answer);
        }
    }

    /// Takes the questions that are answered by all or have timed out.
    pub fn complete(&mut self, now: Instant) -> Vec<Question> {
        let over =
            |question: &mut Question| question.answers.waiting.is_empty() || question.until <= now;
        self.open.extract_if(.., over).collect()
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
