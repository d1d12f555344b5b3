//! The heartbeat client of an agent: its monitor, its lease's deadline, and its ways to others.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use raidshmem_core::detector::{MachineTime, Monitor, Timing};
use raidshmem_core::message::{HeartbeatSettings, Job, Party, ProcId};
use raidshmem_engines as engines;
use raidshmem_fabric::Signs;
use raidshmem_sys::process::{Clock, Deadline};

use super::looks::Looks;
use crate::heartbeats::Heartbeats;

/// The monitor and its ways to others.
pub struct HeartbeatClient {
    pub monitor: Monitor,
    /// The clock of the lease and of all that the agent waits for. A launcher on another host does
    /// not sleep when this one does.
    pub clock: Clock,
    /// Between hosts.
    pub net: Option<Heartbeats>,
    /// Reads the counter of the successor by RDMA.
    pub rdma_liveness: Option<Box<dyn Signs>>,
    /// Where others hear heartbeats.
    pub addresses: BTreeMap<Party, SocketAddr>,
    /// Ends this agent, and with it its PEs, when it cannot itself: it may be stopped.
    deadline: Option<Deadline>,
    pub limit: Duration,
    pub pe_limit: Option<Duration>,
    /// PEs that are stopped, and since when.
    pub stopped: BTreeMap<ProcId, MachineTime>,
    /// What PEs wait in.
    pub looks: Option<Looks>,
}

/// The connection, socket and secret of an agent on another host.
pub struct Ties {
    pub net: Heartbeats,
    pub launcher: SocketAddr,
}

impl HeartbeatClient {
    /// The heartbeats of node `node`.
    pub fn new(
        node: u32,
        job: &Job,
        heartbeat: &HeartbeatSettings,
        ties: Option<Ties>,
    ) -> HeartbeatClient {
        let timing = Timing { period: heartbeat.period, limit: heartbeat.limit };
        let clock = if ties.is_some() { Clock::Always } else { Clock::Awake };
        let (mut addresses, mut net, mut rdma_liveness) = (BTreeMap::new(), None, None);
        if let Some(ties) = ties {
            addresses.insert(Party::Launcher, ties.launcher);
            net = Some(ties.net);
            rdma_liveness = engines::signs(job.fabric, job.device.as_ref(), heartbeat.period);
        }
        let deadline = Deadline::new(clock).ok(); // without one it still looks at its clock
        let monitor = Monitor::new(node, timing, clock.now());
        let (limit, pe_limit, stopped) = (heartbeat.limit, heartbeat.pe_limit, BTreeMap::new());
        let looks = Looks::new(heartbeat.stall, clock.now());
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

    /// Takes the address of a node, and gives its number.
    pub fn learn(&mut self, node: Option<(u32, SocketAddr)>) -> Option<u32> {
        let (node, at) = node?;
        self.addresses.insert(Party::Node(node), at);
        Some(node)
    }

    /// A little after the end of the lease, so that an agent that can end itself does.
    pub fn move_deadline(&self) {
        if let Some(deadline) = &self.deadline {
            deadline.set(Some(self.monitor.lease().end() + self.limit / 5));
        }
    }

    /// Every PE has ended: what is left to do may take its time.
    pub fn rest(&self) {
        if let Some(deadline) = &self.deadline {
            deadline.set(None);
        }
    }
}
