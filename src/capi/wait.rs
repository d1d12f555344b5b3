//! Waiting for a word of one's own to change, and testing it: one word. Sets of words are in
//! `wait_many.rs`.
//!
//! A wait returns as soon as a death is known, satisfied or not. A test says "yes" between a death
//! and the restart, so that a loop around it ends; the restart undoes what the program makes of it.

use std::ffi::c_int;

use super::bits::Bits;
use super::constants::{CMP_EQ, CMP_GE, CMP_GT, CMP_LE, CMP_LT, CMP_NE};
use super::guard::misuse;
use super::memory_ops::{Sym, Word};
use crate::segment::waits::Waiting;

/// A comparison as C names it, checked.
#[derive(Clone, Copy)]
pub(super) struct Cmp(c_int);

impl Cmp {
    /// `!=`, for the old waits.
    pub const NE: Cmp = Cmp(CMP_NE);

    #[inline]
    pub fn new(call: &'static str, cmp: c_int) -> Cmp {
        if ![CMP_EQ, CMP_NE, CMP_GT, CMP_GE, CMP_LT, CMP_LE].contains(&cmp) {
            misuse(call, format_args!("cmp {cmp}: allowed are SHMEM_CMP_EQ, NE, GT, GE, LT, LE"));
        }
        Cmp(cmp)
    }

    #[inline]
    pub fn holds<T: Bits>(self, value: T, than: T) -> bool {
        match self.0 {
            CMP_EQ => value == than,
            CMP_NE => value != than,
            CMP_GT => value > than,
            CMP_GE => value >= than,
            CMP_LT => value < than,
            _ => value <= than,
        }
    }
}

/// Waits; the value that satisfied, or the one a death left there.
pub(super) fn until<T: Bits>(call: &'static str, ivar: Sym<T>, cmp: Cmp, value: T) -> T {
    let word = Word::own(call, "ivar", ivar);
    let mut seen = T::of(word.load());
    if !cmp.holds(seen, value) {
        // A death ends the wait: the caller learns of it at its next checkpoint call.
        let _ = word.world().wait_until(
            || Waiting::anyone(call),
            || {
                seen = T::of(word.load());
                cmp.holds(seen, value)
            },
        );
    }
    seen
}

fn test<T: Bits>(call: &'static str, ivar: Sym<T>, cmp: Cmp, value: T) -> c_int {
    let word = Word::own(call, "ivar", ivar);
    word.world().waits(); // again and again, perhaps
    c_int::from(cmp.holds(T::of(word.load()), value) || word.world().cut_short())
}

family! { WAIT: "Point-to-point synchronisation";
    P2P "shmem_" "_wait_until" [generic "shmem_wait_until"]
    (ivar: Sym<T>, cmp: c_int, cmp_value: T) {
        until(NAME, ivar, Cmp::new(NAME, cmp), cmp_value);
    }
    P2P "shmem_" "_test" [generic "shmem_test"]
    (ivar: Sym<T>, cmp: c_int, cmp_value: T) -> c_int {
        test(NAME, ivar, Cmp::new(NAME, cmp), cmp_value)
    }
    ONE "shmem_signal_wait_until" ""
    (sig_addr: Sym<u64>, cmp: c_int, cmp_value: u64) -> u64 {
        until(NAME, sig_addr, Cmp::new(NAME, cmp), cmp_value)
    }
}
