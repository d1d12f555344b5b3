//! The launcher's driver of [`detector::FailureDetector`]: feeds it heartbeats, and carries out its
//! decisions.
//!
//! [`detector::FailureDetector`]: raidshmem_core::detector::FailureDetector

#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::Arc;

use raidshmem_control::link::Link;
use raidshmem_core::detector::{DetectorAction, MachineTime, News, Observation};
use raidshmem_core::message::{Beat, Down, Party};
use raidshmem_core::signals;
use raidshmem_sys::socket::ChannelError;

use super::Launcher;
use super::detection::HeartbeatPath;
use crate::heartbeats::{Datagram, Heartbeats};

impl Launcher {
    /// Assigns each node its successor to watch and the party that renews its lease.
    pub(super) fn begin_watch(&mut self) {
        let decisions = self.detection.detector.begin();
        self.execute(decisions, HeartbeatPath::Link);
    }

    /// Handles a heartbeat from a node's connection.
    pub(super) fn heartbeat(&mut self, node: u32, beat: Beat) {
        self.observe(node, Observation::Beat { beat }, HeartbeatPath::Link);
    }

    /// Handles heartbeats that arrived as datagrams.
    pub(super) fn hear_datagrams(&mut self) {
        while let Some(datagram) = self.detection.net.as_mut().and_then(Heartbeats::receive) {
            match datagram {
                Datagram::Beat(Party::Node(node), beat, _) => {
                    self.observe(node, Observation::Beat { beat }, HeartbeatPath::Datagram);
                }
                Datagram::Beat(Party::Launcher, ..) => {}
                Datagram::Foreign(from) => {
                    self.telling
                        .news(&format!("a heartbeat from {from} was refused: not of this job"));
                }
            }
        }
    }

    /// Passes an observation about `node` to the detector.
    pub(super) fn observed(&mut self, node: u32, observation: Observation) {
        self.observe(node, observation, HeartbeatPath::Link);
    }

    /// Runs the timers, after all pending messages were handled.
    pub(super) fn look_at_clock(&mut self) {
        let decisions = self.detection.detector.tick(self.detection.clock.now());
        self.execute(decisions, HeartbeatPath::Link);
        if !self.machine.has_started() {
            let act = self.stalls.look(self.detection.now(), &self.machine.standing());
            self.say_stall(act);
        }
    }

    fn observe(&mut self, node: u32, observation: Observation, way: HeartbeatPath) {
        let decisions =
            self.detection.detector.handle(self.detection.clock.now(), node, observation);
        self.execute(decisions, way);
    }

    fn execute(&mut self, decisions: Vec<DetectorAction>, way: HeartbeatPath) {
        for decision in decisions {
            match decision {
                DetectorAction::Beat { node, beat } => self.answer(node, beat, way),
                DetectorAction::AsymmetricLink { node, by, witness } => {
                    self.telling.news(&format!(
                        "{} does not reach node {by}, but node {witness} and the launcher: the \
                         network between the two is in doubt",
                        self.name(node)
                    ))
                }
                DetectorAction::CutOff { node, by, witness } => {
                    self.telling.news(&format!(
                        "{} reaches the launcher, but neither node {by} nor node {witness}: it is \
                         cut off from its peers and shut down",
                        self.name(node)
                    ));
                    self.send(node, &Down::Shutdown, &[]);
                }
                DetectorAction::Declare { node, silent, witness } => {
                    self.say_why(node, silent, witness);
                    self.node_gone(node, silent.is_none());
                }
                order => {
                    order.news().into_iter().for_each(|(node, news)| self.order(node, news));
                }
            }
        }
    }

    /// Sends node `to` an order about the peers it watches, with their addresses.
    fn order(&mut self, to: u32, news: News) {
        let at = |node: u32| self.detection.at(node);
        let order = match news {
            News::Ask { node } => Some(Down::Ask { node, at: at(node).map(|(_, at)| at) }),
            News::Watch { successor } => Some(Down::Watch { successor: successor.and_then(at) }),
            News::Adopt { node, term } => at(node).map(|(node, at)| Down::Adopt { node, at, term }),
            News::Release { node, term } => Some(Down::Release { node, term }),
            News::Parent { parent: Party::Node(node) } => Some(Down::Parent { parent: at(node) }),
            News::Parent { parent: Party::Launcher } => Some(Down::Parent { parent: None }),
            News::Beat { .. } => None, // answered over the path on which it came
        };
        order.iter().for_each(|order| self.send(to, order, &[]));
    }

    fn say_why(&mut self, node: u32, silent: Option<MachineTime>, witness: Option<u32>) {
        let Some(silent) = silent else { return };
        let also = witness.map(|by| format!(", nor does it reach node {by}")).unwrap_or_default();
        self.telling.news(&format!(
            "{}: no sign of life for {:.1} s{also} (SHMEM_FT_NODE_TIMEOUT={}): it is declared lost",
            self.name(node),
            silent.as_secs_f64(),
            self.detection.limit.as_secs_f64()
        ));
    }

    pub(super) fn name(&self, node: u32) -> String {
        self.nodes.get(&node).map_or_else(|| format!("node {node}"), |entry| entry.name.clone())
    }

    fn answer(&mut self, node: u32, beat: Beat, way: HeartbeatPath) {
        let at = self.detection.addresses.get(&node).copied();
        match (way, at, &mut self.detection.net) {
            (HeartbeatPath::Datagram, Some(at), Some(net)) => net.send(Party::Node(node), at, beat),
            _ => self.say_to(node, |link| link.send_ahead(&Down::Beat(beat))),
        }
    }

    /// Passes signals on to PEs.
    pub(super) fn pass_on_signals(&mut self) {
        while let Some(number) = self.signals.passed() {
            self.telling.news(&format!("{} is passed on to every PE", signals::name(number)));
            for node in self.nodes.keys().copied().collect::<Vec<u32>>() {
                self.send(node, &Down::Signal { signal: number }, &[]);
            }
        }
    }

    pub(super) fn send(&mut self, node: u32, message: &Down, fds: &[Arc<OwnedFd>]) {
        self.say_to(node, |link| link.send(message, fds));
    }

    /// Sends to a node. A dead node is detected by its end; a live one that misses a message would
    /// hang the job, so any other error ends the job.
    fn say_to(&mut self, node: u32, say_it: impl FnOnce(&mut Link) -> Result<(), ChannelError>) {
        let Some(entry) = self.nodes.get_mut(&node) else { return };
        let said = entry.link.as_mut().map(say_it);
        let interest = entry.link.as_ref().map(Link::interest);
        interest.into_iter().for_each(|interest| self.waiting.sent(node, interest));
        match said {
            None | Some(Ok(()) | Err(ChannelError::Closed)) => {}
            Some(Err(error)) => {
                self.telling.say_verdict(&format!("{}: {error}", entry.name));
                self.result.get_or_insert(1);
            }
        }
    }
}
