//! Logs between PEs that do not map each other: the part of a PE's log that concerns another PE
//! lies with that other PE.
//!
//! ```text
//! origin   numbers its operations on the target, and its contributions to meetings, from the
//!          beginning of the interval; sends each, and keeps it until it is acknowledged
//! target   appends the record to its *mirror* of the origin's log, with the time of its own clock,
//!          carries the operation out, and acknowledges it
//! ```
//!
//! So the mirror of a PE reads like the log of a PE that is mapped, and a process that dies leaves
//! on its own node all that its substitute needs: no clock, fence or flight spans nodes. A
//! substitute counts its operations again while it repeats them, so they have the numbers of its
//! predecessor, and the target recognises those that it has carried out.
//!
//! Messages arrive in order as long as both processes live. A message for a PE that replays its
//! log, or that has not come to that interval yet, is held until it can be taken.
//!
//! A PE that is alone on its node survives the loss of that node, too: its log has a replica on
//! another node ([`replica`]), which holds all that a message can tell of before the message leaves
//! ([`departures`]). Records for such a PE are kept until the next checkpoint. Its substitute gets
//! the replica, and the records again ([`renewal`]).
//!
//! Invariants: a record is in the mirror before its operation is visible; an operation is carried
//! out once, whichever process of each PE sent or received it; a message of an earlier interval
//! changes nothing.
//!
//! Left out: the transport of messages.

pub mod departures;
mod link;
pub mod links;
pub mod message;
pub mod port;
pub mod renewal;
pub mod replica;

use serde::{Deserialize, Serialize};

/// The interval of a log: era, and checkpoint that it begins at. Later intervals are greater.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct LogInterval {
    /// The view that all had joined when they last rolled back, or began.
    pub era: u64,
    /// The number of the checkpoint.
    pub checkpoint: u64,
}
