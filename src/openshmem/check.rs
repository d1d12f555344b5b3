//! The checks that every call makes before it touches anything, and the end of the job if one
//! fails.
//!
//! A misuse prints one line to standard error, `raidshmem: PE 1: shmem_putmem: ...`, that names
//! what is allowed, and ends the whole job with status 2. The checks that keep an access inside
//! valid memory (PE in range, symmetric range, alignment, sizes that overflow) are always made and
//! cost a few compares; the others are made if `World::checks` is set.
//!
//! Left out: the conversion of addresses to accesses, which is in `memory` only.

use std::fmt::Display;

use raidshmem_core::quantity::Pe;

use raidshmem_runtime::pgas::{self, World};

/// The status with which a job ends after a misuse.
const STATUS_MISUSE: i32 = 2;

/// Ends the job because `call` was misused.
#[cold]
#[inline(never)]
pub fn misuse(call: &str, what: impl Display) -> ! {
    pgas::complain(&format!("{call}: {what}"));
    pgas::end_job(STATUS_MISUSE)
}

/// Ends the job unless it runs in shrink mode, which `call` requires.
pub fn needs_shrink(call: &str) {
    if !pgas::world().shrinks() {
        misuse(call, "expected SHMEM_FT_ROLLBACK=none, with which no PE rolls back after a loss");
    }
}

/// Returns a PE's number, after a range check.
#[inline]
pub fn pe(call: &'static str, world: &World, pe: i32) -> Pe {
    match usize::try_from(pe) {
        Ok(number) if number < world.n_pes() => Pe::of(number),
        _ => misuse(call, format_args!("pe {pe}: expected 0..{}", world.n_pes() - 1)),
    }
}

/// Returns the size of `count` elements in bytes; a size that no memory holds is a misuse.
#[inline]
pub fn bytes_of(call: &'static str, count: usize, element_bytes: usize) -> usize {
    match count.checked_mul(element_bytes) {
        Some(bytes) if isize::try_from(bytes).is_ok() => bytes,
        _ => misuse(call, format_args!("nelems {count}: more than any memory holds")),
    }
}
