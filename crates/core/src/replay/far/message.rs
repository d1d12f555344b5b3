//! The messages between PEs that do not map each other.

#![allow(missing_docs)] // the comment of each message covers its fields

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::replica::{LogReplica, ReplicaPart};
use crate::quantity::Incarnation;
use crate::replay::log::{Kind, LogRecord, Stage};

/// The words of a PE's log that peers look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogWords {
    /// The process, and its stage.
    pub incarnation: Incarnation,
    pub stage: Option<Stage>,
    /// The last meeting of all PEs that it entered, and the first one without a record.
    pub met: u64,
    pub bare_from: u64,
    /// The reason against a local rollback, or an empty text.
    pub against: String,
}

/// A numbered record for the mirror of the sender's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberedRecord {
    /// Its number in the interval, from 1.
    pub number: u64,
    pub record: LogRecord,
    /// The value that an atomic operation compares with.
    pub compared: u64,
    /// The payload, except that of an atomic operation; that of a meeting is one for all members.
    #[serde(with = "crate::bulk")]
    pub payload: Arc<[u8]>,
    /// The word of this meeting of all PEs; 0 in other records.
    pub met: u64,
}

impl NumberedRecord {
    /// Returns the bytes that it counts for while it is under way.
    pub fn bytes(&self) -> usize {
        size_of::<NumberedRecord>() + self.payload.len()
    }

    /// Returns the bytes that it counts for while it is kept: the own log has a contribution to a
    /// meeting, too.
    pub fn kept_bytes(&self) -> usize {
        match self.record.kind {
            Kind::Meeting => size_of::<NumberedRecord>(),
            _ => self.bytes(),
        }
    }
}

/// A message between PEs that do not map each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FarMessage {
    /// The words of the sender's log; a later interval than that of the mirror empties the mirror.
    Words(LogWords),
    /// An operation, or a contribution to a meeting.
    Record(NumberedRecord),
    /// A request for blocks of bytes: their offset, length, number, and distance.
    Read { ticket: u64, at: u64, block: u64, blocks: u64, step: u64 },
    /// The acknowledgement of a record; `old` is the value that an atomic operation found.
    Done { number: u64, old: u64 },
    /// The requested bytes.
    Bytes {
        ticket: u64,
        #[serde(with = "crate::bulk")]
        bytes: Vec<u8>,
    },
    /// A part of the sender's log, for its replica.
    Replicate(ReplicaPart),
    /// The acknowledgement of a part.
    Replicated { number: u64 },
    /// A request for the replica of the log of the sender's predecessor.
    Fetch,
    /// The replica, if there is one.
    Replica(Option<Box<LogReplica>>),
    /// A request for all records of this interval.
    Resend,
    /// The words of the sender's log, before these records.
    Beginning(LogWords),
    /// The refusal, because they need this many bytes: more than are kept.
    Dropped { bytes: u64 },
}

impl FarMessage {
    /// Returns true if the message tells of what the sender has logged or taken, which therefore
    /// must be in its replica first.
    pub fn waits(&self) -> bool {
        match self {
            FarMessage::Words(_)
            | FarMessage::Beginning(_)
            | FarMessage::Record(_)
            | FarMessage::Read { .. }
            | FarMessage::Done { .. }
            | FarMessage::Bytes { .. }
            | FarMessage::Dropped { .. } => true,
            FarMessage::Replicate(_)
            | FarMessage::Replicated { .. }
            | FarMessage::Fetch
            | FarMessage::Replica(_)
            | FarMessage::Resend => false,
        }
    }
}
