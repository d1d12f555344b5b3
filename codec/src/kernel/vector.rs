//! The operations that an instruction set must offer for the loops of [`super::generic`].
//!
//! A type implementing [`Vector`] or [`Product`] is a *proof*: its only constructor examines the
//! CPU and returns `None` if the instructions are missing. Holding a value of the type is therefore
//! the permission to execute them, which makes all methods safe to call and the loops safe code.
//!
//! The methods are `inline(always)` and become instructions only inside a function compiled for
//! the feature; [`super::loops`] makes those functions, and they are the only callers.
//!
//! Left out: masked loads. The end of a slice is copied to a whole vector instead.

use super::tables::NIBBLES;
use crate::gf::{REDUCTION, inv, mul};

/// Registers of `N` bytes.
pub(super) trait Vector<const N: usize>: Copy {
    /// A register.
    type Word: Copy;

    /// True if [`Vector::xor3`] is one instruction.
    const TERNARY: bool = false;

    fn zero(self) -> Self::Word;
    fn load(self, from: &[u8; N]) -> Self::Word;
    fn store(self, word: Self::Word, to: &mut [u8; N]);

    /// Like [`Vector::store`], past the caches if `to` is aligned to `N`. The caller must call
    /// [`Vector::fence`] before anything else may read `to`.
    fn stream(self, word: Self::Word, to: &mut [u8; N]) {
        self.store(word, to);
    }

    /// Orders streamed stores before whatever follows.
    fn fence(self) {}

    fn xor(self, a: Self::Word, b: Self::Word) -> Self::Word;

    fn xor3(self, a: Self::Word, b: Self::Word, c: Self::Word) -> Self::Word {
        self.xor(self.xor(a, b), c)
    }

    /// Returns two registers whose XOR is, for each byte `x`, `2 x + REDUCTION`. The constant saves
    /// an instruction: a shuffle of x86 gives 0 if the top bit of an index is set.
    fn twice(self, word: Self::Word) -> (Self::Word, Self::Word);

    /// Returns a register that repeats the table every 16 bytes.
    fn spread(self, table: &[u8; 16]) -> Self::Word;

    /// Replaces each byte of `indices`, all below 16, with the table entry at that index.
    fn shuffle(self, table: Self::Word, indices: Self::Word) -> Self::Word;

    /// Returns the low and the high half of each byte, as numbers below 16.
    fn halves(self, word: Self::Word) -> (Self::Word, Self::Word);
}

/// A way to multiply registers of `N` bytes by a constant.
pub(super) trait Product<const N: usize>: Copy {
    /// The registers.
    type Vector: Vector<N>;
    /// A constant factor, ready for use.
    type Factor: Copy;
    /// A register prepared for any number of products.
    type Operand: Copy;

    /// The origin of [`Product::raise`].
    const ORIGIN: u8 = 0;

    fn vector(self) -> Self::Vector;
    fn factor(self, factor: u8) -> Self::Factor;
    fn operand(self, word: Word<N, Self>) -> Self::Operand;
    fn product(self, factor: Self::Factor, operand: Self::Operand) -> Word<N, Self>;

    /// Computes `ORIGIN + 2^times * (word - ORIGIN) + plus`, for `times` above 0.
    #[inline(always)]
    fn raise(self, word: Word<N, Self>, times: usize, plus: Word<N, Self>) -> Word<N, Self> {
        self.vector().xor(self.product(self.factor(1 << times), self.operand(word)), plus)
    }
}

/// The register of a [`Product`].
pub(super) type Word<const N: usize, P> = <<P as Product<N>>::Vector as Vector<N>>::Word;

/// Multiplication by two table lookups, one for each half of a byte.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nibbles<V>(pub(super) V);

impl<const N: usize, V: Vector<N>> Product<N> for Nibbles<V> {
    type Vector = V;
    type Factor = (V::Word, V::Word);
    type Operand = (V::Word, V::Word);

    /// The fixed point of [`Vector::twice`]: `2 x + REDUCTION == x`.
    const ORIGIN: u8 = mul(REDUCTION, inv(3));

    #[inline(always)]
    fn vector(self) -> V {
        self.0
    }

    #[inline(always)]
    fn factor(self, factor: u8) -> Self::Factor {
        let halves = &NIBBLES[factor as usize];
        (self.0.spread(&halves.low), self.0.spread(&halves.high))
    }

    #[inline(always)]
    fn operand(self, word: V::Word) -> Self::Operand {
        self.0.halves(word)
    }

    #[inline(always)]
    fn product(self, factor: Self::Factor, operand: Self::Operand) -> V::Word {
        let low = self.0.shuffle(factor.0, operand.0);
        self.0.xor(low, self.0.shuffle(factor.1, operand.1))
    }

    #[inline(always)]
    fn raise(self, mut word: V::Word, times: usize, plus: V::Word) -> V::Word {
        for _ in 1..times {
            let (a, b) = self.0.twice(word);
            word = self.0.xor(a, b);
        }
        let (a, b) = self.0.twice(word);
        self.0.xor3(a, b, plus)
    }
}
