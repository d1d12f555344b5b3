//! The merge of entries of all origins into the memory of a substitute, in the order of their
//! times.
//!
//! Bytes and assignments are applied in that order: in a program without data races it agrees with
//! the causal order wherever that matters. The order of atomic operations differs from that of
//! their times, which are drawn earlier (`edges.rs`): while it is unknown, the word must not be
//! read.
//!
//! Entries that are not done come last, in [`Merge::finish`], when no PE accesses the memory of the
//! dead process any more: they happen after everything that was executed there.
//!
//! Invariant: an entry is applied once.

use super::edges::{Edge, Edges};
use super::log::{Effect, EntryProgress, LogEntry, Time};

/// The memory of a substitute.
pub trait SubstituteMemory<B> {
    /// Returns the value of a word.
    fn load(&self, at: usize) -> u64;
    /// Writes a word.
    fn store(&mut self, at: usize, value: u64);
    /// Writes bytes.
    fn copy(&mut self, at: usize, bytes: &B);
}

/// The merge must wait for an origin that may still execute an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InTheMidst;

/// The progress of a substitute in the entries of each origin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Merge {
    me: usize,
    taken: Vec<usize>,
    edges: Edges,
}

impl Merge {
    /// Starts a merge of the entries of `origins` PEs into the memory of PE `me`. Its own entries
    /// are left to the replay of its calls.
    pub fn begin(me: usize, origins: usize) -> Merge {
        Merge { me, taken: vec![0; origins], edges: Edges::default() }
    }

    /// Returns the number of applied entries of an origin.
    pub fn taken(&self, origin: usize) -> usize {
        self.taken[origin]
    }

    /// True if the word must not be read yet.
    pub fn is_pending(&self, at: usize) -> bool {
        self.edges.is_pending(&(at..at + 1))
    }

    /// Applies entries with a time before `until`, at which this PE observed something. It may have
    /// observed entries that were under way then.
    ///
    /// # Errors
    /// An origin is in the midst of an atomic operation whose result is still unknown.
    pub fn apply<B>(
        &mut self,
        chains: &[Vec<LogEntry<B>>],
        until: Time,
        memory: &mut impl SubstituteMemory<B>,
    ) -> Result<(), InTheMidst> {
        let happened = |at| matches!(at, EntryProgress::Underway | EntryProgress::Done { .. });
        let fits = |entry: &LogEntry<B>| entry.time < until && happened(entry.progress);
        while let Some(origin) = self.next(chains, fits) {
            let entry = &chains[origin][self.taken[origin]];
            if is_unknown(entry) {
                return Err(InTheMidst);
            }
            self.taken[origin] += 1;
            self.carry_out(&entry.effect, entry.progress, memory);
        }
        Ok(())
    }

    /// Applies all remaining entries. Those that are not done come last and are marked as done,
    /// which tells their origin that they were taken over.
    ///
    /// # Errors
    /// As for [`Merge::apply`].
    pub fn finish<B>(
        &mut self,
        chains: &mut [Vec<LogEntry<B>>],
        memory: &mut impl SubstituteMemory<B>,
    ) -> Result<(), InTheMidst> {
        let is_done = |entry: &LogEntry<B>| matches!(entry.progress, EntryProgress::Done { .. });
        while let Some(origin) = self.next(chains, is_done) {
            let entry = &chains[origin][self.taken[origin]];
            self.taken[origin] += 1;
            self.carry_out(&entry.effect, entry.progress, memory);
        }
        let left = |origin: usize| &chains[origin][self.taken[origin]..];
        let others = (0..chains.len()).filter(|&origin| origin != self.me);
        if others.flat_map(left).any(is_unknown) {
            return Err(InTheMidst);
        }
        while let Some(origin) = self.next(chains, |_| true) {
            let entry = &mut chains[origin][self.taken[origin]];
            self.taken[origin] += 1;
            entry.progress = EntryProgress::Done { old: before(&entry.effect, memory) };
            self.carry_out(&entry.effect, entry.progress, memory);
        }
        Ok(())
    }

    /// Returns the origin with the earliest unapplied entry, among those whose next entry `fits`.
    fn next<B>(
        &self,
        chains: &[Vec<LogEntry<B>>],
        fits: impl Fn(&LogEntry<B>) -> bool,
    ) -> Option<usize> {
        let next = |&origin: &usize| chains[origin].get(self.taken[origin]);
        let others = (0..chains.len()).filter(|&origin| origin != self.me);
        let ready = others.filter(|origin| next(origin).is_some_and(&fits));
        ready.min_by_key(|origin| (next(origin).map(|entry| entry.time), *origin))
    }

    /// Applies an operation with this progress, of another PE or of this one.
    pub fn carry_out<B>(
        &mut self,
        effect: &Effect<B>,
        progress: EntryProgress,
        memory: &mut impl SubstituteMemory<B>,
    ) {
        match (effect, progress) {
            (Effect::Bulk { at, bytes }, _) => memory.copy(*at, bytes),
            (&Effect::Assign { at, value }, _) => {
                self.edges.assign(&(at..at + 1));
                memory.store(at, value);
            }
            (&Effect::Atomic { at, change }, EntryProgress::Done { old }) => {
                let edge = Edge { old, new: change.of(old) };
                let now = memory.load(at);
                let certain = self.edges.add(at, edge, now);
                certain.into_iter().for_each(|value| memory.store(at, value));
            }
            (Effect::Atomic { .. }, _) => unreachable!("it is not known what it found"),
        }
    }
}

/// True if the entry's result is unknown, but may have been observed.
fn is_unknown<B>(entry: &LogEntry<B>) -> bool {
    matches!(entry.effect, Effect::Atomic { .. }) && entry.progress == EntryProgress::Underway
}

/// Returns the value found by an operation that was never executed.
fn before<B>(effect: &Effect<B>, memory: &impl SubstituteMemory<B>) -> u64 {
    match effect {
        Effect::Bulk { .. } => 0,
        Effect::Assign { at, .. } | Effect::Atomic { at, .. } => memory.load(*at),
    }
}
