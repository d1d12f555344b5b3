//! The logs of one interval between two checkpoints, as data, and their readers.
//!
//! Each PE has one log: a sequence of records in the order of its calls. A reader continues from a
//! *cursor*, the position of a record.
//!
//! Invariants: a record is in the log before its operation is visible anywhere. If an operation
//! happens before another, its time is smaller. The time of a result is drawn after the call's last
//! look. A record does not change except for the state of its operation, the outcome, and the
//! number of repeats of an answer.
//!
//! Left out: location and maximum size of the logs.

use std::iter::successors;

use serde::{Deserialize, Serialize};

use crate::mutant::{self, Mutant};
use crate::quantity::Pe;
use crate::update::{Change, Update, WordAt};

/// The bits that hold the length of a word; the code of its change is above them.
const LENGTH_BITS: u32 = 8;

/// The kind of call that a record logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Bytes for a PE.
    Put = 1,
    /// Bytes of a PE.
    Get,
    /// A wait until a condition holds.
    Wait,
    /// A meeting of the PEs of a group: a barrier, a collective, the heap.
    Meeting,
    /// An atomic change or read of a word of a PE.
    Atomic,
    /// The result of a look at own words.
    Answer,
    /// A value that the program drew by itself.
    Event,
    /// An atomic operation of a PE that a substitute found in a log and carried out.
    Taken,
}

impl Kind {
    /// Returns the kind with this number.
    #[inline]
    pub fn of(number: u64) -> Option<Kind> {
        let all = [Kind::Put, Kind::Get, Kind::Wait, Kind::Meeting];
        let more = [Kind::Atomic, Kind::Answer, Kind::Event, Kind::Taken];
        all.into_iter().chain(more).find(|kind| *kind as u64 == number)
    }

    /// Returns true if the call observes other PEs: its time is read from the clock, and its PE may
    /// depend on everything with a smaller time. Any other call is one later than its PE's last
    /// time.
    #[inline]
    pub fn learns(self, breaks: impl Fn(Mutant) -> bool) -> bool {
        matches!(self, Kind::Wait | Kind::Answer) && !breaks(Mutant::ClockIgnored)
    }
}

/// The state of an operation on another PE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Carried {
    /// It has not happened.
    Begun = 0,
    /// It has happened.
    Done,
    /// Its target was lost: it is in the log alone.
    Logged,
    /// It may or may not have happened.
    Underway,
}

/// The outcome of an atomic operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct AtomicOutcome {
    /// The old value of the word.
    pub old: u64,
    /// The time at which the value was read, if the operation fetches it; else 0.
    pub seen: u64,
}

/// The head of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogRecord {
    /// The kind of call.
    pub kind: Kind,
    /// The other PE.
    pub target: u32,
    /// The time of the call.
    pub time: u64,
    /// Offset in the segment of the target.
    pub at: u64,
    /// Bytes of each block, and the distance between blocks in bytes.
    pub block: (u32, u64),
    /// Bytes of the payload.
    pub len: u32,
    /// Routine and arguments.
    pub digest: u64,
}

impl LogRecord {
    /// Returns true if both records differ at most in their times.
    #[inline]
    pub fn is_of_one_call(&self, other: &LogRecord) -> bool {
        LogRecord { time: other.time, ..*self } == *other
    }

    /// Returns the record of an operation taken over from the log of `pe`, where it begins at
    /// `from`, and of the value that it found.
    pub fn taken(pe: Pe, from: usize, old: u64) -> LogRecord {
        let (at, block) = (from as u64, (0, old));
        LogRecord { kind: Kind::Taken, target: pe.0, time: 0, at, block, len: 0, digest: 0 }
    }

    /// Returns the group of a meeting, by its number among the groups of its PE; 0 for all PEs.
    #[inline]
    pub fn group(&self) -> u64 {
        self.block.1
    }

    /// Returns the PE that the operation is for.
    #[inline]
    pub fn target(&self) -> Pe {
        Pe(self.target)
    }

    /// Returns true if the operation must not happen twice: the target, if it is not `owner`, may
    /// have consumed it. Other PEs may have seen an atomic operation on the own memory.
    fn is_exact(&self, owner: Pe) -> bool {
        let len = u64::from(self.len);
        let is_word = matches!(len, 1 | 2 | 4 | 8) && self.at.is_multiple_of(len);
        match self.kind {
            Kind::Put => is_word && self.target() != owner,
            kind => kind == Kind::Atomic,
        }
    }

    /// Encodes a word and its change as the block of a record.
    #[inline]
    pub fn block_of_change(word: WordAt, change: Change) -> (usize, usize) {
        let (code, _) = change.how.code();
        (word.bytes | (code as usize) << LENGTH_BITS, change.operand as usize)
    }

    /// Decodes the word and the change of an atomic operation that compares with this value; None
    /// if the code of the change is unknown.
    pub fn change(&self, compares_with: u64) -> Option<(WordAt, Change)> {
        let (word, operand) = self.block;
        let how = Update::of_code(u64::from(word >> LENGTH_BITS), compares_with)?;
        let bytes = word as usize & ((1 << LENGTH_BITS) - 1);
        Some((WordAt { offset: self.at as usize, bytes }, Change { how, operand }))
    }
}

/// A record in a log, with its position and that of its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Located {
    /// Cursor of the record.
    pub from: usize,
    /// Cursor of the next record.
    pub next: usize,
    /// The head.
    pub record: LogRecord,
    /// Offset of the payload in the segment.
    pub payload: usize,
}

/// The stage that a substitute publishes with its incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stage {
    /// It has not caught up: origins only log operations on it.
    Replaying = 1,
    /// It reads the logs for the last time: origins wait.
    Draining,
    /// It is reached directly.
    Direct,
}

impl Stage {
    /// Returns true if the substitute has begun its last read of the logs.
    pub fn is_past_replay(self) -> bool {
        self != Stage::Replaying
    }
}

/// The logs of all PEs, as one PE reads them: in mapped memory, from another host, or in a model.
/// The reader may see an older state than the owner has written, but sees everything published
/// before [`super::port::CallPort::order_others`].
pub trait Logs {
    /// Returns the record of a PE at a cursor; None at the end.
    fn read(&self, pe: Pe, from: usize) -> Option<Located>;
    /// Returns the payload of a record.
    fn payload(&self, pe: Pe, found: &Located) -> &[u8];
    /// Returns the state of a record's operation.
    fn state(&self, pe: Pe, from: usize) -> Carried;
    /// Returns the outcome of an atomic operation that is done.
    fn found(&self, pe: Pe, from: usize) -> AtomicOutcome;
    /// Returns the value that an atomic operation compares with.
    fn compared(&self, pe: Pe, from: usize) -> u64;
    /// Returns the number of times that an answer was repeated.
    fn repeats(&self, pe: Pe, from: usize) -> u64;
    /// Returns true if this rule is broken on purpose.
    #[inline]
    fn breaks(&self, rule: Mutant) -> bool {
        mutant::breaks(rule)
    }
}

/// Returns the records of a PE.
fn records(logs: &impl Logs, pe: Pe) -> impl Iterator<Item = Located> {
    successors(logs.read(pe, 0), move |found| logs.read(pe, found.next))
}

/// Returns true if the log of PE `pe` holds a call of the program, which a replay compares.
pub fn holds_a_call(logs: &impl Logs, pe: Pe) -> bool {
    records(logs, pe).any(|found| found.record.kind != Kind::Taken)
}

/// Returns true if it is unknown whether the dead PE `pe` changed a word that another PE may have
/// read and consumed.
pub fn is_in_doubt(logs: &impl Logs, pe: Pe) -> bool {
    let underway = |found: &Located| logs.state(pe, found.from) == Carried::Underway;
    let mut exact = records(logs, pe).filter(|found| found.record.is_exact(pe));
    exact.any(|found| underway(&found)) && !logs.breaks(Mutant::DoubtDoneAgain)
}

/// Returns the value that PE `by` found when it took over the operation of PE `pe` with the record
/// at `from`.
pub fn taken_by(logs: &impl Logs, by: Pe, (pe, from): (Pe, usize)) -> Option<u64> {
    let is_it = |record: &LogRecord| {
        record.kind == Kind::Taken && (record.target(), record.at) == (pe, from as u64)
    };
    Some(records(logs, by).find(|found| is_it(&found.record))?.record.block.1)
}
