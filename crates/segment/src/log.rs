//! The log of a PE: its effects on other PEs and the data it received from them since the last
//! checkpoint.
//!
//! It lies in the memory that the agent holds, so it outlives its owner. Only the owner writes it;
//! peers read it. It may have a replica in the memory of a PE of another node: the owner writes
//! everything there first.
//!
//! ```text
//! words     job, PE, interval and era; meetings entered; bytes of records; reasons against a local
//!           rollback; the stage of a substitute; then for each PE the length of its log that this
//!           PE has taken over
//! records   head of 56 bytes, then the payload; in the order of the calls
//! ```
//!
//! Invariants: a record is complete before the tail publishes it; after that only the second word
//! of its head and the results of an atomic operation change; the word of meetings only grows.

#![forbid(unsafe_code)]

pub mod copy;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use raidshmem_core::page::PAGE;
use raidshmem_core::quantity::{CheckpointNumber, Pe, ViewNumber};
use raidshmem_core::replay::log::{AtomicOutcome, Carried, Kind, Located, LogRecord, Stage};
use raidshmem_core::replay::place::CallPlace;
use raidshmem_core::replay::replicas::LogExtent;
use raidshmem_core::view::PES_MAX;

/// Words of a record before its payload.
const HEAD: usize = 7;
/// Index in a record of the word that changes: the progress of a put or an atomic operation, the
/// repetitions of an answer, or the location of the next meeting.
const CHANGES: usize = 1;
/// Index in an atomic operation's payload of the value to compare with.
const COMPARED: usize = 2;
/// Words before those of each PE.
const WORDS: usize = 4 * APART as usize;
/// Words of the text that rules out local rollback.
const TEXT: usize = 12;
/// Words of two cache lines, which a processor fetches together.
const APART: isize = 16;

/// The words of an empty log.
static UNMAPPED: [AtomicU64; WORDS + PES_MAX] = [const { AtomicU64::new(0) }; WORDS + PES_MAX];

/// The interval of a log that has none yet.
pub const NO_INTERVAL: u64 = u64::MAX;

/// Bits of a byte count; the bits above it hold the number of an interval.
const BYTES_BITS: u32 = 40;

/// Returns the upper bits of a word that counts bytes taken over in an interval.
fn mark(interval: u64) -> u64 {
    interval.wrapping_add(1) << BYTES_BITS
}

/// A word of the log. What the owner changes with every call is apart from what others look at with
/// every call, and both from what is written at each meeting, by [`APART`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// The job.
    Job = 0,
    /// The PE, plus one.
    Owner,
    /// The checkpoint that it begins at.
    Interval,
    /// The view that all had joined when they last rolled back, or began.
    Era,
    /// Incarnation and stage.
    Stage,
    /// Era and number of the first meeting without a record, or the greatest number.
    BareFrom,
    /// Location of the first meeting, plus one; 0 before any meeting.
    First,
    /// The call site of the checkpoint call in the program.
    Site,
    /// Its location in the source.
    Source,
    /// 1: the owner uses a light fence before its reads, so peers that read this issue the barrier.
    Light,
    /// 1: other PEs have not sent all records again that its owner had taken, for its mirrors.
    Lacks,
    /// Bytes of records.
    Tail = APART,
    /// The PE that the owner may be writing to, plus one.
    Flight,
    /// Bytes needed, if that exceeds the capacity.
    Need,
    /// Era and number of the last meeting that the owner entered.
    Met = 2 * APART,
    /// Bytes of the text that rules out local rollback.
    Against = 3 * APART - 1,
}

/// A log in words of shared memory.
#[derive(Debug, Clone, Copy)]
pub struct Log<'a> {
    words: &'a [AtomicU64],
    n_pes: usize,
    /// Index of the first word of the records.
    records: usize,
    /// Offset in the segment.
    base: usize,
    /// The replica, which the owner writes first.
    replica: Option<&'a [AtomicU64]>,
}

/// Returns the bytes of a record with `payload` bytes of payload.
#[inline]
pub fn bytes_for(payload: usize) -> usize {
    (HEAD * 8).saturating_add(payload).next_multiple_of(8)
}

/// Returns the index of the changing word of the record at `from`.
#[inline]
fn changing(records: usize, from: usize) -> usize {
    records + from / 8 + CHANGES
}

/// Writes bytes to words that no reader reads yet.
#[inline]
fn write_bytes(words: &[AtomicU64], payload: &[u8]) {
    for (word, bytes) in words.iter().zip(payload.chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
    }
}

impl<'a> Log<'a> {
    /// Returns the log in `words`, which lie at `base` in the segment of a job of `n_pes` PEs.
    #[inline]
    pub fn of(words: &'a [AtomicU64], n_pes: usize, base: usize) -> Log<'a> {
        let records = ((WORDS + n_pes) * 8).next_multiple_of(PAGE) / 8;
        Log { words, n_pes, records, base, replica: None }
    }

    /// Returns the empty log of a PE whose memory is not mapped.
    pub fn unmapped(n_pes: usize) -> Log<'static> {
        Log { words: &UNMAPPED, n_pes, records: UNMAPPED.len(), base: 0, replica: None }
    }

    /// Returns this log for its owner, which writes to `replica` too.
    pub fn with_replica(self, replica: Log<'a>) -> Log<'a> {
        Log { replica: Some(replica.words), ..self }
    }

    /// Writes a word.
    #[inline]
    fn store(&self, at: usize, value: u64, order: Ordering) {
        if let Some(replica) = self.replica {
            replica[at].store(value, order);
        }
        self.words[at].store(value, order);
    }

    /// Writes the payload of the record that will begin at `from` to the replica.
    #[inline]
    pub fn replicate(&self, from: usize, payload: &[u8]) {
        let at = self.records + HEAD + from / 8;
        self.replica.into_iter().for_each(|replica| write_bytes(&replica[at..], payload));
    }

    /// Writes the payload of the record that will begin at `from`.
    pub fn write_payload(&self, from: usize, payload: &[u8]) {
        write_bytes(&self.words[self.records + HEAD + from / 8..], payload);
    }

    /// Copies the contents of its replica, except the words that identify this owner and its stage.
    /// The interval stays unset until the caller sets it; returns the replica's interval.
    pub fn fetch(&self, replica: &Log) -> u64 {
        let own = [Word::Job, Word::Owner, Word::Interval, Word::Stage, Word::Light, Word::Flight];
        let own = own.map(|word| word as usize);
        let tail = (replica.get(Word::Tail) as usize).min(self.capacity());
        for at in (0..self.records + tail / 8).filter(|at| !own.contains(at)) {
            self.words[at].store(replica.words[at].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        replica.get(Word::Interval)
    }

    /// Returns true if the log belongs to PE `pe` of a job and has an interval.
    pub fn is_of(&self, job: u64, pe: Pe) -> bool {
        let owner = u64::from(pe.0) + 1;
        self.get(Word::Job) == job
            && self.get(Word::Owner) == owner
            && self.get(Word::Interval) != NO_INTERVAL
    }

    /// Returns the extent of its records.
    pub fn extent(&self) -> LogExtent {
        LogExtent {
            era: ViewNumber(self.get(Word::Era)),
            interval: CheckpointNumber(self.get(Word::Interval)),
            bytes: self.get(Word::Tail),
        }
    }

    /// Returns one of the words.
    #[inline]
    pub fn word(&self, word: Word) -> &'a AtomicU64 {
        &self.words[word as usize]
    }

    /// Returns the value of a word.
    #[inline]
    pub fn get(&self, word: Word) -> u64 {
        self.word(word).load(Ordering::SeqCst)
    }

    /// Sets a word.
    #[inline]
    pub fn set(&self, word: Word, value: u64) {
        self.store(word as usize, value, Ordering::SeqCst);
    }

    #[inline]
    fn taken(&self, pe: Pe) -> usize {
        assert!(pe.at() < self.n_pes, "PE {pe}");
        WORDS + pe.at()
    }

    /// Records that the owner has taken over `bytes` bytes of the log of PE `pe` in this interval.
    pub fn take(&self, pe: Pe, bytes: u64) {
        let mark = mark(self.get(Word::Interval));
        self.store(self.taken(pe), mark | bytes, Ordering::SeqCst);
    }

    /// Returns how many bytes of PE `pe`'s log the owner has taken over in that interval: that log
    /// may already be in a later one.
    #[inline]
    pub fn has_taken(&self, pe: Pe, interval: u64) -> u64 {
        let word = self.words[self.taken(pe)].load(Ordering::SeqCst);
        let bytes = word & !(u64::MAX << BYTES_BITS);
        if word - bytes == mark(interval) { bytes } else { 0 }
    }

    /// Returns the capacity for records in bytes.
    pub fn capacity(&self) -> usize {
        (self.words.len() - self.records) * 8
    }

    /// Returns the reason against local rollback, or an empty string.
    pub fn against(&self) -> String {
        let len = (self.get(Word::Against) as usize).min(TEXT * 8);
        let from = Word::Against as usize + 1;
        let words = self.words[from..from + TEXT].iter().map(|word| word.load(Ordering::SeqCst));
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).take(len).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Sets the reason against local rollback; an empty text clears it.
    pub fn set_against(&self, text: &str) {
        let bytes = &text.as_bytes()[..text.len().min(TEXT * 8)];
        let from = Word::Against as usize + 1;
        for (at, bytes) in (from..from + TEXT).zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            self.store(at, u64::from_le_bytes(padded), Ordering::SeqCst);
        }
        self.set(Word::Against, bytes.len() as u64);
    }

    /// Begins an interval without records.
    pub fn clear(&self, (era, interval): (u64, u64), place: CallPlace) {
        let none = [
            (Word::Tail, 0),
            (Word::First, 0),
            (Word::Need, 0),
            (Word::BareFrom, u64::MAX),
            (Word::Lacks, 0),
        ];
        let place = [(Word::Site, place.whole), (Word::Source, place.source)];
        none.into_iter().chain(place).for_each(|(word, value)| self.set(word, value));
        self.set_against("");
        Pe::all(self.n_pes).for_each(|pe| self.store(self.taken(pe), 0, Ordering::SeqCst));
        self.set(Word::Era, era);
        self.set(Word::Interval, interval);
    }

    /// Returns the offset in the segment for the payload of a record that begins at `from`.
    #[inline]
    pub fn payload(&self, from: usize) -> usize {
        self.base + (self.records + HEAD) * 8 + from
    }

    /// Writes the head of the record at the tail, whose payload is written, and publishes it.
    #[inline(always)] // `record` stays in registers
    pub fn append(&self, from: usize, record: &LogRecord) {
        let at = self.records + from / 8;
        let head = record.kind as u64 | u64::from(record.target) << 8 | u64::from(record.len) << 32;
        let (bytes, step) = record.block;
        let bytes = u64::from(bytes);
        let words = [head, 0, record.time, record.at, bytes, step, record.digest];
        let write = |all: &[AtomicU64]| {
            let all = all[at..].first_chunk::<HEAD>().expect("a whole head").iter().zip(words);
            all.for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        };
        self.replica.into_iter().for_each(write);
        write(self.words);
        // A reader that sees the tail sees the record. The owner fences before it reads a stage.
        let tail = (from + bytes_for(record.len as usize)) as u64;
        self.store(Word::Tail as usize, tail, Ordering::Release);
    }

    /// Returns the record at `from`; None at the end, or if it is invalid.
    #[inline]
    pub fn read(&self, from: usize) -> Option<Located> {
        let tail = self.get(Word::Tail) as usize;
        if from.checked_add(HEAD * 8)? > tail.min(self.capacity()) {
            return None;
        }
        let at = self.records + from / 8;
        let word = |index: usize| self.words[at + index].load(Ordering::Relaxed);
        let record = LogRecord {
            kind: Kind::of(word(0) & 0xff)?,
            target: (word(0) >> 8) as u32 & 0xff_ffff,
            time: word(2),
            at: word(3),
            block: (word(4) as u32, word(5)),
            len: (word(0) >> 32) as u32,
            digest: word(6),
        };
        let next = from + bytes_for(record.len as usize);
        (next <= tail).then(|| Located { from, next, record, payload: self.payload(from) })
    }

    /// Returns the progress of the operation of the record at `from`.
    #[inline]
    pub fn state(&self, from: usize) -> Carried {
        match self.words[changing(self.records, from)].load(Ordering::SeqCst) {
            1 => Carried::Done,
            2 => Carried::Logged,
            3 => Carried::Underway,
            _ => Carried::Begun,
        }
    }

    /// Sets the progress of the operation of the record at `from`.
    #[inline]
    pub fn set_state(&self, from: usize, state: Carried) {
        self.store(changing(self.records, from), state as u64, Ordering::Release);
    }

    /// Returns the words of the payload of the record at `from`.
    #[inline]
    fn payload_words(&self, from: usize) -> Range<usize> {
        let at = self.records + from / 8;
        let bytes = self.words[at].load(Ordering::Relaxed) >> 32;
        at + HEAD..at + HEAD + bytes as usize / 8
    }

    /// Returns a payload word of the atomic operation of the record at `from`; 0 if it has no such
    /// word.
    fn part(&self, from: usize, nth: usize) -> u64 {
        let at = self.payload_words(from).nth(nth);
        at.map_or(0, |at| self.words[at].load(Ordering::Relaxed))
    }

    /// Sets the value that the atomic operation of the future record at `from` compares with.
    #[inline]
    pub fn set_compared(&self, from: usize, value: u64) {
        self.store(self.records + from / 8 + HEAD + COMPARED, value, Ordering::Relaxed);
    }

    /// Returns the value that the atomic operation of the record at `from` compares with.
    pub fn compared(&self, from: usize) -> u64 {
        self.part(from, COMPARED)
    }

    /// Returns the result of the atomic operation of the record at `from`, if it is done.
    pub fn found(&self, from: usize) -> AtomicOutcome {
        AtomicOutcome { old: self.part(from, 0), seen: self.part(from, 1) }
    }

    /// Completes the atomic operation of the record at `from`, with its result.
    #[inline]
    pub fn set_found(&self, from: usize, found: AtomicOutcome) {
        for (at, value) in self.payload_words(from).zip([found.old, found.seen]) {
            self.store(at, value, Ordering::Relaxed);
        }
        self.set_state(from, Carried::Done);
    }

    /// Returns how often the answer of the record at `from` was repeated, without another call
    /// between.
    #[inline]
    pub fn repeats(&self, from: usize) -> u64 {
        self.words[changing(self.records, from)].load(Ordering::SeqCst)
    }

    /// Counts a repetition of the answer of the record at `from`.
    #[inline]
    pub fn repeat(&self, from: usize) {
        self.store(changing(self.records, from), self.repeats(from) + 1, Ordering::SeqCst);
    }

    /// Links the meeting at `from` to the one at `last`, or records it as the first.
    pub fn link(&self, last: Option<usize>, from: usize) {
        match last {
            None => self.set(Word::First, from as u64 + 1),
            Some(last) => {
                self.store(changing(self.records, last), from as u64 + 1, Ordering::SeqCst)
            }
        }
    }

    /// Returns the meeting after the one at `last`, or the first.
    pub fn meeting(&self, last: Option<usize>) -> Option<Located> {
        let next = match last {
            None => self.get(Word::First),
            Some(last) => self.words[changing(self.records, last)].load(Ordering::SeqCst),
        };
        self.read((next as usize).checked_sub(1)?)
    }

    /// Returns the first meeting of a group after the one at `last`, or of all. Moves `last` past
    /// the meetings of other groups before it.
    pub fn meeting_of(&self, group: u64, last: &mut Option<usize>) -> Option<Located> {
        loop {
            let found = self.meeting(*last)?;
            if found.record.group() == group {
                return Some(found);
            }
            *last = Some(found.from);
        }
    }

    /// Returns true if the log has begun this era and interval.
    pub fn is_in(&self, era: u64, interval: u64) -> bool {
        // The interval is set last (`clear`).
        self.get(Word::Interval) == interval && self.get(Word::Era) == era
    }

    /// Returns true if the rest of the interval has no records. A caller that reads the log after
    /// that finds all records.
    pub fn is_bare(&self) -> bool {
        self.get(Word::BareFrom) != u64::MAX
    }

    /// Publishes the stage of a process.
    pub fn set_stage(&self, incarnation: u32, stage: Stage) {
        self.set(Word::Stage, u64::from(incarnation) << 2 | stage as u64);
        fence(Ordering::SeqCst); // before the reads of peers' tails
    }

    /// The incarnation of the process that showed its stage last, and that stage.
    pub fn stage(&self) -> (u32, Option<Stage>) {
        let shown = self.get(Word::Stage);
        let all = [Stage::Replaying, Stage::Draining, Stage::Direct];
        ((shown >> 2) as u32, all.into_iter().find(|stage| *stage as u64 == shown & 3))
    }

    /// True if the process of that incarnation is at `stage`.
    #[inline]
    pub fn is_at(&self, incarnation: u32, stage: Stage) -> bool {
        self.get(Word::Stage) == u64::from(incarnation) << 2 | stage as u64
    }
}

#[cfg(test)]
mod tests;
