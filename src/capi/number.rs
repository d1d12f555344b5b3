//! Arithmetic of the reductions on element types that only C has: `long double`, complex.
//!
//! `long double` is the machine's: 80 bits on the x87 stack, or IEEE binary128 by the routines of
//! the compiler's library.

use super::types::{Complex, LongDouble};
use crate::openshmem::bits::Zero;
use crate::openshmem::number::{Number, Ordered};

macro_rules! complex {
    ($($type:ty)*) => { $(
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
            fn zero() -> Self {
                Complex { re: 0.0, im: 0.0 }
            }
        }
    )* };
}

complex! { f32 f64 }

impl Zero for LongDouble {
    fn zero() -> Self {
        LongDouble([0; 16])
    }
}

/// `long double` on x86-64: 80 bits, on the x87 stack.
#[cfg(target_arch = "x86_64")]
mod machine {
    use std::arch::asm;

    use super::LongDouble;

    macro_rules! x87 {
        ($(#[$doc:meta])* $name:ident, $operation:literal) => {
            $(#[$doc])*
            pub fn $name(a: LongDouble, b: LongDouble) -> LongDouble {
                let mut result = a;
                // SAFETY: loads ten bytes of each of two 16-byte values and stores ten bytes into
                // the first; the x87 stack is empty between calls, as the ABI requires, and is left
                // empty.
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

    x87!(
        /// Returns `a + b`.
        add, "faddp st(1), st"
    );
    x87!(
        /// Returns `a * b`.
        multiply, "fmulp st(1), st"
    );

    /// Returns `a < b`; false when they cannot be compared.
    pub fn less(a: LongDouble, b: LongDouble) -> bool {
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
}

/// `long double` on aarch64: IEEE binary128, by the routines that a C compiler calls for `+`, `*`
/// and `<` (they are in the compiler's library). Values are passed in vector registers.
#[cfg(target_arch = "aarch64")]
mod machine {
    use std::arch::asm;

    use super::LongDouble;

    unsafe extern "C" {
        fn __addtf3();
        fn __multf3();
        fn __lttf2();
    }

    macro_rules! binary128 {
        ($(#[$doc:meta])* $name:ident, $routine:ident) => {
            $(#[$doc])*
            pub fn $name(a: LongDouble, b: LongDouble) -> LongDouble {
                let mut result = a;
                // SAFETY: loads two 16-byte values, calls a C function of two such values, and
                // stores the one it returns; x20 keeps its value over the call.
                unsafe {
                    asm!(
                        "ldr q0, [x20]",
                        "ldr q1, [{b}]",
                        "bl {routine}",
                        "str q0, [x20]",
                        in("x20") &raw mut result,
                        b = in(reg) &raw const b,
                        routine = sym $routine,
                        clobber_abi("C"),
                    );
                }
                result
            }
        };
    }

    binary128!(
        /// Returns `a + b`.
        add, __addtf3
    );
    binary128!(
        /// Returns `a * b`.
        multiply, __multf3
    );

    /// Returns `a < b`; false when they cannot be compared.
    pub fn less(a: LongDouble, b: LongDouble) -> bool {
        let order: i32;
        // SAFETY: loads two 16-byte values and calls a C function of two such values, which
        // returns an int: below zero if and only if the first one is less.
        unsafe {
            asm!(
                "ldr q0, [{a}]",
                "ldr q1, [{b}]",
                "bl {routine}",
                a = in(reg) &raw const a,
                b = in(reg) &raw const b,
                routine = sym __lttf2,
                lateout("w0") order,
                clobber_abi("C"),
            );
        }
        order < 0
    }
}

impl Number for LongDouble {
    fn sum(a: Self, b: Self) -> Self {
        machine::add(a, b)
    }
    fn prod(a: Self, b: Self) -> Self {
        machine::multiply(a, b)
    }
}

impl Ordered for LongDouble {
    fn min(a: Self, b: Self) -> Self {
        if machine::less(b, a) { b } else { a }
    }
    fn max(a: Self, b: Self) -> Self {
        if machine::less(a, b) { b } else { a }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `+-significand * 2^(exponent - 63)`, the highest bit of the significand being set.
    fn long_double(negative: bool, exponent: i32, significand: u64) -> LongDouble {
        assert!(significand >> 63 == 1);
        let head = u128::from(negative) << 15 | (exponent + 16383) as u128;
        let bits = if cfg!(target_arch = "x86_64") {
            head << 64 | u128::from(significand)
        } else {
            head << 112 | u128::from(significand << 1) << 48
        };
        LongDouble(bits.to_le_bytes())
    }

    #[test]
    fn long_doubles_are_added_multiplied_and_compared() {
        let one = long_double(false, 0, 1 << 63);
        let minus_three = long_double(true, 1, 3 << 62);
        let tiny = long_double(false, -63, 1 << 63); // lost in a double
        let same = |a: LongDouble, b: LongDouble| assert_eq!(a.0[..10], b.0[..10]);
        same(LongDouble::sum(one, minus_three), long_double(true, 1, 1 << 63));
        same(LongDouble::sum(one, tiny), long_double(false, 0, 1 << 63 | 1));
        same(LongDouble::prod(minus_three, minus_three), long_double(false, 3, 9 << 60));
        same(LongDouble::min(one, minus_three), minus_three);
        same(LongDouble::max(minus_three, one), one);
        same(LongDouble::max(one, one), one);
        let huge = long_double(false, 16383, 1 << 63);
        let infinite = LongDouble::prod(huge, huge);
        same(LongDouble::max(huge, infinite), infinite);
        let none = LongDouble::sum(infinite, LongDouble::prod(infinite, minus_three));
        same(LongDouble::min(one, none), one);
        same(LongDouble::max(one, none), one);
    }
}
