//! The status that a PE publishes to its group in a recovery, as words.
//!
//! The caller decides where a reader finds the words: in the memory of their PE or in its own
//! mailbox. A tag identifies the process that published them, so that a reader that expects a
//! substitute rejects those of the process that was declared dead.

use crate::mutant::{Mutant, breaks};
use crate::quantity::Incarnation;

/// Number of words that a PE publishes: the tag, and the status.
pub const WORDS: usize = 5;

/// Returns the tag of an incarnation; never 0, which means unset.
fn tag(incarnation: Incarnation) -> u64 {
    u64::from(incarnation.0) + 1
}

/// The state of a PE's store. The control words of a segment document the source of each word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)] // named like the control words
pub struct PeerStatus {
    pub bad_snapshot: u64,
    pub bad_parity: u64,
    pub found_len: u64,
    pub found_empty: u64,
}

impl PeerStatus {
    /// Encodes the status as words, published by an incarnation.
    pub fn words(&self, incarnation: Incarnation) -> [u64; WORDS] {
        let PeerStatus { bad_snapshot, bad_parity, found_len, found_empty } = *self;
        [tag(incarnation), bad_snapshot, bad_parity, found_len, found_empty]
    }

    /// Decodes `words`; None if another incarnation published them.
    pub fn of(words: [u64; WORDS], incarnation: Incarnation) -> Option<PeerStatus> {
        let [teller, bad_snapshot, bad_parity, found_len, found_empty] = words;
        let own = teller == tag(incarnation) || breaks(Mutant::StaleWordsTaken);
        own.then_some(PeerStatus { bad_snapshot, bad_parity, found_len, found_empty })
    }
}

/// The way a PE entered `shmem_finalize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Ending {
    /// It has used no other PE's memory since the last checkpoint.
    Silent = 1,
    /// It has, or may have.
    UsedOthers = 2,
}

impl Ending {
    /// Decodes the word; None if its owner is not in `shmem_finalize`.
    pub fn of(word: u64) -> Option<Ending> {
        match word {
            0 => None,
            1 => Some(Ending::Silent),
            _ => Some(Ending::UsedOthers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_accepted_only_from_the_expected_sender() {
        for incarnation in [0, 1, 7, u32::MAX] {
            let words: [u64; WORDS] = std::array::from_fn(|at| match at {
                0 => tag(Incarnation(incarnation)),
                at => 70 + at as u64,
            });
            let told = PeerStatus::of(words, Incarnation(incarnation)).expect("its own words");
            assert_eq!(told.words(Incarnation(incarnation)), words);
            assert_eq!((told.bad_snapshot, told.found_empty), (words[1], words[WORDS - 1]));
            assert_eq!(PeerStatus::of(words, Incarnation(incarnation ^ 1)), None);
            assert_eq!(
                PeerStatus::of([0; WORDS], Incarnation(incarnation)),
                None,
                "nobody told anything"
            );
        }
    }

    #[test]
    fn an_ending_survives_its_word() {
        for ending in [Ending::Silent, Ending::UsedOthers] {
            assert_eq!(Ending::of(ending as u64), Some(ending));
        }
        assert_eq!(Ending::of(0), None);
    }
}
