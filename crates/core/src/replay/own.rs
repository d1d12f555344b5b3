//! The own log of a substitute, call by call, as its predecessor left it.
//!
//! The program runs from the checkpoint again, and makes the same calls. Each is compared with the
//! next record: the routine and what it is of, the offset in the segment, the lengths, the PE, and
//! the bytes that it brings. Private addresses are not compared. Equal answers that follow each
//! other share a record, which is given as often as it was.
//!
//! Invariant: a call that differs from the log changes nothing anywhere.

use std::collections::BTreeMap;

use super::log::{Kind, Located, Logs};
use super::merge::Merge;
use crate::quantity::Pe;

/// A record that a call is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedCall {
    /// Where it begins.
    pub from: usize,
    /// Of equal answers that share a record, it is the first, and the last.
    pub is_first: bool,
    /// See `is_first`.
    pub is_last: bool,
}

/// How far a substitute has come in the logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Replay {
    me: Pe,
    /// Where its next call is in its own log, and where that ends.
    at: usize,
    end: usize,
    /// How often the answer of the next record was given again.
    repeated: u64,
    /// Calls that came from the log.
    calls: u64,
    /// What others did.
    pub merge: Merge,
}

impl Replay {
    /// The replay of PE `me` in a job of `n_pes`, at the checkpoint. `see` is shown each record.
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

    /// Where the own log ends.
    pub fn end(&self) -> usize {
        self.end
    }

    /// Where the next call is in it.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Calls that came from the log.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// True if the predecessor made no other call. It may have died in the last: what others only
    /// logged since then may be a part of it.
    pub fn is_over(&self) -> bool {
        self.at >= self.end
    }

    /// The next record, if `is_it` says that the call is of that.
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

/// Where the next call in the log of a PE is, from `at` on.
fn past_taken(logs: &impl Logs, pe: Pe, mut at: usize) -> usize {
    while let Some(found) = logs.read(pe, at).filter(|found| found.record.kind == Kind::Taken) {
        at = found.next;
    }
    at
}

/// The number of the meeting before those of a log, of which `in_log` are the first and the last,
/// where its owner had said that it came to meeting `said`; and the one that is still to be said.
/// Who died right behind a record of a meeting had come to it, and may not have said so.
pub fn met_before(said: u64, in_log: Option<(u64, u64)>) -> (u64, Option<u64>) {
    match in_log {
        None => (said, None),
        Some((first, last)) => (first - 1, (said < last).then_some(last)),
    }
}
