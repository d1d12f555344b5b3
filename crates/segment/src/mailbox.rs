//! The mailbox: words that PEs post to peers that cannot read their memory.
//!
//! ```text
//! entry of PE 0 | entry of PE 1 | ...          one mailbox in every segment
//! entry         half of even | of odd incarnations of the PE       512 bytes each
//! half          tag | findings | .. | post | record | its number
//! ```
//!
//! The protocol reads a few words of some peers: the posts of those above and below in the tree
//! (`raidshmem_core::tree`), and the findings of its group members. If a PE's memory is mapped
//! here, its words are read in place. A remote PE writes them into its entry of the reader's
//! mailbox, so no PE polls over a network.
//!
//! A writer that was declared dead may still have words in flight when its successor writes. The
//! two have different halves, and the tag names the incarnation whose findings a half holds: a
//! reader asks for those of one incarnation, that of its view, and gets them or nothing. A post
//! names its view, in which one incarnation lives.
//!
//! The record is the last one of an agreement that a PE has published for this reader, of any team
//! (`raidshmem_core::agree`). Each has a number, since a PE may publish equal ones.
//!
//! Invariants: findings have arrived before their PE posts that they are there. The entries of a
//! segment are written by their PEs, never by its owner.
//!
//! Left out: words that are in flight while two successors come and go. They overwrite those of the
//! second one and are rejected, and readers wait for that PE until it is declared dead.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use raidshmem_core::agree;
use raidshmem_core::layout::MAILBOX_ENTRY;
use raidshmem_core::quantity::Incarnation;
use raidshmem_core::status::{PeerStatus, WORDS};
use raidshmem_core::tree::post;

/// Bytes of a half.
const HALF: usize = MAILBOX_ENTRY / 2;
/// Offset of the post in a half.
pub const POST: usize = 64;
/// Offset of the record in a half.
pub const RECORD: usize = POST + post::WORDS * 8;

/// The words last written by one incarnation, or by one long before it.
#[repr(C, align(128))]
#[derive(Debug)]
struct Half {
    words: [AtomicU64; POST / 8],
    post: [AtomicU64; post::WORDS],
    record: [AtomicU64; agree::WORDS],
    number: AtomicU64,
}

/// One PE's entry.
#[repr(C)]
#[derive(Debug)]
pub struct MailboxEntry {
    halves: [Half; 2],
}

const _: () = assert!(size_of::<MailboxEntry>() == MAILBOX_ENTRY && WORDS <= POST / 8);
const _: () = assert!(std::mem::offset_of!(Half, post) == POST);
const _: () = assert!(std::mem::offset_of!(Half, record) == RECORD);
const _: () = assert!(std::mem::offset_of!(Half, number) == RECORD + agree::WORDS * 8);

fn half(incarnation: Incarnation) -> usize {
    (incarnation.0 & 1) as usize
}

/// Returns the offset in its entry at which an incarnation writes.
pub fn place(incarnation: Incarnation) -> usize {
    half(incarnation) * HALF
}

impl MailboxEntry {
    /// Returns the findings of this incarnation; default values if it wrote none.
    pub fn read(&self, incarnation: Incarnation) -> PeerStatus {
        let words = &self.halves[half(incarnation)].words;
        let words = std::array::from_fn(|at| words[at].load(Ordering::SeqCst));
        PeerStatus::of(words, incarnation).unwrap_or_default()
    }

    /// Returns the last post of this incarnation, or of one long before it.
    pub fn post(&self, incarnation: Incarnation) -> &[AtomicU64; post::WORDS] {
        &self.halves[half(incarnation)].post
    }

    /// Returns the last record of this incarnation, or of one long before it.
    pub fn record(&self, incarnation: Incarnation) -> &[AtomicU64; agree::WORDS] {
        &self.halves[half(incarnation)].record
    }

    /// Returns the number of that record.
    pub fn record_number(&self, incarnation: Incarnation) -> u64 {
        self.halves[half(incarnation)].number.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn posted(seed: u64) -> PeerStatus {
        let [bad_snapshot, bad_parity, found_len, found_empty] = [0, 1, 2, 3].map(|at| seed + at);
        PeerStatus { bad_snapshot, bad_parity, found_len, found_empty }
    }

    fn write(entry: &MailboxEntry, posted: &PeerStatus, incarnation: Incarnation) {
        let half = &entry.halves[place(incarnation) / HALF];
        for (word, posted) in half.words.iter().zip(posted.words(incarnation)) {
            word.store(posted, Ordering::SeqCst);
        }
    }

    fn empty() -> MailboxEntry {
        let half = || Half {
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            post: std::array::from_fn(|_| AtomicU64::new(0)),
            record: std::array::from_fn(|_| AtomicU64::new(0)),
            number: AtomicU64::new(0),
        };
        MailboxEntry { halves: [half(), half()] }
    }

    #[test]
    fn posts_survive_the_mailbox() {
        let (entry, first) = (empty(), posted(70));
        assert_eq!(entry.read(Incarnation(0)), PeerStatus::default());
        write(&entry, &first, Incarnation(0));
        assert_eq!(entry.read(Incarnation(0)), first);
    }

    /// Tests both orders of their writes.
    #[test]
    fn a_successor_and_a_pe_declared_dead_do_not_interfere() {
        for late in [false, true] {
            let (entry, dead, next) = (empty(), posted(70), posted(900));
            write(&entry, &dead, Incarnation(4));
            write(&entry, &next, Incarnation(5));
            if late {
                write(&entry, &posted(300), Incarnation(4));
            }
            assert_eq!(entry.read(Incarnation(5)), next);
        }
        let entry = empty();
        entry.post(Incarnation(4))[0].store(7, Ordering::SeqCst);
        assert_eq!(entry.post(Incarnation(5))[0].load(Ordering::SeqCst), 0);
        assert_eq!(entry.post(Incarnation(6))[0].load(Ordering::SeqCst), 7);
    }

    #[test]
    fn words_of_another_incarnation_are_refused() {
        let entry = empty();
        write(&entry, &posted(70), Incarnation(4));
        for other in [0, 2, 3, 5, 6] {
            assert_eq!(entry.read(Incarnation(other)), PeerStatus::default(), "{other}");
        }
    }
}
