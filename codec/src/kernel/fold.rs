//! Folding for CRC-32: bytes in blocks become one [`Block`] that leaves the same remainder modulo
//! the polynomial as all of them.
//!
//! A block that another one follows is worth itself times x^2048, and that is worth the products of
//! its words with two constants of 33 bits (V. Gopal et al., *Fast CRC Computation for Generic
//! Polynomials Using PCLMULQDQ Instruction*, Intel, 2009). So a block costs as many products as it
//! has words, whatever came before, and what is folded may wait in memory for more. With the bytes
//! in registers, they can be copied on the way. The loop is in `clmul.rs`.
//!
//! Left out: the remainder itself, and bytes that make no block ([`crate::crc`] has them from
//! `crc32fast`).
#![forbid(unsafe_code)]

/// What is folded at a time: sixteen pairs of words, so that no product waits for another one.
pub(crate) type Block = [u8; 256];

/// Where blocks are copied.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) struct Streamed<'a> {
    /// As many blocks at least.
    pub(crate) to: &'a mut [Block],
    /// Whether streaming goes on: the fence comes with the last of it.
    pub(crate) more: bool,
}
