//! An agent's heartbeat client: its monitor, its lease's deadline, and the addresses of its peers.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use raidshmem_core::detector::{MachineTime, Monitor, Timing};
use raidshmem_core::message::{Party, ProcId};
use raidshmem_core::settings::{Fabric, Settings};
use raidshmem_engines as engines;
use raidshmem_fabric::Signs;
use raidshmem_sys::process::{Clock, Deadline};

use super::looks::Looks;
use crate::heartbeats::Heartbeats;

/// The monitor and its connections to peers.
pub struct HeartbeatClient {
    pub monitor: Monitor,
    /// The clock of the lease and of all timeouts of the agent. With a launcher on another host it
    /// also counts time in which this host is suspended.
    pub clock: Clock,
    /// The socket for heartbeats between hosts.
    pub net: Option<Heartbeats>,
    /// A reader of the successor's counter by RDMA.
    pub rdma_liveness: Option<Box<dyn Signs>>,
    /// The addresses of peers' heartbeat sockets.
    pub addresses: BTreeMap<Party, SocketAddr>,
    /// A kernel timer that ends this agent, and with it its PEs, if it cannot do so itself: it may
    /// be stopped.
    deadline: Option<Deadline>,
    pub limit: Duration,
    pub pe_limit: Option<Duration>,
    /// Stopped PEs, and the time at which each was first seen so.
    pub stopped: BTreeMap<ProcId, MachineTime>,
    /// The monitor of long waits of PEs.
    pub looks: Option<Looks>,
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
        let (limit, pe_limit, stopped) =
            (settings.node_timeout, settings.pe_timeout, BTreeMap::new());
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
        let looks = Looks::new(settings.stall, clock.now());
        let client = HeartbeatClient {
            monitor,
            clock,
            net,
            rdma_liveness,
            addresses,
            deadline,
            limit,
            pe_limit,
            stopped,
            looks,
        };
        client.move_deadline();
        client
    }

    /// Records the address of a node, and returns the node's number.
    pub fn learn(&mut self, node: Option<(u32, SocketAddr)>) -> Option<u32> {
        let (node, at) = node?;
        self.addresses.insert(Party::Node(node), at);
        Some(node)
    }

    /// Sets the deadline a little after the end of the lease, so that a working agent ends itself
    /// first.
    pub fn move_deadline(&self) {
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
}
