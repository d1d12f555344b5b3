//! x86-64 with GFNI: products as 8x8 bit matrices, on the registers of AVX2 or AVX-512.
//!
//! Unsafe because the instructions are: each call relies on [`Gfni256`] or [`Gfni512`] being a
//! proof. Left out: the product instruction, which works in another field (see [`super::tables`]);
//! loads, stores and XOR, which come from the register types.
#![allow(unsafe_code)]

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::*;

use super::avx2::Avx2;
use super::avx512::Avx512;
use super::loops::loops;
use super::tables::MATRICES;
use super::vector::Product;

/// Proof that this CPU has GFNI and AVX2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Gfni256(Avx2);

impl Gfni256 {
    pub(super) fn new() -> Option<Gfni256> {
        Avx2::new().filter(|_| is_x86_feature_detected!("gfni")).map(Gfni256)
    }
}

loops!(Gfni256, "gfni,avx2", 32, |kernel| kernel, [4, 4, 2, 2], [8, 4, 4, 4, 2]);

impl Product<32> for Gfni256 {
    type Vector = Avx2;
    type Factor = __m256i;
    type Operand = __m256i;

    #[inline(always)]
    fn vector(self) -> Avx2 {
        self.0
    }

    #[inline(always)]
    fn factor(self, factor: u8) -> __m256i {
        let matrix = MATRICES[factor as usize].cast_signed();
        // SAFETY: `self` proves AVX2, hence AVX.
        unsafe { _mm256_set1_epi64x(matrix) }
    }

    #[inline(always)]
    fn operand(self, word: __m256i) -> __m256i {
        word
    }

    #[inline(always)]
    fn product(self, factor: __m256i, operand: __m256i) -> __m256i {
        // SAFETY: `self` proves GFNI and AVX2, hence AVX.
        unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(operand, factor) }
    }
}

/// Proof that this CPU has GFNI and AVX-512 F and BW.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Gfni512(Avx512);

impl Gfni512 {
    pub(super) fn new() -> Option<Gfni512> {
        Avx512::new().filter(|_| is_x86_feature_detected!("gfni")).map(Gfni512)
    }
}

loops!(Gfni512, "gfni,avx512f,avx512bw", 64, |kernel| kernel, [8, 8, 4, 4], [4, 4, 4, 4, 4]);

impl Product<64> for Gfni512 {
    type Vector = Avx512;
    type Factor = __m512i;
    type Operand = __m512i;

    #[inline(always)]
    fn vector(self) -> Avx512 {
        self.0
    }

    #[inline(always)]
    fn factor(self, factor: u8) -> __m512i {
        let matrix = MATRICES[factor as usize].cast_signed();
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_set1_epi64(matrix) }
    }

    #[inline(always)]
    fn operand(self, word: __m512i) -> __m512i {
        word
    }

    #[inline(always)]
    fn product(self, factor: __m512i, operand: __m512i) -> __m512i {
        // SAFETY: `self` proves GFNI and AVX-512 F.
        unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(operand, factor) }
    }
}
