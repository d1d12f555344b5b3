//! Replay of a substitute's own log, which its predecessor wrote, call by call.
//!
//! The program runs again from the checkpoint and makes the same calls. Each call is compared with
//! the next record: routine, arguments, offset in the segment, lengths, PE, and payload. Private
//! addresses are not compared. Consecutive equal answers share a record, which is replayed as often
//! as it was given.
//!
//! Invariant: a call that differs from the log changes nothing anywhere.

use std::collections::BTreeMap;

use super::log::{Kind, Located, Logs};
use super::merge::Merge;
use crate::quantity::Pe;

/// The record that matches a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedCall {
    /// Cursor of the record.
    pub from: usize,
    /// True if the call is the first of the equal answers that share the record.
    pub is_first: bool,
    /// True if the call is the last of these answers.
    pub is_last: bool,
}

/// The progress of a substitute through the logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Replay {
    me: Pe,
    /// Cursor of its next call in its own log, and the end of that log.
    at: usize,
    end: usize,
    /// Number of times that the next record has been replayed, if it is an answer.
    repeated: u64,
    /// Number of calls replayed from the log.
    calls: u64,
    /// The operations of other PEs on this one.
    pub merge: Merge,
}

impl Replay {
    /// Begins the replay of PE `me` at the checkpoint, in a job of `n_pes`. Passes each own record
    /// to
    /// `see`.
    pub fn begin(logs: &impl Logs, me: Pe, n_pes: usize, mut see: impl FnMut(&Located)) -> Replay {
        let (mut end, mut taken) = (0, BTreeMap::new());
        while let Some(found) = logs.read(me, end) {
            let record = &found.record;
            if record.kind == Kind::Taken {
                taken.insert((record.target(), record.at as usize), record.block.1);
            }
            see(&found);
            end = found.next;
        }
        let (at, merge) = (past_taken(logs, me, 0), Merge::begin(me, n_pes, taken));
        Replay { me, at, end, repeated: 0, calls: 0, merge }
    }

    /// Returns the end of the own log.
    pub fn end(&self) -> usize {
        self.end
    }

    /// Returns the cursor of the next call in the own log.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the number of calls replayed from the log.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Returns true if the predecessor made no further call. It may have died in the last one:
    /// later operations that were only logged may belong to that call.
    pub fn is_over(&self) -> bool {
        self.at >= self.end
    }

    /// Returns the next record and advances, if `is_it` accepts the record for this call.
    pub fn next(
        &mut self,
        logs: &impl Logs,
        is_it: impl FnOnce(&Located) -> bool,
    ) -> Option<LoggedCall> {
        let found = logs.read(self.me, self.at).filter(|found| found.from < self.end)?;
        if !is_it(&found) {
            return None;
        }
        let again = found.record.kind == Kind::Answer;
        let is_last = !again || self.repeated == logs.repeats(self.me, found.from);
        let call = LoggedCall { from: found.from, is_first: self.repeated == 0, is_last };
        self.calls += 1;
        (self.at, self.repeated) = match is_last {
            true => (past_taken(logs, self.me, found.next), 0),
            false => (self.at, self.repeated + 1),
        };
        Some(call)
    }
}

/// Returns the cursor of the next call in the log of a PE, from `at` on.
fn past_taken(logs: &impl Logs, pe: Pe, mut at: usize) -> usize {
    while let Some(found) = logs.read(pe, at).filter(|found| found.record.kind == Kind::Taken) {
        at = found.next;
    }
    at
}

/// Returns the number of the meeting before those in a log, and the arrival that is still to be
/// posted. `in_log` is the first and the last meeting in the log; its owner has posted its arrival
/// at meeting `said`. A PE that died right after it recorded a meeting had arrived, but may not
/// have posted that.
pub fn met_before(said: u64, in_log: Option<(u64, u64)>) -> (u64, Option<u64>) {
    match in_log {
        None => (said, None),
        Some((first, last)) => (first - 1, (said < last).then_some(last)),
    }
}
