//! Waiting for one word and testing it, and C's names of the comparisons. Sets of words are in
//! `wait_many.rs`.

use std::ffi::c_int;

use super::constants::{CMP_EQ, CMP_GE, CMP_GT, CMP_LE, CMP_LT, CMP_NE};
use crate::openshmem::check::misuse;
use crate::openshmem::memory::address::Sym;
use crate::openshmem::wait::{Cmp, test, until};

/// Translates a C comparison.
#[inline]
pub(super) fn comparison(call: &'static str, cmp: c_int) -> Cmp {
    match cmp {
        CMP_EQ => Cmp::Eq,
        CMP_NE => Cmp::Ne,
        CMP_GT => Cmp::Gt,
        CMP_GE => Cmp::Ge,
        CMP_LT => Cmp::Lt,
        CMP_LE => Cmp::Le,
        _ => misuse(call, format_args!("cmp {cmp}: expected SHMEM_CMP_EQ, NE, GT, GE, LT, LE")),
    }
}

family! { WAIT: "Point-to-point synchronisation";
    P2P "shmem_" "_wait_until" [generic "shmem_wait_until"]
    (ivar: Sym<T>, cmp: c_int, cmp_value: T) {
        until(NAME, ivar, comparison(NAME, cmp), cmp_value);
    }
    P2P "shmem_" "_test" [generic "shmem_test"]
    (ivar: Sym<T>, cmp: c_int, cmp_value: T) -> c_int {
        c_int::from(test(NAME, ivar, comparison(NAME, cmp), cmp_value))
    }
    ONE "shmem_signal_wait_until" ""
    (sig_addr: Sym<u64>, cmp: c_int, cmp_value: u64) -> u64 {
        until(NAME, sig_addr, comparison(NAME, cmp), cmp_value)
    }
}
