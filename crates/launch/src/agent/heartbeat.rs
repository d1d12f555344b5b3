//! An agent's heartbeat client: its monitor, its lease's deadline, and the addresses of its peers.
//! It drives [`Monitor`], which sends and receives heartbeats.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use raidshmem_core::detector::{MachineTime, Monitor, MonitorAction, News, Timing};
use raidshmem_core::message::{Beat, Down, Party, Up};
use raidshmem_core::settings::{Fabric, Settings};
use raidshmem_engines as engines;
use raidshmem_fabric::Signs;
use raidshmem_sys::process::{Clock, Deadline};
use raidshmem_sys::socket::ChannelError;
use rustix::event::{PollFd, PollFlags};

use super::uplink::Uplink;
use crate::heartbeats::{Datagram, Heartbeats};

/// The monitor and its connections to peers.
pub struct HeartbeatClient {
    node: u32,
    monitor: Monitor,
    /// The clock of the lease and of all timeouts of the agent. With a launcher on another host it
    /// also counts time in which this host is suspended.
    clock: Clock,
    /// The socket for heartbeats between hosts.
    net: Option<Heartbeats>,
    /// A reader of the successor's counter by RDMA.
    rdma_liveness: Option<Box<dyn Signs>>,
    /// The addresses of peers' heartbeat sockets.
    addresses: BTreeMap<Party, SocketAddr>,
    /// A kernel timer that ends this agent, and with it its PEs, if it cannot do so itself: it may
    /// be stopped.
    deadline: Option<Deadline>,
    limit: Duration,
}

/// The heartbeat socket of an agent on another host, and the launcher's address for heartbeats.
pub struct Ties {
    pub net: Heartbeats,
    pub launcher: SocketAddr,
}

impl HeartbeatClient {
    /// Creates the heartbeat client of node `node`.
    pub fn new(
        node: u32,
        fabric: Fabric,
        settings: &Settings,
        ties: Option<Ties>,
    ) -> HeartbeatClient {
        let limit = settings.node_timeout;
        let timing = Timing { period: settings.period(), limit };
        let clock = if ties.is_some() { Clock::Always } else { Clock::Awake };
        let (mut addresses, mut net, mut rdma_liveness) = (BTreeMap::new(), None, None);
        if let Some(ties) = ties {
            addresses.insert(Party::Launcher, ties.launcher);
            net = Some(ties.net);
            rdma_liveness = engines::signs(fabric, settings.device.as_ref(), timing.period);
        }
        let deadline = Deadline::new(clock).ok(); // without one it still checks its clock
        let monitor = Monitor::new(node, timing, clock.now());
        let client = HeartbeatClient {
            node,
            monitor,
            clock,
            net,
            rdma_liveness,
            addresses,
            deadline,
            limit,
        };
        client.move_deadline();
        client
    }

    /// Records the address of a node, and returns the node's number.
    fn learn(&mut self, node: Option<(u32, SocketAddr)>) -> Option<u32> {
        let (node, at) = node?;
        self.addresses.insert(Party::Node(node), at);
        Some(node)
    }

    /// Sets the deadline a little after the end of the lease, so that a working agent ends itself
    /// first.
    fn move_deadline(&self) {
        if let Some(deadline) = &self.deadline {
            deadline.set(Some(self.monitor.lease().end() + self.limit / 5));
        }
    }

    /// Clears the deadline: every PE has ended, so the cleanup may take its time.
    pub fn rest(&self) {
        if let Some(deadline) = &self.deadline {
            deadline.set(None);
        }
    }

    /// Returns the time of the agent's clock.
    pub fn now(&self) -> MachineTime {
        self.clock.now()
    }

    /// Returns the next time at which [`HeartbeatClient::tick`] is due.
    pub fn next(&self) -> MachineTime {
        self.monitor.deadline()
    }

    /// Returns the descriptor to poll.
    pub fn fd(&self) -> Option<PollFd<'_>> {
        self.net.as_ref().map(|net| PollFd::new(net, PollFlags::IN))
    }

    /// Runs due actions, before pending messages are handled. Returns false if the lease has
    /// expired.
    pub fn tick(&mut self, time: MachineTime, up: &mut Uplink) -> Result<bool, ChannelError> {
        let acts = self.monitor.tick(time);
        if acts.contains(&MonitorAction::Die) {
            return Ok(false);
        }
        self.act(acts, up)?;
        self.check_rdma_liveness(time, up)?;
        Ok(true)
    }

    /// Handles an order about heartbeats; returns any other order.
    pub fn take_order(
        &mut self,
        order: Down,
        up: &mut Uplink,
    ) -> Result<Option<Down>, ChannelError> {
        let news = match order {
            Down::Beat(beat) => News::Beat { from: Party::Launcher, beat },
            Down::Ask { node, at } => {
                self.learn(at.map(|at| (node, at)));
                News::Ask { node }
            }
            Down::Watch { successor } => News::Watch { successor: self.learn(successor) },
            Down::Parent { parent } => {
                let parent = self.learn(parent);
                News::Parent { parent: parent.map_or(Party::Launcher, Party::Node) }
            }
            Down::Adopt { node, at, term } => {
                self.learn(Some((node, at)));
                News::Adopt { node, term }
            }
            Down::Release { node, term } => News::Release { node, term },
            other => return Ok(Some(other)),
        };
        self.take_news(news, up)?;
        Ok(None)
    }

    /// Handles heartbeats that arrived as datagrams.
    pub fn receive(&mut self, up: &mut Uplink) -> Result<(), ChannelError> {
        while let Some(datagram) = self.net.as_mut().and_then(Heartbeats::receive) {
            match datagram {
                Datagram::Beat(from @ Party::Node(node), beat, at) => {
                    // Allows an answer before the launcher has sent the sender's address.
                    self.addresses.entry(from).or_insert(at);
                    if !matches!(beat, Beat::Reader(_) | Beat::Counter(_)) {
                        self.take_news(News::Beat { from, beat }, up)?;
                        continue;
                    }
                    let liveness = self.rdma_liveness.as_mut();
                    if let Some(answer) = liveness.and_then(|liveness| liveness.hear(node, beat)) {
                        self.beat(Party::Node(node), answer, up)?;
                    }
                }
                Datagram::Beat(from, beat, _) => self.take_news(News::Beat { from, beat }, up)?,
                Datagram::Foreign(from) => up.note(format!(
                    "node {}: a heartbeat from {from} was refused: not of this job",
                    self.node
                ))?,
            }
        }
        Ok(())
    }

    /// Notifies the launcher, if it is still reachable, that no process is left here.
    pub fn report_gone(&mut self, up: &mut Uplink) {
        let _ = self.beat(Party::Launcher, Beat::Gone, up);
    }

    fn take_news(&mut self, news: News, up: &mut Uplink) -> Result<(), ChannelError> {
        let end = self.monitor.lease().end();
        let acts = self.monitor.handle(self.clock.now(), news);
        if self.monitor.lease().end() > end {
            self.move_deadline();
        }
        self.act(acts, up)
    }

    fn act(&mut self, acts: Vec<MonitorAction>, up: &mut Uplink) -> Result<(), ChannelError> {
        for act in acts {
            match act {
                MonitorAction::Beat { to, beat } => self.beat(to, beat, up)?,
                MonitorAction::Accuse { node } => up.send(&Up::Accuse { node, silent: true })?,
                MonitorAction::Withdraw { node } => up.send(&Up::Accuse { node, silent: false })?,
                MonitorAction::Opinion { node, alive } => up.send(&Up::Opinion { node, alive })?,
                MonitorAction::GiveUp { node, term, silent } => {
                    up.send(&Up::GiveUp { node, term, silent })?;
                }
                MonitorAction::Die => {} // handled by `tick`
            }
        }
        Ok(())
    }

    /// Sends a heartbeat. The launcher gets it both ways: a datagram overtakes retransmissions of
    /// the connection, and the connection works where datagrams are blocked.
    fn beat(&mut self, to: Party, beat: Beat, up: &mut Uplink) -> Result<(), ChannelError> {
        if let (Some(net), Some(at)) = (&mut self.net, self.addresses.get(&to)) {
            net.send(to, *at, beat);
        }
        match (to, beat) {
            (Party::Launcher, Beat::Gone) => up.send(&Up::Beat(beat)),
            (Party::Launcher, _) => up.send_ahead(&Up::Beat(beat)),
            (Party::Node(_), _) => Ok(()),
        }
    }

    /// Counts an RDMA read that shows the successor alive as its answer to a ping.
    fn check_rdma_liveness(
        &mut self,
        time: MachineTime,
        up: &mut Uplink,
    ) -> Result<(), ChannelError> {
        let successor = self.monitor.successor();
        let Some(liveness) = &mut self.rdma_liveness else { return Ok(()) };
        let (beat, seen) = liveness.look(successor, time);
        let Some(from) = successor.map(Party::Node) else { return Ok(()) };
        if let Some(beat) = beat {
            self.beat(from, beat, up)?;
        }
        if seen {
            self.take_news(News::Beat { from, beat: Beat::Pong(time) }, up)?;
        }
        Ok(())
    }
}
