//! The contents of a log as they go to a replica on another host, and come back.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use raidshmem_core::replay::far::replica::{LogBytes, LogHead};
use raidshmem_core::replay::place::CallPlace;

use super::{Log, NO_INTERVAL, Word};

/// Returns true if the log has an interval, and its owner has all records of others again.
pub fn is_whole(log: &Log) -> bool {
    log.get(Word::Interval) != NO_INTERVAL && log.get(Word::Lacks) == 0
}

/// Returns the words that are not in the records.
pub fn head(log: &Log) -> LogHead {
    LogHead {
        place: (log.get(Word::Site), log.get(Word::Source)),
        met: log.get(Word::Met),
        bare_from: log.get(Word::BareFrom),
        need: log.get(Word::Need),
        against: log.against(),
    }
}

/// Returns the records from byte `at` on.
pub fn records_from(log: &Log, at: usize) -> LogBytes {
    let (mut next, mut last) = (at, at);
    while let Some(found) = log.read(next) {
        (next, last) = (found.next, found.from);
    }
    let words = &log.words[log.records + at / 8..log.records + next / 8];
    let bytes = words.iter().flat_map(|word| word.load(Ordering::Acquire).to_le_bytes());
    LogBytes { at: at as u64, last: last as u64, bytes: bytes.collect() }
}

/// Replaces the contents by these, without an interval until the caller sets it. Returns false
/// if there is no room.
pub fn restore(log: &Log, era: u64, head: &LogHead, records: &[u8]) -> bool {
    let (whole, source) = head.place;
    log.clear((era, NO_INTERVAL), CallPlace { whole, source });
    if records.len() > log.capacity() {
        return false;
    }
    let words = records.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    for (word, value) in log.words[log.records..].iter().zip(words) {
        word.store(value, Ordering::Relaxed);
    }
    log.set(Word::Met, head.met);
    log.set(Word::BareFrom, head.bare_from);
    log.set(Word::Need, head.need);
    log.set_against(&head.against);
    log.set(Word::Tail, records.len() as u64);
    true
}
