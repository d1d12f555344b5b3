//! What takes long when a node or a PE is lost, off the loop that renews leases: the end of its
//! processes, its last lines, and taking its memory away.
//!
//! Invariants: the machine hears that a node is lost only after everything that ran there has
//! ended, and that a memory is wiped only after it is; what it must not do before, it knows.

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
use super::leaving::{Leaving, WorkerDone};
use super::{LAST_LINES, Launcher};
use crate::handshake::JoinError;

/// After this a line says what the launcher waits for.
const LATE: Duration = Duration::from_secs(10);

impl Launcher {
    /// The node is lost: what runs there is ended before the machine hears of it.
    pub(super) fn node_gone(&mut self, node: u32, heard: bool) {
        let Some(entry) = self.nodes.get_mut(&node) else { return };
        entry.process.kill();
        if !heard {
            entry.link = None;
        }
        let late = Some(Instant::now() + LATE);
        self.leaving.insert(node, Leaving { without_agent: false, heard, late });
        self.see_off(node);
    }

    /// The processes of a node whose end the loop waits for now.
    pub(super) fn awaited<'a>(&'a self, node: u32, entry: &'a Node) -> Vec<&'a Process> {
        match self.leaving.get(&node) {
            None if entry.started_over => Vec::new(),
            None | Some(Leaving { without_agent: false, .. }) => vec![&entry.process],
            Some(_) => self.procs_of(node).map(|(_, process)| process).collect(),
        }
    }

    /// Goes on with a lost node, as far as that is possible without waiting.
    pub(super) fn see_off(&mut self, node: u32) {
        self.waiting.renew();
        let Some(&Leaving { without_agent, heard, .. }) = self.leaving.get(&node) else { return };
        let patience = if breaks(Mutant::LoopWaits) { 5_000 } else { 0 };
        if !without_agent {
            if !self.nodes.get(&node).is_some_and(|entry| entry.process.wait_end(patience)) {
                return;
            }
            self.hear_last(node, heard);
            if self.result.is_some() {
                return; // it ended because it had failed, and said so
            }
            self.procs_of(node).for_each(|(_, process)| process.kill());
            self.leaving.entry(node).and_modify(|leaving| leaving.without_agent = true);
        }
        // They are children of this process since their agent ended.
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

    /// When somebody must be told that a node takes long to end.
    pub(super) fn late(&self) -> Option<Instant> {
        self.leaving.values().filter_map(|leaving| leaving.late).min()
    }

    /// Tells of nodes that take long to end.
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

    /// What an agent that has ended said before.
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

    /// Gives the memory file of `node` to all others that can map it.
    pub(super) fn share(&mut self, node: u32, file: Arc<OwnedFd>) {
        let maps = |node: &Node| node.link.as_ref().is_some_and(Link::carries_descriptors);
        let others = self.nodes.iter().filter(|&(&other, entry)| other != node && maps(entry));
        for other in others.map(|(&other, _)| other).collect::<Vec<u32>>() {
            self.send(other, &Down::File { node }, &[Arc::clone(&file)]);
        }
        self.files.insert(node, file);
    }

    /// Takes the bytes of a lost memory away, where this process has it.
    pub(super) fn wipe(&mut self, pe: Pe, memory: u32) {
        let part = self.memories.remove(&(pe, memory));
        self.worker.begin(move || {
            let result = part.map_or(Ok(()), |part| part.wipe());
            WorkerDone::Wiped { pe, memory, result }
        });
    }

    /// The worker has something done.
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
