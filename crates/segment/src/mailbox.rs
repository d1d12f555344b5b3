//! The mailbox: words that PEs post to peers that cannot read their memory.
//!
//! ```text
//! entry of PE 0 | entry of PE 1 | ...          one mailbox in every segment
//! entry         half of even | of odd incarnations of the PE       128 bytes each
//! half          step | tag | intent | findings | phase | decision | ending | site, call
//! ```
//!
//! The protocol reads a few words of every peer (see `words` and `header`). The words of a PE whose
//! memory is mapped here are read where they are. A PE that is out of reach writes them into its
//! entry of the reader's mailbox, so that nobody polls over a network.
//!
//! A writer that was declared dead may still have words under way when its successor writes. The
//! two have different halves, and the tag says whose words a half holds: a reader asks for the
//! words of one incarnation, that of the view it is in, and is given those or nothing.
//!
//! Invariants: the tag travels with the words, the step after them; a PE that sees a step sees
//! words that are at least as new. Steps are as `words` says. The entries of a segment are written
//! by their PEs, never by its owner.
//!
//! Left out: words that are under way while two successors come and go. They overwrite those of the
//! second one and are refused, and readers wait for that PE until it is declared dead.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use raidshmem_core::layout::MAILBOX_ENTRY;
use raidshmem_core::quantity::Incarnation;
use raidshmem_core::status::{PeerStatus, WORDS, is_of};

/// Bytes of a half.
const HALF: usize = MAILBOX_ENTRY / 2;

/// What one incarnation wrote last, or one long before it.
#[repr(C, align(128))]
#[derive(Debug)]
struct Half {
    words: [AtomicU64; HALF / 8],
}

/// One PE's entry.
#[repr(C)]
#[derive(Debug)]
pub struct Entry {
    halves: [Half; 2],
}

const _: () = assert!(size_of::<Entry>() == MAILBOX_ENTRY && WORDS <= HALF / 8);

fn half(incarnation: Incarnation) -> usize {
    (incarnation.0 & 1) as usize
}

/// Where in its entry an incarnation writes.
pub fn place(incarnation: Incarnation) -> usize {
    half(incarnation) * HALF
}

impl Entry {
    /// The step that this incarnation has come to, for those who wait for it; 0 before any.
    pub fn step(&self, incarnation: Incarnation) -> u64 {
        let words = &self.halves[half(incarnation)].words;
        let step = words[0].load(Ordering::SeqCst);
        if is_of(words[1].load(Ordering::SeqCst), incarnation) { step } else { 0 }
    }

    /// All that this incarnation posted, the step read first; nothing before it posted anything.
    pub fn read(&self, incarnation: Incarnation) -> PeerStatus {
        let words = &self.halves[half(incarnation)].words;
        let words = std::array::from_fn(|at| words[at].load(Ordering::SeqCst));
        PeerStatus::of(words, incarnation).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn posted(seed: u64) -> PeerStatus {
        let tag = PeerStatus::default().words(Incarnation(0))[1];
        let words = std::array::from_fn(|at| if at == 1 { tag } else { seed + at as u64 });
        PeerStatus::of(words, Incarnation(0)).unwrap()
    }

    fn write(entry: &Entry, posted: &PeerStatus, incarnation: Incarnation) {
        let half = &entry.halves[place(incarnation) / HALF];
        for (word, posted) in half.words.iter().zip(posted.words(incarnation)) {
            word.store(posted, Ordering::SeqCst);
        }
    }

    fn empty() -> Entry {
        let half = || Half { words: std::array::from_fn(|_| AtomicU64::new(0)) };
        Entry { halves: [half(), half()] }
    }

    #[test]
    fn what_is_posted_survives_the_mailbox() {
        let (entry, first) = (empty(), posted(70));
        assert_eq!(
            (entry.step(Incarnation(0)), entry.read(Incarnation(0))),
            (0, PeerStatus::default())
        );
        write(&entry, &first, Incarnation(0));
        assert_eq!((entry.step(Incarnation(0)), entry.read(Incarnation(0))), (first.step, first));
    }

    /// Whichever of the two wrote last.
    #[test]
    fn a_successor_and_who_was_declared_dead_do_not_meet() {
        for late in [false, true] {
            let (entry, dead, next) = (empty(), posted(70), posted(900));
            write(&entry, &dead, Incarnation(4));
            write(&entry, &next, Incarnation(5));
            if late {
                write(&entry, &posted(300), Incarnation(4));
            }
            assert_eq!((entry.step(Incarnation(5)), entry.read(Incarnation(5))), (next.step, next));
        }
    }

    #[test]
    fn words_of_another_incarnation_are_refused() {
        let entry = empty();
        write(&entry, &posted(70), Incarnation(4));
        for other in [0, 2, 3, 5, 6] {
            assert_eq!(
                (entry.step(Incarnation(other)), entry.read(Incarnation(other))),
                (0, PeerStatus::default()),
                "{other}"
            );
        }
    }
}
