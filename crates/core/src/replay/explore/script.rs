//! The script of a call: the results of its accesses, as words.

use crate::quantity::ViewNumber;
use crate::replay::log::{AtomicOutcome, Carried, Stage};
use crate::replay::own::LoggedCall;
use crate::replay::port::LogMode;
use crate::replay::rejoin::SeenViews;
use crate::store::phase::Phase;

/// The reason that a call is not complete.
#[derive(Debug)]
pub(super) enum Stop {
    /// The next access is another step.
    Later,
    /// The call has to wait.
    Blocked,
    /// All PEs roll back.
    Cut,
}

/// The PEs that can observe an access: a step of another PE may precede a visible one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visibility {
    Shared,
    Private,
}

/// The result of an access, as a word of a script.
pub(super) trait Answer: Sized {
    fn word(&self) -> u64;
    fn of(word: u64) -> Self;
}

impl Answer for () {
    fn word(&self) -> u64 {
        0
    }
    fn of(_: u64) {}
}

impl Answer for u64 {
    fn word(&self) -> u64 {
        *self
    }
    fn of(word: u64) -> u64 {
        word
    }
}

impl Answer for usize {
    fn word(&self) -> u64 {
        *self as u64
    }
    fn of(word: u64) -> usize {
        word as usize
    }
}

impl Answer for bool {
    fn word(&self) -> u64 {
        u64::from(*self)
    }
    fn of(word: u64) -> bool {
        word == 1
    }
}

impl<A: Answer> Answer for Option<A> {
    fn word(&self) -> u64 {
        self.as_ref().map_or(0, |answer| answer.word() + 1)
    }
    fn of(word: u64) -> Option<A> {
        word.checked_sub(1).map(A::of)
    }
}

impl Answer for Carried {
    fn word(&self) -> u64 {
        *self as u64
    }
    fn of(word: u64) -> Carried {
        let all = [Carried::Begun, Carried::Done, Carried::Logged, Carried::Underway];
        all[word as usize]
    }
}

impl Answer for Stage {
    fn word(&self) -> u64 {
        *self as u64
    }
    fn of(word: u64) -> Stage {
        [Stage::Replaying, Stage::Draining, Stage::Direct][word as usize - 1]
    }
}

impl Answer for LogMode {
    fn word(&self) -> u64 {
        *self as u64
    }
    fn of(word: u64) -> LogMode {
        [LogMode::Plain, LogMode::Logged, LogMode::Replayed][word as usize]
    }
}

impl Answer for AtomicOutcome {
    fn word(&self) -> u64 {
        self.old << 32 | self.seen
    }
    fn of(word: u64) -> AtomicOutcome {
        AtomicOutcome { old: word >> 32, seen: word & 0xffff_ffff }
    }
}

impl Answer for LoggedCall {
    fn word(&self) -> u64 {
        (self.from as u64) << 2 | u64::from(self.is_first) << 1 | u64::from(self.is_last)
    }
    fn of(word: u64) -> LoggedCall {
        let from = (word >> 2) as usize;
        LoggedCall { from, is_first: word & 2 != 0, is_last: word & 1 != 0 }
    }
}

impl Answer for SeenViews {
    fn word(&self) -> u64 {
        self.joined.0 << 32 | self.seen.0
    }
    fn of(word: u64) -> SeenViews {
        SeenViews { joined: ViewNumber(word >> 32), seen: ViewNumber(word & 0xffff_ffff) }
    }
}

impl Answer for Phase {
    fn word(&self) -> u64 {
        self.pack()
    }
    fn of(word: u64) -> Phase {
        Phase::unpack(word).expect("a packed phase")
    }
}

impl Answer for ViewNumber {
    fn word(&self) -> u64 {
        self.0
    }
    fn of(word: u64) -> ViewNumber {
        ViewNumber(word)
    }
}
