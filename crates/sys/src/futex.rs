//! Sleeping on a word of shared memory, and the barrier that makes a sleeper's flag visible.
//!
//! The words live in memfd segments mapped by several processes, so the futexes are shared ones.
//! `expedited_barrier` is the heavy half of an asymmetric fence: the process about to sleep pays a
//! `membarrier` system call, so that the store side of every put stays a plain load and a branch.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::thread::futex::{Flags, Timespec, wait as futex_wait, wake as futex_wake};

/// Sleeps while `word` holds `seen`, at most `limit`. Returns on a wake-up, on a changed value, on
/// a signal and on the limit alike: the caller looks at its condition again.
pub fn sleep_while(word: &AtomicU32, seen: u32, limit: Duration) {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    let _ = futex_wait(word, Flags::empty(), seen, Some(&limit));
}

/// Wakes every sleeper of `word`, in whatever process.
pub fn wake_all(word: &AtomicU32) {
    let _ = futex_wake(word, Flags::empty(), i32::MAX as u32);
}

const MEMBARRIER_GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const MEMBARRIER_REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: membarrier takes three integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Registers this process to be reached by other processes' `expedited_barrier`. True when the
/// kernel offers it; asked once.
pub fn register_barrier() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| membarrier(MEMBARRIER_REGISTER_GLOBAL_EXPEDITED))
}

/// A full memory barrier on every processor that runs a registered process now. False where the
/// kernel has none: then a sleeper must look again by itself after a short time.
pub fn expedited_barrier() -> bool {
    register_barrier() && membarrier(MEMBARRIER_GLOBAL_EXPEDITED)
}
