//! The portable fast kernel.
//!
//! XOR and doubling work on lanes of 128 bytes held in a fixed-size array, a shape that the
//! compiler turns into vector code of the target's width; the bytes after the last whole lane are
//! processed one by one. Field products are accumulated one block at a time, which stays in the L1
//! cache meanwhile.
//!
//! Field products go through `reed-solomon-erasure`, whose vector path requires at least one byte:
//! empty slices are handled here, and so are the factors 0 and 1, which need no products. On x86-64
//! that path is built for AVX2 machines and does not check the CPU: this file does, and falls back
//! to the naive products.
//!
//! Invariant: slices extend at least to the end of the range (checked by the caller). Left out:
//! explicit vector instructions, and thus a choice of vector width at run time for XOR.

#![forbid(unsafe_code)]

use std::ops::Range;

use reed_solomon_erasure::galois_8::mul_slice_xor;

use super::sum::{Loops, Sum};
use crate::gf::{REDUCTION, mul};

/// The portable kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Wide;

impl Loops for Wide {
    fn combine(self, sum: &Sum<'_>, outs: &mut [&mut [u8]]) {
        let k = sum.sources.len();
        for at in sum.range.clone().step_by(BLOCK) {
            let range = at..sum.range.end.min(at + BLOCK);
            for (row, out) in outs.iter_mut().enumerate() {
                let out = &mut out[range.clone()];
                if !sum.add {
                    out.fill(0);
                }
                let coefficients = &sum.coefficients[row * k..][..k];
                for (&factor, source) in coefficients.iter().zip(sum.sources) {
                    mul_add(out, &source[range.clone()], factor);
                }
            }
        }
    }

    fn powers(self, sum: &Sum<'_>, first: usize, outs: &mut [&mut [u8]]) {
        for at in sum.range.clone().step_by(BLOCK) {
            let end = sum.range.end.min(at + BLOCK);
            for (row, out) in outs.iter_mut().enumerate() {
                let lanes = at + (end - at) / LANE * LANE;
                horner::<LANE>(sum, first + row, out, at..lanes);
                horner::<1>(sum, first + row, out, lanes..end);
            }
        }
    }
}

/// Bytes of a row accumulated before the next row.
const BLOCK: usize = 8 * 1024;

/// Bytes combined per step: half of the registers of an x86-64 without extensions.
const LANE: usize = 128;

fn xor_into(dst: &mut [u8], src: &[u8]) {
    let (lanes, tail) = dst.as_chunks_mut::<LANE>();
    let (src_lanes, src_tail) = src.as_chunks::<LANE>();
    for (lane, src) in lanes.iter_mut().zip(src_lanes) {
        add(lane, src);
    }
    for (d, s) in tail.iter_mut().zip(src_tail) {
        *d ^= s;
    }
}

fn mul_add(dst: &mut [u8], src: &[u8], factor: u8) {
    match factor {
        _ if dst.is_empty() => {}
        0 => {}
        1 => xor_into(dst, src),
        _ if !products_run_here() => {
            dst.iter_mut().zip(src).for_each(|(d, s)| *d ^= mul(factor, *s))
        }
        _ => mul_slice_xor(factor, src, dst),
    }
}

/// Returns true if this CPU has the features that the products of `reed-solomon-erasure` are
/// compiled to use. The standard library caches the answer: a call costs one load.
fn products_run_here() -> bool {
    #[cfg(target_arch = "x86_64")]
    let yes = std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("bmi2")
        && std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    let yes = true;
    yes
}

/// Computes `range` of `out`, a whole number of lanes, as the sum of `2^(power * i)` times source
/// `i`.
fn horner<const L: usize>(sum: &Sum<'_>, power: usize, out: &mut [u8], range: Range<usize>) {
    let (outs, _) = out[range.clone()].as_chunks_mut::<L>();
    for (nth, out) in outs.iter_mut().enumerate() {
        let mut lane = [0; L];
        for source in sum.sources.iter().rev() {
            (0..power).for_each(|_| double(&mut lane));
            add(&mut lane, &source[range.clone()].as_chunks::<L>().0[nth]);
        }
        if sum.add {
            add(&mut lane, out);
        }
        *out = lane;
    }
}

/// Computes `lane = 2 lane`.
#[inline(always)]
fn double<const L: usize>(lane: &mut [u8; L]) {
    for d in lane {
        *d = (*d << 1) ^ (REDUCTION & (d.cast_signed() >> 7).cast_unsigned());
    }
}

/// Computes `lane ^= src`.
#[inline(always)]
fn add<const L: usize>(lane: &mut [u8; L], src: &[u8; L]) {
    for (d, s) in lane.iter_mut().zip(src) {
        *d ^= s;
    }
}
