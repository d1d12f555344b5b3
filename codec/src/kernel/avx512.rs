//! x86-64 with AVX-512: registers of 64 bytes, products by table lookup, and a three-way XOR
//! instruction.
//!
//! Unsafe because the instructions are: each call relies on [`Avx512`] being a proof, and loads and
//! stores also on the length of an array. Left out: everything but the instructions.
#![allow(unsafe_code)]

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::*;

use super::loops::loops;
use super::vector::{Nibbles, Vector};
use crate::gf::REDUCTION;

/// Proof that this CPU has AVX-512 F and BW.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Avx512(());

impl Avx512 {
    pub(super) fn new() -> Option<Avx512> {
        let has = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        has.then_some(Avx512(()))
    }
}

loops!(Avx512, "avx512f,avx512bw", 64, |kernel| Nibbles(kernel), [4, 4, 2, 2], [4, 4, 4, 4, 4]);

impl Vector<64> for Avx512 {
    type Word = __m512i;

    const TERNARY: bool = true;

    #[inline(always)]
    fn zero(self) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    fn load(self, from: &[u8; 64]) -> __m512i {
        // SAFETY: 64 bytes are readable; no alignment is asked for.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, word: __m512i, to: &mut [u8; 64]) {
        // SAFETY: 64 bytes are writable; no alignment is asked for.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), word) }
    }

    #[inline(always)]
    fn stream(self, word: __m512i, to: &mut [u8; 64]) {
        let to = to.as_mut_ptr().cast::<__m512i>();
        if to.is_aligned() {
            // SAFETY: 64 aligned bytes are writable; the caller fences.
            unsafe { _mm512_stream_si512(to, word) }
        } else {
            // SAFETY: 64 bytes are writable; no alignment is asked for.
            unsafe { _mm512_storeu_si512(to, word) }
        }
    }

    #[inline(always)]
    fn fence(self) {
        // SAFETY: SSE is part of x86-64.
        unsafe { _mm_sfence() }
    }

    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    fn xor3(self, a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F. Bit `i` of the constant is the parity of `i`.
        unsafe { _mm512_ternarylogic_epi64::<0b1001_0110>(a, b, c) }
    }

    #[inline(always)]
    fn twice(self, word: __m512i) -> (__m512i, __m512i) {
        // SAFETY: `self` proves AVX-512 BW.
        let double = unsafe { _mm512_add_epi8(word, word) };
        (double, self.shuffle(self.spread(&[REDUCTION; 16]), word))
    }

    #[inline(always)]
    fn spread(self, table: &[u8; 16]) -> __m512i {
        // SAFETY: 16 bytes are readable; no alignment is asked for.
        let table = unsafe { _mm_loadu_si128(table.as_ptr().cast()) };
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_broadcast_i32x4(table) }
    }

    #[inline(always)]
    fn shuffle(self, table: __m512i, indices: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F and BW.
        unsafe { _mm512_shuffle_epi8(table, indices) }
    }

    #[inline(always)]
    fn halves(self, word: __m512i) -> (__m512i, __m512i) {
        // SAFETY: `self` proves AVX-512 F.
        let (mask, shifted) = unsafe { (_mm512_set1_epi8(15), _mm512_srli_epi64::<4>(word)) };
        // SAFETY: as above.
        unsafe { (_mm512_and_si512(word, mask), _mm512_and_si512(shifted, mask)) }
    }
}
