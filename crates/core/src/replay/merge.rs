//! Entries of all origins become the memory of a substitute, in the order of their times.
//!
//! Bytes and assignments follow each other in that order: in a program without races the order is
//! that of cause and effect wherever it matters. The order of atomic operations is not that of
//! their times, which were drawn before (`edges.rs`): where it is not known, nobody may look at the
//! word.
//!
//! What is not done comes last, in [`Merge::finish`], when nobody reaches the memory of the
//! dead any more: it happens after everything that was carried out there.
//!
//! Invariant: an entry is applied once.

use super::edges::{Edge, Edges};
use super::log::{Effect, EntryProgress, LogEntry, Time};

/// The memory of a substitute.
pub trait SubstituteMemory<B> {
    /// The value of a word.
    fn load(&self, at: usize) -> u64;
    /// Writes a word.
    fn store(&mut self, at: usize, value: u64);
    /// Writes bytes.
    fn copy(&mut self, at: usize, bytes: &B);
}

/// An entry that may still be carried out by its origin is in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InTheMidst;

/// How far a substitute has come with the entries of each origin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Merge {
    me: usize,
    taken: Vec<usize>,
    edges: Edges,
}

impl Merge {
    /// Nothing is applied yet, of `origins` PEs, to the memory of PE `me`. Its own entries are left
    /// to the replay of its calls.
    pub fn begin(me: usize, origins: usize) -> Merge {
        Merge { me, taken: vec![0; origins], edges: Edges::default() }
    }

    /// Entries of an origin that were applied.
    pub fn taken(&self, origin: usize) -> usize {
        self.taken[origin]
    }

    /// True if nobody may look at the word yet.
    pub fn is_pending(&self, at: usize) -> bool {
        self.edges.is_pending(&(at..at + 1))
    }

    /// Applies what was carried out before `until`, when this PE saw something. What was under way
    /// then may be what it saw.
    ///
    /// # Errors
    /// An origin is in the midst of an atomic operation, and nobody knows yet what it found.
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

    /// Applies all there is, in the end what is not done, which is marked as done: its origin finds
    /// that it was taken over.
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

    /// The origin with the earliest entry that is not applied, among those whose next one `fits`.
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

    /// Applies an operation that found `progress`, of another PE or of this one.
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

/// What the entry found is not known, and may have been seen.
fn is_unknown<B>(entry: &LogEntry<B>) -> bool {
    matches!(entry.effect, Effect::Atomic { .. }) && entry.progress == EntryProgress::Underway
}

/// What an operation that nobody has carried out finds.
fn before<B>(effect: &Effect<B>, memory: &impl SubstituteMemory<B>) -> u64 {
    match effect {
        Effect::Bulk { .. } => 0,
        Effect::Assign { at, .. } | Effect::Atomic { at, .. } => memory.load(*at),
    }
}
