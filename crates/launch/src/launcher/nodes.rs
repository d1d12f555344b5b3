//! The nodes of a job: their agents, their connections and their processes.
//!
//! Messages to a node are sent here. The teardown of a lost node is in [`super::lost`], and the
//! wait for messages and ends in [`super::waiting`].

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use raidshmem_control::link::Link;
use raidshmem_core::message::{Beat, Down, ProcId, Up};
use raidshmem_sys::process::Process;
use raidshmem_sys::socket::ChannelError;

use super::gather::Node;
use super::poll_token::Waiting;
use super::teardown::NodeTeardown;

/// The nodes that are not known to have ended.
pub(super) struct Nodes {
    pub(super) all: BTreeMap<u32, Node>,
    /// The processes, each with its node; only those of this machine.
    pub(super) procs: BTreeMap<ProcId, (u32, Process)>,
    /// Lost nodes that may still have processes.
    pub(super) leaving: BTreeMap<u32, NodeTeardown>,
    /// The registered descriptors.
    pub(super) waiting: Waiting,
    /// The first message that could not be sent to a living node, which would hang the job.
    broken: Option<String>,
}

impl Nodes {
    /// Takes over the nodes that have joined.
    pub fn new(all: BTreeMap<u32, Node>) -> Nodes {
        let (procs, leaving, waiting) = Default::default();
        Nodes { all, procs, leaving, waiting, broken: None }
    }

    /// Adds a node that joins.
    pub fn add(&mut self, node: u32, entry: Node) {
        self.all.insert(node, entry);
        self.waiting.renew();
    }

    /// Returns the name of a node for messages.
    pub fn name(&self, node: u32) -> String {
        self.all.get(&node).map_or_else(|| format!("node {node}"), |entry| entry.name.clone())
    }

    /// Returns the nodes to which a message can be sent.
    pub fn connected(&self) -> impl Iterator<Item = u32> {
        self.all.iter().filter(|(_, node)| node.link.is_some()).map(|(&node, _)| node)
    }

    /// Returns the reason to reject a connection that claims to be `node`, after all have joined.
    pub fn rejection(&self, node: u32) -> String {
        match self.all.contains_key(&node) && !self.leaving.contains_key(&node) {
            true => format!("node {node} is connected already"),
            false => format!("node {node} was declared lost, and is not readmitted"),
        }
    }

    /// Sends `message` to a node.
    pub fn send(&mut self, node: u32, message: &Down, fds: &[Arc<OwnedFd>]) {
        self.transmit(node, |link| link.send(message, fds));
    }

    /// Sends `message` to every node.
    pub fn send_to_all(&mut self, message: &Down) {
        self.all.keys().copied().collect::<Vec<u32>>().into_iter().for_each(|node| {
            self.send(node, message, &[]);
        });
    }

    /// Sends a heartbeat ahead of all waiting messages.
    pub fn send_beat(&mut self, node: u32, beat: Beat) {
        self.transmit(node, |link| link.send_ahead(&Down::Beat(beat)));
    }

    /// Sends to a node. A dead node is detected by its end; a live one that misses a message would
    /// hang the job, so any other error is kept for [`Nodes::take_failure`].
    fn transmit(&mut self, node: u32, send: impl FnOnce(&mut Link) -> Result<(), ChannelError>) {
        let Some(entry) = self.all.get_mut(&node) else { return };
        let sent = entry.link.as_mut().map(send);
        let interest = entry.link.as_ref().map(Link::interest);
        interest.into_iter().for_each(|interest| self.waiting.sent(node, interest));
        match sent {
            None | Some(Ok(()) | Err(ChannelError::Closed)) => {}
            Some(Err(error)) => {
                self.broken.get_or_insert_with(|| format!("{}: {error}", entry.name));
            }
        }
    }

    /// Receives the next message of a node, if one has arrived.
    ///
    /// # Errors
    /// The connection is over.
    pub fn receive(&mut self, node: u32) -> Result<Option<(Up, Vec<OwnedFd>)>, ChannelError> {
        let link = self.all.get_mut(&node).and_then(|entry| entry.link.as_mut());
        link.map_or(Ok(None), |link| {
            let _ = link.flush(); // a dead node is detected by its end
            link.try_receive()
        })
    }

    /// Records a process of a node of this machine.
    pub fn add_process(&mut self, node: u32, proc: ProcId, process: Process) {
        self.procs.insert(proc, (node, process));
    }

    /// Forgets a process that its agent has reaped.
    pub fn remove_process(&mut self, proc: ProcId) {
        self.procs.remove(&proc);
    }

    /// Takes the reason why a message could not be sent to a living node.
    pub fn take_failure(&mut self) -> Option<String> {
        self.broken.take()
    }

    /// Sends the memory file of `node` to all other nodes that can map it.
    pub fn share(&mut self, node: u32, file: &Arc<OwnedFd>) {
        let maps = |node: &Node| node.link.as_ref().is_some_and(Link::carries_descriptors);
        let others = self.all.iter().filter(|&(&other, entry)| other != node && maps(entry));
        for other in others.map(|(&other, _)| other).collect::<Vec<u32>>() {
            self.send(other, &Down::File { node }, &[Arc::clone(file)]);
        }
    }

    /// Drops the connection to a node, whose end will be detected. Returns false if it is gone.
    pub fn disconnect(&mut self, node: u32) -> bool {
        self.all.get_mut(&node).map(|entry| entry.link = None).is_some()
    }

    /// Takes the end of the output of a node's supervisor. Returns true if its last word arrived
    /// before, which proves that no process is left there.
    pub fn take_last_word(&mut self, node: u32) -> bool {
        let remote = self.all.get_mut(&node).and_then(|entry| entry.remote.as_mut());
        remote.is_some_and(|remote| {
            remote.word = None;
            remote.gate.has_word()
        })
    }
}
