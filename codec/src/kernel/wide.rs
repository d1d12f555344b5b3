//! The portable fast kernel.
//!
//! XOR works on lanes of 64 bytes held in a fixed-size array, a shape the compiler turns into
//! vector code of whatever width the target has; the bytes after the last whole lane are done
//! singly. [`xor_of`] reads all sources lane by lane and so writes `dst` once; two, three and
//! four sources get a loop with the count known at compile time. Field products are added up a
//! block at a time, which stays in the L1 cache meanwhile.
//!
//! Field products go through `reed-solomon-erasure`, whose vector path wants at least one byte:
//! the empty slice is answered here. So are the factors 0 and 1, which need no products. On
//! x86-64 that path is built for AVX2 machines and does not look before it leaps: this file does,
//! and falls back to the naive products.
//!
//! Invariant: slices reach to the end of the range (checked by the caller). Left out: explicit
//! vector instructions, and thereby a choice of vector width at run time for XOR.

#![forbid(unsafe_code)]

use reed_solomon_erasure::galois_8::mul_slice_xor;

use super::{Loops, Sum};
use crate::gf::mul;

/// The portable kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Wide;

impl Loops for Wide {
    fn xor(self, sum: &Sum<'_>, out: &mut [u8]) {
        let out = &mut out[sum.range.clone()];
        if sum.add {
            sum.sources.iter().for_each(|source| xor_into(out, &source[sum.range.clone()]));
        } else {
            let sources: Vec<&[u8]> = sum.sources.iter().map(|s| &s[sum.range.clone()]).collect();
            xor_of(out, &sources);
        }
    }

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
}

/// Bytes of a row summed up before the next row is.
const BLOCK: usize = 8 * 1024;

/// Bytes combined per step: a cache line on the machines of today.
const LANE: usize = 64;

type Lane = [u8; LANE];

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

fn xor_of(dst: &mut [u8], sources: &[&[u8]]) {
    match *sources {
        [] => dst.fill(0),
        [a] => dst.copy_from_slice(a),
        [a, b] => fused(dst, [a, b]),
        [a, b, c] => fused(dst, [a, b, c]),
        [a, b, c, d] => fused(dst, [a, b, c, d]),
        _ => many(dst, sources),
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

/// Whether this CPU has what the products of `reed-solomon-erasure` are compiled to use. The
/// answer is remembered by the standard library: asking costs a load.
fn products_run_here() -> bool {
    #[cfg(target_arch = "x86_64")]
    let yes = std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("bmi2")
        && std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    let yes = true;
    yes
}

/// `lane ^= src`.
#[inline(always)]
fn add(lane: &mut Lane, src: &Lane) {
    for (d, s) in lane.iter_mut().zip(src) {
        *d ^= s;
    }
}

/// XOR of `N >= 1` sources, the count known to the compiler.
fn fused<const N: usize>(dst: &mut [u8], sources: [&[u8]; N]) {
    let (lanes, tail) = dst.as_chunks_mut::<LANE>();
    let split = sources.map(|src| src.as_chunks::<LANE>());
    for (i, lane) in lanes.iter_mut().enumerate() {
        let mut sum = split[0].0[i];
        for src in &split[1..] {
            add(&mut sum, &src.0[i]);
        }
        *lane = sum;
    }
    for (i, d) in tail.iter_mut().enumerate() {
        *d = split.iter().fold(0, |sum, src| sum ^ src.1[i]);
    }
}

/// XOR of any number of sources.
fn many(dst: &mut [u8], sources: &[&[u8]]) {
    let (lanes, tail) = dst.as_chunks_mut::<LANE>();
    let done = lanes.len() * LANE;
    for (i, lane) in lanes.iter_mut().enumerate() {
        let mut sum = [0; LANE];
        for src in sources {
            add(&mut sum, &src.as_chunks::<LANE>().0[i]);
        }
        *lane = sum;
    }
    for (i, d) in tail.iter_mut().enumerate() {
        *d = sources.iter().fold(0, |sum, src| sum ^ src[done + i]);
    }
}
