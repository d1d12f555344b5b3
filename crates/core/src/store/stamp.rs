//! The tile stamp: a checksum, with the PE and the checkpoint that a tile belongs to.
//!
//! ```text
//! stamp      number u64 | job u64 | pe u32 | incarnation u32 | length u32 | crc u32
//! ```
//!
//! A stamp's CRC-32 covers the tile's bytes and the stamp's other fields, so a tile of another job,
//! PE or checkpoint is rejected like a damaged one. Without checksums (`SHMEM_FT_CHECKSUM=0`) it
//! covers only the fields, and damaged bytes are not detected.
//!
//! Left out: protection against deliberate forgery of checksums.

use raidshmem_codec::crc::{Hasher, XorChecksum};
use raidshmem_codec::kernel::{Kernel, Made};

use crate::layout::STAMP;
use crate::mutant::{Mutant, breaks};
use crate::quantity::{CheckpointNumber, Incarnation, Pe};

/// The PE and the checkpoint whose bytes a tile holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Checkpoint number.
    pub number: CheckpointNumber,
    /// Job.
    pub job: u64,
    /// PE that holds the tile.
    pub pe: Pe,
    /// Its incarnation when it wrote the tile.
    pub incarnation: Incarnation,
    /// True if the checksum covers the tile's bytes.
    pub whole: bool,
}

impl Stamp {
    fn fields(&self, len: usize) -> [u8; STAMP - 4] {
        let mut bytes = [0; STAMP - 4];
        let number = if breaks(Mutant::NumberNotSealed) { 0 } else { self.number.0 };
        bytes[0..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.job.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.pe.0.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.incarnation.0.to_le_bytes());
        bytes[24..28].copy_from_slice(&(len as u32).to_le_bytes());
        bytes
    }

    /// Begins to seal a tile whose bytes arrive in parts.
    pub fn begin(self) -> Seal {
        Seal { stamp: self, len: 0, hasher: Hasher::new() }
    }

    fn crc(fields: &[u8], mut hasher: Hasher) -> u32 {
        hasher.update(fields);
        hasher.finish()
    }

    /// Returns the stamp's bytes for `tile`.
    pub fn seal(&self, tile: &[u8]) -> [u8; STAMP] {
        let mut seal = self.begin();
        seal.update(tile);
        seal.finish()
    }

    /// True if `bytes` is a stamp of `tile` with this number, job and PE, and with this incarnation
    /// or an earlier one.
    pub fn holds(&self, bytes: &[u8], tile: &[u8]) -> bool {
        let mut seal = self.begin();
        seal.update(tile);
        seal.holds(bytes)
    }
}

/// The conversion of stamps from one checkpoint to another, for tiles that did not change. It does
/// not read the tile. The new stamp of a damaged tile is as wrong as the old one: a checksum is
/// linear, and only the fields change. Computed once for all tiles.
#[derive(Debug)]
pub struct Renewal {
    from: Stamp,
    to: Stamp,
    len: usize,
    old: [u8; STAMP - 4],
    new: [u8; STAMP - 4],
    turn: u32,
}

impl Renewal {
    /// Prepares the renewal of stamps for tiles of `len` bytes.
    pub fn new(from: Stamp, to: Stamp, len: usize) -> Renewal {
        let (old, new) = (from.fields(len), to.fields(len));
        let turn = Stamp::crc(&old, Hasher::new()) ^ Stamp::crc(&new, Hasher::new());
        Renewal { from, to, len, old, new, turn }
    }

    /// Converts the stamp `bytes` of a tile from `from` to `to`. None if `bytes` is not a stamp
    /// with the fields of `from`, of its incarnation or an earlier one.
    pub fn of(&self, bytes: &[u8]) -> Option<[u8; STAMP]> {
        let bytes = <&[u8; STAMP]>::try_from(bytes).ok()?;
        let (fields, crc) = bytes.split_last_chunk::<4>()?;
        if fields != self.old.as_slice() {
            let from = Stamp { incarnation: incarnation(bytes), ..self.from };
            let is_earlier = from.incarnation < self.from.incarnation;
            return is_earlier.then(|| Renewal::new(from, self.to, self.len).of(bytes))?;
        }
        let mut renewed = [0; STAMP];
        renewed[..STAMP - 4].copy_from_slice(&self.new);
        let crc = u32::from_le_bytes(*crc) ^ self.turn;
        renewed[STAMP - 4..].copy_from_slice(&crc.to_le_bytes());
        Some(renewed)
    }
}

/// Returns the incarnation in a stamp.
fn incarnation(bytes: &[u8; STAMP]) -> Incarnation {
    Incarnation(u32::from_le_bytes([20, 21, 22, 23].map(|at| bytes[at])))
}

/// A tile being sealed while it is written, or checked while it is read.
#[derive(Debug)]
pub struct Seal {
    stamp: Stamp,
    len: usize,
    hasher: Hasher,
}

impl Seal {
    /// Adds the tile's next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        if self.stamp.whole {
            self.hasher.update(bytes);
        }
    }

    /// Writes the tile's next bytes to their destination, bypassing the caches.
    ///
    /// # Panics
    /// If the lengths differ, or if the requested kernel is not available.
    pub fn put(&mut self, made: Made<'_>) {
        self.len += made.bytes.len();
        match self.stamp.whole {
            true => self.hasher.put(made),
            false => Kernel::chosen().expect("codes were made with it").put(made, |_| ()),
        }
    }

    /// Adds all of the tile's bytes, which are the XOR of the bytes that `seals` have seen, without
    /// reading them. If the tile differs from that sum, the stamp will not match.
    pub fn update_sum<'a>(&mut self, sum: &XorChecksum, seals: impl IntoIterator<Item = &'a Seal>) {
        self.len = sum.len();
        if self.stamp.whole {
            self.hasher = sum.of(seals.into_iter().map(|seal| seal.hasher.clone()));
        }
    }

    /// Returns the stamp's bytes for the tile.
    pub fn finish(self) -> [u8; STAMP] {
        let fields = self.stamp.fields(self.len);
        let mut bytes = [0; STAMP];
        bytes[..STAMP - 4].copy_from_slice(&fields);
        bytes[STAMP - 4..].copy_from_slice(&Stamp::crc(&fields, self.hasher).to_le_bytes());
        bytes
    }

    /// True if `bytes` is a stamp of the tile, as defined by [`Stamp::holds`].
    pub fn holds(mut self, bytes: &[u8]) -> bool {
        let Ok(bytes) = <&[u8; STAMP]>::try_from(bytes) else { return false };
        let later = incarnation(bytes) > self.stamp.incarnation;
        self.stamp.incarnation = incarnation(bytes);
        !later && (*bytes == self.finish() || breaks(Mutant::StampBelieved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp() -> Stamp {
        Stamp {
            number: CheckpointNumber(7),
            job: 9,
            pe: Pe(3),
            incarnation: Incarnation(2),
            whole: true,
        }
    }

    #[test]
    fn a_sum_is_sealed_without_a_look_at_it() {
        let tile = |part: usize| (0..333).map(|at| (at * 3 + part * 77) as u8).collect::<Vec<u8>>();
        for whole in [true, false] {
            let stamp = Stamp { whole, ..stamp() };
            for parts in 1..5 {
                let seen = (0..parts).map(|part| {
                    let mut seal = Stamp { pe: Pe(99), ..stamp }.begin();
                    seal.update(&tile(part));
                    seal
                });
                let (seen, mut seal) = (seen.collect::<Vec<Seal>>(), stamp.begin());
                seal.update_sum(&XorChecksum::new(333), &seen);
                let xor = |at: usize| (0..parts).fold(0, |sum, part| sum ^ tile(part)[at]);
                let sum: Vec<u8> = (0..333).map(xor).collect();
                let sealed = seal.finish();
                assert_eq!(sealed, stamp.seal(&sum), "{parts} parts");
                assert_eq!(stamp.holds(&sealed, &tile(9)), !whole, "another tile");
            }
        }
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

    /// The fields are checked nevertheless; with checksums on, a stamp made without one is
    /// rejected.
    #[test]
    fn without_checksums_only_the_fields_are_covered() {
        let bare = Stamp { whole: false, ..stamp() };
        let (tile, other) = (vec![1; 100], vec![2; 100]);
        let mut sealed = bare.seal(&tile);
        assert!(bare.holds(&sealed, &tile) && bare.holds(&sealed, &other));
        assert!(!stamp().holds(&sealed, &tile) && !bare.holds(&stamp().seal(&tile), &tile));
        let next = Stamp { number: CheckpointNumber(8), ..bare };
        assert!(!next.holds(&sealed, &tile));
        assert_eq!(Renewal::new(bare, next, tile.len()).of(&sealed), Some(next.seal(&tile)));
        for bit in 0..STAMP * 8 {
            sealed[bit / 8] ^= 1 << (bit % 8);
            assert!(!bare.holds(&sealed, &tile), "bit {bit} of the stamp");
            sealed[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_renewed_stamp_is_the_stamp_and_damage_stays_damage() {
        let (old, new) = (
            stamp(),
            Stamp { number: CheckpointNumber(9), incarnation: Incarnation(4), ..stamp() },
        );
        let mut tile: Vec<u8> = (0..200).collect();
        let sealed = old.seal(&tile);
        let all = Renewal::new(old, new, tile.len());
        let renewed = new.seal(&tile);
        let earlier = Stamp { incarnation: Incarnation(1), ..old }.seal(&tile);
        let later = Stamp { incarnation: Incarnation(3), ..old }.seal(&tile);
        assert_eq!((all.of(&sealed), all.of(&earlier)), (Some(renewed), Some(renewed)));
        assert_eq!(all.of(&later), None);
        assert_eq!((all.of(&renewed), all.of(&[0; STAMP]), all.of(&[])), (None, None, None));
        for bit in 0..tile.len() * 8 {
            tile[bit / 8] ^= 1 << (bit % 8);
            assert!(!new.holds(&renewed, &tile), "bit {bit} of the tile");
            tile[bit / 8] ^= 1 << (bit % 8);
        }
        for bit in 0..STAMP * 8 {
            let mut damaged = sealed;
            damaged[bit / 8] ^= 1 << (bit % 8);
            let renewed = all.of(&damaged);
            assert!(renewed.is_none_or(|renewed| !new.holds(&renewed, &tile)), "bit {bit}");
        }
        for other in [
            Stamp { number: CheckpointNumber(6), ..old },
            Stamp { pe: Pe(1), ..old },
            Stamp { job: 1, ..old },
        ] {
            assert_eq!(Renewal::new(other, new, tile.len()).of(&sealed), None);
        }
    }

    #[test]
    fn pieces_do_not_matter() {
        let tile: Vec<u8> = (0..255).collect();
        for cut in 0..=tile.len() {
            let mut seal = stamp().begin();
            seal.update(&tile[..cut]);
            seal.update(&tile[cut..]);
            assert_eq!(seal.finish(), stamp().seal(&tile));
        }
    }

    #[test]
    fn written_bytes_are_sealed() {
        let tile: Vec<u8> = (0..5000).map(|at| (at * 7 + at / 256) as u8).collect();
        for whole in [true, false] {
            let stamp = Stamp { whole, ..stamp() };
            for cut in [0, 1, 63, 64, 1024, 2500, 5000] {
                let (mut copy, mut seal) = (vec![0; 5000], stamp.begin());
                let ((first, second), (begin, end)) = (copy.split_at_mut(cut), tile.split_at(cut));
                seal.put(Made { to: first, bytes: begin, more: true });
                seal.put(Made { to: second, bytes: end, more: false });
                assert_eq!(seal.finish(), stamp.seal(&tile), "{whole}, cut at {cut}");
                assert_eq!(copy, tile, "{whole}, cut at {cut}");
            }
        }
    }

    #[test]
    fn a_stamp_of_another_checkpoint_job_or_pe_or_a_later_life_is_refused() {
        let tile = [1, 2, 3];
        let sealed = stamp().seal(&tile);
        assert!(Stamp { incarnation: Incarnation(5), ..stamp() }.holds(&sealed, &tile));
        for other in [
            Stamp { number: CheckpointNumber(8), ..stamp() },
            Stamp { job: 8, ..stamp() },
            Stamp { pe: Pe(2), ..stamp() },
            Stamp { incarnation: Incarnation(1), ..stamp() },
        ] {
            assert!(!other.holds(&sealed, &tile), "{other:?}");
        }
        assert!(!stamp().holds(&[0; STAMP], &[0; 3]), "zeroed memory is not sealed");
    }
}
