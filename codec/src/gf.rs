//! Arithmetic in GF(2^8), one element at a time.
//!
//! Elements are bytes; addition is XOR; multiplication is that of polynomials over GF(2) modulo
//! `x^8 + x^4 + x^3 + x^2 + 1` (0x11d), the field `reed-solomon-erasure` uses too.
//!
//! 2 generates the field: its powers `2^0..2^254` are all the elements but 0, each once.
//!
//! Left out: speed. Nothing here runs per byte of a snapshot except in the naive kernel.
#![forbid(unsafe_code)]

/// The field polynomial without its `x^8` term.
pub(crate) const REDUCTION: u8 = 0x1d;

/// `POWERS[r][i]` is `x_i^r`, where `x_i = 2^i`.
pub(crate) static POWERS: [[u8; 255]; 3] = {
    let mut all = [[1; 255]; 3];
    let mut i = 1;
    while i < 255 {
        all[1][i] = mul(all[1][i - 1], 2);
        all[2][i] = mul(all[2][i - 1], 4);
        i += 1;
    }
    all
};

/// Product of two elements: doubles `a` once per bit of `b`.
pub(crate) const fn mul(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        let carry = a >> 7;
        a = (a << 1) ^ (carry * REDUCTION);
        b >>= 1;
    }
    product
}

/// Returns the multiplicative inverse, as the 254th power. 0 has no inverse; 0 is returned for it.
pub(crate) const fn inv(a: u8) -> u8 {
    // 254 = 2 + 4 + 8 + ... + 128: multiply the successive squares of `a`.
    let mut square = a;
    let mut product = 1;
    let mut step = 1;
    while step < 8 {
        square = mul(square, square);
        product = mul(product, square);
        step += 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::{inv, mul};

    #[test]
    fn product_is_that_of_the_oracle() {
        for a in 0..=255u8 {
            for b in 0..=255u8 {
                assert_eq!(mul(a, b), reed_solomon_erasure::galois_8::mul(a, b), "{a} * {b}");
            }
        }
    }

    #[test]
    fn inverse_times_element_is_one() {
        assert!((1..=255u8).all(|a| mul(a, inv(a)) == 1));
        assert_eq!(inv(0), 0);
    }
}
