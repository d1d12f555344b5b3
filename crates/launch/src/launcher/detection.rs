//! The launcher's failure detector, with its clock and the nodes' addresses: feeds
//! [`FailureDetector`] with heartbeats, and carries out its decisions.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use raidshmem_core::detector::{
    DEGREE, DetectorAction, FailureDetector, MachineTime, News, Observation, Timing,
};
use raidshmem_core::message::{Beat, Down, Party};
use raidshmem_sys::process::Clock;
use rustix::event::{PollFd, PollFlags};

use super::event_bus::EventBus;
use super::nodes::Nodes;
use crate::heartbeats::{Datagram, Heartbeats};

/// The failure detector and its connections to the nodes.
pub struct Detection {
    detector: FailureDetector,
    /// The clock of timeouts; with nodes on other hosts it also counts time in suspend.
    clock: Clock,
    /// The socket for heartbeats between hosts.
    net: Option<Heartbeats>,
    /// The addresses of nodes' heartbeat sockets.
    addresses: BTreeMap<u32, SocketAddr>,
    limit: Duration,
}

/// The path on which a heartbeat came; its answer takes the same path.
#[derive(Clone, Copy)]
pub enum HeartbeatPath {
    Link,
    Datagram,
}

/// A node that is declared lost.
pub struct DeclaredLost {
    pub node: u32,
    /// True if its earlier messages still count.
    pub trusted: bool,
}

impl Detection {
    /// Creates the detector for `nodes`, which have all just joined.
    pub fn new(
        nodes: impl Iterator<Item = u32>,
        net: Option<Heartbeats>,
        addresses: BTreeMap<u32, SocketAddr>,
        timing: Timing,
    ) -> Detection {
        let clock = if net.is_some() { Clock::Always } else { Clock::Awake };
        let detector = FailureDetector::new(nodes, net.is_some(), DEGREE, timing, clock.now());
        Detection { detector, clock, net, addresses, limit: timing.limit }
    }

    /// Returns the address of a node's heartbeat socket.
    pub fn address(&self, node: u32) -> Option<SocketAddr> {
        self.addresses.get(&node).copied()
    }

    /// Returns the node with the address of its heartbeat socket.
    fn at(&self, node: u32) -> Option<(u32, SocketAddr)> {
        Some((node, self.address(node)?))
    }

    /// Returns the time of the launcher's clock.
    pub fn now(&self) -> MachineTime {
        self.clock.now()
    }

    /// Returns the time until the detector's next deadline.
    pub fn left(&self) -> Option<Duration> {
        Some(self.detector.deadline()?.saturating_sub(self.clock.now()))
    }

    /// Returns the descriptor to poll.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.net.iter().map(|net| PollFd::new(net, PollFlags::IN))
    }

    /// Assigns each node its successor to watch and the party that renews its lease.
    pub fn begin(&mut self) -> Vec<DetectorAction> {
        self.detector.begin()
    }

    /// Adds a node that joins, with the address of its heartbeat socket if it is on another host.
    /// Returns the detector's decisions.
    pub fn add(&mut self, node: u32, at: Option<SocketAddr>) -> Vec<DetectorAction> {
        self.addresses.extend(at.map(|at| (node, at)));
        self.detector.add(self.clock.now(), node)
    }

    /// Passes an observation about `node` to the detector, and returns its decisions.
    pub fn observe(&mut self, node: u32, observation: Observation) -> Vec<DetectorAction> {
        self.detector.handle(self.clock.now(), node, observation)
    }

    /// Runs the timers, after all pending messages were handled.
    pub fn tick(&mut self) -> Vec<DetectorAction> {
        self.detector.tick(self.clock.now())
    }

    /// Receives the next heartbeat that arrived as a datagram; reports those of strangers.
    pub fn receive(&mut self, events: &mut EventBus) -> Option<(u32, Beat)> {
        loop {
            match self.net.as_mut()?.receive()? {
                Datagram::Beat(Party::Node(node), beat, _) => return Some((node, beat)),
                Datagram::Beat(Party::Launcher, ..) => {}
                Datagram::Foreign(from) => {
                    events.news(&format!("a heartbeat from {from} was refused: not of this job"))
                }
            }
        }
    }

    /// Carries out a decision after an observation that came by `path`. Returns a node that is
    /// declared lost, so that its teardown begins.
    pub fn carry_out(
        &mut self,
        decision: DetectorAction,
        path: HeartbeatPath,
        nodes: &mut Nodes,
        events: &mut EventBus,
    ) -> Option<DeclaredLost> {
        match decision {
            DetectorAction::Beat { node, beat } => self.answer(node, beat, path, nodes),
            DetectorAction::AsymmetricLink { node, by, witness } => events.news(&format!(
                "{} does not reach node {by}, but node {witness} and the launcher: the \
                 network between the two is in doubt",
                nodes.name(node)
            )),
            DetectorAction::CutOff { node, by, witness } => {
                events.news(&format!(
                    "{} reaches the launcher, but neither node {by} nor node {witness}: it is \
                     cut off from its peers and shut down",
                    nodes.name(node)
                ));
                nodes.send(node, &Down::Shutdown, &[]);
            }
            DetectorAction::Declare { node, silent, witness } => {
                let why = silent.map(|silent| self.explain(&nodes.name(node), silent, witness));
                why.iter().for_each(|why| events.news(why));
                return Some(DeclaredLost { node, trusted: silent.is_none() });
            }
            order => order.news().into_iter().for_each(|(to, news)| {
                self.order(news).iter().for_each(|order| nodes.send(to, order, &[]));
            }),
        }
        None
    }

    /// Returns the order to a node about the peers that it watches, with their addresses.
    fn order(&self, news: News) -> Option<Down> {
        let at = |node: u32| self.at(node);
        match news {
            News::Ask { node } => Some(Down::Ask { node, at: self.address(node) }),
            News::Watch { successor } => Some(Down::Watch { successor: successor.and_then(at) }),
            News::Adopt { node, term } => at(node).map(|(node, at)| Down::Adopt { node, at, term }),
            News::Release { node, term } => Some(Down::Release { node, term }),
            News::Parent { parent: Party::Node(node) } => Some(Down::Parent { parent: at(node) }),
            News::Parent { parent: Party::Launcher } => Some(Down::Parent { parent: None }),
            News::Beat { .. } => None, // answered over the path on which it came
        }
    }

    /// Returns the line on a node that is declared lost.
    fn explain(&self, name: &str, silent: MachineTime, witness: Option<u32>) -> String {
        let also = witness.map(|by| format!(", nor does it reach node {by}")).unwrap_or_default();
        format!(
            "{name}: no sign of life for {:.1} s{also} (SHMEM_FT_NODE_TIMEOUT={}): it is declared \
             lost",
            silent.as_secs_f64(),
            self.limit.as_secs_f64()
        )
    }

    fn answer(&mut self, node: u32, beat: Beat, path: HeartbeatPath, nodes: &mut Nodes) {
        match (path, self.address(node), &mut self.net) {
            (HeartbeatPath::Datagram, Some(at), Some(net)) => net.send(Party::Node(node), at, beat),
            _ => nodes.send_beat(node, beat),
        }
    }
}
