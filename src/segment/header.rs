//! The store header: what a PE's store holds, as its owner sealed it.
//!
//! ```text
//! header     magic | job | pe | phase | decision | record x 3
//! record     number | snapshot length | seal            (snapshot, slot 0, slot 1)
//! ```
//!
//! A record is void (number 0) while what it speaks of is being written, and its seal must fit its
//! fields.
//!
//! Left out: protection against somebody who computes matching seals on purpose.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use raidshmem_codec::crc::Hasher;

/// First word of a store header: "RAIDSHM" and the version of the format.
pub const MAGIC: u64 = 0x5241_4944_5348_4d01;

/// What one region of the store holds.
#[repr(C)]
#[derive(Debug)]
pub struct Record {
    number: AtomicU64,
    len: AtomicU64,
    seal: AtomicU64,
}

fn mix(words: [u64; 3]) -> u64 {
    let mut hasher = Hasher::new();
    words.iter().for_each(|word| hasher.update(&word.to_le_bytes()));
    u64::from(hasher.finish()) | 1 << 32 // never zero, so that zeroed memory is not sealed
}

impl Record {
    /// The region is about to change: it holds nothing that counts.
    pub fn void(&self) {
        self.number.store(0, Ordering::SeqCst);
    }

    /// The region holds checkpoint `number` of snapshots of `len` bytes.
    pub fn seal(&self, job: u64, number: u64, len: usize) {
        self.len.store(len as u64, Ordering::SeqCst);
        self.seal.store(mix([job, number, len as u64]), Ordering::SeqCst);
        self.number.store(number, Ordering::SeqCst); // last: void until all of it stands
    }

    /// Snapshot length in bytes if the region holds checkpoint `number` of job `job`.
    pub fn holds(&self, job: u64, number: u64) -> Option<usize> {
        let len = self.len.load(Ordering::SeqCst);
        let sealed = self.seal.load(Ordering::SeqCst) == mix([job, number, len]);
        let named = number != 0 && self.number.load(Ordering::SeqCst) == number;
        (named && sealed).then_some(len as usize)
    }
}

/// First page of the store.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    magic: AtomicU64,
    job: AtomicU64,
    pe: AtomicU64,
    /// `phase::Phase` packed; 0 in a substitute that has not recovered yet.
    pub phase: AtomicU64,
    /// Checkpoint decided on, plus one; 0 when none is pending.
    pub decision: AtomicU64,
    /// The snapshot.
    pub snapshot: Record,
    /// The parity slots.
    pub slots: [Record; 2],
}

impl Header {
    /// Makes the header of a fresh store.
    pub fn create(&self, job: u64, pe: usize) {
        self.job.store(job, Ordering::SeqCst);
        self.pe.store(pe as u64, Ordering::SeqCst);
        self.magic.store(MAGIC, Ordering::SeqCst);
    }

    /// True if this is the store of `pe` in `job`, of this format.
    pub fn is_of(&self, job: u64, pe: usize) -> bool {
        let words = [&self.magic, &self.job, &self.pe].map(|word| word.load(Ordering::SeqCst));
        words == [MAGIC, job, pe as u64]
    }

    /// Forgets everything but whose store it is: nothing in it counts any more.
    pub fn forget(&self) {
        self.snapshot.void();
        self.slots.iter().for_each(Record::void);
        self.phase.store(0, Ordering::SeqCst);
        self.decision.store(0, Ordering::SeqCst);
    }
}

const _: () = assert!(std::mem::size_of::<Header>() <= crate::sys::memory::PAGE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_void_until_sealed_and_after_void() {
        let zero = || AtomicU64::new(0);
        let record = Record { number: zero(), len: zero(), seal: zero() };
        assert_eq!(record.holds(1, 0), None);
        record.seal(1, 4, 100);
        assert_eq!(
            (record.holds(1, 4), record.holds(1, 3), record.holds(2, 4)),
            (Some(100), None, None)
        );
        record.len.store(101, Ordering::SeqCst);
        assert_eq!(record.holds(1, 4), None, "a changed length breaks the seal");
        record.seal(1, 4, 100);
        record.void();
        assert_eq!(record.holds(1, 4), None);
    }
}
