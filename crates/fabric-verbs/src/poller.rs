//! Which thread polls for completions, and what it found: the state of polling, which
//! [`crate::work`] does.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Instant;

use crate::objects::Completion;

/// Completions, and the threads that poll for them.
#[derive(Debug)]
pub struct Poller {
    pub(super) done: Vec<Completion>,
    /// When a thread polled last; or until when it slept, and would have been woken.
    pub(super) missed: Instant,
}

impl Default for Poller {
    fn default() -> Poller {
        Poller { done: Vec::new(), missed: Instant::now() }
    }
}

/// The threads that poll: the engine's thread, or threads that wait for something anyway. A message
/// would wake the engine's thread beside the others, and cost them more than it does itself. The
/// hand-off stays because, with the time for which a waiter polls, it brought a put from 964 to 640
/// us (`benches/notes.md`).
#[derive(Debug, Default)]
pub struct HandOff {
    /// Grows with every look of a thread that waits.
    pub(super) looks: AtomicU32,
    /// Grows when such a thread goes to sleep; the engine's thread sleeps on it while it is away.
    pub(super) alarm: AtomicU32,
    pub(super) away: AtomicBool,
}
