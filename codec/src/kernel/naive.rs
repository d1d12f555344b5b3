//! The reference kernel: one byte at a time, nothing clever.
//!
//! Invariant: every loop is a transcription of the definition of its operation. Slices extend at
//! least to the end of the range (checked by the caller).
//!
//! Left out: speed.

#![forbid(unsafe_code)]

use super::sum::{Loops, Sum};
use crate::gf::mul;

/// The reference kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Naive;

impl Loops for Naive {
    fn combine(self, sum: &Sum<'_>, outs: &mut [&mut [u8]]) {
        let k = sum.sources.len();
        for (row, out) in outs.iter_mut().enumerate() {
            let coefficients = &sum.coefficients[row * k..][..k];
            for at in sum.range.clone() {
                let before = if sum.add { out[at] } else { 0 };
                let terms = coefficients.iter().zip(sum.sources);
                out[at] = terms.fold(before, |sum, (&c, source)| sum ^ mul(c, source[at]));
            }
        }
    }

    fn powers(self, sum: &Sum<'_>, _first: usize, outs: &mut [&mut [u8]]) {
        self.combine(sum, outs);
    }
}
