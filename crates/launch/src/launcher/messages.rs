//! The messages of agents, and the questions of callers: each goes to the part that it concerns.

#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use raidshmem_core::detector::Observation;
use raidshmem_core::membership::MembershipEvent;
use raidshmem_core::message::{Down, PeMessage, Up};
use raidshmem_core::stall::StallAction;
use raidshmem_report::event::What;
use raidshmem_sys::process::Process;
use raidshmem_sys::socket::ChannelError;
use tracing::info;

use super::Launcher;
use super::diagnosis::{self, For, Question};
use super::status;
use super::storing::DiskEvent;
use crate::query::{self, Asked};

impl Launcher {
    /// Receives the pending messages of a node.
    pub(super) fn listen(&mut self, node: u32) {
        loop {
            match self.nodes.receive(node) {
                Ok(Some((message, fds))) => self.receive(node, message, fds),
                Ok(None) => return,
                Err(error) => {
                    if !matches!(error, ChannelError::Closed) {
                        self.events.error(&format!("{}: {error}", self.nodes.name(node)));
                    }
                    // The node ends itself, and its end is detected.
                    if self.nodes.disconnect(node) {
                        self.observe(node, Observation::Disconnected);
                    }
                    return;
                }
            }
            if self.over().is_some() {
                return;
            }
        }
    }

    pub(super) fn receive(&mut self, node: u32, message: Up, mut fds: Vec<OwnedFd>) {
        diagnosis::note(node, &message);
        let event = match message {
            Up::Memory { pe, memory } => {
                self.cleanup.add(node, pe, memory);
                MembershipEvent::MemoryMade { pe, memory }
            }
            Up::Disk(outcome) => return self.schedule(DiskEvent::Outcome { node, outcome }),
            Up::Held(held) => return self.add_held(node, held),
            Up::Checked(damages) => return self.add_damages(node, damages),
            Up::Bound(bound) => {
                if let Some(file) = fds.pop().map(Arc::new) {
                    self.nodes.share(node, &file);
                    self.cleanup.keep(node, file);
                }
                self.placement = self.placement.take().and_then(|report| report.add(bound));
                return self.joined(node);
            }
            Up::Started { proc, pid } => {
                let process = fds.pop().map(|fd| Process::received(pid, fd));
                process.into_iter().for_each(|it| self.nodes.add_process(node, proc, it));
                return;
            }
            Up::Message { what: PeMessage::Hello, .. } if self.no_fabric_between_hosts => {
                return self.refuse_start();
            }
            Up::Message { proc, what } => {
                let Some(what) = self.noted(what) else { return };
                MembershipEvent::Message { proc, what }
            }
            Up::Ended { proc, how } => {
                self.nodes.remove_process(proc);
                MembershipEvent::Ended { proc, how }
            }
            Up::Beat(beat) => return self.observe(node, Observation::Beat { beat }),
            Up::Accuse { node: about, silent } => {
                let (accused, withdrawn) =
                    (Observation::Accused { by: node }, Observation::Withdrawn { by: node });
                return self.observe(about, if silent { accused } else { withdrawn });
            }
            Up::GiveUp { node: about, term, silent } => {
                return self.observe(about, Observation::GivenUp { by: node, term, silent });
            }
            Up::Opinion { node: about, alive } => {
                self.observe(about, Observation::Opinion { by: node, alive });
                MembershipEvent::Opinion { by: node, about, alive }
            }
            Up::Looked { proc } => MembershipEvent::Looked { proc },
            Up::Waits { waits, stopped } if !self.machine.unrecoverable() => {
                let (time, report) = (self.detection.now(), (node, waits, stopped));
                let standing = self.machine.standing();
                let stall = self.diagnosis.add_waits(time, report, &standing);
                return self.report_stall(stall);
            }
            Up::Waits { .. } => return,
            Up::Dump(answer) => return self.diagnosis.add_answer(node, answer),
            Up::Last { events } => return self.events.last_of(events),
            Up::Note { line } => return self.events.news(&line),
            Up::InputTaken { bytes } => return self.input_taken(node, bytes),
            Up::Shown { number } => MembershipEvent::Shown { node, number },
            Up::StopSignal => return self.stop_signal_at(node),
            Up::Failed { what } => return self.fail(node, &what),
        };
        self.handle(event);
    }

    /// Takes note of a PE's message; returns it if it also concerns membership.
    fn noted(&mut self, what: PeMessage) -> Option<PeMessage> {
        match &what {
            PeMessage::Pages { pe, pages } => {
                self.pages.note(*pe, pages);
                return None;
            }
            // A job with a set on disk begins again from there, with one line.
            PeMessage::Verdict { words, .. } if !self.machine.can_fall() => {
                self.events.print_verdict(words);
            }
            _ => {}
        }
        Some(what)
    }

    /// Begins to drain a node on request, `why` for the news. Returns the answer.
    fn request_drain(&mut self, node: u32, why: &str) -> String {
        if let Some(refusal) = self.machine.refuses_move(Some(node)) {
            return format!("{}{refusal}", query::REFUSED);
        }
        let when = match self.machine.view().nodes().any(|at| at == node) {
            true => "after the next checkpoint",
            false => "now, since it carries no PE",
        };
        self.events.news(&format!("node {node} is drained {when}, {why}"));
        self.handle(MembershipEvent::Drain { node });
        format!("node {node} is drained {when}\n")
    }

    /// Handles the first message of the agent of a node: the node has joined if it was awaited.
    fn joined(&mut self, node: u32) {
        let Some((name, room)) = self.joiner.take_joined(node) else { return };
        self.cleanup.share_all(node, &mut self.nodes);
        if self.disk.as_ref().is_some_and(|disk| disk.schedule.is_stopping()) {
            self.nodes.send(node, &Down::Stopping, &[]);
        }
        if let Some(begun) = &self.joiner.begun {
            self.nodes.send(node, begun, &[]);
        }
        self.falling.iter_mut().for_each(|falling| falling.add_node(node));
        self.slurm.iter_mut().for_each(|slurm| slurm.add(node, &name));
        self.events.happened(What::Joined { node, name });
        self.handle(MembershipEvent::Joined { node, room });
    }

    /// Ends the job because its PEs cannot reach each other. Every PE sends Hello before its agent
    /// learns of the end; one line is enough.
    fn refuse_start(&mut self) {
        let words = "--fabric shm: PEs on different hosts cannot reach each other; expected a \
                     fabric between hosts";
        if self.over().is_none() {
            self.end_with((2, words.to_owned()));
        }
    }

    /// Sends pending standard input to the node of PE 0.
    pub(super) fn send_input(&mut self) {
        let node = self.machine.view().pes[0].node;
        while let Some(bytes) = self.input.as_mut().and_then(|input| input.next(node)) {
            self.nodes.send(node, &Down::Input { bytes }, &[]);
        }
    }

    /// Handles the agent's acknowledgement that it has written `bytes` of input to PE 0's pipe.
    fn input_taken(&mut self, node: u32, bytes: u32) {
        if self.input.as_mut().is_some_and(|input| !input.acknowledge(node, bytes)) {
            self.events.error(&format!("node {node} acknowledges input that it was not sent"));
        }
    }

    pub(super) fn report_stall(&mut self, stall: Option<StallAction>) {
        let Some(stall) = stall else { return };
        self.diagnosis.report(stall, &mut self.nodes, &mut self.events);
    }

    /// Accepts callers, and answers questions that are complete or have timed out. Slurm asks for
    /// drains, too.
    pub(super) fn answer_callers(&mut self) {
        let now = Instant::now();
        let slurm = self.slurm.as_mut().map(|it| it.due(&mut self.machine, &mut self.events));
        for (node, name) in slurm.into_iter().flatten() {
            self.request_drain(node, &format!("since Slurm drains {name}"));
        }
        for (stream, what) in self.diagnosis.callers(now) {
            match what {
                Asked::Stop => {
                    let text = match self.request_stop(None) {
                        Some(_) => "the job stops after its next checkpoint\n",
                        None => query::NO_STORE,
                    };
                    query::answer(stream, text.to_owned());
                }
                Asked::Drain { node } => {
                    query::answer(stream, self.request_drain(node, "as requested"))
                }
                Asked::Add { host } => {
                    let refused = self.machine.refuses_move(None);
                    let answer =
                        self.joiner.request(&host, refused, (&self.nodes, &mut self.events));
                    query::answer(stream, answer);
                }
                Asked::Dump | Asked::Status(_) => {
                    self.diagnosis.ask(For::Somebody(stream, what), &mut self.nodes);
                }
            }
        }
        for Question { whom, answers, .. } in self.diagnosis.complete(now) {
            match whom {
                For::Somebody(stream, Asked::Status(form)) => {
                    let (machine, nodes, events) = (&self.machine, &self.nodes, &self.events);
                    let picture = self.status.picture(machine, nodes, events, &answers.of);
                    query::answer(stream, status::answer(&picture, form));
                }
                For::Somebody(stream, _) => query::answer(stream, answers.dump()),
                For::Stall { end } => {
                    answers.print(&mut self.events);
                    if let Some(status) = end {
                        info!("ends the job with status {status}");
                        self.end.propose(status);
                    }
                }
            }
        }
    }
}
