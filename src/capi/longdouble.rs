//! The four entries that pass a `long double` by value.
//!
//! Rust has no such type, so the entries are naked functions that turn the value into a pointer to
//! it and continue in Rust. The value takes no integer register on either machine:
//!
//! - x86-64: an argument lies on the stack (above the return address); a result is returned on the
//!   x87 stack;
//! - aarch64: argument and result are in `q0`.
//!
//! Left out: other processors (`types.rs` rejects them).

use std::ffi::c_int;

use super::types::LongDouble;
use crate::openshmem::context::Ctx;
use crate::openshmem::memory::address::{In, Out, Sym, SymIn};
use crate::openshmem::memory::elements::{get_elements, put_elements};
use raidshmem_runtime::pgas::stream::Target;

describe! { BY_VALUE: "RMA, blocking";
    LONGDOUBLE "shmem_" "_p" ctx("shmem_ctx_") [generic "shmem_p"]
        (dest: Sym<T>, value: T, pe: c_int);
    LONGDOUBLE "shmem_" "_g" ctx("shmem_ctx_") [generic "shmem_g"]
        (source: SymIn<T>, pe: c_int) -> T;
}

fn put_to(call: &'static str, dest: Sym<LongDouble>, value: In<LongDouble>, pe: Target) {
    put_elements(call, dest, value, 1, pe);
}

fn get_from(call: &'static str, source: SymIn<LongDouble>, value: Out<LongDouble>, pe: Target) {
    get_elements(call, value, source, 1, pe);
}

extern "C" fn put(dest: Sym<LongDouble>, pe: c_int, value: In<LongDouble>) {
    put_to("shmem_longdouble_p", dest, value, pe.into());
}

extern "C" fn ctx_put(ctx: Ctx, dest: Sym<LongDouble>, pe: c_int, value: In<LongDouble>) {
    let name = "shmem_ctx_longdouble_p";
    let _using = ctx.begin(name);
    put_to(name, dest, value, ctx.pe(name, pe));
}

extern "C" fn get(source: SymIn<LongDouble>, pe: c_int, value: Out<LongDouble>) {
    get_from("shmem_longdouble_g", source, value, pe.into());
}

extern "C" fn ctx_get(ctx: Ctx, source: SymIn<LongDouble>, pe: c_int, value: Out<LongDouble>) {
    let name = "shmem_ctx_longdouble_g";
    let _using = ctx.begin(name);
    get_from(name, source, value, ctx.pe(name, pe));
}

/// Defines an entry with a `long double` argument: `$register` is the first free integer register.
#[cfg(target_arch = "x86_64")]
macro_rules! takes_value {
    ($($symbol:literal $register:literal $inner:path;)*) => {
        $(const _: () = {
            #[unsafe(export_name = $symbol)]
            #[unsafe(naked)]
            extern "C" fn entry() {
                std::arch::naked_asm!(
                    concat!("lea ", $register, ", [rsp + 8]"),
                    "jmp {inner}",
                    inner = sym $inner,
                )
            }
        };)*
    };
}

/// Defines an entry that returns a `long double`: reserves stack space, fills it, loads, and
/// returns.
#[cfg(target_arch = "x86_64")]
macro_rules! returns_value {
    ($($symbol:literal $register:literal $inner:path;)*) => {
        $(const _: () = {
            #[unsafe(export_name = $symbol)]
            #[unsafe(naked)]
            extern "C" fn entry() {
                std::arch::naked_asm!(
                    "sub rsp, 24",
                    concat!("mov ", $register, ", rsp"),
                    "call {inner}",
                    "fld tbyte ptr [rsp]",
                    "add rsp, 24",
                    "ret",
                    inner = sym $inner,
                )
            }
        };)*
    };
}

#[cfg(target_arch = "x86_64")]
takes_value! {
    "shmem_longdouble_p" "rdx" put; "pshmem_longdouble_p" "rdx" put;
    "shmem_ctx_longdouble_p" "rcx" ctx_put; "pshmem_ctx_longdouble_p" "rcx" ctx_put;
}

#[cfg(target_arch = "x86_64")]
returns_value! {
    "shmem_longdouble_g" "rdx" get; "pshmem_longdouble_g" "rdx" get;
    "shmem_ctx_longdouble_g" "rcx" ctx_get; "pshmem_ctx_longdouble_g" "rcx" ctx_get;
}

/// Defines an entry with a `long double` argument: `$register` is the first free integer register.
#[cfg(target_arch = "aarch64")]
macro_rules! takes_value {
    ($($symbol:literal $register:literal $inner:path;)*) => {
        $(const _: () = {
            #[unsafe(export_name = $symbol)]
            #[unsafe(naked)]
            extern "C" fn entry() {
                std::arch::naked_asm!(
                    "stp x29, x30, [sp, #-32]!",
                    "str q0, [sp, #16]",
                    concat!("add ", $register, ", sp, #16"),
                    "bl {inner}",
                    "ldp x29, x30, [sp], #32",
                    "ret",
                    inner = sym $inner,
                )
            }
        };)*
    };
}

/// Defines an entry that returns a `long double`: reserves stack space, fills it, loads, and
/// returns.
#[cfg(target_arch = "aarch64")]
macro_rules! returns_value {
    ($($symbol:literal $register:literal $inner:path;)*) => {
        $(const _: () = {
            #[unsafe(export_name = $symbol)]
            #[unsafe(naked)]
            extern "C" fn entry() {
                std::arch::naked_asm!(
                    "stp x29, x30, [sp, #-32]!",
                    concat!("add ", $register, ", sp, #16"),
                    "bl {inner}",
                    "ldr q0, [sp, #16]",
                    "ldp x29, x30, [sp], #32",
                    "ret",
                    inner = sym $inner,
                )
            }
        };)*
    };
}

#[cfg(target_arch = "aarch64")]
takes_value! {
    "shmem_longdouble_p" "x2" put; "pshmem_longdouble_p" "x2" put;
    "shmem_ctx_longdouble_p" "x3" ctx_put; "pshmem_ctx_longdouble_p" "x3" ctx_put;
}

#[cfg(target_arch = "aarch64")]
returns_value! {
    "shmem_longdouble_g" "x2" get; "pshmem_longdouble_g" "x2" get;
    "shmem_ctx_longdouble_g" "x3" ctx_get; "pshmem_ctx_longdouble_g" "x3" ctx_get;
}
