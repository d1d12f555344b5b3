//! The state of the thread that computes parity while the program runs.
//!
//! Invariant: a thread of the program begins it, in a call that holds the store lock, and the next
//! such call waits for its end.

use std::sync::atomic::{AtomicU8, Ordering};

/// The state of the background, as threads of the program see it.
#[derive(Debug, Default)]
pub(crate) struct Background(AtomicU8);

const IDLE: u8 = 0;
const UNDER_WAY: u8 = 1;
const SAVED: u8 = 2;

impl Background {
    /// Notes that a thread is about to begin.
    pub(crate) fn begin(&self) {
        self.0.store(UNDER_WAY, Ordering::SeqCst);
    }

    /// Notes the end of the thread: every PE has the checkpoint if it is `saved`.
    pub(crate) fn end(&self, saved: bool) {
        self.0.store(if saved { SAVED } else { IDLE }, Ordering::SeqCst);
    }

    /// Returns true unless the thread is at work.
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::SeqCst) != UNDER_WAY
    }

    /// Returns true, once, if the thread has ended with a checkpoint.
    pub(crate) fn take_saved(&self) -> bool {
        self.0.compare_exchange(SAVED, IDLE, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}
