//! The type tables of the specification: the C types that each typed family is defined for.
//!
//! A row is a name as it occurs in a symbol (`float` in `shmem_float_put`) and the Rust type with
//! its size and calling convention. `over!` calls a macro back with the rows of one set; `set`
//! returns these names as data, so that the headers cannot disagree with the symbols.
//!
//! Invariants: every name in a set has exactly one row in `TYPES`; rows whose `base` is equal are
//! one C type on this data model (LP64), so only one of them may appear in a `_Generic`.
#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_int, c_long, c_longlong, c_schar, c_short};
use std::ffi::{c_uchar, c_uint, c_ulong, c_ulonglong, c_ushort};

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("the type tables are written for 64-bit Linux (LP64)");
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("`long double` (number.rs, longdouble.rs) is written for x86-64 and aarch64");

/// `long double`, which Rust cannot pass by value: 16 bytes that are only ever moved.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub struct LongDouble(pub [u8; 16]);

/// `double _Complex` and `float _Complex`, which are only passed by pointer.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Complex<F> {
    /// The real part.
    pub re: F,
    /// The imaginary part.
    pub im: F,
}

macro_rules! aliases {
    ($($alias:ident = $rust:ty;)*) => {
        $(#[doc = concat!("`", stringify!($alias), "` of the type tables.")]
        pub type $alias = $rust;)*
    };
}

aliases! {
    float = f32; double = f64; longdouble = LongDouble; char = c_char; schar = c_schar;
    short = c_short; int = c_int; long = c_long; longlong = c_longlong;
    uchar = c_uchar; ushort = c_ushort; uint = c_uint; ulong = c_ulong; ulonglong = c_ulonglong;
    int8 = i8; int16 = i16; int32 = i32; int64 = i64;
    uint8 = u8; uint16 = u16; uint32 = u32; uint64 = u64; size = usize; ptrdiff = isize;
    b8 = [u8; 1]; b16 = [u8; 2]; b32 = [u8; 4]; b64 = [u8; 8]; b128 = [u8; 16]; void = u8;
    complexd = Complex<f64>; complexf = Complex<f32>;
}

/// Calls `$back! { $rest; "name" type, ... }` with the rows of one set.
macro_rules! over {
    ($back:ident, $rest:tt, ONE) => {
        $back! { $rest; "" void }
    };
    ($back:ident, $rest:tt, LONGDOUBLE) => {
        $back! { $rest; "longdouble" longdouble }
    };
    ($back:ident, $rest:tt, RMA) => {
        $back! { $rest;
            "float" float, "double" double, "longdouble" longdouble, "char" char, "schar" schar,
            "short" short, "int" int, "long" long, "longlong" longlong, "uchar" uchar,
            "ushort" ushort, "uint" uint, "ulong" ulong, "ulonglong" ulonglong, "int8" int8,
            "int16" int16, "int32" int32, "int64" int64, "uint8" uint8, "uint16" uint16,
            "uint32" uint32, "uint64" uint64, "size" size, "ptrdiff" ptrdiff
        }
    };
    // RMA without `long double`: the types that can be passed by value.
    ($back:ident, $rest:tt, VALUE) => {
        $back! { $rest;
            "float" float, "double" double, "char" char, "schar" schar, "short" short, "int" int,
            "long" long, "longlong" longlong, "uchar" uchar, "ushort" ushort, "uint" uint,
            "ulong" ulong, "ulonglong" ulonglong, "int8" int8, "int16" int16, "int32" int32,
            "int64" int64, "uint8" uint8, "uint16" uint16, "uint32" uint32, "uint64" uint64,
            "size" size, "ptrdiff" ptrdiff
        }
    };
    ($back:ident, $rest:tt, SIZES) => {
        $back! { $rest;
            "8" b8, "16" b16, "32" b32, "64" b64, "128" b128
        }
    };
    // The sizes and `mem`, which counts bytes.
    ($back:ident, $rest:tt, SIZED) => {
        $back! { $rest;
            "8" b8, "16" b16, "32" b32, "64" b64, "128" b128, "mem" void
        }
    };
    ($back:ident, $rest:tt, AMO) => {
        $back! { $rest;
            "int" int, "long" long, "longlong" longlong, "uint" uint, "ulong" ulong,
            "ulonglong" ulonglong, "int32" int32, "int64" int64, "uint32" uint32, "uint64" uint64,
            "size" size, "ptrdiff" ptrdiff
        }
    };
    ($back:ident, $rest:tt, EXT) => {
        $back! { $rest;
            "float" float, "double" double, "int" int, "long" long, "longlong" longlong,
            "uint" uint, "ulong" ulong, "ulonglong" ulonglong, "int32" int32, "int64" int64,
            "uint32" uint32, "uint64" uint64, "size" size, "ptrdiff" ptrdiff
        }
    };
    ($back:ident, $rest:tt, BIT) => {
        $back! { $rest;
            "uint" uint, "ulong" ulong, "ulonglong" ulonglong, "int32" int32, "int64" int64,
            "uint32" uint32, "uint64" uint64
        }
    };
    ($back:ident, $rest:tt, P2P) => {
        $back! { $rest;
            "short" short, "ushort" ushort, "int" int, "long" long, "longlong" longlong,
            "uint" uint, "ulong" ulong, "ulonglong" ulonglong, "int32" int32, "int64" int64,
            "uint32" uint32, "uint64" uint64, "size" size, "ptrdiff" ptrdiff
        }
    };
    ($back:ident, $rest:tt, OLDWAIT) => {
        $back! { $rest;
            "short" short, "int" int, "long" long, "longlong" longlong
        }
    };
    ($back:ident, $rest:tt, OLDEXT) => {
        $back! { $rest;
            "float" float, "double" double, "int" int, "long" long, "longlong" longlong
        }
    };
    ($back:ident, $rest:tt, SIZES_SET) => {
        $back! { $rest; "32" b32, "64" b64 }
    };
    ($back:ident, $rest:tt, AND) => {
        $back! { $rest;
            "uchar" uchar, "ushort" ushort, "uint" uint, "ulong" ulong, "ulonglong" ulonglong,
            "int8" int8, "int16" int16, "int32" int32, "int64" int64, "uint8" uint8,
            "uint16" uint16, "uint32" uint32, "uint64" uint64, "size" size
        }
    };
    ($back:ident, $rest:tt, SUM) => {
        $back! { $rest;
            "float" float, "double" double, "longdouble" longdouble, "char" char, "schar" schar,
            "short" short, "int" int, "long" long, "longlong" longlong, "uchar" uchar,
            "ushort" ushort, "uint" uint, "ulong" ulong, "ulonglong" ulonglong, "int8" int8,
            "int16" int16, "int32" int32, "int64" int64, "uint8" uint8, "uint16" uint16,
            "uint32" uint32, "uint64" uint64, "size" size, "ptrdiff" ptrdiff,
            "complexd" complexd, "complexf" complexf
        }
    };
    ($back:ident, $rest:tt, OLDMAX) => {
        $back! { $rest;
            "short" short, "int" int, "long" long, "longlong" longlong, "float" float,
            "double" double, "longdouble" longdouble
        }
    };
    ($back:ident, $rest:tt, OLDSUM) => {
        $back! { $rest;
            "short" short, "int" int, "long" long, "longlong" longlong, "float" float,
            "double" double, "longdouble" longdouble, "complexd" complexd, "complexf" complexf
        }
    };
    ($back:ident, $rest:tt, OLDAMO) => {
        $back! { $rest;
            "int" int, "long" long, "longlong" longlong
        }
    };
}

macro_rules! names {
    ((); $($name:literal $rust:ident),*) => { &[$($name),*] };
}

/// Returns the names of a set, as data.
pub fn set(name: &str) -> &'static [&'static str] {
    match name {
        "ONE" => over!(names, (), ONE),
        "LONGDOUBLE" => over!(names, (), LONGDOUBLE),
        "RMA" => over!(names, (), RMA),
        "VALUE" => over!(names, (), VALUE),
        "SIZES" => over!(names, (), SIZES),
        "SIZED" => over!(names, (), SIZED),
        "AMO" => over!(names, (), AMO),
        "EXT" => over!(names, (), EXT),
        "BIT" => over!(names, (), BIT),
        "P2P" => over!(names, (), P2P),
        "OLDWAIT" => over!(names, (), OLDWAIT),
        "OLDEXT" => over!(names, (), OLDEXT),
        "OLDAMO" => over!(names, (), OLDAMO),
        "SIZES_SET" => over!(names, (), SIZES_SET),
        "AND" => over!(names, (), AND),
        "SUM" => over!(names, (), SUM),
        "OLDMAX" => over!(names, (), OLDMAX),
        "OLDSUM" => over!(names, (), OLDSUM),
        _ => unreachable!("no set {name} in the type tables"),
    }
}

/// One name of the tables: its C type, and the first row with that type on LP64.
pub struct TypeRow {
    /// The name as in a symbol: `uint32`.
    pub name: &'static str,
    /// The type as in a prototype: `uint32_t`.
    pub c: &'static str,
    /// The first row of that type: `uint`.
    pub base: &'static str,
}

macro_rules! rows {
    ($($name:literal $c:literal $base:literal,)*) => {
        &[$(TypeRow { name: $name, c: $c, base: $base }),*]
    };
}

/// Every name that occurs in a set; the sizes and `mem` move bytes, so their type is `void`.
pub const TYPES: &[TypeRow] = rows! {
    "" "void" "", "mem" "void" "", "8" "void" "", "16" "void" "", "32" "void" "",
    "64" "void" "", "128" "void" "",
    "float" "float" "float", "double" "double" "double",
    "longdouble" "long double" "longdouble", "char" "char" "char",
    "schar" "signed char" "schar", "short" "short" "short", "int" "int" "int",
    "long" "long" "long", "longlong" "long long" "longlong", "uchar" "unsigned char" "uchar",
    "ushort" "unsigned short" "ushort", "uint" "unsigned int" "uint",
    "ulong" "unsigned long" "ulong", "ulonglong" "unsigned long long" "ulonglong",
    "int8" "int8_t" "schar", "int16" "int16_t" "short", "int32" "int32_t" "int",
    "int64" "int64_t" "long", "uint8" "uint8_t" "uchar", "uint16" "uint16_t" "ushort",
    "uint32" "uint32_t" "uint", "uint64" "uint64_t" "ulong", "size" "size_t" "ulong",
    "ptrdiff" "ptrdiff_t" "long",
    "complexd" "shmemx_complexd_t" "complexd", "complexf" "shmemx_complexf_t" "complexf",
};

/// Returns the row of a name.
pub fn row(name: &str) -> &'static TypeRow {
    TYPES.iter().find(|row| row.name == name).expect("every name of a set has a row")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_one_row_and_a_base_that_is_its_own_base() {
        for name in ["RMA", "VALUE", "SIZED", "AMO", "EXT", "BIT", "P2P", "OLDWAIT", "AND", "SUM"] {
            for entry in set(name) {
                assert_eq!(TYPES.iter().filter(|row| row.name == *entry).count(), 1, "{entry}");
                assert_eq!(row(row(entry).base).base, row(entry).base, "{entry}");
            }
        }
    }
}
