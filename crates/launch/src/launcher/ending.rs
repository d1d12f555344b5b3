//! The end of a job: every node is ordered to end, and no process is left.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use raidshmem_core::message::Down;
use raidshmem_sys::process::{self, Process};

use super::{LAST_LINES, Launcher};
use crate::output;

/// Time limit for sending the last order to a node.
const LAST_ORDER: Duration = Duration::from_secs(1);
/// Time limit for agents to end when ordered to, and again when killed.
const ENDING: Duration = Duration::from_secs(5);

impl Launcher {
    /// Returns true while a slow reader is behind and no signal asks for a stop.
    fn is_patient(&mut self) -> bool {
        self.hurried |= self.signals.stopped().is_some();
        !self.hurried && output::is_held_up()
    }

    /// Prints the reason why the job ends, and returns its status.
    pub(super) fn ends(&mut self, (status, words): (i32, String)) -> i32 {
        self.telling.say_verdict(&words);
        status
    }

    /// Ends the job because a node cannot do its work; only the first reason counts.
    pub(super) fn failed(&mut self, node: u32, what: &str) {
        if self.result.is_none() {
            let words = format!("{}: {what}", self.name(node));
            self.result = Some(self.ends((1, words)));
        }
    }

    /// Ends all nodes. They share one deadline, so several silent hosts do not add up.
    pub(super) fn shut_down(&mut self) {
        self.listener = None;
        let mut nodes = std::mem::take(&mut self.nodes);
        let end = Instant::now() + LAST_ORDER;
        for link in nodes.values_mut().filter_map(|node| node.link.as_mut()) {
            if !self.hurried {
                let _ = link.send(&Down::Abort, &[]);
            }
            let _ = link.send(&Down::Shutdown, &[]);
            link.drain(end.saturating_duration_since(Instant::now()));
        }
        let ends = |process: &Process, end: Instant| {
            let left = end.saturating_duration_since(Instant::now());
            process.wait_end(left.as_millis() as i32)
        };
        let end = Instant::now() + ENDING;
        for node in nodes.values() {
            let mut ended = ends(&node.process, end);
            while !ended && self.is_patient() {
                ended = ends(&node.process, Instant::now() + output::LOOK);
            }
            if !ended {
                node.process.kill();
            }
        }
        let end = Instant::now() + ENDING;
        for (_, process) in self.procs.values() {
            process.kill();
            ends(process, end);
        }
        let lines = Instant::now() + LAST_LINES;
        for node in nodes.values_mut() {
            ends(&node.process, end);
            node.process.reap();
            let left = lines.saturating_duration_since(Instant::now());
            node.finish_output(left, || self.is_patient());
        }
        process::end_children();
    }
}
