//! x86-64 with SSSE3: registers of 16 bytes, products by table lookup.
//!
//! Unsafe because the instructions are: each call relies on [`Ssse3`] being a proof, and loads and
//! stores also on the length of an array. Left out: everything but the instructions.
#![allow(unsafe_code)]

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::*;

use super::loops::loops;
use super::vector::{Nibbles, Vector};
use crate::gf::REDUCTION;

/// Proof that this CPU has SSSE3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Ssse3(());

impl Ssse3 {
    pub(super) fn new() -> Option<Ssse3> {
        is_x86_feature_detected!("ssse3").then_some(Ssse3(()))
    }
}

loops!(Ssse3, "ssse3", 16, |kernel| Nibbles(kernel), [4, 2, 1, 1], [8, 6, 4, 6, 2]);

impl Vector<16> for Ssse3 {
    type Word = __m128i;

    #[inline(always)]
    fn zero(self) -> __m128i {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_setzero_si128() }
    }

    #[inline(always)]
    fn load(self, from: &[u8; 16]) -> __m128i {
        // SAFETY: 16 bytes are readable; no alignment is asked for.
        unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, word: __m128i, to: &mut [u8; 16]) {
        // SAFETY: 16 bytes are writable; no alignment is asked for.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), word) }
    }

    #[inline(always)]
    fn stream(self, word: __m128i, to: &mut [u8; 16]) {
        let to = to.as_mut_ptr().cast::<__m128i>();
        if to.is_aligned() {
            // SAFETY: 16 aligned bytes are writable; the caller fences.
            unsafe { _mm_stream_si128(to, word) }
        } else {
            // SAFETY: 16 bytes are writable; no alignment is asked for.
            unsafe { _mm_storeu_si128(to, word) }
        }
    }

    #[inline(always)]
    fn fence(self) {
        // SAFETY: SSE is part of x86-64.
        unsafe { _mm_sfence() }
    }

    #[inline(always)]
    fn xor(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_xor_si128(a, b) }
    }

    #[inline(always)]
    fn twice(self, word: __m128i) -> (__m128i, __m128i) {
        // SAFETY: SSE2 is part of x86-64.
        let double = unsafe { _mm_add_epi8(word, word) };
        (double, self.shuffle(self.spread(&[REDUCTION; 16]), word))
    }

    #[inline(always)]
    fn spread(self, table: &[u8; 16]) -> __m128i {
        self.load(table)
    }

    #[inline(always)]
    fn shuffle(self, table: __m128i, indices: __m128i) -> __m128i {
        // SAFETY: `self` proves SSSE3.
        unsafe { _mm_shuffle_epi8(table, indices) }
    }

    #[inline(always)]
    fn halves(self, word: __m128i) -> (__m128i, __m128i) {
        // SAFETY: SSE2 is part of x86-64.
        let (mask, shifted) = unsafe { (_mm_set1_epi8(15), _mm_srli_epi64::<4>(word)) };
        // SAFETY: as above.
        unsafe { (_mm_and_si128(word, mask), _mm_and_si128(shifted, mask)) }
    }
}
