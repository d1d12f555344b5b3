//! Heartbeats between launcher and agents, and the settings an agent needs to send them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A heartbeat, with the time by the clock of the party that pinged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Beat {
    /// A ping, sent at this time.
    Ping(Duration),
    /// The answer to the ping sent at this time.
    Pong(Duration),
    /// The answer to the ping sent at the first time; the lease may run from then for the second.
    Lease(Duration, Duration),
    /// The sender's lease is over, and every process of its node has ended.
    Gone,
    /// A request to read the receiver's counter with this queue pair.
    Reader(CounterEnd),
    /// The answer to `Reader`: the sender's queue pair and the address of its counter.
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
    /// Number of reads that it serves concurrently.
    pub reads: u8,
    /// Its queue pair.
    pub qpn: u32,
    /// The queue pair at the other end; 0 while unknown.
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
