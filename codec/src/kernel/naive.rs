//! The reference kernel: one byte at a time, nothing clever.
//!
//! Invariant: every loop is the definition of its operation written down. Lengths are equal
//! (checked by the caller).
//!
//! Left out: speed.

use crate::gf::mul;

pub(super) fn xor_into(dst: &mut [u8], src: &[u8]) {
    for (d, s) in dst.iter_mut().zip(src) {
        *d ^= s;
    }
}

pub(super) fn xor_of(dst: &mut [u8], sources: &[&[u8]]) {
    for (i, d) in dst.iter_mut().enumerate() {
        *d = sources.iter().fold(0, |sum, src| sum ^ src[i]);
    }
}

pub(super) fn mul_into(dst: &mut [u8], src: &[u8], factor: u8) {
    for (d, s) in dst.iter_mut().zip(src) {
        *d = mul(factor, *s);
    }
}

pub(super) fn mul_add(dst: &mut [u8], src: &[u8], factor: u8) {
    for (d, s) in dst.iter_mut().zip(src) {
        *d ^= mul(factor, *s);
    }
}
