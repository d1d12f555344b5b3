//! x86-64 with AVX2: registers of 32 bytes, products by table lookup.
//!
//! Unsafe because the instructions are: each call relies on [`Avx2`] being a proof, and loads and
//! stores also on the length of an array. Left out: everything but the instructions.
#![allow(unsafe_code)]

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::*;

use super::loops::loops;
use super::vector::{Nibbles, Vector};
use crate::gf::REDUCTION;

/// Proof that this CPU has AVX2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Avx2(());

impl Avx2 {
    pub(super) fn new() -> Option<Avx2> {
        is_x86_feature_detected!("avx2").then_some(Avx2(()))
    }
}

loops!(Avx2, "avx2", 32, |kernel| Nibbles(kernel), [8, 4, 4, 4], [8, 4, 4, 4, 2]);

impl Vector<32> for Avx2 {
    type Word = __m256i;

    #[inline(always)]
    fn zero(self) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    fn load(self, from: &[u8; 32]) -> __m256i {
        // SAFETY: 32 bytes are readable; no alignment is asked for.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, word: __m256i, to: &mut [u8; 32]) {
        // SAFETY: 32 bytes are writable; no alignment is asked for.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), word) }
    }

    #[inline(always)]
    fn stream(self, word: __m256i, to: &mut [u8; 32]) {
        let to = to.as_mut_ptr().cast::<__m256i>();
        if to.is_aligned() {
            // SAFETY: 32 aligned bytes are writable; the caller fences.
            unsafe { _mm256_stream_si256(to, word) }
        } else {
            // SAFETY: 32 bytes are writable; no alignment is asked for.
            unsafe { _mm256_storeu_si256(to, word) }
        }
    }

    #[inline(always)]
    fn fence(self) {
        // SAFETY: SSE is part of x86-64.
        unsafe { _mm_sfence() }
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_xor_si256(a, b) }
    }

    #[inline(always)]
    fn twice(self, word: __m256i) -> (__m256i, __m256i) {
        // SAFETY: `self` proves AVX2.
        let double = unsafe { _mm256_add_epi8(word, word) };
        (double, self.shuffle(self.spread(&[REDUCTION; 16]), word))
    }

    #[inline(always)]
    fn spread(self, table: &[u8; 16]) -> __m256i {
        // SAFETY: 16 bytes are readable; no alignment is asked for.
        let table = unsafe { _mm_loadu_si128(table.as_ptr().cast()) };
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_broadcastsi128_si256(table) }
    }

    #[inline(always)]
    fn shuffle(self, table: __m256i, indices: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_shuffle_epi8(table, indices) }
    }

    #[inline(always)]
    fn halves(self, word: __m256i) -> (__m256i, __m256i) {
        // SAFETY: `self` proves AVX2.
        let (mask, shifted) = unsafe { (_mm256_set1_epi8(15), _mm256_srli_epi64::<4>(word)) };
        // SAFETY: as above.
        unsafe { (_mm256_and_si256(word, mask), _mm256_and_si256(shifted, mask)) }
    }
}
