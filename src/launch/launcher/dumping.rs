//! Asks the agents what their processes did last: for who connected, and when a job stalls.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use raidshmem_core::ended::UNRECOVERABLE;
use raidshmem_core::message::{Down, Traced, Wait};
use raidshmem_core::stall::Act;
use tracing::info;

use super::Launcher;
use super::dumps::{For, Question};
use crate::launch::dump::{self, Door};
use crate::launch::lines::{news, say};
use crate::trace;

/// How long agents may take to answer.
const ANSWERS: Duration = Duration::from_secs(2);
/// Events that are shown of a job that stalls.
const SHOWN: usize = 20;

impl Launcher {
    /// Waits of a node's PEs that last.
    pub(super) fn heard_of_waits(&mut self, node: u32, waits: Vec<Wait>, stopped: Vec<u32>) {
        if self.machine.unrecoverable() {
            return;
        }
        let (time, standing) = (self.detection.now(), self.machine.standing());
        let act = self.stalls.hear(time, (node, waits, stopped), &standing);
        self.say_stall(act);
    }

    pub(super) fn say_stall(&mut self, act: Option<Act>) {
        match act {
            _ if self.dumps.end_the_job() => {}
            None => {}
            Some(Act::Say(line)) => {
                news(&line);
                self.dump_stall(None);
            }
            Some(Act::End(words)) => {
                say(&words);
                self.dump_stall(Some(UNRECOVERABLE));
            }
        }
    }

    /// Lets in who asks, and answers what is complete or has taken too long.
    pub(super) fn serve_dumps(&mut self) {
        while let Some(stream) = self.dumps.door.as_ref().and_then(Door::asked) {
            self.ask_for_dump(For::Somebody(stream));
        }
        let now = Instant::now();
        let over = |question: &mut Question| question.waiting.is_empty() || question.until <= now;
        for question in self.dumps.open.extract_if(.., over).collect::<Vec<_>>() {
            self.answer_dump(question);
        }
    }

    /// The job stalls: what was done last is shown, and then it ends if there is a status.
    fn dump_stall(&mut self, end: Option<i32>) {
        self.ask_for_dump(For::Stall { end });
    }

    fn ask_for_dump(&mut self, whom: For) {
        let linked = self.nodes.iter().filter(|(_, node)| node.link.is_some());
        let waiting: BTreeSet<u32> = linked.map(|(&node, _)| node).collect();
        for &node in &waiting {
            self.tell(node, &Down::Dump, &[]);
        }
        let processes = vec![format!("launcher: process {}", std::process::id())];
        let events = trace::told(trace::own(), usize::MAX, |_| "launcher".to_owned());
        let until = Instant::now() + ANSWERS;
        self.dumps.open.push(Question { whom, waiting, until, processes, events });
    }

    /// A node's answer, which is one to all questions.
    pub(super) fn dumped(&mut self, node: u32, processes: &[String], events: &[Traced]) {
        for question in &mut self.dumps.open {
            if question.waiting.remove(&node) {
                question.processes.extend_from_slice(processes);
                question.events.extend_from_slice(events);
            }
        }
    }

    fn answer_dump(&mut self, mut question: Question) {
        let silent = question.waiting.iter().map(|node| format!("node {node}: no answer"));
        question.processes.extend(silent);
        match question.whom {
            For::Somebody(stream) => {
                dump::answer(stream, dump::text(&question.processes, question.events));
            }
            For::Stall { end } => {
                let text = dump::text(&[], question.events);
                let lines: Vec<&str> = text.lines().collect();
                news("what was done last (oshrun --dump shows more of a job that runs):");
                let skipped = lines.len().saturating_sub(SHOWN);
                lines[skipped..].iter().for_each(|line| news(&format!("  {line}")));
                if let Some(status) = end {
                    info!("ends the job with status {status}");
                    self.result.get_or_insert(status);
                }
            }
        }
    }
}
