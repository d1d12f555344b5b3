//! Helpers of the tests: a field product, a parity and a byte source written independently of the
//! crate. Left out: anything the crate itself offers.
#![allow(dead_code)] // each test binary uses its own part

/// Computes the product in GF(2^8) modulo 0x11d: carry-less product of 15 bits, then reduction from
/// the top.
pub fn product(a: u8, b: u8) -> u8 {
    let wide =
        (0..8).filter(|bit| b >> bit & 1 == 1).fold(0u16, |sum, bit| sum ^ (a as u16) << bit);
    let reduce = |r: u16, bit: u16| if r >> bit & 1 == 1 { r ^ 0x11d << (bit - 8) } else { r };
    (8..15).rev().fold(wide, reduce) as u8
}

/// Computes `sum of coefficients[i] * sources[i]`, a byte at a time.
pub fn combination(coefficients: &[u8], sources: &[&[u8]], len: usize) -> Vec<u8> {
    let byte = |at: usize| {
        coefficients.iter().zip(sources).fold(0, |sum, (&c, s)| sum ^ product(c, s[at]))
    };
    (0..len).map(byte).collect()
}

/// Returns `len` pseudorandom bytes, determined by the seed (xorshift64*).
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Returns `count` shards of noise.
pub fn shards(seed: u64, count: usize, len: usize) -> Vec<Vec<u8>> {
    (0..count as u64).map(|i| noise(seed.wrapping_mul(1009) + i, len)).collect()
}

/// Returns the shards as the slices that the crate takes.
pub fn slices(shards: &[Vec<u8>]) -> Vec<&[u8]> {
    shards.iter().map(Vec::as_slice).collect()
}

/// Returns the byte-wise XOR.
pub fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

/// Returns all subsets of `0..n` with at most `most` elements, as bit masks.
pub fn masks(n: usize, most: usize) -> impl Iterator<Item = u32> {
    (0..1u32 << n).filter(move |mask| mask.count_ones() as usize <= most)
}
