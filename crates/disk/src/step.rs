//! Counted steps in which files change: if the count stalls, the disk is not responding. A process
//! may be killed before any step; tests kill one after a given number.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Counts the beginning of a step.
pub fn step() {
    BEGUN.fetch_add(1, Ordering::Relaxed); // only a count
    #[cfg(test)]
    counted::step();
}

/// Returns the number of steps begun in this process.
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

    /// Schedules the death of this process after `steps` more steps.
    pub fn kill_after(steps: u64) {
        LEFT.store(steps, Ordering::SeqCst);
    }

    /// Counts a step, or ends the process.
    pub fn step() {
        if LEFT.fetch_sub(1, Ordering::SeqCst) == 0 {
            kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
            loop {
                std::thread::park(); // until the signal arrives
            }
        }
    }
}
