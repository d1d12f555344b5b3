//! Arithmetic of the reductions on every element type, C's `long double` and complex ones included.
//!
//! Integers wrap: C leaves overflow of signed ones open, so any result is allowed, and wrapping is
//! the one that cannot end the process. `min` and `max` keep the left operand when the operands
//! cannot be compared (NaN). `long double` is added and multiplied on the x87 stack.

use super::bits::Zero;
use super::types::{Complex, LongDouble};

/// What sums, products and scans need.
pub trait Number: Copy + Zero {
    /// `a + b`
    fn sum(a: Self, b: Self) -> Self;
    /// `a * b`
    fn prod(a: Self, b: Self) -> Self;
}

/// What minima and maxima need.
pub trait Ordered: Copy + Zero {
    /// The smaller one.
    fn min(a: Self, b: Self) -> Self;
    /// The larger one.
    fn max(a: Self, b: Self) -> Self;
}

/// What the bitwise reductions need.
pub trait Bitwise: Copy + Zero {
    /// `a & b`
    fn and(a: Self, b: Self) -> Self;
    /// `a | b`
    fn or(a: Self, b: Self) -> Self;
    /// `a ^ b`
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
        impl Number for Complex<$type> {
            #[inline]
            fn sum(a: Self, b: Self) -> Self {
                Complex { re: a.re + b.re, im: a.im + b.im }
            }
            #[inline]
            fn prod(a: Self, b: Self) -> Self {
                Complex { re: a.re * b.re - a.im * b.im, im: a.re * b.im + a.im * b.re }
            }
        }
        impl Zero for Complex<$type> {
            const ZERO: Self = Complex { re: 0.0, im: 0.0 };
        }
    )* };
}

integers! { i8 u8 i16 u16 i32 u32 i64 u64 isize usize }
ordered! { i8 u8 i16 u16 i32 u32 i64 u64 isize usize f32 f64 }
floats! { f32 f64 }

impl Zero for LongDouble {
    const ZERO: Self = LongDouble([0; 16]);
}

#[cfg(target_arch = "x86_64")]
mod x87 {
    use std::arch::asm;

    use super::{LongDouble, Number, Ordered};

    macro_rules! x87 {
        ($name:ident, $operation:literal) => {
            fn $name(a: LongDouble, b: LongDouble) -> LongDouble {
                let mut result = a;
                // SAFETY: loads ten bytes of each of two 16-byte values and stores ten bytes into
                // the first; the stack of the x87 is empty between calls, as the ABI says, and is
                // left empty.
                unsafe {
                    asm!(
                        "fld tbyte ptr [{result}]",
                        "fld tbyte ptr [{b}]",
                        $operation,
                        "fstp tbyte ptr [{result}]",
                        result = in(reg) &raw mut result,
                        b = in(reg) &raw const b,
                        out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                        out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                        options(nostack),
                    );
                }
                result
            }
        };
    }

    x87!(add, "faddp st(1), st");
    x87!(multiply, "fmulp st(1), st");

    /// `a < b`; false when they cannot be compared.
    fn less(a: LongDouble, b: LongDouble) -> bool {
        let less: u8;
        // SAFETY: loads ten bytes of each value; the x87 stack is left empty.
        unsafe {
            asm!(
                "fld tbyte ptr [{a}]",
                "fld tbyte ptr [{b}]",
                "fucomip st, st(1)",
                "seta {less}",
                "fstp st(0)",
                a = in(reg) &raw const a,
                b = in(reg) &raw const b,
                less = out(reg_byte) less,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        less != 0
    }

    impl Number for LongDouble {
        fn sum(a: Self, b: Self) -> Self {
            add(a, b)
        }
        fn prod(a: Self, b: Self) -> Self {
            multiply(a, b)
        }
    }

    impl Ordered for LongDouble {
        fn min(a: Self, b: Self) -> Self {
            if less(b, a) { b } else { a }
        }
        fn max(a: Self, b: Self) -> Self {
            if less(a, b) { b } else { a }
        }
    }
}
