//! Results of calls that a program makes before its first checkpoint call. A substitute, which
//! starts in `main`, repeats the calls and gets the recorded results.
//!
//! A result is identified by a digest of its call: the routine and the arguments that are equal in
//! each process. Results of equal calls are returned in order. Consecutive equal results are stored
//! once, with a count, because a program may poll many times without success.
//!
//! ```text
//! record    1 if results are missing at the end, else 0; then the results
//! result    digest, repetitions, length: u64 each; then the bytes
//! ```
//!
//! Invariants: a record is no longer than its limit; a full record takes no further results, so it
//! always holds a prefix of the results.
//!
//! Left out: the choice of calls that have results (`openshmem/memory/prelude.rs`), and the storage
//! of records.

use std::collections::{BTreeMap, VecDeque};

/// Bytes of the words before a result.
const HEAD: usize = 3 * 8;
/// Maximum size of all records of a job, in bytes.
const ALL: usize = 256 << 20;
/// Maximum size of a record, and the minimum limit, in bytes.
const MOST: usize = 4 << 20;
const LEAST: usize = 16 << 10;

/// Maximum number of results of a record, which bounds the cost for a program that never saves.
const RESULTS: u32 = 4 << 20;

/// Returns the maximum size of a record in a job of `n_pes` PEs.
pub fn limit(n_pes: usize) -> usize {
    (ALL / n_pes.max(1)).clamp(LEAST, MOST)
}

/// A record being written.
#[derive(Debug)]
pub struct Notes {
    bytes: Vec<u8>,
    limit: usize,
    /// Offset of the last result.
    last: Option<usize>,
    results: u32,
}

impl Notes {
    /// Returns an empty record with this limit in bytes.
    pub fn new(limit: usize) -> Notes {
        Notes { bytes: vec![0], limit, last: None, results: 0 }
    }

    fn word(&self, at: usize) -> u64 {
        word(&self.bytes, at).unwrap_or_default()
    }

    /// True if the record takes no further results.
    pub fn is_full(&self) -> bool {
        self.bytes[0] == 1
    }

    /// Appends the result of a call.
    pub fn note(&mut self, digest: u64, result: &[u8]) {
        if self.is_full() {
            return;
        }
        self.results += 1;
        if self.results > RESULTS {
            self.bytes[0] = 1;
            return;
        }
        if let Some(last) = self.last
            && self.word(last) == digest
            && self.bytes[last + HEAD..] == *result
        {
            let often = self.word(last + 8) + 1;
            return self.bytes[last + 8..last + 16].copy_from_slice(&often.to_le_bytes());
        }
        if self.bytes.len() + HEAD + result.len() > self.limit {
            self.bytes[0] = 1;
            return;
        }
        self.last = Some(self.bytes.len());
        for word in [digest, 1, result.len() as u64] {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.bytes.extend_from_slice(result);
    }

    /// Returns the bytes of the record.
    pub fn into_record(self) -> Vec<u8> {
        self.bytes
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Recorded results, to be returned again.
#[derive(Debug, Default)]
pub struct Results {
    of: BTreeMap<u64, Queue>,
    is_cut: bool,
}

#[derive(Debug, Default)]
struct Queue {
    left: VecDeque<(u64, Vec<u8>)>,
    /// The call, and the result returned last.
    given: Option<(&'static str, Vec<u8>)>,
}

/// The recorded answer for a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Known {
    /// The result of the call.
    Result(Vec<u8>),
    /// No result: the record was full before it.
    NoRoom,
    /// No result: the call was not made, or less often.
    NoSuchCall,
}

impl Results {
    /// Parses a record; None if it is malformed.
    pub fn read(record: &[u8]) -> Option<Results> {
        let is_cut = match record.first()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let mut results = Results { is_cut, ..Results::default() };
        let mut at = 1;
        while at < record.len() {
            let [digest, often, len] = [0, 8, 16].map(|more| word(record, at + more));
            let len = usize::try_from(len?).ok()?;
            let end = at.checked_add(HEAD)?.checked_add(len)?;
            let result = record.get(at + HEAD..end)?.to_vec();
            results.of.entry(digest?).or_default().left.push_back((often?, result));
            at = end;
        }
        Some(results)
    }

    /// Returns the next result of a call.
    pub fn next(&mut self, call: &'static str, digest: u64) -> Known {
        let absent = if self.is_cut { Known::NoRoom } else { Known::NoSuchCall };
        let Some(queue) = self.of.get_mut(&digest) else { return absent };
        let Some((often, result)) = queue.left.front_mut() else { return absent };
        let result = result.clone();
        *often = often.saturating_sub(1);
        if *often == 0 {
            queue.left.pop_front();
        }
        queue.given = Some((call, result.clone()));
        Known::Result(result)
    }

    /// Returns the first remaining result of a call, without consuming it.
    pub fn first(&self, digest: u64) -> Option<&[u8]> {
        Some(&self.of.get(&digest)?.left.front()?.1)
    }

    /// Returns a call that was repeated, but less often than before: the choice among its results
    /// is then unknown, unless they are equal.
    pub fn in_doubt(&self) -> Option<&'static str> {
        self.of.values().find_map(|queue| {
            let (call, given) = queue.given.as_ref()?;
            queue.left.iter().any(|(_, left)| left != given).then_some(*call)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(limit: usize, results: &[(u64, &[u8])]) -> Results {
        let mut notes = Notes::new(limit);
        results.iter().for_each(|(digest, result)| notes.note(*digest, result));
        let record = notes.into_record();
        assert!(record.len() <= limit);
        Results::read(&record).expect("it was just made")
    }

    #[test]
    fn results_are_given_by_call_and_in_order() {
        let mut results = record(500, &[(7, b"a"), (7, b"a"), (8, b""), (7, b"b")]);
        for (digest, result) in [(8, &b""[..]), (7, b"a"), (7, b"a"), (7, b"b")] {
            assert_eq!(results.next("call", digest), Known::Result(result.to_vec()));
        }
        assert_eq!(results.in_doubt(), None);
        assert_eq!(results.next("call", 7), Known::NoSuchCall);
        assert_eq!(results.next("call", 9), Known::NoSuchCall);
        assert_eq!(record(500, &[(7, b"a"), (7, b"b")]).first(7), Some(&b"a"[..]));
    }

    #[test]
    fn a_call_that_is_not_made_as_often_is_in_doubt_and_one_that_is_left_out_is_not() {
        let mut results = record(500, &[(7, b"a"), (7, b"b"), (8, b"c")]);
        assert_eq!(results.next("seven", 7), Known::Result(b"a".to_vec()));
        assert_eq!(results.in_doubt(), Some("seven"));
        assert_eq!(results.next("seven", 7), Known::Result(b"b".to_vec()));
        assert_eq!(results.in_doubt(), None);
        let mut alike = record(500, &[(7, b"a"), (8, b""), (7, b"a")]);
        assert_eq!(alike.next("seven", 7), Known::Result(b"a".to_vec()));
        assert_eq!(alike.in_doubt(), None);
    }

    #[test]
    fn a_full_record_is_marked_and_keeps_its_beginning() {
        let mut results = record(60, &[(7, b"abc"), (8, &[1; 100]), (9, b"")]);
        assert_eq!(results.next("seven", 7), Known::Result(b"abc".to_vec()));
        assert_eq!(results.next("eight", 8), Known::NoRoom);
        assert_eq!(results.next("nine", 9), Known::NoRoom);
    }

    #[test]
    fn looks_in_vain_take_the_room_of_one() {
        let many = vec![(7, &b"no"[..]); 10_000];
        let mut results = record(100, &many);
        (0..10_000).for_each(|_| assert_eq!(results.next("c", 7), Known::Result(b"no".to_vec())));
        assert_eq!(results.next("c", 7), Known::NoSuchCall);
    }

    #[test]
    fn garbage_is_no_record() {
        for bytes in [&[][..], &[0, 1], &[0; 24], &[&[0; 17][..], &[255; 8]].concat()] {
            assert!(Results::read(bytes).is_none(), "{bytes:?}");
        }
        let whole = Notes::new(100);
        assert!(Results::read(&whole.into_record()).is_some());
    }

    #[test]
    fn all_records_of_the_largest_job_have_room_in_the_launcher() {
        assert_eq!((limit(1), limit(64), limit(1024)), (MOST, MOST, 256 << 10));
        assert!(limit(1 << 14) << 14 <= ALL);
    }
}
