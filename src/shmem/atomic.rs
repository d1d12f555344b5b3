//! Element types for atomics and reductions: the tables of the OpenSHMEM specification as traits.

use super::Symmetric;
use crate::openshmem::{bits, number};

mod sealed {
    pub trait Word: super::bits::Bits {}
    pub trait Number: super::number::Number + super::number::Ordered {}
    pub trait Integer: super::number::Bitwise {}
}

/// A type of 4 or 8 bytes that is read, written and swapped atomically: `i32`, `u32`, `i64`, `u64`,
/// `isize`, `usize`, `f32`, `f64`. The set is closed.
pub trait Word: Symmetric + sealed::Word {}

/// An integer [`Word`], which also supports addition, comparison and bitwise operations.
pub trait Integer: Word {}

/// A number that collectives add, multiply and compare: every integer up to 64 bits, `f32`, `f64`.
/// Integers wrap. The set is closed.
pub trait Number: Symmetric + sealed::Number {}

/// An integer of up to 64 bits, which collectives combine bit by bit. The set is closed.
pub trait Bits: Number + sealed::Integer {}

macro_rules! types {
    ($trait:ident: $($type:ident)*) => {
        $(impl $trait for $type {})*
    };
}

macro_rules! sealed {
    ($trait:ident: $($type:ident)*) => {
        $(impl sealed::$trait for $type {})*
    };
}

sealed! { Word: i32 u32 i64 u64 isize usize f32 f64 }
sealed! { Number: i8 u8 i16 u16 i32 u32 i64 u64 isize usize f32 f64 }
sealed! { Integer: i8 u8 i16 u16 i32 u32 i64 u64 isize usize }
types! { Word: i32 u32 i64 u64 isize usize f32 f64 }
types! { Integer: i32 u32 i64 u64 isize usize }
types! { Number: i8 u8 i16 u16 i32 u32 i64 u64 isize usize f32 f64 }
types! { Bits: i8 u8 i16 u16 i32 u32 i64 u64 isize usize }
