//! The store header and the tile stamp: the sealed facts a recovery believes.
//!
//! ```text
//! header     magic | job | pe | incarnation | phase | decision | record x 3
//! record     number | snapshot length | seal            (snapshot, slot 0, slot 1)
//! stamp      number u64 | job u64 | pe u32 | incarnation u32 | length u32 | crc u32
//! ```
//!
//! A stamp's CRC-32 covers the tile's bytes and the stamp's other fields, so a tile of another job,
//! PE or checkpoint is refused exactly as a damaged one is. A record is void (number 0) while what
//! it speaks of is being written, and its seal must fit its fields.
//!
//! Left out: protection against somebody who computes matching checksums on purpose.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use raidshmem_codec::crc::Hasher;

use crate::segment::layout::STAMP;

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

/// Whose bytes of which checkpoint a tile holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Checkpoint number.
    pub number: u64,
    /// Job.
    pub job: u64,
    /// PE that holds the tile.
    pub pe: u32,
    /// Its incarnation when it wrote the tile.
    pub incarnation: u32,
}

impl Stamp {
    fn fields(&self, len: usize) -> [u8; STAMP - 4] {
        let mut bytes = [0; STAMP - 4];
        bytes[0..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.job.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.pe.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[24..28].copy_from_slice(&(len as u32).to_le_bytes());
        bytes
    }

    fn crc(fields: &[u8], tile: &[u8]) -> u32 {
        let mut hasher = Hasher::new();
        hasher.update(tile);
        hasher.update(fields);
        hasher.finish()
    }

    /// The stamp's bytes for `tile`.
    pub fn seal(&self, tile: &[u8]) -> [u8; STAMP] {
        let fields = self.fields(tile.len());
        let mut bytes = [0; STAMP];
        bytes[..STAMP - 4].copy_from_slice(&fields);
        bytes[STAMP - 4..].copy_from_slice(&Self::crc(&fields, tile).to_le_bytes());
        bytes
    }

    /// True if `bytes` is a stamp of `tile` with this number, job and PE, and of this incarnation
    /// or an earlier one.
    pub fn holds(&self, bytes: &[u8], tile: &[u8]) -> bool {
        let Ok(bytes) = <&[u8; STAMP]>::try_from(bytes) else { return false };
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let incarnation = word(20);
        let fields = Stamp { incarnation, ..*self }.fields(tile.len());
        incarnation <= self.incarnation
            && bytes[..STAMP - 4] == fields
            && word(STAMP - 4) == Self::crc(&fields, tile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp() -> Stamp {
        Stamp { number: 7, job: 9, pe: 3, incarnation: 2 }
    }

    #[test]
    fn a_stamp_refuses_every_flipped_bit_of_itself_and_of_the_tile() {
        let mut tile = vec![0x5a; 333];
        let mut sealed = stamp().seal(&tile);
        assert!(stamp().holds(&sealed, &tile));
        for bit in 0..STAMP * 8 {
            sealed[bit / 8] ^= 1 << (bit % 8);
            assert!(!stamp().holds(&sealed, &tile), "bit {bit} of the stamp");
            sealed[bit / 8] ^= 1 << (bit % 8);
        }
        for bit in 0..tile.len() * 8 {
            tile[bit / 8] ^= 1 << (bit % 8);
            assert!(!stamp().holds(&sealed, &tile), "bit {bit} of the tile");
            tile[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_stamp_of_another_checkpoint_job_or_pe_or_a_later_life_is_refused() {
        let tile = [1, 2, 3];
        let sealed = stamp().seal(&tile);
        assert!(Stamp { incarnation: 5, ..stamp() }.holds(&sealed, &tile));
        for other in [
            Stamp { number: 8, ..stamp() },
            Stamp { job: 8, ..stamp() },
            Stamp { pe: 2, ..stamp() },
            Stamp { incarnation: 1, ..stamp() },
        ] {
            assert!(!other.holds(&sealed, &tile), "{other:?}");
        }
        assert!(!stamp().holds(&[0; STAMP], &[0; 3]), "zeroed memory is not sealed");
    }

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
