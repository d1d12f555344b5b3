//! The end of the nodes: every node is ordered to end, and no process is left.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use raidshmem_core::message::Down;
use raidshmem_sys::process::{self, Process};

use super::job_end::JobEnd;
use super::nodes::Nodes;
use crate::output;

/// Time limit for the last lines of a node's programs.
pub(super) const LAST_LINES: Duration = Duration::from_secs(2);
/// Time limit for sending the last order to a node.
const LAST_ORDER: Duration = Duration::from_secs(1);
/// Time limit for agents to end when ordered to, and again when killed.
const ENDING: Duration = Duration::from_secs(5);

impl Nodes {
    /// Ends all nodes. They share one deadline, so several silent hosts do not add up.
    pub(super) fn shut_down(&mut self, job: &mut JobEnd) {
        let mut nodes = std::mem::take(&mut self.all);
        let end = Instant::now() + LAST_ORDER;
        for link in nodes.values_mut().filter_map(|node| node.link.as_mut()) {
            if !job.is_hurried() {
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
            while !ended && job.is_patient() {
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
            node.finish_output(left, || job.is_patient());
        }
        process::end_children();
    }
}
