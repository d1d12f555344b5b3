//! Early termination of a job: PEs flush their buffered output, then they are killed.
//!
//! The agent waits at most [`LIMIT`] for a PE that is stopped or whose output has no reader.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_sys::futex;

use super::{Agent, Local};

/// Time limit for PEs to flush their output.
const LIMIT: Duration = Duration::from_secs(1);

impl Agent {
    /// Orders every PE of this node to flush its output and exit.
    pub(super) fn abort_pes(&self) {
        let told = self.procs.values().filter(|_| !breaks(Mutant::OutputCutOff));
        for words in told.filter_map(Local::words) {
            words.abort.store(1, Ordering::SeqCst); // pairs with the load of a PE that sleeps on it
            futex::wake_all(&words.abort);
        }
    }

    /// Waits until the PEs that were ordered to exit have ended.
    pub(super) fn wait_for_aborted(&self) {
        let end = Instant::now() + LIMIT;
        let told = |local: &&Local| {
            local.words().is_some_and(|words| words.abort.load(Ordering::SeqCst) != 0)
        };
        for local in self.procs.values().filter(told) {
            let left = end.saturating_duration_since(Instant::now());
            local.carrier().wait_end(left.as_millis() as i32);
        }
    }
}
