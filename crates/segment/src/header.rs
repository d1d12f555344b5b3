//! The store header: the contents of a PE's store, as sealed by its owner.
//!
//! ```text
//! header     magic | job | pe | phase | decision | record x 4 | spill | range x 16
//! record     entry | entry                              (of snapshots 0 and 1, slots 0 and 1)
//! entry      number | snapshot length | view that names the groups of a slot | seal
//! range      number | offset | tiles | seal | state     (read-only ranges: store::readonly)
//! ```
//!
//! A record is void (all zero) while the data it describes is being written. It is written twice,
//! and each entry's seal must fit its fields: a bit flip in it costs no checkpoint. The owner
//! rewrites phase and decision before every vote; those of a dead PE count only if the records
//! confirm them.
//!
//! Left out: protection against deliberately forged seals.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use raidshmem_codec::crc::Hasher;
use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::quantity::{CheckpointNumber, Pe, ViewNumber};
use raidshmem_core::store::grouped::Grouped;
use raidshmem_core::store::readonly::{RANGES, ReadOnly};

use crate::spill::Spill;

/// First word of a store header: "RAIDSHM" and the version of the format.
pub const MAGIC: u64 = 0x5241_4944_5348_4d05;

#[repr(C)]
#[derive(Debug)]
struct SealEntry {
    number: AtomicU64,
    len: AtomicU64,
    places: AtomicU64,
    seal: AtomicU64,
}

fn mix<const N: usize>(words: [u64; N]) -> u64 {
    let mut hasher = Hasher::new();
    words.iter().for_each(|word| hasher.update(&word.to_le_bytes()));
    u64::from(hasher.finish()) | 1 << 32 // never zero, so that zeroed memory is not sealed
}

impl SealEntry {
    fn void(&self) {
        self.number.store(0, Ordering::SeqCst);
        self.seal.store(0, Ordering::SeqCst);
    }

    fn seal(&self, job: u64, Grouped { number, places }: Grouped, len: usize) {
        self.len.store(len as u64, Ordering::SeqCst);
        self.places.store(places.0, Ordering::SeqCst);
        self.seal.store(mix([job, number.0, len as u64, places.0]), Ordering::SeqCst);
        self.number.store(number.0, Ordering::SeqCst); // last: void until all fields are written
    }

    /// Returns the checkpoint of this entry, of any number, with its groups.
    fn grouped(&self, job: u64) -> Option<Grouped> {
        let number = CheckpointNumber(self.number.load(Ordering::SeqCst));
        let places = ViewNumber(self.places.load(Ordering::SeqCst));
        self.holds(job, number).map(|_| Grouped { number, places })
    }

    fn holds(&self, job: u64, number: CheckpointNumber) -> Option<usize> {
        let len = self.len.load(Ordering::SeqCst);
        let places = self.places.load(Ordering::SeqCst);
        let sealed = self.seal.load(Ordering::SeqCst) == mix([job, number.0, len, places]);
        let named =
            number != CheckpointNumber::START && self.number.load(Ordering::SeqCst) == number.0;
        (named && (sealed || breaks(Mutant::SealBelieved))).then_some(len as usize)
    }
}

/// The contents of one region of the store.
#[repr(C)]
#[derive(Debug)]
pub struct RegionRecord {
    entries: [SealEntry; 2],
}

impl RegionRecord {
    fn read(&self) -> RegionRecord {
        let load = |word: &AtomicU64| AtomicU64::new(word.load(Ordering::SeqCst));
        let entry = |entry: &SealEntry| SealEntry {
            number: load(&entry.number),
            len: load(&entry.len),
            places: load(&entry.places),
            seal: load(&entry.seal),
        };
        RegionRecord { entries: self.entries.each_ref().map(entry) }
    }

    /// Marks the region void because it is about to change.
    pub fn void(&self) {
        self.entries.iter().for_each(SealEntry::void);
    }

    /// Seals the region as checkpoint `number` with snapshots of `len` bytes; any parity in it was
    /// encoded with the initial groups.
    pub fn seal(&self, job: u64, number: CheckpointNumber, len: usize) {
        self.seal_of(job, Grouped { number, places: ViewNumber(0) }, len);
    }

    /// Seals the region like [`RegionRecord::seal`], with parity encoded with other groups.
    pub fn seal_of(&self, job: u64, grouped: Grouped, len: usize) {
        self.entries.iter().for_each(|entry| entry.seal(job, grouped, len));
    }

    /// Returns the checkpoint that the region holds, with the groups of its parity.
    pub fn grouped(&self, job: u64) -> Option<Grouped> {
        self.entries.iter().find_map(|entry| entry.grouped(job))
    }

    /// Returns true if the record is undamaged and describes checkpoint `number`.
    pub fn is_whole(&self, job: u64, number: CheckpointNumber) -> bool {
        let [one, other] = self.entries.each_ref().map(|entry| entry.holds(job, number));
        one.is_some() && one == other
    }

    /// Returns the number and the snapshot length in bytes as recorded, valid or not: a hint for
    /// planning.
    pub fn hint(&self) -> (CheckpointNumber, usize) {
        let noted = |entry: &SealEntry| {
            let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
            (CheckpointNumber(load(&entry.number)), load(&entry.len) as usize)
        };
        let [one, other] = self.entries.each_ref().map(noted);
        one.max(other)
    }

    /// Returns the snapshot length in bytes if the region holds checkpoint `number` of job `job`.
    pub fn holds(&self, job: u64, number: CheckpointNumber) -> Option<usize> {
        self.entries.iter().find_map(|entry| entry.holds(job, number))
    }
}

/// The progress of a read-only range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeState {
    /// The owner has reached the call that declares it.
    Declared = 1,
    /// Parity over it is complete: live memory holds the last checkpoint's data of it.
    Kept,
    /// The owner has reached the call that ends it.
    Ending,
    /// The owner has reached the call that ends it, and has no memory for a copy.
    Short,
    /// It may be written: the copy holds the last checkpoint's data of it.
    Copied,
}

impl RangeState {
    fn of(number: u64) -> Option<RangeState> {
        use RangeState::{Copied, Declared, Ending, Kept, Short};
        let all = [Declared, Kept, Ending, Short, Copied];
        all.into_iter().find(|state| *state as u64 == number)
    }

    /// Returns true if the last checkpoint's data of the range exists.
    pub fn holds(self) -> bool {
        self != RangeState::Declared
    }

    /// Returns true if that data is live memory.
    pub fn is_live(self) -> bool {
        self.holds() && self != RangeState::Copied
    }
}

/// Words in the record of a range.
const RANGE_WORDS: usize = 5;
/// The factor that repeats a byte in every byte of a word.
const EVERYWHERE: u64 = 0x0101_0101_0101_0101;

/// A PE's record of a read-only range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldRange {
    /// The checkpoint that its tiles are sealed as of: the next one when it was declared.
    pub number: CheckpointNumber,
    /// The range.
    pub range: ReadOnly,
    /// Its progress.
    pub state: RangeState,
}

impl HeldRange {
    fn words(self, job: u64) -> [u64; RANGE_WORDS] {
        let ReadOnly { at, tiles } = self.range;
        let [number, at, tiles] = [self.number.0, at as u64, tiles as u64];
        let seal = mix([job, number, at]) ^ mix([tiles, 0, 0]).rotate_left(32);
        [number, at, tiles, seal, self.state as u64 * EVERYWHERE]
    }

    fn of_words(words: [u64; RANGE_WORDS], job: u64) -> Option<HeldRange> {
        let [number, at, tiles, _, state] = words;
        let range = ReadOnly { at: at as usize, tiles: tiles as usize };
        let state = RangeState::of(state & 0xff)?;
        let held = HeldRange { number: CheckpointNumber(number), range, state };
        (held.words(job) == words).then_some(held)
    }
}

/// The records of read-only ranges.
///
/// The state is one word, with the value in each byte, so that it changes atomically for readers.
#[repr(C)]
#[derive(Debug)]
pub struct RangeRecords([[AtomicU64; RANGE_WORDS]; RANGES]);

impl RangeRecords {
    /// Offset of the records in the header.
    pub const AT: usize = std::mem::offset_of!(Header, readonly);
    /// Size of the records in bytes.
    pub const BYTES: usize = RANGES * RANGE_WORDS * 8;

    fn load(&self, at: usize, job: u64) -> Option<HeldRange> {
        HeldRange::of_words(self.0[at].each_ref().map(|word| word.load(Ordering::SeqCst)), job)
    }

    /// Returns all valid records.
    pub fn held(&self, job: u64) -> Vec<HeldRange> {
        (0..RANGES).filter_map(|at| self.load(at, job)).collect()
    }

    /// Returns the valid records of another PE, read as `bytes`.
    pub fn held_in(bytes: &[u8], job: u64) -> Vec<HeldRange> {
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let words: Vec<u64> = words.collect();
        let records = words.as_chunks::<RANGE_WORDS>().0.iter();
        records.filter_map(|words| HeldRange::of_words(*words, job)).collect()
    }

    /// Returns the record of a range.
    pub fn of(&self, job: u64, range: ReadOnly) -> Option<HeldRange> {
        self.held(job).into_iter().find(|held| held.range == range)
    }

    /// Sets the record of a range, replacing an earlier one. Returns false if there is no free
    /// record.
    pub fn set(&self, job: u64, held: HeldRange) -> bool {
        let of = |range: Option<ReadOnly>| {
            (0..RANGES).find(|&at| self.load(at, job).map(|held| held.range) == range)
        };
        let Some(at) = of(Some(held.range)).or_else(|| of(None)) else { return false };
        let (words, state) = (held.words(job), &self.0[at][RANGE_WORDS - 1]);
        if self.load(at, job).is_none_or(|before| before.number != held.number) {
            state.store(0, Ordering::SeqCst); // void until all fields are written
            let fields = self.0[at].iter().zip(words).take(RANGE_WORDS - 1);
            fields.for_each(|(word, value)| word.store(value, Ordering::SeqCst));
        }
        state.store(words[RANGE_WORDS - 1], Ordering::SeqCst);
        true
    }

    /// Clears the record of a range.
    pub fn void(&self, job: u64, range: ReadOnly) {
        let is_it = |at: &usize| self.load(*at, job).is_some_and(|held| held.range == range);
        if let Some(at) = (0..RANGES).find(is_it) {
            self.0[at].iter().rev().for_each(|word| word.store(0, Ordering::SeqCst));
        }
    }
}

/// First page of the store.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    magic: AtomicU64,
    job: AtomicU64,
    pe: AtomicU64,
    /// `phase::Phase` packed; 0 in a process that does not vote.
    pub phase: AtomicU64,
    /// Checkpoint decided on, plus one; 0 when none is pending.
    pub decision: AtomicU64,
    /// The snapshots.
    pub snapshots: [RegionRecord; 2],
    /// The parity slots.
    pub slots: [RegionRecord; 2],
    /// The state of a checkpoint that goes to disk.
    pub spill: Spill,
    /// Read-only ranges.
    pub readonly: RangeRecords,
}

/// The records of another PE's snapshots and parity slots, as read.
#[derive(Debug)]
pub struct StoreRecords {
    /// The snapshots.
    pub snapshots: [RegionRecord; 2],
    /// The parity slots.
    pub slots: [RegionRecord; 2],
}

impl StoreRecords {
    /// Offset of the records in the header.
    pub const AT: usize = std::mem::offset_of!(Header, snapshots);
    /// Size of the records in bytes.
    pub const BYTES: usize = 4 * size_of::<RegionRecord>();

    /// Returns the records that were read as these bytes.
    pub fn of(bytes: &[u8; StoreRecords::BYTES]) -> StoreRecords {
        let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut word = || AtomicU64::new(words.next().unwrap_or_default());
        let mut entry = || SealEntry { number: word(), len: word(), places: word(), seal: word() };
        let mut record = || RegionRecord { entries: [entry(), entry()] };
        StoreRecords { snapshots: [record(), record()], slots: [record(), record()] }
    }
}

impl Header {
    /// Returns the present records of the snapshots and parity slots.
    pub fn records(&self) -> StoreRecords {
        StoreRecords {
            snapshots: self.snapshots.each_ref().map(RegionRecord::read),
            slots: self.slots.each_ref().map(RegionRecord::read),
        }
    }

    /// Initialises the header of a fresh store.
    pub fn create(&self, job: u64, pe: Pe) {
        self.job.store(job, Ordering::SeqCst);
        self.pe.store(pe.0.into(), Ordering::SeqCst);
        self.magic.store(MAGIC, Ordering::SeqCst);
    }

    /// Returns the newest hint at a snapshot ([`RegionRecord::hint`]).
    pub fn snapshot_hint(&self) -> (CheckpointNumber, usize) {
        let [one, other] = self.snapshots.each_ref().map(RegionRecord::hint);
        one.max(other)
    }

    /// Returns true if this is the store of `pe` in `job`, of this format.
    pub fn is_of(&self, job: u64, pe: Pe) -> bool {
        let words = [&self.magic, &self.job, &self.pe].map(|word| word.load(Ordering::SeqCst));
        words == [MAGIC, job, pe.0.into()]
    }

    /// Clears everything but the store's identity, which invalidates its contents.
    pub fn forget(&self) {
        self.snapshots.iter().chain(&self.slots).for_each(RegionRecord::void);
        self.readonly.0.iter().flatten().for_each(|word| word.store(0, Ordering::SeqCst));
        self.phase.store(0, Ordering::SeqCst);
        self.decision.store(0, Ordering::SeqCst);
    }
}

const _: () = assert!(std::mem::size_of::<Header>() <= raidshmem_core::page::PAGE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_void_until_sealed_and_after_void() {
        let record = record();
        assert_eq!(record.holds(1, CheckpointNumber(0)), None);
        record.seal(1, CheckpointNumber(4), 100);
        let held = [
            record.holds(1, CheckpointNumber(4)),
            record.holds(1, CheckpointNumber(3)),
            record.holds(2, CheckpointNumber(4)),
        ];
        assert_eq!(held, [Some(100), None, None]);
        record.void();
        assert_eq!(record.holds(1, CheckpointNumber(4)), None);
        record.entries[0].number.store(4, Ordering::SeqCst);
        assert_eq!(
            record.holds(1, CheckpointNumber(4)),
            None,
            "a number alone does not bring it back"
        );
    }

    #[test]
    fn one_flipped_bit_is_harmless_and_one_in_each_entry_costs_the_record() {
        fn words(record: &RegionRecord) -> [&AtomicU64; 8] {
            let [a, b] = &record.entries;
            [&a.number, &a.len, &a.places, &a.seal, &b.number, &b.len, &b.places, &b.seal]
        }
        let record = record();
        let grouped = Grouped { number: CheckpointNumber(4), places: ViewNumber(9) };
        record.seal_of(1, grouped, 100);
        let flip = |index: usize, bit: u32| {
            words(&record)[index].fetch_xor(1 << bit, Ordering::SeqCst);
        };
        for (one, other) in (0..8 * 64).zip((0..8 * 64).rev()) {
            flip(one / 64, one as u32 % 64);
            assert_eq!(record.holds(1, CheckpointNumber(4)), Some(100), "bit {one}");
            assert_eq!(record.grouped(1), Some(grouped), "bit {one}");
            flip(other / 64, other as u32 % 64);
            assert_eq!(record.holds(1, CheckpointNumber(4)), None, "bits {one} and {other}");
            flip(one / 64, one as u32 % 64);
            flip(other / 64, other as u32 % 64);
        }
    }

    #[test]
    fn range_records_last_until_they_are_void_or_damaged() {
        let records = RangeRecords([const { [const { AtomicU64::new(0) }; RANGE_WORDS] }; RANGES]);
        let held = |nth: usize, state| HeldRange {
            number: CheckpointNumber(3),
            range: ReadOnly { at: nth << 20, tiles: 2 },
            state,
        };
        let all: Vec<HeldRange> = (0..RANGES).map(|nth| held(nth, RangeState::Kept)).collect();
        assert!(
            all.iter().all(|held| records.set(7, *held))
                && !records.set(7, held(99, RangeState::Kept))
        );
        assert_eq!((records.held(7), records.held(8)), (all.clone(), vec![]));
        let bytes = records.0.iter().flatten().flat_map(|w| w.load(Ordering::SeqCst).to_le_bytes());
        let bytes: Vec<u8> = bytes.collect();
        assert_eq!((bytes.len(), RangeRecords::held_in(&bytes, 7)), (RangeRecords::BYTES, all));
        assert!(records.set(7, held(5, RangeState::Copied)));
        assert_eq!(
            records.of(7, held(5, RangeState::Kept).range),
            Some(held(5, RangeState::Copied))
        );
        records.void(7, held(5, RangeState::Kept).range);
        assert_eq!(records.held(7).len(), RANGES - 1);
        assert!(records.set(7, held(99, RangeState::Declared)));
        for bit in 0..RANGE_WORDS * 64 {
            records.0[5][bit / 64].fetch_xor(1 << (bit % 64), Ordering::SeqCst);
            assert_eq!(records.of(7, held(99, RangeState::Kept).range), None, "bit {bit}");
            records.0[5][bit / 64].fetch_xor(1 << (bit % 64), Ordering::SeqCst);
        }
        assert!(!RangeState::Declared.holds() && RangeState::Short.holds());
    }

    fn record() -> RegionRecord {
        let zero = || AtomicU64::new(0);
        let entry = || SealEntry { number: zero(), len: zero(), places: zero(), seal: zero() };
        RegionRecord { entries: [entry(), entry()] }
    }
}
