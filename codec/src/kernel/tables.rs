//! Multiplication by a constant, as data for vector instructions: one entry per factor.
//!
//! Multiplying by a constant is linear over the bits of the other operand, hence over its two
//! halves: `c * x = c * (x & 15) ^ c * (x & 0xf0)`, two lookups of 16 entries ([`NIBBLES`]).
//! Being linear, it is also an 8x8 matrix of bits ([`MATRICES`]): column `j` is `c * 2^j`. The
//! matrix form is independent of the field polynomial. Therefore the GFNI kernels use the matrix
//! instruction and not the product instruction, which is fixed to 0x11b, whereas [`crate::gf`] uses
//! another polynomial.
//!
//! Invariant: computed at compile time from [`mul`]; 10 KiB in all. Left out: products of two
//! variables.
#![forbid(unsafe_code)]

use crate::gf::mul;

/// Products of one factor with the 16 low halves and with the 16 high halves.
#[repr(align(32))]
pub(super) struct Halves {
    /// Entry `x` is `c * x`.
    pub(super) low: [u8; 16],
    /// Entry `x` is `c * 16 x`.
    pub(super) high: [u8; 16],
}

/// Indexed by factor.
pub(super) static NIBBLES: [Halves; 256] = {
    let mut all = [const { Halves { low: [0; 16], high: [0; 16] } }; 256];
    let mut at = 0;
    while at < 256 * 16 {
        let (factor, x) = (at / 16, at % 16);
        all[factor].low[x] = mul(factor as u8, x as u8);
        all[factor].high[x] = mul(factor as u8, (x << 4) as u8);
        at += 1;
    }
    all
};

/// Indexed by factor. Bit `i` of a product is the parity of `x` under byte `7 - i` of the matrix.
#[cfg(any(test, target_arch = "x86_64"))]
pub(super) static MATRICES: [u64; 256] = {
    let mut all = [0; 256];
    let mut at = 0;
    while at < 256 * 64 {
        let (factor, i, j) = (at / 64, at / 8 % 8, at % 8);
        let bit = mul(factor as u8, 1 << j) >> i & 1;
        all[factor] |= (bit as u64) << (8 * (7 - i) + j);
        at += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::{MATRICES, NIBBLES};
    use crate::gf::mul;

    /// Applies the matrix bit by bit, as the processor manuals define it.
    fn apply(matrix: u64, x: u8) -> u8 {
        let row = |i: u32| (matrix >> (8 * (7 - i))) as u8 & x;
        (0..8).fold(0, |sum, i| sum | (row(i).count_ones() as u8 & 1) << i)
    }

    #[test]
    fn both_tables_hold_every_product() {
        for (c, x) in (0..=255u8).flat_map(|c| (0..=255u8).map(move |x| (c, x))) {
            let halves = &NIBBLES[c as usize];
            let looked_up = halves.low[x as usize & 15] ^ halves.high[x as usize >> 4];
            assert_eq!(looked_up, mul(c, x), "{c} * {x}");
            assert_eq!(apply(MATRICES[c as usize], x), mul(c, x), "{c} * {x}");
        }
    }
}
