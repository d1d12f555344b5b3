//! Slow work after the loss of a node or a PE, done outside the loop that renews leases: the end of
//! the node's processes, its last lines, and wiping its memory.
//!
//! Invariants: the membership machine learns that a node is lost only after all processes there
//! have ended, and that a memory is wiped only after the wipe; the machine itself defers what
//! depends on these.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use raidshmem_control::link::Link;
use raidshmem_core::membership::MembershipEvent;
use raidshmem_core::message::{Down, ProcId, Up};
use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::quantity::Pe;
use raidshmem_sys::process::Process;

use super::gather::Node;
use super::teardown::{NodeTeardown, WorkerDone};
use super::{LAST_LINES, Launcher};
use crate::handshake::JoinError;

/// The delay after which a line reports the launcher's wait.
const LATE: Duration = Duration::from_secs(10);

impl Launcher {
    /// Handles a lost node: its processes are ended before the membership machine learns of it.
    pub(super) fn node_gone(&mut self, node: u32, heard: bool) {
        let Some(entry) = self.nodes.get_mut(&node) else { return };
        entry.process.kill();
        if !heard {
            entry.link = None;
        }
        let late = Some(Instant::now() + LATE);
        self.leaving.insert(node, NodeTeardown { without_agent: false, heard, late });
        self.see_off(node);
    }

    /// Returns the processes of a node whose end the loop awaits now.
    pub(super) fn awaited<'a>(&'a self, node: u32, entry: &'a Node) -> Vec<&'a Process> {
        match self.leaving.get(&node) {
            None if entry.started_over => Vec::new(),
            None | Some(NodeTeardown { without_agent: false, .. }) => vec![&entry.process],
            Some(_) => self.procs_of(node).map(|(_, process)| process).collect(),
        }
    }

    /// Continues the cleanup of a lost node, as far as that does not block.
    pub(super) fn see_off(&mut self, node: u32) {
        self.waiting.renew();
        let Some(&NodeTeardown { without_agent, heard, .. }) = self.leaving.get(&node) else {
            return;
        };
        let patience = if breaks(Mutant::LoopWaits) { 5_000 } else { 0 };
        if !without_agent {
            if !self.nodes.get(&node).is_some_and(|entry| entry.process.wait_end(patience)) {
                return;
            }
            self.hear_last(node, heard);
            if self.result.is_some() {
                return; // it ended because of a failure that it has reported
            }
            self.procs_of(node).for_each(|(_, process)| process.kill());
            self.leaving.entry(node).and_modify(|leaving| leaving.without_agent = true);
        }
        // These are children of this process since their agent ended.
        let mut ended: Vec<ProcId> = Vec::new();
        for (proc, process) in self.procs_of(node).filter(|(_, process)| process.wait_end(patience))
        {
            process.reap();
            ended.push(proc);
        }
        ended.iter().for_each(|proc| drop(self.procs.remove(proc)));
        if self.procs_of(node).next().is_none() {
            self.leaving.remove(&node);
            self.take_leave(node, heard);
        }
    }

    /// Returns the next time at which a slow node must be reported.
    pub(super) fn late(&self) -> Option<Instant> {
        self.leaving.values().filter_map(|leaving| leaving.late).min()
    }

    /// Reports nodes that take long to end.
    pub(super) fn report_late(&mut self) {
        let now = Instant::now();
        for (node, leaving) in &mut self.leaving {
            if leaving.late.take_if(|late| *late <= now).is_some() {
                self.telling.news(&format!(
                    "node {node} is lost, but processes of it have not ended after {} s: they are \
                     waited for",
                    LATE.as_secs()
                ));
            }
        }
    }

    fn procs_of(&self, node: u32) -> impl Iterator<Item = (ProcId, &Process)> {
        let here = self.procs.iter().filter(move |(_, (at, _))| *at == node);
        here.map(|(&proc, (_, process))| (proc, process))
    }

    /// Handles the pending messages of an agent that has ended.
    fn hear_last(&mut self, node: u32, heard: bool) {
        while let Some(link) = self.nodes.get_mut(&node).and_then(|entry| entry.link.as_mut()) {
            match link.try_receive::<Up>() {
                Ok(Some((message, fds))) if heard => self.heard(node, message, fds),
                _ => break,
            }
        }
    }

    fn take_leave(&mut self, node: u32, heard: bool) {
        let Some(mut entry) = self.nodes.remove(&node) else { return };
        if let Some(how) = entry.collect().filter(|_| heard) {
            self.telling.news(&JoinError::Killed { node, how }.to_string());
        }
        self.worker.begin(move || {
            let limit = if heard { LAST_LINES / 10 } else { Duration::ZERO };
            entry.finish_output(limit, || false);
            WorkerDone::Lines { node }
        });
    }

    /// Sends the memory file of `node` to all other nodes that can map it.
    pub(super) fn share(&mut self, node: u32, file: Arc<OwnedFd>) {
        let maps = |node: &Node| node.link.as_ref().is_some_and(Link::carries_descriptors);
        let others = self.nodes.iter().filter(|&(&other, entry)| other != node && maps(entry));
        for other in others.map(|(&other, _)| other).collect::<Vec<u32>>() {
            self.send(other, &Down::File { node }, &[Arc::clone(&file)]);
        }
        self.files.insert(node, file);
    }

    /// Wipes a lost memory, if this process holds it.
    pub(super) fn wipe(&mut self, pe: Pe, memory: u32) {
        let part = self.memories.remove(&(pe, memory));
        self.worker.begin(move || {
            let result = part.map_or(Ok(()), |part| part.wipe());
            WorkerDone::Wiped { pe, memory, result }
        });
    }

    /// Handles the worker's results.
    pub(super) fn hear_worker(&mut self) {
        for done in self.worker.results() {
            let event = match done {
                WorkerDone::Lines { node } => {
                    self.stalls.forget(node);
                    MembershipEvent::NodeLost { node }
                }
                WorkerDone::Wiped { pe, memory, result: Ok(()) } => {
                    MembershipEvent::Wiped { pe, memory }
                }
                WorkerDone::Wiped { pe, result: Err(error), .. } => {
                    let words = format!("PE {pe}: its lost memory could not be wiped: {error}");
                    self.telling.say_verdict(&words);
                    self.result = Some(1);
                    return;
                }
            };
            let actions = self.machine.handle(event);
            self.act(actions);
            if self.result.is_some() {
                return;
            }
        }
    }
}
