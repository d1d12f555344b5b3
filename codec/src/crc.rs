//! Checksums of tiles: CRC-32 with the IEEE 802.3 polynomial.
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
//! Where the processor multiplies without carry in wide registers, long runs of bytes are folded by
//! a loop of the kernel (`kernel/fold.rs`), which can copy them on the way; `crc32fast` makes the
//! checksum of what is left. Folded bytes wait for more: `crc32fast` alone makes 32 bits of all
//! registers at the end of each piece, and takes twice as long for pieces of 4 KiB from memory.
//!
//! Left out: correction. A mismatch says that a shard must be treated as lost, not how to mend it.
//! Source for the distance: P. Koopman, *32-Bit Cyclic Redundancy Codes for Internet
//! Applications*, DSN 2002; a test here recomputes it for 64 KiB.
#![forbid(unsafe_code)]

use crate::kernel::fold::{Block, Streamed};
use crate::kernel::{Kernel, Made};

/// Checksum of `bytes`, of any length; that of the empty slice is 0.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// From so many bytes on it pays to fold them.
const LEAST: usize = 4 * size_of::<Block>();

/// What streamed stores must be aligned to.
const LINE: usize = 64;

/// The checksum of bytes that arrive in pieces. How they are cut does not matter.
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
    /// A hasher that has seen no bytes. It uses the [chosen](Kernel::chosen) kernel.
    pub fn new() -> Hasher {
        Hasher::with_kernel(Kernel::chosen().unwrap_or(Kernel::WIDE))
    }

    /// The same with another kernel.
    pub fn with_kernel(kernel: Kernel) -> Hasher {
        Hasher { kernel, sum: 0, folded: None }
    }

    /// Appends `bytes` to those seen so far.
    pub fn update(&mut self, bytes: &[u8]) {
        let (blocks, _) = bytes.as_chunks();
        let done = self.fold(blocks, None);
        self.append(&bytes[done..]);
    }

    /// Writes what was made where it belongs, past the caches (where the instruction set can), and
    /// appends it to the bytes seen so far: they are read once for both.
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

    /// Folds `blocks`, and copies them, if it can be done and pays. Returns the bytes done.
    fn fold(&mut self, blocks: &[Block], to: Option<Streamed<'_>>) -> usize {
        let len = blocks.as_flattened().len();
        if self.folded.is_none() && len < LEAST {
            return 0;
        }
        let Some(fold) = self.kernel.fold() else { return 0 };
        fold.run(self.folded.get_or_insert_with(|| block(self.sum)), blocks, to);
        len
    }

    /// Appends bytes that are not folded.
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

    /// The checksum of all bytes seen: what [`crc32`] says of their concatenation.
    pub fn finish(self) -> u32 {
        self.checksum()
    }
}

/// The checksum of what has the checksum `sum`, and `bytes` after it.
fn appended(sum: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(sum);
    hasher.update(bytes);
    hasher.finalize()
}

/// The block that stands for bytes with the checksum `sum`: zeroes, and the four bytes after which
/// the remainder is theirs. Those are found by taking 32 steps of the division back.
fn block(sum: u32) -> Block {
    let back = |remainder: u32, _| match remainder >> 31 {
        0 => remainder << 1,
        _ => ((remainder ^ 0xedb8_8320) << 1) | 1,
    };
    let mut block = [0; size_of::<Block>()];
    *block.last_chunk_mut().expect("four bytes") = (0..32).fold(!sum, back).to_le_bytes();
    block
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
