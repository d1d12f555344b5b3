//! Element types as bits: types that calls read as zero between a death and the restart, and types
//! that atomic operations move as words.
//!
//! Invariant: `of(bits(x))` is `x`, for any width of the intermediate word.

/// A type whose value reads as zero in the faulted state.
pub trait Zero {
    /// Returns zero.
    fn zero() -> Self;
}

/// A type of the specification's tables for atomics, convertible to a word of bits.
pub trait Bits: Copy + PartialOrd {
    /// Converts to bits.
    fn bits(self) -> u64;
    /// Converts from bits; only the low bytes count.
    fn of(bits: u64) -> Self;
}

macro_rules! bits {
    ($($int:ty)*) => { $(
        impl Zero for $int {
            #[inline]
            fn zero() -> $int {
                0
            }
        }
        impl Bits for $int {
            #[inline]
            fn bits(self) -> u64 {
                self as u64
            }
            #[inline]
            fn of(bits: u64) -> $int {
                bits as $int
            }
        }
    )* };
    ($($float:ty as $int:ty;)*) => { $(
        impl Zero for $float {
            #[inline]
            fn zero() -> $float {
                0.0
            }
        }
        impl Bits for $float {
            #[inline]
            fn bits(self) -> u64 {
                u64::from(self.to_bits())
            }
            #[inline]
            fn of(bits: u64) -> $float {
                <$float>::from_bits(bits as $int)
            }
        }
    )* };
}

bits! { i8 u8 i16 u16 i32 u32 i64 u64 isize usize }
bits! { f32 as u32; f64 as u64; }
