//! Heartbeats between launcher and agents, and what an agent must know to send them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// A heartbeat, with the time of the asker's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Beat {
    /// Do you hear me?
    Ping(Duration),
    /// Yes, I heard what you asked at that time.
    Pong(Duration),
    /// Yes, and because I did you may go on for so long from that time.
    Lease(Duration, Duration),
    /// My lease is over, and every process of my node has ended.
    Gone,
    /// This queue pair wants to read your counter.
    Reader(CounterEnd),
    /// Mine for yours, and where my counter is.
    Counter(CounterEnd),
}

/// One end of a connection over which a counter is read by RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterEnd {
    /// Global identifier of its port.
    pub gid: [u8; 16],
    /// Local identifier of its port, 0 on Ethernet.
    pub lid: u16,
    /// Largest packet as the code of the verbs interface.
    pub mtu: u8,
    /// Reads that it serves at a time.
    pub reads: u8,
    /// Its queue pair.
    pub qpn: u32,
    /// The queue pair at the other end; 0 while it is not known.
    pub peer: u32,
    /// Address of its counter.
    pub place: u64,
    /// Key for reading it.
    pub key: u32,
}

/// A sender or receiver of heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Party {
    /// The agent of a node.
    Node(u32),
    /// The launcher.
    Launcher,
}

/// What an agent needs to know about heartbeats.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HeartbeatSettings {
    /// Between two heartbeats.
    pub period: Duration,
    /// A node that has not heard the launcher for this time ends itself.
    pub limit: Duration,
    /// A PE that is stopped for longer is killed; never if there is none.
    pub pe_limit: Option<Duration>,
    /// A PE that waits for longer in one call is told of; never if there is none.
    pub stall: Option<Duration>,
    /// Between hosts: the key of heartbeats, and the launcher's UDP port.
    pub net: Option<(Secret, u16)>,
}
