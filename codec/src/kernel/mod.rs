//! The inner loops: sums of byte slices times constants in GF(2^8), in interchangeable versions.
//!
//! Everything the codec does to bytes is one operation: rows of coefficients times sources, each
//! source read once and each row written once ([`Kernel::combine`]). The other operations are
//! special cases. `naive` is the definition, `wide` the portable version; the others are the loops
//! of `generic` compiled for one instruction set each, over the few operations that `vector`
//! requires.
//!
//! Rows of powers of two, as in XOR and RAID-6, are recognised by their coefficients. They need no
//! products: by Horner's rule `a + 2 b + 4 c` is `a + 2 (b + 2 c)`, XOR and doubling.
//!
//! Checksums need a different loop, of carry-less products (`fold.rs`).
//!
//! Invariants: all kernels give the same bytes for the same input, accept every length
//! (including 0) and every alignment, touch no byte outside the slices, and never read a
//! destination that they overwrite. A [`Kernel`] exists only if this CPU can run it. All slices
//! of a call have the same length; a kernel panics otherwise (callers in this crate check first
//! and return [`crate::Error::Length`]).
//!
//! Large results are written past the caches (if the instruction set can). Otherwise they would
//! evict the sources, and a store that goes through the cache first reads the line it overwrites.
//!
//! Left out: threads, and manual prefetching, which measurements showed to gain nothing.

pub(crate) mod fold;
mod naive;
mod select;
mod sum;
mod version;
mod wide;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod generic;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod loops;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tables;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod clmul;
#[cfg(target_arch = "x86_64")]
mod gfni;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod ssse3;

use crate::gf::POWERS;
use sum::{ROWS, Sum};
use version::{Fold, Version};

/// A version of the inner loops. Copying it is free; it holds no state. [`Kernel::available`] lists
/// the versions, [`Kernel::chosen`] returns the one in use.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kernel(Version);

/// Computed bytes, which are in the L1 cache, and their destination.
#[derive(Debug)]
pub struct Made<'a> {
    /// The destination.
    pub to: &'a mut [u8],
    /// The bytes, as many as the destination has.
    pub bytes: &'a [u8],
    /// True if more of the same result follows, so streamed stores need no fence yet.
    pub more: bool,
}

impl Kernel {
    /// Computes `dst ^= src`, byte by byte.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn xor_into(self, dst: &mut [u8], src: &[u8]) {
        self.run(&[1], &[src], &mut [dst], true);
    }

    /// Computes `dst = XOR of all sources`: zeros without sources, a copy of a single one. Writes
    /// `dst` once for any number of sources. Used to benchmark the XOR kernel.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn xor_of(self, dst: &mut [u8], sources: &[&[u8]]) {
        self.run(&vec![1; sources.len()], sources, &mut [dst], false);
    }

    /// Computes `dst ^= factor * src` in GF(2^8), byte by byte.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn mul_add(self, dst: &mut [u8], src: &[u8], factor: u8) {
        self.run(&[factor], &[src], &mut [dst], true);
    }

    /// Computes `outs[r] = sum of coefficients[r * k + i] * sources[i]` over the `k` sources, for
    /// every row `r`. Reads the sources from memory once for any number of rows.
    ///
    /// # Panics
    /// If the lengths differ, or there are not `k` coefficients per row.
    pub fn combine(self, coefficients: &[u8], sources: &[&[u8]], outs: &mut [&mut [u8]]) {
        self.run(coefficients, sources, outs, false);
    }

    /// Like [`Kernel::combine`], but adds to the contents of `outs`.
    ///
    /// # Panics
    /// As [`Kernel::combine`].
    pub fn combine_add(self, coefficients: &[u8], sources: &[&[u8]], outs: &mut [&mut [u8]]) {
        self.run(coefficients, sources, outs, true);
    }

    /// Copies `src` to `dst`, past the caches (if the instruction set can). Works piece by piece
    /// and passes each piece to `look` first: a checksum computed there costs no second memory
    /// pass.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn copy(self, dst: &mut [u8], src: &[u8], look: impl FnMut(&[u8])) {
        self.put(Made { to: dst, bytes: src, more: false }, look);
    }

    /// Like [`Kernel::copy`], from computed bytes to their destination.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn put(self, made: Made<'_>, mut look: impl FnMut(&[u8])) {
        let Made { to, bytes, more } = made;
        check(to, bytes);
        for at in (0..bytes.len()).step_by(PIECE) {
            let range = at..bytes.len().min(at + PIECE);
            look(&bytes[range.clone()]);
            let (sources, more) = (&[bytes], more || range.end < bytes.len());
            let sum = Sum { coefficients: &[1], sources, range, add: false, stream: true, more };
            self.0.powers(&sum, 0, &mut [&mut *to]);
        }
    }

    /// Like [`Kernel::combine`] with one row, piece by piece: each piece is computed in the L1
    /// cache and passed to `put`, which writes it to its destination. A sum that is a plain copy is
    /// not computed.
    pub(crate) fn combine_by_pieces(
        self,
        coefficients: &[u8],
        sources: &[&[u8]],
        out: &mut [u8],
        put: impl FnMut(Made<'_>),
    ) {
        self.by_pieces::<PIECE>(coefficients, sources, out, |_, _| (), put);
    }

    /// Like [`Kernel::combine_by_pieces`], but passes each piece to `look` and then writes it past
    /// the caches. Before a piece of the row is computed, `see` receives the pieces of the sources
    /// that it depends on, each with the index of its source. Bytes are read from memory once for
    /// both.
    pub(crate) fn combine_seen(
        self,
        coefficients: &[u8],
        sources: &[&[u8]],
        out: &mut [u8],
        see: impl FnMut(usize, &[u8]),
        mut look: impl FnMut(&[u8]),
    ) {
        let put = |made: Made<'_>| self.put(made, &mut look);
        self.by_pieces::<SEEN>(coefficients, sources, out, see, put);
    }

    /// Implements both of the above, with pieces of `N` bytes; a plain copy uses the pieces of a
    /// copy.
    fn by_pieces<const N: usize>(
        self,
        coefficients: &[u8],
        sources: &[&[u8]],
        out: &mut [u8],
        mut see: impl FnMut(usize, &[u8]),
        mut put: impl FnMut(Made<'_>),
    ) {
        let is_copy = matches!((coefficients, sources), ([1], [_]));
        let mut pieces: Vec<&[u8]> = Vec::with_capacity(sources.len());
        let mut buffer = [0; N];
        for at in (0..out.len()).step_by(if is_copy { PIECE } else { N }) {
            let range = at..out.len().min(at + if is_copy { PIECE } else { N });
            pieces.clear();
            pieces.extend(sources.iter().map(|source| &source[range.clone()]));
            pieces.iter().enumerate().for_each(|(nth, piece)| see(nth, piece));
            if !is_copy {
                self.run(coefficients, &pieces, &mut [&mut buffer[..range.len()]], false);
            }
            let bytes = if is_copy { pieces[0] } else { &buffer[..range.len()] };
            let more = range.end < out.len();
            put(Made { to: &mut out[range], bytes, more });
        }
    }

    /// Returns the loop that folds checksums in the registers of this kernel, if there is one.
    pub(crate) fn fold(self) -> Option<Fold> {
        self.0.fold()
    }

    fn run(self, coefficients: &[u8], sources: &[&[u8]], outs: &mut [&mut [u8]], add: bool) {
        let k = sources.len();
        assert_eq!(coefficients.len(), outs.len() * k, "kernel called with a matrix of no shape");
        outs.iter().for_each(|dst| sources.iter().for_each(|src| check(dst, src)));
        let Some(len) = outs.first().map(|out| out.len()) else { return };
        outs.iter().for_each(|out| check(out, outs[0]));
        let stream = !add && streams(k + outs.len(), len);
        if let Some(first) = first_power(coefficients, k, outs.len()) {
            let sum = Sum { coefficients, sources, range: 0..len, add, stream, more: false };
            return self.0.powers(&sum, first, outs);
        }
        let block = if outs.len() <= ROWS { len.max(1) } else { (BLOCK / k.max(1)).max(STEP) };
        for at in (0..len).step_by(block) {
            for (group, outs) in outs.chunks_mut(ROWS).enumerate() {
                let coefficients = &coefficients[group * ROWS * k..][..outs.len() * k];
                let range = at..len.min(at + block);
                self.0
                    .combine(&Sum { coefficients, sources, range, add, stream, more: false }, outs);
            }
        }
    }
}

/// Returns `first` if the coefficients are those of consecutive powers (row `r` being
/// `POWERS[first + r]`) and kernels have a loop for them.
fn first_power(coefficients: &[u8], k: usize, rows: usize) -> Option<usize> {
    let is_power = |row: &[u8], power: usize| match power {
        0 => row.iter().all(|&c| c == 1),
        _ => POWERS[power].starts_with(row),
    };
    let fits = |&first: &usize| {
        (first == 0 || rows == 1)
            && first + rows <= POWERS.len()
            && (0..rows).all(|row| is_power(&coefficients[row * k..][..k], first + row))
    };
    (0..POWERS.len()).find(fits)
}

/// Bytes of all sources together that are processed before the next [`ROWS`] rows: they and the
/// rows stay in the L1 cache meanwhile.
const BLOCK: usize = 16 * 1024;

/// Minimum length of a block: no vector kernel processes more bytes of a source in one step.
const STEP: usize = 512;

/// Bytes per piece if a checksum is computed at the same time: they stay in the L1 cache meanwhile,
/// and smaller pieces measured slower.
const PIECE: usize = 4096;

/// Bytes per piece if checksums of all sources are computed too: half of [`PIECE`], so that the
/// pieces of all sources and of the row stay in the L1 cache together. Measured with three sources:
/// 7 % faster than 4 KiB, 12 % than 1 KiB, 20 % than checksums of 64 KiB beforehand.
const SEEN: usize = 2048;

/// Total bytes of sources and results from which results are streamed.
const STREAM: usize = 16 << 20;

/// Returns true if results are streamed in a call with this many slices, sources and results, of
/// `len` bytes.
fn streams(slices: usize, len: usize) -> bool {
    slices.saturating_mul(len) >= STREAM
}

/// Checks the only shape rule of all kernels.
fn check(dst: &[u8], src: &[u8]) {
    assert_eq!(dst.len(), src.len(), "kernel called with slices of different lengths");
}
