//! Types that take atomic updates: the tables of the OpenSHMEM specification, without type names.

use super::Symmetric;

mod sealed {
    pub trait Sealed {}
}

/// A type of 4 or 8 bytes that is read, written and swapped atomically: `i32`, `u32`, `i64`, `u64`,
/// `isize`, `usize`, `f32`, `f64`. The set is closed.
pub trait Word: Symmetric + sealed::Sealed {
    #[doc(hidden)]
    fn to_bits(self) -> u64;
    #[doc(hidden)]
    fn from_bits(bits: u64) -> Self;
}

/// An integer [`Word`]: also added to, compared and combined bit by bit.
pub trait Integer: Word {}

macro_rules! words {
    ($($type:ident: |$value:ident| $to:expr, |$bits:ident| $from:expr;)*) => { $(
        const _: () = assert!(size_of::<$type>() == align_of::<$type>());
        impl sealed::Sealed for $type {}
        impl Word for $type {
            #[inline]
            fn to_bits(self) -> u64 {
                let $value = self;
                $to
            }
            #[inline]
            fn from_bits($bits: u64) -> $type {
                $from
            }
        }
    )* };
    (integers $($type:ident)*) => {
        words! { $($type: |value| value as u64, |bits| bits as $type;)* }
        $(impl Integer for $type {})*
    };
}

words! { integers i32 u32 i64 u64 isize usize }
words! {
    f32: |value| u64::from(f32::to_bits(value)), |bits| f32::from_bits(bits as u32);
    f64: |value| f64::to_bits(value), |bits| f64::from_bits(bits);
}
