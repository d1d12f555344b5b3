//! Node failure detection: time and messages in, decisions out; no clock, no socket.
//!
//! Two state machines: a [`Monitor`] in every agent, the [`FailureDetector`] in the launcher.
//!
//! ```text
//! every period   agent --ping--> launcher --pong--> agent      renews the agent's lease
//!                with more agents than DEGREE: the launcher so renews those of its children in a
//!                tree, and each agent renews those of its own, for as long as its own lasts
//!                agent --ping--> parent --lease--> agent
//!                agent --ping--> its successor in the ring --pong--> agent
//!                  (with RDMA also: its counter, which was read, has moved)
//! parent silent for limit / 4, or a lease that is limit / 2 old
//!                the agent pings the launcher too, which renews its lease as those of its children
//! child silent for limit / 2
//!                the agent gives it up, and says so: only the launcher may renew its lease then
//! lease over     the agent ends its PEs, says so where that still arrives, and ends itself
//! launcher hears nothing, nor does a parent that may renew the lease, for
//!   limit / 2    asks another node for a second opinion
//!   1.25 limits  that node hears nothing either, or nobody can be asked: declared lost
//!   1.4 limits   declared lost whatever others hear: its lease is over
//! ring silent    the watcher accuses; if another node hears nothing either, the node is cut off
//!                from its peers and is ordered to end, though the launcher hears it
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
