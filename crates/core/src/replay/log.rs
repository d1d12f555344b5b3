//! The logs of one interval between two checkpoints, as data, and how a PE reads them.
//!
//! Each PE has one log: a row of records in the order of its calls. A record is there before its
//! operation shows anywhere. Those who read a log go on from a *cursor*: where a record begins.
//!
//! Invariants: if an operation happens before another its time is smaller; the time of what a call
//! learned is drawn after its last look. A record does not change, but for how far its operation
//! is, what that found, and how often its answer was given again.
//!
//! Left out: location and maximum size of the logs.

use std::iter::successors;

use crate::mutant::{self, Mutant};
use crate::quantity::Pe;
use crate::update::{Change, Update, WordAt};

/// Bits of the length of a word, above which the code of its change is.
const LENGTH_BITS: u32 = 8;

/// What a record is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Bytes for a PE.
    Put = 1,
    /// Bytes of a PE.
    Get,
    /// Waits until a condition holds.
    Wait,
    /// A meeting of all PEs: a barrier, a collective, the heap.
    Meeting,
    /// A word of a PE is changed in one step, or read.
    Atomic,
    /// What a call found in own words.
    Answer,
    /// What the program drew by itself.
    Event,
    /// An atomic operation of a PE that a substitute found in a log and carried out.
    Taken,
}

impl Kind {
    /// The kind with that number.
    #[inline]
    pub fn of(number: u64) -> Option<Kind> {
        let all = [Kind::Put, Kind::Get, Kind::Wait, Kind::Meeting];
        let more = [Kind::Atomic, Kind::Answer, Kind::Event, Kind::Taken];
        all.into_iter().chain(more).find(|kind| *kind as u64 == number)
    }

    /// True if the call has taught its PE something: its time is that of the clock, and the PE may
    /// know everything with a smaller one. The others come one after what their PE knows.
    #[inline]
    pub fn learns(self, breaks: impl Fn(Mutant) -> bool) -> bool {
        matches!(self, Kind::Wait | Kind::Answer) && !breaks(Mutant::ClockIgnored)
    }
}

/// How far an operation on another PE is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Carried {
    /// Nothing of it has happened.
    Begun = 0,
    /// It happened.
    Done,
    /// Its target was lost: it is in the log alone.
    Logged,
    /// It may or may not have happened.
    Underway,
}

/// What an atomic operation found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct AtomicOutcome {
    /// What the word held before.
    pub old: u64,
    /// When that was looked at, if it was asked for; else 0.
    pub seen: u64,
}

/// The head of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogRecord {
    /// What it is of.
    pub kind: Kind,
    /// The other PE.
    pub target: u32,
    /// When it was written.
    pub time: u64,
    /// Offset in the segment of the target.
    pub at: u64,
    /// Bytes of each block, and from one to the next.
    pub block: (u32, u64),
    /// Bytes of the payload.
    pub len: u32,
    /// Routine and arguments.
    pub digest: u64,
}

impl LogRecord {
    /// True if both are of one call, whenever that was.
    #[inline]
    pub fn is_of_one_call(&self, other: &LogRecord) -> bool {
        LogRecord { time: other.time, ..*self } == *other
    }

    /// The PE that it is for.
    #[inline]
    pub fn target(&self) -> Pe {
        Pe(self.target)
    }

    /// True if its operation may not happen twice: its target, another PE than `owner`, may have
    /// used it up. An atomic operation on the own memory others may have seen.
    fn is_exact(&self, owner: Pe) -> bool {
        let len = u64::from(self.len);
        let is_word = matches!(len, 1 | 2 | 4 | 8) && self.at.is_multiple_of(len);
        match self.kind {
            Kind::Put => is_word && self.target() != owner,
            kind => kind == Kind::Atomic,
        }
    }

    /// A word and its change as the block of a record.
    #[inline]
    pub fn block_of_change(word: WordAt, change: Change) -> (usize, usize) {
        let (code, _) = change.how.code();
        (word.bytes | (code as usize) << LENGTH_BITS, change.operand as usize)
    }

    /// The word and the change of an atomic operation, which compares with this; None for a kind of
    /// change that there is not.
    pub fn change(&self, compares_with: u64) -> Option<(WordAt, Change)> {
        let (word, operand) = self.block;
        let how = Update::of_code(u64::from(word >> LENGTH_BITS), compares_with)?;
        let bytes = word as usize & ((1 << LENGTH_BITS) - 1);
        Some((WordAt { offset: self.at as usize, bytes }, Change { how, operand }))
    }
}

/// A record in a log: its head, and where in the segment its payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Located {
    /// Where it begins among the records.
    pub from: usize,
    /// Where the next one begins.
    pub next: usize,
    /// The head.
    pub record: LogRecord,
    /// Offset of the payload in the segment.
    pub payload: usize,
}

/// What a substitute shows to others, with its incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It has not caught up: others only log what is for it.
    Replaying = 1,
    /// It looks at the logs for the last time: others wait.
    Draining,
    /// It is reached.
    Direct,
}

impl Stage {
    /// True if the substitute looks at the logs for the last time, or has.
    pub fn is_past_replay(self) -> bool {
        self != Stage::Replaying
    }
}

/// The logs of all PEs, as one of them reads them: in memory that is mapped, from another host, or
/// those of a model. What it reads there may be behind what their owners have written, but for what
/// they had shown before [`super::port::CallPort::order_others`].
pub trait Logs {
    /// The record of a PE at a cursor; None at the end.
    fn read(&self, pe: Pe, from: usize) -> Option<Located>;
    /// Its payload.
    fn payload(&self, pe: Pe, found: &Located) -> &[u8];
    /// How far its operation is.
    fn state(&self, pe: Pe, from: usize) -> Carried;
    /// What its atomic operation found, if that is done.
    fn found(&self, pe: Pe, from: usize) -> AtomicOutcome;
    /// What its atomic operation compares with.
    fn compared(&self, pe: Pe, from: usize) -> u64;
    /// How often its answer was given again.
    fn repeats(&self, pe: Pe, from: usize) -> u64;
    /// True if this rule is broken on purpose.
    #[inline]
    fn breaks(&self, rule: Mutant) -> bool {
        mutant::breaks(rule)
    }
}

/// The records of a PE.
fn records(logs: &impl Logs, pe: Pe) -> impl Iterator<Item = Located> {
    successors(logs.read(pe, 0), move |found| logs.read(pe, found.next))
}

/// True if the log of PE `pe` holds a call of the program, which a replay compares.
pub fn holds_a_call(logs: &impl Logs, pe: Pe) -> bool {
    records(logs, pe).any(|found| found.record.kind != Kind::Taken)
}

/// True if PE `pe`, which is dead, may or may not have changed a word that another PE may have
/// seen, and used up.
pub fn is_in_doubt(logs: &impl Logs, pe: Pe) -> bool {
    let underway = |found: &Located| logs.state(pe, found.from) == Carried::Underway;
    let mut exact = records(logs, pe).filter(|found| found.record.is_exact(pe));
    exact.any(|found| underway(&found)) && !logs.breaks(Mutant::DoubtDoneAgain)
}

/// What PE `by` found when it took over the operation of PE `pe` whose record begins at `from`.
pub fn taken_by(logs: &impl Logs, by: Pe, (pe, from): (Pe, usize)) -> Option<u64> {
    let is_it = |record: &LogRecord| {
        record.kind == Kind::Taken && (record.target(), record.at) == (pe, from as u64)
    };
    Some(records(logs, by).find(|found| is_it(&found.record))?.record.block.1)
}
