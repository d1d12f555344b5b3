//! The end of a job before its time: PEs write out what they have buffered, then they are killed.
//!
//! The agent waits at most [`LIMIT`] for a PE that is stopped or whose output nobody reads.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_sys::futex;

use super::{Agent, Local};

/// How long PEs may take to write out what they have buffered.
const LIMIT: Duration = Duration::from_secs(1);

impl Agent {
    /// Tells every PE of this node to write out what it has buffered, and to end.
    pub(super) fn abort_pes(&self) {
        let told = self.procs.values().filter(|_| !breaks(Mutant::OutputCutOff));
        for words in told.filter_map(Local::words) {
            words.abort.store(1, Ordering::SeqCst); // pairs with the load of who sleeps on it
            futex::wake_all(&words.abort);
        }
    }

    /// Waits until the PEs that were told to end have done so.
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
