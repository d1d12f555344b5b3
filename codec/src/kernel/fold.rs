//! Folding for CRC-32: reduces a run of blocks to one [`Block`] with the same remainder modulo the
//! polynomial.
//!
//! A block that is followed by another contributes itself times x^2048, which equals the products
//! of its words with two constants of 33 bits (V. Gopal et al., *Fast CRC Computation for Generic
//! Polynomials Using PCLMULQDQ Instruction*, Intel, 2009). So a block costs as many products as it
//! has words, whatever preceded it, and the folded block can be kept in memory until more bytes
//! arrive. While the bytes are in registers, they can also be copied. The loop is in `clmul.rs`.
//!
//! Left out: the remainder itself, and bytes that do not fill a block ([`crate::crc`] leaves both
//! to `crc32fast`).
#![forbid(unsafe_code)]

/// The unit of folding: sixteen pairs of words, so that no product waits for another.
pub(crate) type Block = [u8; 256];

/// The destination of blocks that are also copied.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) struct Streamed<'a> {
    /// At least as many blocks as are folded.
    pub(crate) to: &'a mut [Block],
    /// True if more streamed stores follow; the fence comes after the last of them.
    pub(crate) more: bool,
}
