//! Queries to the agents about their processes and last events: for a caller, and when a job
//! stalls.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use raidshmem_control::trace;
use raidshmem_core::ended::UNRECOVERABLE;
use raidshmem_core::message::{Answer, Down, Traced, Wait};
use raidshmem_core::quantity::Pe;
use raidshmem_core::stall::StallAction;
use tracing::info;

use super::dumps::{For, Question};
use super::{Launcher, status};
use crate::dump;
use crate::query::{self, Asked};

/// Time limit for the agents' answers.
const ANSWERS: Duration = Duration::from_secs(2);
/// The number of events printed for a job that stalls.
const SHOWN: usize = 20;

impl Launcher {
    /// Handles a node's report of long waits.
    pub(super) fn heard_of_waits(&mut self, node: u32, waits: Vec<Wait>, stopped: Vec<Pe>) {
        if self.machine.unrecoverable() {
            return;
        }
        let (time, standing) = (self.detection.now(), self.machine.standing());
        let act = self.stalls.hear(time, (node, waits, stopped), &standing);
        self.say_stall(act);
    }

    pub(super) fn say_stall(&mut self, act: Option<StallAction>) {
        match act {
            _ if self.dumps.end_the_job() => {}
            None => {}
            Some(StallAction::Say(line)) => {
                self.telling.news(&line);
                self.dump_stall(None);
            }
            Some(StallAction::End(words)) => {
                self.telling.say_verdict(&words);
                self.dump_stall(Some(UNRECOVERABLE));
            }
        }
    }

    /// Accepts callers, and answers questions that are complete or have timed out.
    pub(super) fn serve_dumps(&mut self) {
        let now = Instant::now();
        let asked = self.dumps.socket.as_mut().map(|socket| socket.asked(now)).unwrap_or_default();
        for (stream, what) in asked {
            match what {
                Asked::Stop => {
                    let text = match self.stop_with_a_set(None) {
                        Some(_) => "the job stops after its next checkpoint\n",
                        None => query::NO_STORE,
                    };
                    query::answer(stream, text.to_owned());
                }
                Asked::Dump | Asked::Status => self.ask_agents(For::Somebody(stream, what)),
            }
        }
        let over = |question: &mut Question| question.waiting.is_empty() || question.until <= now;
        for question in self.dumps.open.extract_if(.., over).collect::<Vec<_>>() {
            self.answer_question(question);
        }
    }

    /// Prints the last events of a job that stalls, and then ends it if a status is given.
    fn dump_stall(&mut self, end: Option<i32>) {
        self.ask_agents(For::Stall { end });
    }

    fn ask_agents(&mut self, whom: For) {
        let linked = self.nodes.iter().filter(|(_, node)| node.link.is_some());
        let waiting: BTreeSet<u32> = linked.map(|(&node, _)| node).collect();
        let number = self.dumps.next;
        self.dumps.next = number.wrapping_add(1);
        let events = !matches!(whom, For::Somebody(_, Asked::Status));
        for &node in &waiting {
            self.send(node, &Down::Dump { question: number, events }, &[]);
        }
        let until = Instant::now() + ANSWERS;
        let answers = BTreeMap::new();
        self.dumps.open.push(Question { number, whom, waiting, until, answers });
    }

    pub(super) fn answered(&mut self, node: u32, answer: Answer) {
        let asked = self.dumps.open.iter_mut().find(|asked| asked.number == answer.question);
        if let Some(question) = asked
            && question.waiting.remove(&node)
        {
            question.answers.insert(node, answer);
        }
    }

    fn answer_question(&mut self, question: Question) {
        match question.whom {
            For::Somebody(stream, Asked::Status) => {
                query::answer(stream, status::text(&self.picture(&question.answers)));
            }
            For::Somebody(stream, Asked::Dump | Asked::Stop) => {
                let mut lines = vec![format!("launcher: process {}", std::process::id())];
                lines.extend(question.answers.iter().flat_map(|(&n, a)| dump::processes(n, a)));
                let silent = question.waiting.iter();
                lines.extend(silent.map(|node| format!("node {node}: no answer")));
                let lines = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
                query::answer(stream, lines + &dump::text(all_events(question.answers)));
            }
            For::Stall { end } => {
                let text = dump::text(all_events(question.answers));
                let lines: Vec<&str> = text.lines().collect();
                self.telling.news("last events (oshrun --dump shows more of a running job):");
                let skipped = lines.len().saturating_sub(SHOWN);
                lines[skipped..].iter().for_each(|line| self.telling.news(&format!("  {line}")));
                if let Some(status) = end {
                    info!("ends the job with status {status}");
                    self.result.get_or_insert(status);
                }
            }
        }
    }
}

/// Returns the events of the agents and of this process.
fn all_events(answers: BTreeMap<u32, Answer>) -> Vec<Traced> {
    let mut events = trace::last_events(trace::own(), usize::MAX, |_| "launcher".to_owned());
    events.extend(answers.into_values().flat_map(|answer| answer.events));
    events
}
