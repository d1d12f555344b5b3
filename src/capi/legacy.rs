//! Names that the specification deprecates but keeps: atomics without `atomic`, and the old waits.
//!
//! The routines for non-coherent caches do nothing: the caches of this machine are coherent.
//!
//! Names from before 1.2 are defined with the calls that they are aliases of (`setup.rs`,
//! `memory.rs`), the active-set collectives with the other collectives (`coll.rs`, `reduce.rs`).

use std::ffi::{c_int, c_long};

use raidshmem_segment::update::Update;

use super::wait::comparison;
use crate::openshmem::memory::address::{Sym, SymIn};
use crate::openshmem::memory::atomic::{compare_swap, fetch, set, update};
use crate::openshmem::wait::{Cmp, until};

family! { ATOMICS: "Atomics, blocking";
    OLDEXT "shmem_" "_fetch" [generic "shmem_fetch"] [deprecated "1.4"]
    (source: SymIn<T>, pe: c_int) -> T {
        fetch(NAME, source, pe)
    }
    OLDEXT "shmem_" "_set" [generic "shmem_set"] [deprecated "1.4"]
    (dest: Sym<T>, value: T, pe: c_int) {
        set(NAME, dest, value, pe)
    }
    OLDAMO "shmem_" "_cswap" [generic "shmem_cswap"] [deprecated "1.4"]
    (dest: Sym<T>, cond: T, value: T, pe: c_int) -> T {
        compare_swap(NAME, dest, cond, value, pe)
    }
    OLDEXT "shmem_" "_swap" [generic "shmem_swap"] [deprecated "1.4"]
    (dest: Sym<T>, value: T, pe: c_int) -> T {
        update(NAME, Update::Swap, dest, value, pe)
    }
    OLDAMO "shmem_" "_finc" [generic "shmem_finc"] [deprecated "1.4"]
    (dest: Sym<T>, pe: c_int) -> T {
        update(NAME, Update::Add, dest, 1 as T, pe)
    }
    OLDAMO "shmem_" "_inc" [generic "shmem_inc"] [deprecated "1.4"]
    (dest: Sym<T>, pe: c_int) {
        update(NAME, Update::Add, dest, 1 as T, pe);
    }
    OLDAMO "shmem_" "_fadd" [generic "shmem_fadd"] [deprecated "1.4"]
    (dest: Sym<T>, value: T, pe: c_int) -> T {
        update(NAME, Update::Add, dest, value, pe)
    }
    OLDAMO "shmem_" "_add" [generic "shmem_add"] [deprecated "1.4"]
    (dest: Sym<T>, value: T, pe: c_int) {
        update(NAME, Update::Add, dest, value, pe);
    }
}

family! { WAIT: "Point-to-point synchronisation";
    OLDWAIT "shmem_" "_wait" [deprecated "1.4"] (ivar: Sym<T>, cmp_value: T) {
        until(NAME, ivar, Cmp::Ne, cmp_value);
    }
    ONE "shmem_wait" "" [deprecated "1.4"] (ivar: Sym<c_long>, cmp_value: c_long) {
        until(NAME, ivar, Cmp::Ne, cmp_value);
    }
    ONE "shmem_wait_until" "" [deprecated "1.4"]
    (ivar: Sym<c_long>, cmp: c_int, cmp_value: c_long) {
        until(NAME, ivar, comparison(NAME, cmp), cmp_value);
    }
}

family! { CACHE: "Cache management";
    ONE "shmem_set_cache_inv" "" [deprecated "1.3"] () {}
    ONE "shmem_set_cache_line_inv" "" [deprecated "1.3"] (dest: Sym<u8>) {
        let _ = dest;
    }
    ONE "shmem_clear_cache_inv" "" [deprecated "1.3"] () {}
    ONE "shmem_clear_cache_line_inv" "" [deprecated "1.3"] (dest: Sym<u8>) {
        let _ = dest;
    }
    ONE "shmem_udcflush" "" [deprecated "1.3"] () {}
    ONE "shmem_udcflush_line" "" [deprecated "1.3"] (dest: Sym<u8>) {
        let _ = dest;
    }
}
