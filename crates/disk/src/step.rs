//! The steps in which files change. They are counted: where they do not go on, the disk does not
//! answer. A process may be killed before any of them; in tests one is, after so many.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

static BEGUN: AtomicU64 = AtomicU64::new(0);

/// The next step begins.
pub fn step() {
    BEGUN.fetch_add(1, Ordering::Relaxed); // a count, and nothing else
    #[cfg(test)]
    counted::step();
}

/// How many have begun in this process.
pub fn begun() -> u64 {
    BEGUN.load(Ordering::Relaxed)
}

#[cfg(test)]
pub use counted::kill_after;

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
