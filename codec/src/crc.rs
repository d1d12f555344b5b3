//! Checksums of tiles: CRC-32 with the IEEE 802.3 polynomial.
//!
//! Guaranteed to be detected, in a tile of 64 KiB stored with its checksum: any one or two flipped
//! bits (the code's distance is 3 at this length; it is 4 only up to about 11 KiB), and any damage
//! confined to 32 consecutive bits. Any other accidental damage, including three flipped bits and a
//! change of length, goes undetected with a probability of about one in 2^32.
//!
//! Not detected: a tile replaced by another tile together with *its* checksum (an older version, or
//! one meant for another place); damage done before the checksum was computed; a deliberate change,
//! since a matching checksum is easy to compute.
//!
//! If the processor has carry-less multiplication in wide registers, long runs of bytes are folded
//! by a loop of the kernel (`kernel/fold.rs`), which can copy them at the same time; `crc32fast`
//! computes the checksum of the remainder. The folded state is kept for the next piece: `crc32fast`
//! alone reduces all registers to 32 bits at the end of each piece, which takes twice as long for
//! pieces of 4 KiB from memory.
//!
//! Left out: correction. A mismatch means that a shard must be treated as lost; it does not say how
//! to repair it.
//! Source for the distance: P. Koopman, *32-Bit Cyclic Redundancy Codes for Internet
//! Applications*, DSN 2002; a test here recomputes it for 64 KiB.
#![forbid(unsafe_code)]

use crate::kernel::fold::{Block, Streamed};
use crate::kernel::{Kernel, Made};

/// Returns the checksum of `bytes`, of any length; that of the empty slice is 0.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// The number of bytes from which folding pays off.
const LEAST: usize = 4 * size_of::<Block>();

/// The alignment of streamed stores.
const LINE: usize = 64;

/// The checksum of bytes that arrive in pieces. Their boundaries do not affect the result.
#[derive(Debug, Clone)]
pub struct Hasher {
    kernel: Kernel,
    /// The checksum of all bytes seen, unless they are folded.
    sum: u32,
    /// All bytes seen as one block, whose remainder begins at 0.
    folded: Option<Block>,
}

impl Default for Hasher {
    fn default() -> Hasher {
        Hasher::new()
    }
}

impl Hasher {
    /// Creates a hasher that has seen no bytes. It uses the [chosen](Kernel::chosen) kernel.
    pub fn new() -> Hasher {
        Hasher::with_kernel(Kernel::chosen().unwrap_or(Kernel::WIDE))
    }

    /// Creates a hasher that has seen no bytes and uses `kernel`.
    pub fn with_kernel(kernel: Kernel) -> Hasher {
        Hasher { kernel, sum: 0, folded: None }
    }

    /// Appends `bytes` to those seen so far.
    pub fn update(&mut self, bytes: &[u8]) {
        let (blocks, _) = bytes.as_chunks();
        let done = self.fold(blocks, None);
        self.append(&bytes[done..]);
    }

    /// Writes `made` to its destination, past the caches (if the instruction set can), and appends
    /// it to the bytes seen so far; both take one read.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn put(&mut self, made: Made<'_>) {
        let Made { to, bytes, more } = made;
        assert_eq!(to.len(), bytes.len(), "copied between slices of different lengths");
        let head = to.as_ptr().align_offset(LINE).min(to.len());
        let ((first, to), (begin, bytes)) = (to.split_at_mut(head), bytes.split_at(head));
        self.put_by_pieces(Made { to: first, bytes: begin, more: more || !bytes.is_empty() });
        let (blocks, rest) = bytes.as_chunks();
        let streamed = Streamed { to: to.as_chunks_mut().0, more: more || !rest.is_empty() };
        let done = self.fold(blocks, Some(streamed));
        self.put_by_pieces(Made { to: &mut to[done..], bytes: &bytes[done..], more });
    }

    fn put_by_pieces(&mut self, made: Made<'_>) {
        let kernel = self.kernel;
        kernel.put(made, |piece| self.update(piece));
    }

    /// Folds `blocks` and copies them to `to`, if possible and worthwhile. Returns the bytes done.
    fn fold(&mut self, blocks: &[Block], to: Option<Streamed<'_>>) -> usize {
        let len = blocks.as_flattened().len();
        if self.folded.is_none() && len < LEAST {
            return 0;
        }
        let Some(fold) = self.kernel.fold() else { return 0 };
        fold.run(self.folded.get_or_insert_with(|| block(self.sum)), blocks, to);
        len
    }

    /// Appends bytes without folding them.
    fn append(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.sum = appended(self.checksum(), bytes);
            self.folded = None;
        }
    }

    fn checksum(&self) -> u32 {
        // A remainder of 0 is that of the checksum `!0`.
        self.folded.as_ref().map_or(self.sum, |block| appended(!0, block))
    }

    /// Returns the checksum of all bytes seen, equal to [`crc32`] of their concatenation.
    pub fn finish(self) -> u32 {
        self.checksum()
    }
}

/// Returns the checksum of bytes with checksum `sum` followed by `bytes`.
fn appended(sum: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(sum);
    hasher.update(bytes);
    hasher.finalize()
}

/// Returns a block equivalent to bytes with the checksum `sum`: zeroes, then the four bytes that
/// leave the same remainder. They are found by undoing 32 steps of the division.
fn block(sum: u32) -> Block {
    let back = |remainder: u32, _| match remainder >> 31 {
        0 => remainder << 1,
        _ => ((remainder ^ 0xedb8_8320) << 1) | 1,
    };
    let mut block = [0; size_of::<Block>()];
    *block.last_chunk_mut().expect("four bytes") = (0..32).fold(!sum, back).to_le_bytes();
    block
}

/// Combines the checksums of byte runs of one length into the checksum of their XOR. The checksum
/// is linear up to a constant: that of as many zeroes.
#[derive(Debug, Clone, Copy)]
pub struct XorChecksum {
    len: usize,
    zeroes: u32,
}

impl XorChecksum {
    /// Prepares sums of runs of `len` bytes.
    pub fn new(len: usize) -> XorChecksum {
        XorChecksum { len, zeroes: crc32(&vec![0; len]) }
    }

    /// Returns the length of each run, in bytes.
    #[expect(clippy::len_without_is_empty, reason = "of runs, not of this")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the hasher after the XOR of the bytes seen by `parts`, `len` bytes each. A part that
    /// has seen only zeroes may be left out.
    pub fn of(&self, parts: impl IntoIterator<Item = Hasher>) -> Hasher {
        let sum = parts.into_iter().fold(0, |sum, part| sum ^ part.finish() ^ self.zeroes);
        Hasher { sum: sum ^ self.zeroes, ..Hasher::new() }
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

    /// Returns the remainders of x^0, x^1, ... by the polynomial, one per bit. A set of flipped
    /// bits goes undetected iff the sum of their remainders is 0.
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

    /// The distance is exactly 3: some three flipped bits go undetected.
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
