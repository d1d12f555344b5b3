//! Node failure detection: time and messages in, decisions out; no clock, no socket.
//!
//! Two state machines: a [`Monitor`] in every agent, the [`FailureDetector`] in the launcher.
//!
//! ```text
//! every period   agent --ping--> launcher --pong--> agent      renews the agent's lease
//!                with more agents than DEGREE: the launcher renews only the leases of its children
//!                in a tree; each agent renews those of its own children while its own is valid
//!                agent --ping--> parent --lease--> agent
//!                agent --ping--> its successor in the ring --pong--> agent
//!                  (with RDMA, a counter of the successor that has advanced counts too)
//! parent silent for limit / 4, or a lease older than limit / 2
//!                the agent also pings the launcher, which renews its lease like a child's
//! child silent for limit / 2
//!                the agent reports that it gave the child up; only the launcher may then renew
//!                the child's lease
//! lease expired  the agent ends its PEs, reports that if it can, and exits
//! no heartbeat at the launcher, nor at a parent that may renew the lease, for
//!   limit / 2    the launcher asks another node for a second opinion
//!   1.25 limits  no heartbeat there either, or no node to ask: declared lost
//!   1.4 limits   declared lost regardless of other observations: its lease has expired
//! ring silent    the watcher accuses; if another node receives nothing either, the node is cut off
//!                from its peers and is ordered to end, even if the launcher still receives from it
//! ```
//!
//! Invariants:
//! - a lease starts when its ping was sent, by the clock of its holder; the launcher counts from
//!   when it received that ping, which is later. So silence never gets a node declared lost before
//!   its lease is over, and after a partition only the launcher's side continues;
//! - a parent hears a ping before it answers it, and grants no more time than it has itself. So a
//!   lease that it renews is over when its own is, and at most one limit after the child's last
//!   ping. The launcher takes contact with a parent for contact with its children, until the parent
//!   has given them up;
//! - a node has one parent at a time: it gets another only after the first has given it up or is
//!   lost;
//! - a loss takes no other node along: the nodes below it turn to the launcher while half of the
//!   time of their leases is left;
//! - no node is declared lost while pings are answered within the limit or, with more nodes than
//!   DEGREE, while pings to the launcher are answered within half of it, whatever parents do;
//! - a death is declared within 1.5 limits; if the parent is lost as well before it has given the
//!   node up, within 1.5 limits of that loss, since it may have renewed the lease until then;
//! - a process that was itself stopped or not scheduled does not count that time against others: it
//!   extends their deadlines, never its own lease;
//! - a node that was declared lost never gets an answer again.
//!
//! Suspend time counts as well, because other machines do not wait. Only when all nodes are on the
//! launcher's machine do they, and their leases, sleep together with it.
//!
//! Left out: deaths that are known at once (from a pidfd, or a node supervisor's exit status).

#![allow(missing_docs)] // the comment of each event and action covers its fields

mod failure_detector;
mod lease_tree;
mod monitor;
mod timing;

pub use failure_detector::{DetectorAction, FailureDetector, Observation};
pub use lease_tree::DEGREE;
pub use monitor::{Monitor, MonitorAction, News};
pub use timing::{Lease, MachineTime, Timing};

#[cfg(test)]
mod tests;
