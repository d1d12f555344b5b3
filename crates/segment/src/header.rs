//! The store header: what a PE's store holds, as its owner sealed it.
//!
//! ```text
//! header     magic | job | pe | phase | decision | record x 4 | aside
//! record     entry | entry                              (of snapshots 0 and 1, slots 0 and 1)
//! entry      number | snapshot length | seal
//! ```
//!
//! A record is void (all of it 0) while what it speaks of is being written. It is written twice,
//! and each entry's seal must fit its fields: a bit that flips in it costs no checkpoint. The owner
//! writes phase and decision anew before every vote; those of a dead PE count only if the records
//! confirm them.
//!
//! Left out: protection against somebody who computes matching seals on purpose.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use raidshmem_codec::crc::Hasher;
use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::quantity::{CheckpointNumber, Pe};

use crate::aside::Aside;

/// First word of a store header: "RAIDSHM" and the version of the format.
pub const MAGIC: u64 = 0x5241_4944_5348_4d03;

#[repr(C)]
#[derive(Debug)]
struct SealEntry {
    number: AtomicU64,
    len: AtomicU64,
    seal: AtomicU64,
}

fn mix(words: [u64; 3]) -> u64 {
    let mut hasher = Hasher::new();
    words.iter().for_each(|word| hasher.update(&word.to_le_bytes()));
    u64::from(hasher.finish()) | 1 << 32 // never zero, so that zeroed memory is not sealed
}

impl SealEntry {
    fn void(&self) {
        self.number.store(0, Ordering::SeqCst);
        self.seal.store(0, Ordering::SeqCst);
    }

    fn seal(&self, job: u64, number: CheckpointNumber, len: usize) {
        self.len.store(len as u64, Ordering::SeqCst);
        self.seal.store(mix([job, number.0, len as u64]), Ordering::SeqCst);
        self.number.store(number.0, Ordering::SeqCst); // last: void until all of it stands
    }

    fn holds(&self, job: u64, number: CheckpointNumber) -> Option<usize> {
        let len = self.len.load(Ordering::SeqCst);
        let sealed = self.seal.load(Ordering::SeqCst) == mix([job, number.0, len]);
        let named =
            number != CheckpointNumber::START && self.number.load(Ordering::SeqCst) == number.0;
        (named && (sealed || breaks(Mutant::SealBelieved))).then_some(len as usize)
    }
}

/// What one region of the store holds.
#[repr(C)]
#[derive(Debug)]
pub struct RegionRecord {
    entries: [SealEntry; 2],
}

impl RegionRecord {
    /// The region is about to change: it holds nothing that counts.
    pub fn void(&self) {
        self.entries.iter().for_each(SealEntry::void);
    }

    /// The region holds checkpoint `number` of snapshots of `len` bytes.
    pub fn seal(&self, job: u64, number: CheckpointNumber, len: usize) {
        self.entries.iter().for_each(|entry| entry.seal(job, number, len));
    }

    /// True if nothing of the record is damaged and it is that of checkpoint `number`.
    pub fn is_whole(&self, job: u64, number: CheckpointNumber) -> bool {
        let [one, other] = self.entries.each_ref().map(|entry| entry.holds(job, number));
        one.is_some() && one == other
    }

    /// Number and snapshot length in bytes as somebody noted them, of whatever checkpoint, believed
    /// or not: a hint at what will be needed.
    pub fn hint(&self) -> (CheckpointNumber, usize) {
        let noted = |entry: &SealEntry| {
            let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
            (CheckpointNumber(load(&entry.number)), load(&entry.len) as usize)
        };
        let [one, other] = self.entries.each_ref().map(noted);
        one.max(other)
    }

    /// Snapshot length in bytes if the region holds checkpoint `number` of job `job`.
    pub fn holds(&self, job: u64, number: CheckpointNumber) -> Option<usize> {
        self.entries.iter().find_map(|entry| entry.holds(job, number))
    }
}

/// First page of the store.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    magic: AtomicU64,
    job: AtomicU64,
    pe: AtomicU64,
    /// `phase::Phase` packed; 0 in a process that has no say.
    pub phase: AtomicU64,
    /// Checkpoint decided on, plus one; 0 when none is pending.
    pub decision: AtomicU64,
    /// The snapshots.
    pub snapshots: [RegionRecord; 2],
    /// The parity slots.
    pub slots: [RegionRecord; 2],
    /// What goes to disk.
    pub aside: Aside,
}

impl Header {
    /// Makes the header of a fresh store.
    pub fn create(&self, job: u64, pe: Pe) {
        self.job.store(job, Ordering::SeqCst);
        self.pe.store(pe.0.into(), Ordering::SeqCst);
        self.magic.store(MAGIC, Ordering::SeqCst);
    }

    /// The newest hint at a snapshot ([`RegionRecord::hint`]).
    pub fn snapshot_hint(&self) -> (CheckpointNumber, usize) {
        let [one, other] = self.snapshots.each_ref().map(RegionRecord::hint);
        one.max(other)
    }

    /// True if this is the store of `pe` in `job`, of this format.
    pub fn is_of(&self, job: u64, pe: Pe) -> bool {
        let words = [&self.magic, &self.job, &self.pe].map(|word| word.load(Ordering::SeqCst));
        words == [MAGIC, job, pe.0.into()]
    }

    /// Forgets everything but whose store it is: nothing in it counts any more.
    pub fn forget(&self) {
        self.snapshots.iter().chain(&self.slots).for_each(RegionRecord::void);
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
    fn one_flipped_bit_costs_nothing_and_one_in_each_entry_costs_the_record() {
        fn words(record: &RegionRecord) -> [&AtomicU64; 6] {
            let [a, b] = &record.entries;
            [&a.number, &a.len, &a.seal, &b.number, &b.len, &b.seal]
        }
        let record = record();
        record.seal(1, CheckpointNumber(4), 100);
        let flip = |index: usize, bit: u32| {
            words(&record)[index].fetch_xor(1 << bit, Ordering::SeqCst);
        };
        for (one, other) in (0..6 * 64).zip((0..6 * 64).rev()) {
            flip(one / 64, one as u32 % 64);
            assert_eq!(record.holds(1, CheckpointNumber(4)), Some(100), "bit {one}");
            flip(other / 64, other as u32 % 64);
            assert_eq!(record.holds(1, CheckpointNumber(4)), None, "bits {one} and {other}");
            flip(one / 64, one as u32 % 64);
            flip(other / 64, other as u32 % 64);
        }
    }

    fn record() -> RegionRecord {
        let zero = || AtomicU64::new(0);
        let entry = || SealEntry { number: zero(), len: zero(), seal: zero() };
        RegionRecord { entries: [entry(), entry()] }
    }
}
