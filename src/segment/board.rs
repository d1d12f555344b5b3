//! The board: what PEs that cannot look into each other's memory tell each other.
//!
//! ```text
//! entry of PE 0 | entry of PE 1 | ...        one board in every segment, 128 bytes an entry
//! entry         step | intent | findings | phase | decision
//! ```
//!
//! The protocol reads a few words of every peer (see `words` and `header`). Those of a PE whose
//! memory is mapped here are read where they are. A PE that is out of reach writes them into its
//! entry of the reader's board, so that nobody polls over a network.
//!
//! Invariant: the step of an entry is written last and only grows; whoever sees it sees words that
//! are at least as new. The entries of a segment are written by their PEs, never by its owner.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// Words of an entry in use; the first is the step.
pub const WORDS: usize = 11;
/// Bytes of an entry.
pub const ENTRY: usize = 128;

/// One PE's entry.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Entry {
    words: [AtomicU64; ENTRY / 8],
}

const _: () = assert!(size_of::<Entry>() == ENTRY && WORDS <= ENTRY / 8);

/// What a PE tells all others in the course of the protocol. Where each word comes from is said in
/// [`super::words`] and [`super::header`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the words have their names from the two modules above
pub struct Told {
    pub step: u64,
    pub digest: u64,
    pub len: u64,
    pub hold: u64,
    pub need: u64,
    pub available: u64,
    pub bad_snapshot: u64,
    pub bad_parity: u64,
    pub found_len: u64,
    pub phase: u64,
    pub decision: u64,
}

impl Told {
    /// As the words of an entry.
    pub fn words(&self) -> [u64; WORDS] {
        [
            self.step,
            self.digest,
            self.len,
            self.hold,
            self.need,
            self.available,
            self.bad_snapshot,
            self.bad_parity,
            self.found_len,
            self.phase,
            self.decision,
        ]
    }

    /// The inverse of `words`.
    pub fn of(words: [u64; WORDS]) -> Told {
        let [step, digest, len, hold, need, available, bad_snapshot, bad_parity, ..] = words;
        let [.., found_len, phase, decision] = words;
        Told {
            step,
            digest,
            len,
            hold,
            need,
            available,
            bad_snapshot,
            bad_parity,
            found_len,
            phase,
            decision,
        }
    }
}

impl Entry {
    /// The step alone, for those who wait for it.
    pub fn step(&self) -> u64 {
        self.words[0].load(Ordering::SeqCst)
    }

    /// All of it, the step first.
    pub fn read(&self) -> Told {
        Told::of(std::array::from_fn(|at| self.words[at].load(Ordering::SeqCst)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_survives_the_board() {
        let words: [u64; WORDS] = std::array::from_fn(|at| at as u64 + 1);
        assert_eq!(Told::of(words).words(), words);
        let word = |at| AtomicU64::new(if at < WORDS { words[at] } else { 0 });
        let entry = Entry { words: std::array::from_fn(word) };
        assert_eq!((entry.step(), entry.read()), (1, Told::of(words)));
    }
}
