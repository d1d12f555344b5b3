//! Futexes in shared memory, and the two halves of an asymmetric fence.
//!
//! The words live in memfd segments mapped by several processes, so the futexes are shared ones.
//!
//! Two processes each store a word, and then load the word of the other. At least one of them is
//! sure to see the other's store only if each has a full fence between its two steps. If one side
//! does this all the time and the other rarely, the rare one can use [`global_barrier`], and the
//! frequent one [`light_fence`], which costs no instruction on x86. The barrier is a full fence on
//! every processor, at some moment of the call; a process that is not running passes one before it
//! resumes. If a process has made its store before that moment, the caller of the barrier sees it.
//! If not, its load comes after that moment, and sees everything stored before the call.
//!
//! [`expedited_barrier`] takes microseconds where that takes a scheduler's period (8 to 24 ms), but
//! it may miss a processor. The kernel marks each run queue whose current process is a registered
//! one. It does so when the process registers, on the processors that run it then, and when a
//! processor switches between memory maps. A processor that was idle at the registration, and had
//! run this process last, is covered by neither (Linux 6.18, `membarrier_switch_mm`).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};
use std::time::Duration;

use rustix::thread::futex::{Flags, Timespec, wait as futex_wait, wake as futex_wake};

/// Sleeps while `word` holds `seen`, at most for `limit`. May return for any reason (wake-up,
/// changed value, signal or timeout), so the caller must check its condition again.
pub fn sleep_while(word: &AtomicU32, seen: u32, limit: Duration) {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    let _ = futex_wait(word, Flags::empty(), seen, Some(&limit));
}

/// Wakes every sleeper of `word`, in any process.
pub fn wake_all(word: &AtomicU32) {
    let _ = futex_wake(word, Flags::empty(), i32::MAX as u32);
}

const MEMBARRIER_QUERY: libc::c_int = 0;
const MEMBARRIER_GLOBAL: libc::c_int = 1;
const MEMBARRIER_GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const MEMBARRIER_REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

/// Returns the kernel's answer; negative if it refuses.
fn membarrier(command: libc::c_int) -> libc::c_long {
    // SAFETY: membarrier takes three integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}

/// Returns true if this process may call [`global_barrier`]. Queries the kernel once.
pub fn has_global_barrier() -> bool {
    static OFFERED: OnceLock<bool> = OnceLock::new();
    let offers = |commands| commands >= 0 && commands & libc::c_long::from(MEMBARRIER_GLOBAL) != 0;
    *OFFERED.get_or_init(|| offers(membarrier(MEMBARRIER_QUERY)))
}

/// Issues the rare half: a full memory barrier on every processor that runs a process. False if the
/// kernel does not support it (with `nohz_full`) or refuses it.
pub fn global_barrier() -> bool {
    membarrier(MEMBARRIER_GLOBAL) == 0
}

/// Registers this process as a target of other processes' `expedited_barrier`. True if the kernel
/// supports it; tried once.
pub fn register_barrier() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| membarrier(MEMBARRIER_REGISTER_GLOBAL_EXPEDITED) == 0)
}

/// Issues a full memory barrier on nearly every processor that runs a registered process, for use
/// with a later check that catches a miss. False if the kernel has none: that check must then come
/// soon.
pub fn expedited_barrier() -> bool {
    register_barrier() && membarrier(MEMBARRIER_GLOBAL_EXPEDITED) == 0
}

/// Issues the frequent half: between a store and a load, paired with [`global_barrier`] between the
/// other side's. Stores before it become visible before stores after it.
#[inline]
pub fn light_fence() {
    fence(Ordering::Release); // no instruction on x86
    compiler_fence(Ordering::SeqCst); // loads cannot move before it either
}

#[cfg(test)]
mod tests;
