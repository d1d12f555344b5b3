//! The logs of one interval between two checkpoints, as data.
//!
//! A [`LogEntry`] is an operation on another PE. Its origin keeps one chain of entries per target,
//! in the order of its calls, and appends an entry before the operation becomes visible. An
//! [`Event`] is the result that a call gave the PE that made it. An [`Arrival`] is the contribution
//! of a member to a meeting of several PEs, which is a barrier or a collective. The result is a
//! function of all arrivals, so no PE must repeat a collective for a substitute.
//!
//! Invariants: if an operation happens before another, its time is smaller; the time of an event is
//! drawn after the load that it reports. In a chain, entries executed before a loss of the target
//! precede those that were only logged.
//!
//! Left out: location and maximum size of the logs.

#![allow(missing_docs)] // each variant's doc comment describes its fields

/// The time at which an entry was appended, or an event observed. The time of an event is from a
/// clock shared by all PEs. The time of an entry or an arrival is one more than the latest that its
/// PE knows, which may be long before now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// The function by which an atomic operation changes a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// Replace the word by the operand.
    Set(u64),
    /// Add the operand.
    Add(u64),
    /// Replace the word by the second operand if it equals the first.
    CompareSwap(u64, u64),
}

impl Change {
    /// Returns the new value of the word.
    pub fn of(self, old: u64) -> u64 {
        match self {
            Change::Set(new) => new,
            Change::Add(more) => old.wrapping_add(more),
            Change::CompareSwap(cond, new) if cond == old => new,
            Change::CompareSwap(..) => old,
        }
    }
}

/// The effect of an operation on the memory of its target. `B` is the bytes of a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect<B> {
    /// Bytes are written; they may only be read after a later release of the origin.
    Bulk { at: usize, bytes: B },
    /// A whole word is written; a PE may wait for it.
    Assign { at: usize, value: u64 },
    /// A word is changed atomically.
    Atomic { at: usize, change: Change },
}

impl<B> Effect<B> {
    /// True if the operation must happen exactly once: its target may have consumed the value, so a
    /// repetition would be visible.
    pub fn is_exact(&self) -> bool {
        !matches!(self, Effect::Bulk { .. })
    }
}

/// The progress of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryProgress {
    /// It has not started.
    Begun,
    /// It may or may not have happened.
    Underway,
    /// It happened; an atomic operation found `old`.
    Done { old: u64 },
    /// Its target was lost: it was logged but not executed.
    Logged,
}

/// An operation in a chain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LogEntry<B> {
    /// Time at which it was appended.
    pub time: Time,
    /// Effect on the target.
    pub effect: Effect<B>,
    /// Progress of the operation.
    pub progress: EntryProgress,
    /// Time drawn after its result: its origin may know everything with a smaller time.
    pub seen: Time,
}

impl<B> LogEntry<B> {
    /// Returns an entry for an operation that is about to begin.
    pub fn new(time: Time, effect: Effect<B>) -> LogEntry<B> {
        LogEntry { time, effect, progress: EntryProgress::Begun, seen: Time(0) }
    }

    /// True if a loss of the origin now would leave the operation in doubt: it may have happened,
    /// and must not be repeated.
    pub fn is_in_doubt(&self) -> bool {
        self.effect.is_exact() && self.progress == EntryProgress::Underway
    }
}

/// The kinds of calls whose result depends on other PEs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asked {
    /// Reads bytes of another PE.
    Get,
    /// Waits until a condition holds.
    Wait,
    /// Tests a condition.
    Test,
}

/// The result of a call, and the time up to which the PE knows the operations on its memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Event {
    /// Kind of the call.
    pub asked: Asked,
    /// Return value of the call.
    pub outcome: u64,
    /// Everything with a smaller time may be known.
    pub until: Time,
}

/// The arrival of a PE at a meeting with `what`: routine, arguments and contribution.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Arrival<C> {
    /// Time greater than that of every earlier action of the PE.
    pub time: Time,
    pub what: C,
}
