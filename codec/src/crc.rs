//! Checksums of tiles: CRC-32 with the IEEE 802.3 polynomial, over `crc32fast`.
//!
//! Detected with certainty, in a tile of up to 4096 bytes stored with its checksum: any one, two
//! or three flipped bits, and any damage confined to 32 consecutive bits. Any other accidental
//! damage goes unnoticed with a probability of about one in 2^32. Changing the length is
//! detected no better than that.
//!
//! Not detected: a tile replaced by another tile together with *its* checksum (an older version,
//! or one meant for another place); damage done before the checksum was taken; a change made on
//! purpose, since a matching checksum is easy to compute.
//!
//! Left out: correction. A mismatch says that a shard must be treated as lost, not how to mend it.
//! Source for the distance: P. Koopman, *32-Bit Cyclic Redundancy Codes for Internet
//! Applications*, DSN 2002; a test here recomputes it for 4096 bytes.
#![forbid(unsafe_code)]

/// Checksum of `bytes`, of any length; that of the empty slice is 0.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// The checksum of bytes that arrive in pieces. How they are cut does not matter.
#[derive(Debug, Clone, Default)]
pub struct Hasher {
    inner: crc32fast::Hasher,
}

impl Hasher {
    /// A hasher that has seen no bytes.
    pub fn new() -> Hasher {
        Hasher::default()
    }

    /// Appends `bytes` to those seen so far.
    pub fn update(&mut self, bytes: &[u8]) {
        self.inner.update(bytes);
    }

    /// The checksum of all bytes seen: what [`crc32`] says of their concatenation.
    pub fn finish(self) -> u32 {
        self.inner.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::{Hasher, crc32};
    use std::collections::HashSet;

    #[test]
    fn known_values() {
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn pieces_do_not_matter() {
        let bytes: Vec<u8> = (0..=255).collect();
        for cut in 0..=256 {
            let mut hasher = Hasher::new();
            hasher.update(&bytes[..cut]);
            hasher.update(&bytes[cut..]);
            assert_eq!(hasher.finish(), crc32(&bytes), "cut at {cut}");
        }
    }

    /// One, two or three wrong bits pass iff 1, 1 + x^a or 1 + x^a + x^b is a multiple of the
    /// polynomial, a and b below the bits of tile and checksum together.
    #[test]
    fn three_flipped_bits_in_a_tile_never_pass() {
        let double = |r: u32| (r << 1) ^ ((r >> 31) * 0x04c1_1db7);
        let powers: Vec<u32> =
            std::iter::successors(Some(1), |&r| Some(double(r))).take(4096 * 8 + 32).collect();
        let seen: HashSet<u32> = powers.iter().copied().collect();
        assert_eq!(seen.len(), powers.len());
        assert!(!seen.contains(&0));
        assert!(powers[1..].iter().all(|power| !seen.contains(&(power ^ 1))));
    }
}
