//! The lock-free structures of the library over the atomics of a memory model, instead of the
//! machine's: loom runs a small program of threads in every order, with every value that a load
//! may return in the memory model of C and Rust, which allows all that AArch64 does.
//!
//! The files are the library's own; they import their atomics from `crate::atomic` and the system
//! from `raidshmem_sys`, and both are modules of this crate here. `model` weakens one access at a
//! time.
//!
//! Left out: accesses with [`atomic::Ordering::SeqCst`] count as acquire and release, so what they
//! alone guarantee is not relied upon; sleeps have no limit, so a missed wake-up is a deadlock.
#![allow(dead_code, missing_docs)]

extern crate self as raidshmem_sys;

pub mod atomic;
pub mod futex;
pub mod model;

#[path = "../../../crates/segment/src/bell.rs"]
pub mod bell;
#[path = "../../../crates/fabric/src/hand_off.rs"]
pub mod hand_off;
#[path = "../../../crates/segment/src/ring.rs"]
pub mod ring;
#[path = "../../../crates/segment/src/spill.rs"]
pub mod spill;
#[path = "../../../crates/fabric/src/turns.rs"]
pub mod turns;
#[path = "../../../crates/control/src/view_words.rs"]
pub mod view_words;
#[path = "../../../crates/segment/src/waits.rs"]
pub mod waits;

/// Locks a mutex, as `raidshmem_sys::lock` does.
pub fn lock<T>(mutex: &atomic::Mutex<T>) -> atomic::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
