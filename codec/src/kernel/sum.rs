//! The interface between the kernel and a version of the loops.
//!
//! Left out: the checks. The creator of a [`Sum`] ensures that its slices fit.

#![forbid(unsafe_code)]

use std::ops::Range;

/// One pass over memory. All slices extend at least to the end of the range.
pub(super) struct Sum<'a> {
    /// Row after row, one coefficient per source.
    pub(super) coefficients: &'a [u8],
    pub(super) sources: &'a [&'a [u8]],
    /// The range of bytes to process in each source and row.
    pub(super) range: Range<usize>,
    /// True if the result is added to the contents of the rows.
    pub(super) add: bool,
    /// True to write past the caches, if possible; not together with `add`.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) stream: bool,
    /// True if more streamed stores follow; the fence comes after the last of them.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) more: bool,
}

/// A version of the loops.
pub(super) trait Loops: Copy {
    /// Overwrites `outs`, at most [`ROWS`], with their rows of the sum, or adds to them.
    fn combine(self, sum: &Sum<'_>, outs: &mut [&mut [u8]]);

    /// Like [`Loops::combine`], for rows of consecutive powers from `first` on.
    fn powers(self, sum: &Sum<'_>, first: usize, outs: &mut [&mut [u8]]);
}

/// Maximum number of rows in one pass over the sources: as many as fit in registers.
pub(super) const ROWS: usize = 4;
