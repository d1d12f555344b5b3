//! AArch64 with NEON: registers of 16 bytes, products by table lookup.
//!
//! Unsafe because the instructions are: each call relies on [`Neon`] being a proof, and loads and
//! stores also on the length of an array. Left out: everything but the instructions, and streaming,
//! for which NEON has no instruction.
#![allow(unsafe_code)]

use std::arch::aarch64::*;
use std::arch::is_aarch64_feature_detected;

use super::loops::loops;
use super::vector::{Nibbles, Vector};
use crate::gf::REDUCTION;

/// Proof that this CPU has NEON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Neon(());

impl Neon {
    pub(super) fn new() -> Option<Neon> {
        is_aarch64_feature_detected!("neon").then_some(Neon(()))
    }
}

loops!(Neon, "neon", 16, |kernel| Nibbles(kernel), [4, 4, 2, 2], [8, 4, 4, 4, 2]);

impl Vector<16> for Neon {
    type Word = uint8x16_t;

    #[inline(always)]
    fn zero(self) -> uint8x16_t {
        // SAFETY: `self` proves NEON.
        unsafe { vdupq_n_u8(0) }
    }

    #[inline(always)]
    fn load(self, from: &[u8; 16]) -> uint8x16_t {
        // SAFETY: `self` proves NEON; 16 bytes are readable.
        unsafe { vld1q_u8(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, word: uint8x16_t, to: &mut [u8; 16]) {
        // SAFETY: `self` proves NEON; 16 bytes are writable.
        unsafe { vst1q_u8(to.as_mut_ptr(), word) }
    }

    #[inline(always)]
    fn xor(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: `self` proves NEON.
        unsafe { veorq_u8(a, b) }
    }

    #[inline(always)]
    fn twice(self, word: uint8x16_t) -> (uint8x16_t, uint8x16_t) {
        // SAFETY: `self` proves NEON.
        unsafe {
            let signs = vreinterpretq_u8_s8(vshrq_n_s8::<7>(vreinterpretq_s8_u8(word)));
            (vaddq_u8(word, word), vbicq_u8(vdupq_n_u8(REDUCTION), signs))
        }
    }

    #[inline(always)]
    fn spread(self, table: &[u8; 16]) -> uint8x16_t {
        self.load(table)
    }

    #[inline(always)]
    fn shuffle(self, table: uint8x16_t, indices: uint8x16_t) -> uint8x16_t {
        // SAFETY: `self` proves NEON.
        unsafe { vqtbl1q_u8(table, indices) }
    }

    #[inline(always)]
    fn halves(self, word: uint8x16_t) -> (uint8x16_t, uint8x16_t) {
        // SAFETY: `self` proves NEON.
        unsafe { (vandq_u8(word, vdupq_n_u8(15)), vshrq_n_u8::<4>(word)) }
    }
}
