//! The launcher's shell of [`detector::Court`]: carries heartbeats to it and out its sentences.
//!
//! [`detector::Court`]: crate::launch::detector::Court

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::Launcher;
use crate::control::message::{Beat, Down, Party};
use crate::launch::detector::{Court, Evidence, Sentence, Time, Timing};
use crate::launch::pulse::{Datagram, Heartbeats};
use crate::launch::say::say;
use crate::sys::process::Clock;
use crate::sys::socket::ChannelError;

/// The court and its ways to the nodes.
pub struct Guard {
    pub court: Court,
    /// Nodes on this machine sleep when it does.
    clock: Clock,
    /// Between hosts.
    pub net: Option<Heartbeats>,
    /// Where nodes hear heartbeats.
    addresses: BTreeMap<u32, SocketAddr>,
    limit: Duration,
}

/// The way a heartbeat came; its answer goes back the same way.
#[derive(Clone, Copy)]
pub enum Way {
    Link,
    Datagram,
}

impl Guard {
    /// Over `nodes`, which have all just come.
    pub fn new(
        nodes: impl Iterator<Item = u32>,
        net: Option<Heartbeats>,
        addresses: BTreeMap<u32, SocketAddr>,
        timing: Timing,
    ) -> Guard {
        let clock = if net.is_some() { Clock::Always } else { Clock::Awake };
        let court = Court::new(nodes, net.is_some(), timing, clock.now());
        Guard { court, clock, net, addresses, limit: timing.limit }
    }

    /// The time of the launcher's clock.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// How long until somebody must look at the clock.
    pub fn left(&self) -> Option<Duration> {
        Some(self.court.deadline()?.saturating_sub(self.clock.now()))
    }
}

impl Launcher {
    /// Tells the nodes whom to watch.
    pub(super) fn form_ring(&mut self) {
        let sentences = self.guard.court.ring();
        self.execute(sentences, Way::Link);
    }

    /// A heartbeat that came through a node's connection.
    pub(super) fn heartbeat(&mut self, node: u32, beat: Beat) {
        self.testify(node, Evidence::Beat { beat }, Way::Link);
    }

    /// Heartbeats that came as datagrams.
    pub(super) fn hear_datagrams(&mut self) {
        while let Some(datagram) = self.guard.net.as_mut().and_then(Heartbeats::receive) {
            match datagram {
                Datagram::Beat(Party::Node(node), beat) => {
                    self.testify(node, Evidence::Beat { beat }, Way::Datagram);
                }
                Datagram::Beat(Party::Launcher, _) => {}
                Datagram::Foreign(from) => {
                    say(&format!("a heartbeat from {from} was refused: not of this job"));
                }
            }
        }
    }

    /// Something that concerns `node`.
    pub(super) fn evidence(&mut self, node: u32, evidence: Evidence) {
        self.testify(node, evidence, Way::Link);
    }

    /// Looks at the clock, after everything that had arrived was heard.
    pub(super) fn look_at_clock(&mut self) {
        let sentences = self.guard.court.tick(self.guard.clock.now());
        self.execute(sentences, Way::Link);
        if !self.machine.has_started() {
            let act = self.stalls.look(self.guard.now(), &self.machine.standing());
            self.say_stall(act);
        }
    }

    fn testify(&mut self, node: u32, evidence: Evidence, way: Way) {
        let sentences = self.guard.court.handle(self.guard.clock.now(), node, evidence);
        self.execute(sentences, way);
    }

    fn execute(&mut self, sentences: Vec<Sentence>, way: Way) {
        for sentence in sentences {
            match sentence {
                Sentence::Beat { node, beat } => self.answer(node, beat, way),
                Sentence::Ask { witness, node } => self.tell(witness, &Down::Ask { node }, &[]),
                Sentence::Ring { nodes } => {
                    let found =
                        nodes.iter().filter_map(|n| Some((*n, *self.guard.addresses.get(n)?)));
                    let ring = Down::Ring { nodes: found.collect() };
                    nodes.iter().for_each(|&node| self.tell(node, &ring, &[]));
                }
                Sentence::Quarrel { node, by, witness } => say(&format!(
                    "{} is not heard by node {by}, but by node {witness} and here: the network \
                     between the two is in doubt",
                    self.name(node)
                )),
                Sentence::CutOff { node, by, witness } => {
                    say(&format!(
                        "{} is not heard by nodes {by} and {witness}, though it is here: it is cut \
                         off from its peers and told to end",
                        self.name(node)
                    ));
                    self.tell(node, &Down::Shutdown, &[]);
                }
                Sentence::Declare { node, silent, witness } => {
                    self.say_why(node, silent, witness);
                    self.node_gone(node, silent.is_none());
                }
            }
        }
    }

    fn say_why(&self, node: u32, silent: Option<Time>, witness: Option<u32>) {
        let Some(silent) = silent else { return };
        let also = witness.map(|by| format!(", nor does node {by} hear it")).unwrap_or_default();
        say(&format!(
            "{}: no sign of life for {:.1} s{also} (SHMEM_FT_NODE_TIMEOUT={}): it is declared lost",
            self.name(node),
            silent.as_secs_f64(),
            self.guard.limit.as_secs_f64()
        ));
    }

    fn name(&self, node: u32) -> String {
        self.nodes.get(&node).map_or_else(|| format!("node {node}"), |entry| entry.name.clone())
    }

    fn answer(&mut self, node: u32, beat: Beat, way: Way) {
        let at = self.guard.addresses.get(&node).copied();
        match (way, at, &mut self.guard.net) {
            (Way::Datagram, Some(at), Some(net)) => net.send(Party::Node(node), at, beat),
            _ => self.tell(node, &Down::Beat(beat), &[]),
        }
    }

    /// A node that is gone is noticed by its end. One that is there and cannot be told what it has
    /// to know would be waited for without end.
    pub(super) fn tell(&mut self, node: u32, message: &Down, fds: &[Arc<OwnedFd>]) {
        let Some(entry) = self.nodes.get_mut(&node) else { return };
        match entry.link.as_mut().map(|link| link.send(message, fds)) {
            None | Some(Ok(()) | Err(ChannelError::Closed)) => {}
            Some(Err(error)) => {
                say(&format!("{}: {error}", entry.name));
                self.result.get_or_insert(1);
            }
        }
    }
}
