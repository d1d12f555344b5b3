//! Arithmetic of the reductions.
//!
//! Integers wrap: C leaves the overflow of signed integers undefined, so any result is allowed, and
//! wrapping cannot end the process. `min` and `max` keep the left operand if the operands cannot be
//! compared (NaN).
//!
//! Left out: C's `long double` and complex types (`capi/number.rs`).

use super::bits::Zero;

/// The arithmetic of sums, products and scans.
pub trait Number: Copy + Zero {
    /// Returns `a + b`.
    fn sum(a: Self, b: Self) -> Self;
    /// Returns `a * b`.
    fn prod(a: Self, b: Self) -> Self;
}

/// The arithmetic of minima and maxima.
pub trait Ordered: Copy + Zero {
    /// Returns the smaller operand.
    fn min(a: Self, b: Self) -> Self;
    /// Returns the larger operand.
    fn max(a: Self, b: Self) -> Self;
}

/// The arithmetic of bitwise reductions.
pub trait Bitwise: Copy + Zero {
    /// Returns `a & b`.
    fn and(a: Self, b: Self) -> Self;
    /// Returns `a | b`.
    fn or(a: Self, b: Self) -> Self;
    /// Returns `a ^ b`.
    fn xor(a: Self, b: Self) -> Self;
}

macro_rules! ordered {
    ($($type:ty)*) => { $(
        impl Ordered for $type {
            #[inline]
            fn min(a: Self, b: Self) -> Self {
                if b < a { b } else { a }
            }
            #[inline]
            fn max(a: Self, b: Self) -> Self {
                if b > a { b } else { a }
            }
        }
    )* };
}

macro_rules! integers {
    ($($type:ty)*) => { $(
        impl Number for $type {
            #[inline]
            fn sum(a: Self, b: Self) -> Self {
                a.wrapping_add(b)
            }
            #[inline]
            fn prod(a: Self, b: Self) -> Self {
                a.wrapping_mul(b)
            }
        }
        impl Bitwise for $type {
            #[inline]
            fn and(a: Self, b: Self) -> Self {
                a & b
            }
            #[inline]
            fn or(a: Self, b: Self) -> Self {
                a | b
            }
            #[inline]
            fn xor(a: Self, b: Self) -> Self {
                a ^ b
            }
        }
    )* };
}

macro_rules! floats {
    ($($type:ty)*) => { $(
        impl Number for $type {
            #[inline]
            fn sum(a: Self, b: Self) -> Self {
                a + b
            }
            #[inline]
            fn prod(a: Self, b: Self) -> Self {
                a * b
            }
        }
    )* };
}

integers! { i8 u8 i16 u16 i32 u32 i64 u64 isize usize }
ordered! { i8 u8 i16 u16 i32 u32 i64 u64 isize usize f32 f64 }
floats! { f32 f64 }
