//! The launcher's failure detector, with its clock and the nodes' addresses.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use raidshmem_core::detector::{DEGREE, FailureDetector, MachineTime, Timing};
use raidshmem_sys::process::Clock;

use crate::heartbeats::Heartbeats;

/// The failure detector and its connections to the nodes.
pub struct Detection {
    pub detector: FailureDetector,
    /// The clock of timeouts; with nodes on other hosts it also counts time in suspend.
    pub clock: Clock,
    /// The socket for heartbeats between hosts.
    pub net: Option<Heartbeats>,
    /// The addresses of nodes' heartbeat sockets.
    pub addresses: BTreeMap<u32, SocketAddr>,
    pub limit: Duration,
}

/// The path on which a heartbeat came; its answer takes the same path.
#[derive(Clone, Copy)]
pub enum HeartbeatPath {
    Link,
    Datagram,
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

    /// Returns the node with the address of its heartbeat socket.
    pub fn at(&self, node: u32) -> Option<(u32, SocketAddr)> {
        Some((node, *self.addresses.get(&node)?))
    }

    /// Returns the time of the launcher's clock.
    pub fn now(&self) -> MachineTime {
        self.clock.now()
    }

    /// Returns the time until the detector's next deadline.
    pub fn left(&self) -> Option<Duration> {
        Some(self.detector.deadline()?.saturating_sub(self.clock.now()))
    }
}
