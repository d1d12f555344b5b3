//! Atomic operations, blocking and not, over the four type tables.
//!
//! On a mapped PE an operation is one instruction of the processor on the word itself, and done
//! when the call returns. Elsewhere one that fetches waits for the answer, one that fetches nothing
//! is complete with the next quiet, and the non-blocking ones go out together (`pgas/stream.rs`).
//! Floating-point words are moved as bits. Between a death and the restart updates are dropped and
//! what is fetched is zero.

use std::ffi::c_int;

use super::bits::Bits;
use super::memory_ops::{Out, Sym, SymIn, Update, Word};
use crate::pgas::stream::Target;

/// The value of a word.
#[inline]
pub fn fetch<T: Bits>(call: &'static str, source: SymIn<T>, pe: impl Into<Target>) -> T {
    let word = Word::new(call, "source", source.as_sym(), pe);
    T::of(word.fetch())
}

/// Stores a value.
#[inline]
pub fn set<T: Bits>(call: &'static str, dest: Sym<T>, value: T, pe: impl Into<Target>) {
    Word::new(call, "dest", dest, pe).store(value.bits());
}

/// Updates a word; what was there before.
#[inline]
pub fn update<T: Bits>(
    call: &'static str,
    how: Update,
    dest: Sym<T>,
    value: T,
    pe: impl Into<Target>,
) -> T {
    T::of(Word::new(call, "dest", dest, pe).update(how, value.bits()))
}

/// Updates a word without waiting for it.
#[inline]
fn change<T: Bits>(call: &'static str, how: Update, dest: Sym<T>, value: T, pe: Target) {
    Word::new(call, "dest", dest, pe).change(how, value.bits());
}

/// Updates a word; what was there goes to `before`, as late as the next quiet.
#[inline]
pub fn update_later<T: Bits>(
    call: &'static str,
    how: Update,
    (dest, value): (Sym<T>, T),
    before: Out<T>,
    pe: Target,
) {
    Word::new(call, "dest", dest, pe).update_later(how, value.bits(), before);
}

/// Stores `value` where `cond` is; what was there before.
#[inline]
pub fn compare_swap<T: Bits>(
    call: &'static str,
    dest: Sym<T>,
    cond: T,
    value: T,
    pe: impl Into<Target>,
) -> T {
    T::of(Word::new(call, "dest", dest, pe).compare_swap(cond.bits(), value.bits()))
}

family! { BLOCKING: "Atomics, blocking";
    EXT "shmem_" "_atomic_fetch" ctx("shmem_ctx_") [generic "shmem_atomic_fetch"]
    (source: SymIn<T>, pe: c_int) -> T {
        let pe = ctx.pe(NAME, pe);
        fetch(NAME, source, pe)
    }
    EXT "shmem_" "_atomic_set" ctx("shmem_ctx_") [generic "shmem_atomic_set"]
    (dest: Sym<T>, value: T, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        set(NAME, dest, value, pe)
    }
    AMO "shmem_" "_atomic_compare_swap" ctx("shmem_ctx_") [generic "shmem_atomic_compare_swap"]
    (dest: Sym<T>, cond: T, value: T, pe: c_int) -> T {
        let pe = ctx.pe(NAME, pe);
        compare_swap(NAME, dest, cond, value, pe)
    }
    EXT "shmem_" "_atomic_swap" ctx("shmem_ctx_") [generic "shmem_atomic_swap"]
    (dest: Sym<T>, value: T, pe: c_int) -> T {
        let pe = ctx.pe(NAME, pe);
        update(NAME, Update::Swap, dest, value, pe)
    }
    AMO "shmem_" "_atomic_fetch_inc" ctx("shmem_ctx_") [generic "shmem_atomic_fetch_inc"]
    (dest: Sym<T>, pe: c_int) -> T {
        let pe = ctx.pe(NAME, pe);
        update(NAME, Update::Add, dest, 1 as T, pe)
    }
    AMO "shmem_" "_atomic_inc" ctx("shmem_ctx_") [generic "shmem_atomic_inc"]
    (dest: Sym<T>, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        change(NAME, Update::Add, dest, 1 as T, pe);
    }
    AMO "shmem_" "_atomic_fetch_add" ctx("shmem_ctx_") [generic "shmem_atomic_fetch_add"]
    (dest: Sym<T>, value: T, pe: c_int) -> T {
        let pe = ctx.pe(NAME, pe);
        update(NAME, Update::Add, dest, value, pe)
    }
    AMO "shmem_" "_atomic_add" ctx("shmem_ctx_") [generic "shmem_atomic_add"]
    (dest: Sym<T>, value: T, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        change(NAME, Update::Add, dest, value, pe);
    }
    BIT "shmem_" "_atomic_fetch_and" ctx("shmem_ctx_") [generic "shmem_atomic_fetch_and"]
    (dest: Sym<T>, value: T, pe: c_int) -> T {
        let pe = ctx.pe(NAME, pe);
        update(NAME, Update::And, dest, value, pe)
    }
    BIT "shmem_" "_atomic_and" ctx("shmem_ctx_") [generic "shmem_atomic_and"]
    (dest: Sym<T>, value: T, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        change(NAME, Update::And, dest, value, pe);
    }
    BIT "shmem_" "_atomic_fetch_or" ctx("shmem_ctx_") [generic "shmem_atomic_fetch_or"]
    (dest: Sym<T>, value: T, pe: c_int) -> T {
        let pe = ctx.pe(NAME, pe);
        update(NAME, Update::Or, dest, value, pe)
    }
    BIT "shmem_" "_atomic_or" ctx("shmem_ctx_") [generic "shmem_atomic_or"]
    (dest: Sym<T>, value: T, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        change(NAME, Update::Or, dest, value, pe);
    }
    BIT "shmem_" "_atomic_fetch_xor" ctx("shmem_ctx_") [generic "shmem_atomic_fetch_xor"]
    (dest: Sym<T>, value: T, pe: c_int) -> T {
        let pe = ctx.pe(NAME, pe);
        update(NAME, Update::Xor, dest, value, pe)
    }
    BIT "shmem_" "_atomic_xor" ctx("shmem_ctx_") [generic "shmem_atomic_xor"]
    (dest: Sym<T>, value: T, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        change(NAME, Update::Xor, dest, value, pe);
    }
}

family! { NONBLOCKING: "Atomics, nonblocking";
    EXT "shmem_" "_atomic_fetch_nbi" ctx("shmem_ctx_") [generic "shmem_atomic_fetch_nbi"]
    (fetch: Out<T>, source: SymIn<T>, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        update_later(NAME, Update::Load, (source.as_sym(), T::of(0)), fetch, pe)
    }
    AMO "shmem_" "_atomic_compare_swap_nbi" ctx("shmem_ctx_")
    [generic "shmem_atomic_compare_swap_nbi"]
    (fetch: Out<T>, dest: Sym<T>, cond: T, value: T, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        let how = Update::CompareSwap(cond.bits());
        update_later(NAME, how, (dest, value), fetch, pe)
    }
    EXT "shmem_" "_atomic_swap_nbi" ctx("shmem_ctx_") [generic "shmem_atomic_swap_nbi"]
    (fetch: Out<T>, dest: Sym<T>, value: T, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        update_later(NAME, Update::Swap, (dest, value), fetch, pe)
    }
    AMO "shmem_" "_atomic_fetch_inc_nbi" ctx("shmem_ctx_") [generic "shmem_atomic_fetch_inc_nbi"]
    (fetch: Out<T>, dest: Sym<T>, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        update_later(NAME, Update::Add, (dest, 1 as T), fetch, pe)
    }
    AMO "shmem_" "_atomic_fetch_add_nbi" ctx("shmem_ctx_") [generic "shmem_atomic_fetch_add_nbi"]
    (fetch: Out<T>, dest: Sym<T>, value: T, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        update_later(NAME, Update::Add, (dest, value), fetch, pe)
    }
    BIT "shmem_" "_atomic_fetch_and_nbi" ctx("shmem_ctx_") [generic "shmem_atomic_fetch_and_nbi"]
    (fetch: Out<T>, dest: Sym<T>, value: T, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        update_later(NAME, Update::And, (dest, value), fetch, pe)
    }
    BIT "shmem_" "_atomic_fetch_or_nbi" ctx("shmem_ctx_") [generic "shmem_atomic_fetch_or_nbi"]
    (fetch: Out<T>, dest: Sym<T>, value: T, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        update_later(NAME, Update::Or, (dest, value), fetch, pe)
    }
    BIT "shmem_" "_atomic_fetch_xor_nbi" ctx("shmem_ctx_") [generic "shmem_atomic_fetch_xor_nbi"]
    (fetch: Out<T>, dest: Sym<T>, value: T, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        update_later(NAME, Update::Xor, (dest, value), fetch, pe)
    }
}
