//! Atomic operations, blocking and not, over the four type tables.

use std::ffi::c_int;

use raidshmem_core::update::Update;

use crate::openshmem::bits::Bits;
use crate::openshmem::memory::address::{Out, Sym, SymIn};
use crate::openshmem::memory::atomic::{
    change, compare_swap, fetch, fetch_later, set, update, update_later,
};

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
        fetch_later(NAME, source, fetch, pe)
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
