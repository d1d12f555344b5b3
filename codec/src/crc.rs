//! Checksums of tiles: CRC-32 with the IEEE 802.3 polynomial, over `crc32fast`.
//!
//! Detected with certainty, in a tile of 64 KiB stored with its checksum: any one or two flipped
//! bits (the code's distance is 3 at this length; it is 4 only up to about 11 KiB), and any damage
//! confined to 32 consecutive bits. Any other accidental damage, three flipped bits among it, goes
//! unnoticed with a probability of about one in 2^32. Changing the length is detected no better
//! than that.
//!
//! Not detected: a tile replaced by another tile together with *its* checksum (an older version,
//! or one meant for another place); damage done before the checksum was taken; a change made on
//! purpose, since a matching checksum is easy to compute.
//!
//! Left out: correction. A mismatch says that a shard must be treated as lost, not how to mend it.
//! Source for the distance: P. Koopman, *32-Bit Cyclic Redundancy Codes for Internet
//! Applications*, DSN 2002; a test here recomputes it for 64 KiB.
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

/// What a hasher says of the XOR of runs of bytes of one length, from what others say of those: the
/// checksum is linear but for a constant, which is that of as many zeroes.
#[derive(Debug, Clone, Copy)]
pub struct XorChecksum {
    len: usize,
    zeroes: u32,
}

impl XorChecksum {
    /// A sum of runs of `len` bytes.
    pub fn new(len: usize) -> XorChecksum {
        XorChecksum { len, zeroes: crc32(&vec![0; len]) }
    }

    /// Bytes of each.
    #[expect(clippy::len_without_is_empty, reason = "of runs, not of this")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The hasher after the XOR of what `parts` have seen, `len` bytes each. A part that has seen
    /// only zeroes may be left out.
    pub fn of(&self, parts: impl IntoIterator<Item = Hasher>) -> Hasher {
        let sum = parts.into_iter().fold(0, |sum, part| sum ^ part.finish() ^ self.zeroes);
        let len = self.len as u64;
        Hasher { inner: crc32fast::Hasher::new_with_initial_len(sum ^ self.zeroes, len) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Hasher, XorChecksum, crc32};
    use std::collections::{HashMap, HashSet};

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

    #[test]
    fn the_checksum_of_a_sum_is_the_sum_of_checksums() {
        for len in [0, 1, 8, 333] {
            let sum = XorChecksum::new(len);
            for parts in 0..5usize {
                let byte = |part: usize, at: usize| (part * 101 + at * 7 + at / 3 + 1) as u8;
                let run = |part: usize| (0..len).map(|at| byte(part, at)).collect::<Vec<u8>>();
                let hashers = (0..parts).map(|part| {
                    let mut hasher = Hasher::new();
                    hasher.update(&run(part));
                    hasher
                });
                let mut of = sum.of(hashers);
                let xor = |at: usize| (0..parts).fold(0, |sum, part| sum ^ byte(part, at));
                let mut bytes: Vec<u8> = (0..len).map(xor).collect();
                assert_eq!(of.clone().finish(), crc32(&bytes), "{parts} of {len} bytes");
                of.update(b"more");
                bytes.extend(b"more");
                assert_eq!(of.finish(), crc32(&bytes), "{parts} of {len} bytes, and more");
            }
        }
    }

    /// Bits of a tile and its checksum.
    const BITS: usize = 65536 * 8 + 32;

    /// The remainders of x^0, x^1, ... by the polynomial, as many as there are bits. Wrong bits
    /// pass iff the sum of their remainders is 0.
    fn powers() -> Vec<u32> {
        let double = |r: u32| (r << 1) ^ ((r >> 31) * 0x04c1_1db7);
        std::iter::successors(Some(1), |&r| Some(double(r))).take(BITS).collect()
    }

    #[test]
    fn two_flipped_bits_in_a_tile_never_pass() {
        let powers = powers();
        let seen: HashSet<u32> = powers.iter().copied().collect();
        assert_eq!(seen.len(), powers.len());
        assert!(!seen.contains(&0));
    }

    /// The distance is 3 and no more: there are three bits that pass.
    #[test]
    fn three_flipped_bits_in_a_tile_may_pass() {
        let powers = powers();
        let at: HashMap<u32, usize> = powers.iter().enumerate().map(|(at, &r)| (r, at)).collect();
        let pair = (1..BITS).find_map(|a| at.get(&(powers[a] ^ 1)).map(|&b| (b.min(a), b.max(a))));
        let (second, third) = pair.expect("two more bits that make up for the first");
        assert!(third > 91_607, "the distance is 4 up to that many bits");
        let mut tile = vec![0u8; 65536];
        let sound = crc32(&tile);
        // The last bit of the tile is x^32; the least significant bit of a byte comes first.
        for power in [0, second, third] {
            let bit = 65536 * 8 - 1 - power;
            tile[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(crc32(&tile), sound, "bits 0, {second} and {third} from the end");
    }
}
