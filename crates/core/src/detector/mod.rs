//! Decides which nodes are dead: time and messages in, decisions out; no clock, no socket.
//!
//! Two machines. A [`Monitor`] runs in every agent, the [`FailureDetector`] in the launcher.
//!
//! ```text
//! every period   agent --ping--> launcher --pong--> agent      renews the agent's lease
//!                agent --ping--> its successor in the ring --pong--> agent
//!                  (with RDMA also: its counter, which was read, has moved)
//! lease over     the agent ends its PEs, says so where that still arrives, and ends itself
//! launcher hears nothing for
//!   limit / 2    asks another node for a second opinion
//!   1.25 limits  that node hears nothing either, or nobody can be asked: declared lost
//!   1.4 limits   declared lost whatever others hear: its lease is over
//! ring silent    the watcher accuses; if another node hears nothing either, the node is cut off
//!                from its peers and is ordered to end, though the launcher hears it
//! ```
//!
//! Invariants:
//! - a lease is counted from when its ping was sent, by the clock of its holder, and the launcher
//!   counts from when it heard that ping, which is later: so nobody is declared lost by silence
//!   before its lease is over, and of the sides of a partition only the launcher's goes on;
//! - nobody is declared lost while pings and pongs arrive within the limit;
//! - a process that was away itself (stopped, not scheduled) judges nobody by that time: it extends
//!   the others' time, never its own lease;
//! - a node that was declared lost never gets an answer again.
//!
//! All time counts, also that in which a machine sleeps: others do not wait for it. Only nodes that
//! are all on the launcher's machine sleep with it, and their leases do.
//!
//! Left out: deaths that are known at once (by a pidfd, or a node supervisor's exit status).

#![allow(missing_docs)] // the sentence of each event and action speaks of its fields

mod failure_detector;
mod monitor;
mod timing;

pub use failure_detector::{DetectorAction, FailureDetector, Observation};
pub use monitor::{Monitor, MonitorAction, News};
pub use timing::{Lease, MachineTime, Timing};

#[cfg(test)]
mod tests;
