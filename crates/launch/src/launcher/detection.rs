//! The launcher's failure detector, with its clock and its ways to the nodes.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use raidshmem_core::detector::{DEGREE, FailureDetector, MachineTime, Timing};
use raidshmem_sys::process::Clock;

use crate::heartbeats::Heartbeats;

/// The failure detector and its ways to the nodes.
pub struct Detection {
    pub detector: FailureDetector,
    /// Nodes on this machine sleep when it does.
    pub clock: Clock,
    /// Between hosts.
    pub net: Option<Heartbeats>,
    /// Where nodes hear heartbeats.
    pub addresses: BTreeMap<u32, SocketAddr>,
    pub limit: Duration,
}

/// The way a heartbeat came; its answer goes back the same way.
#[derive(Clone, Copy)]
pub enum HeartbeatPath {
    Link,
    Datagram,
}

impl Detection {
    /// Over `nodes`, which have all just joined.
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

    /// That node, and where it hears heartbeats.
    pub fn at(&self, node: u32) -> Option<(u32, SocketAddr)> {
        Some((node, *self.addresses.get(&node)?))
    }

    /// The time of the launcher's clock.
    pub fn now(&self) -> MachineTime {
        self.clock.now()
    }

    /// How long until the clock must be looked at.
    pub fn left(&self) -> Option<Duration> {
        Some(self.detector.deadline()?.saturating_sub(self.clock.now()))
    }
}
