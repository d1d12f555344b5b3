//! The replica of a PE's log on another node, for the loss of the owner's node.
//!
//! Between hosts the owner sends a part to the holder whenever a message is about to leave: the
//! records of its own log since the last part, and the order in which it has taken the records of
//! others into its mirrors, with the values that they found. Those records are not in the replica:
//! their origins keep them until the next checkpoint, and send them again.
//!
//! The holder keeps a replica in the memory of its process. If it dies, the owner chooses another
//! holder and sends everything.
//!
//! Invariant: the newest replica of a PE's log holds all that a message of that PE can tell of.

#![allow(missing_docs)] // the comment of each type covers its fields

use serde::{Deserialize, Serialize};

use super::LogInterval;
use crate::quantity::{Incarnation, Pe};

/// A record of PE `pe` that the owner has taken: the time in its mirror, and the value found. The
/// records of a PE have the numbers 1, 2, ..
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    pub pe: Pe,
    pub time: u64,
    pub old: u64,
}

/// The words of a log that are not in its records: the place of the checkpoint call, the last
/// meeting of all PEs, the first one without a record, the bytes needed if the log is full, and the
/// reason against a local rollback.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogHead {
    pub place: (u64, u64),
    pub met: u64,
    pub bare_from: u64,
    pub need: u64,
    pub against: String,
}

/// Encoded records from byte `at` of a log, of which the last one begins at byte `last`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogBytes {
    pub at: u64,
    pub last: u64,
    #[serde(with = "crate::bulk")]
    pub bytes: Vec<u8>,
}

/// A part of a log on its way to the holder: the records from the last one of the part before on,
/// which may have changed since, and the arrivals after `arrived` earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaPart {
    pub incarnation: Incarnation,
    pub number: u64,
    pub head: LogHead,
    pub records: LogBytes,
    pub arrived: u64,
    pub arrivals: Vec<Arrival>,
}

/// The replica of a log, as of the part with this number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogReplica {
    pub interval: LogInterval,
    pub incarnation: Incarnation,
    pub number: u64,
    pub head: LogHead,
    #[serde(with = "crate::bulk")]
    pub records: Vec<u8>,
    pub arrivals: Vec<Arrival>,
}

impl LogReplica {
    /// Returns the replica after a further part. None if parts before it are missing.
    pub fn with(
        before: Option<LogReplica>,
        interval: LogInterval,
        part: ReplicaPart,
    ) -> Option<LogReplica> {
        let ReplicaPart { incarnation, number, head, records, arrived, arrivals } = part;
        let is_first = (records.at, arrived) == (0, 0);
        let is_same = |before: &LogReplica| {
            (before.interval, before.incarnation) == (interval, incarnation)
                && before.records.len() as u64 >= records.at
                && before.arrivals.len() as u64 >= arrived
        };
        let empty = LogReplica {
            interval,
            incarnation,
            number,
            head: LogHead::default(),
            records: Vec::new(),
            arrivals: Vec::new(),
        };
        let before = if is_first { Some(empty) } else { before.filter(is_same) };
        let mut replica = before?;
        replica.records.truncate(records.at as usize);
        replica.records.extend(records.bytes);
        replica.arrivals.truncate(arrived as usize);
        replica.arrivals.extend(arrivals);
        Some(LogReplica { number, head, ..replica })
    }
}

/// Returns the newest replica.
pub fn newest(replicas: impl IntoIterator<Item = LogReplica>) -> Option<LogReplica> {
    let age = |replica: &LogReplica| (replica.interval, replica.incarnation, replica.number);
    replicas.into_iter().max_by_key(age)
}
