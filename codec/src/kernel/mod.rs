//! The inner loops: XOR and GF(2^8) multiply over byte slices, in interchangeable versions.
//!
//! Invariants: all kernels give the same bytes for the same input, accept every length
//! (including 0) and every alignment, and never read a destination they are said to overwrite.
//! Slices of one call have one length; a kernel panics otherwise (callers in this crate check
//! first and return [`crate::Error::Length`]).
//!
//! [`Kernel`] is chosen at run time, so that a version needing some CPU feature can be added as
//! one more variant, offered by [`Kernel::available`] only where it can run.
//!
//! Left out: threads, prefetching and non-temporal stores.

mod naive;
mod wide;

/// A version of the inner loops. Copying it is free; it holds no state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// One byte at a time, field products bit by bit: the reference the others are tested by.
    Naive,
    /// XOR in blocks the compiler turns into vector code, field products by
    /// `reed-solomon-erasure`.
    Wide,
}

impl Kernel {
    /// The kernels that can run on this machine, slowest first; never empty.
    pub fn available() -> &'static [Kernel] {
        &[Kernel::Naive, Kernel::Wide]
    }

    /// The fastest kernel that can run on this machine.
    pub fn best() -> Kernel {
        Kernel::Wide
    }

    /// `dst ^= src`, byte by byte.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn xor_into(self, dst: &mut [u8], src: &[u8]) {
        check(dst, src);
        match self {
            Kernel::Naive => naive::xor_into(dst, src),
            Kernel::Wide => wide::xor_into(dst, src),
        }
    }

    /// `dst = XOR of all sources`; zeros if there is none, a copy if there is one. Writes `dst`
    /// once however many sources there are.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn xor_of(self, dst: &mut [u8], sources: &[&[u8]]) {
        sources.iter().for_each(|src| check(dst, src));
        match self {
            Kernel::Naive => naive::xor_of(dst, sources),
            Kernel::Wide => wide::xor_of(dst, sources),
        }
    }

    /// `dst = factor * src` in GF(2^8), byte by byte.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn mul_into(self, dst: &mut [u8], src: &[u8], factor: u8) {
        check(dst, src);
        match self {
            Kernel::Naive => naive::mul_into(dst, src, factor),
            Kernel::Wide => wide::mul_into(dst, src, factor),
        }
    }

    /// `dst ^= factor * src` in GF(2^8), byte by byte.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn mul_add(self, dst: &mut [u8], src: &[u8], factor: u8) {
        check(dst, src);
        match self {
            Kernel::Naive => naive::mul_add(dst, src, factor),
            Kernel::Wide => wide::mul_add(dst, src, factor),
        }
    }
}

/// The one shape rule of all kernels.
fn check(dst: &[u8], src: &[u8]) {
    assert_eq!(dst.len(), src.len(), "kernel called with slices of different lengths");
}
