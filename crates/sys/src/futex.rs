//! Sleeping on a word of shared memory, and the two halves of an asymmetric fence.
//!
//! The words live in memfd segments mapped by several processes, so the futexes are shared ones.
//!
//! Two processes each store a word, and then look at the word of the other. One of them sees what
//! the other stored only if each has a full fence between its two steps. Where one side does so all
//! the time and the other hardly ever, the rare one has [`global_barrier`], and the frequent one
//! [`light_fence`], which is none for the processor. The barrier is a full fence on every
//! processor, at some moment of the call; who runs on none passes one before it goes on. If a
//! process has made its store before that moment, whoever issued the barrier sees it. If not, it
//! looks after that moment, and sees what was stored before the call.
//!
//! [`expedited_barrier`] takes microseconds where that takes a scheduler's period (8 to 24 ms), but
//! it may leave out a processor. The kernel notes in each run queue whether the process there is a
//! registered one. It does so when the process registers, on the processors that run it then, and
//! when a processor changes from one memory map to another. A processor that was idle at the
//! registration, and had run this process last, is neither (Linux 6.18, `membarrier_switch_mm`).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};
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

const MEMBARRIER_QUERY: libc::c_int = 0;
const MEMBARRIER_GLOBAL: libc::c_int = 1;
const MEMBARRIER_GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const MEMBARRIER_REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

/// What the kernel says; negative if it refuses.
fn membarrier(command: libc::c_int) -> libc::c_long {
    // SAFETY: membarrier takes three integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}

/// True if this process may call [`global_barrier`]. Asked once.
pub fn has_global_barrier() -> bool {
    static OFFERED: OnceLock<bool> = OnceLock::new();
    let offers = |commands| commands >= 0 && commands & libc::c_long::from(MEMBARRIER_GLOBAL) != 0;
    *OFFERED.get_or_init(|| offers(membarrier(MEMBARRIER_QUERY)))
}

/// The rare half: a full memory barrier on every processor that runs a process. False where the
/// kernel has none (one with `nohz_full`) or refuses it.
pub fn global_barrier() -> bool {
    membarrier(MEMBARRIER_GLOBAL) == 0
}

/// Registers this process to be reached by other processes' `expedited_barrier`. True when the
/// kernel offers it; asked once.
pub fn register_barrier() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| membarrier(MEMBARRIER_REGISTER_GLOBAL_EXPEDITED) == 0)
}

/// A full memory barrier on nearly every processor that runs a registered process now: for what a
/// later look mends. False where the kernel has none: then that look must come soon.
pub fn expedited_barrier() -> bool {
    register_barrier() && membarrier(MEMBARRIER_GLOBAL_EXPEDITED) == 0
}

/// The frequent half: between a store and a look, for whoever issues [`global_barrier`] between its
/// own. Stores before it show before stores after it, to all.
#[inline]
pub fn light_fence() {
    fence(Ordering::Release); // no instruction on x86
    compiler_fence(Ordering::SeqCst); // loads do not come before it either
}

#[cfg(test)]
mod tests;
