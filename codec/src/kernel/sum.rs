//! What a version of the loops is asked for, and what it is.
//!
//! Left out: the checks. Whoever makes a [`Sum`] has made sure that its slices fit.

#![forbid(unsafe_code)]

use std::ops::Range;

/// One pass over memory. All slices reach to the end of the range at least.
pub(super) struct Sum<'a> {
    /// Row after row, one per source.
    pub(super) coefficients: &'a [u8],
    pub(super) sources: &'a [&'a [u8]],
    /// The bytes to do, the same of each source and row.
    pub(super) range: Range<usize>,
    /// Whether the result is added to what the rows hold.
    pub(super) add: bool,
    /// Whether to write past the caches, where that can be done; not together with `add`.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) stream: bool,
    /// Whether streaming goes on: the fence comes with the last of it.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) more: bool,
}

/// A version of the loops.
pub(super) trait Loops: Copy {
    /// Overwrites `outs`, [`ROWS`] at most, with their rows of the sum, or adds them.
    fn combine(self, sum: &Sum<'_>, outs: &mut [&mut [u8]]);

    /// The same where the rows are those of consecutive powers from `first` on.
    fn powers(self, sum: &Sum<'_>, first: usize, outs: &mut [&mut [u8]]);
}

/// Most rows in one pass over the sources: what the registers have room for.
pub(super) const ROWS: usize = 4;
