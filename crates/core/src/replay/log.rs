//! The logs of one interval between two checkpoints, as data.
//!
//! An [`LogEntry`] is an operation on a PE, kept by its origin in one chain for each target, in the
//! order of its calls. It is appended before the operation shows. An [`Event`] is what a call
//! taught the PE that made it. An [`Arrival`] is what a member brings to a meeting of several
//! PEs, a barrier or a collective: the result is a function of the arrivals of all, so nobody
//! has to make a collective again for a substitute.
//!
//! Invariants: if an operation happens before another its time is smaller; the time of an event is
//! drawn after the load that it reports. In a chain, all entries before a loss of the target that
//! were carried out come before those that were only logged.
//!
//! Left out: where logs lie, and how many bytes they may have.

#![allow(missing_docs)] // the sentence of each variant speaks of its fields

/// When an entry was appended, or an event seen. An event has the time of a clock that all PEs
/// share; an entry or an arrival comes one after what its PE knows, which may be long before now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// How an atomic operation makes a new value of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// The operand.
    Set(u64),
    /// The sum.
    Add(u64),
    /// The second if the word holds the first.
    CompareSwap(u64, u64),
}

impl Change {
    /// What the word holds then.
    pub fn of(self, old: u64) -> u64 {
        match self {
            Change::Set(new) => new,
            Change::Add(more) => old.wrapping_add(more),
            Change::CompareSwap(cond, new) if cond == old => new,
            Change::CompareSwap(..) => old,
        }
    }
}

/// What an operation does to the memory of its target. `B` is the bytes of a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect<B> {
    /// Bytes are written; nobody may read them before a later release of the origin.
    Bulk { at: usize, bytes: B },
    /// A word is written whole, and may be waited for.
    Assign { at: usize, value: u64 },
    /// A word is changed in one step.
    Atomic { at: usize, change: Change },
}

impl<B> Effect<B> {
    /// It must happen once: its target may have used it up, and doing it again would show.
    pub fn is_exact(&self) -> bool {
        !matches!(self, Effect::Bulk { .. })
    }
}

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryProgress {
    /// Nothing of it has happened.
    Begun,
    /// It may or may not have happened.
    Underway,
    /// It happened; an atomic operation found this.
    Done { old: u64 },
    /// Its target was lost: it was logged and not carried out.
    Logged,
}

/// An operation in a chain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LogEntry<B> {
    /// When it was appended.
    pub time: Time,
    /// What it does.
    pub effect: Effect<B>,
    /// How far it is.
    pub progress: EntryProgress,
    /// What it found is drawn later: its origin may know everything with a smaller time.
    pub seen: Time,
}

impl<B> LogEntry<B> {
    /// An operation that is about to begin.
    pub fn new(time: Time, effect: Effect<B>) -> LogEntry<B> {
        LogEntry { time, effect, progress: EntryProgress::Begun, seen: Time(0) }
    }

    /// Nobody can say whether it happened, and it may not happen twice, if its origin is lost now.
    pub fn is_in_doubt(&self) -> bool {
        self.effect.is_exact() && self.progress == EntryProgress::Underway
    }
}

/// The kinds of calls that teach a PE something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asked {
    /// Bytes of another PE.
    Get,
    /// A wait that ended.
    Wait,
    /// A test, and what it said.
    Test,
}

/// What a call returned, and up to when the PE knows what was done to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Event {
    /// The kind of call.
    pub asked: Asked,
    /// What it returned.
    pub outcome: u64,
    /// Everything with a smaller time may be known.
    pub until: Time,
}

/// A PE has come to a meeting, and brings `what`: which routine, its arguments, its contribution.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Arrival<C> {
    /// Everything that the PE did before has a smaller time.
    pub time: Time,
    pub what: C,
}
