//! The steps in which files change. A process may be killed before any of them; in tests one is,
//! after so many.

#![forbid(unsafe_code)]

/// The next step begins.
#[cfg(not(test))]
pub fn step() {}

#[cfg(test)]
pub use counted::{kill_after, step};

#[cfg(test)]
mod counted {
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    static LEFT: AtomicU64 = AtomicU64::new(u64::MAX);

    /// This process is killed when it has begun so many more steps.
    pub fn kill_after(steps: u64) {
        LEFT.store(steps, Ordering::SeqCst);
    }

    /// The next step begins, or the process ends.
    pub fn step() {
        if LEFT.fetch_sub(1, Ordering::SeqCst) == 0 {
            kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
            loop {
                std::thread::park(); // until it is
            }
        }
    }
}
