//! The state of polling for completions, which [`crate::work`] does.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Instant;

use crate::objects::Completion;

/// Completions found, and the time of the last poll.
#[derive(Debug)]
pub struct Poller {
    pub(super) done: Vec<Completion>,
    /// The time of the last poll, or of the end of the last sleep that a completion would have
    /// ended.
    pub(super) missed: Instant,
}

impl Default for Poller {
    fn default() -> Poller {
        Poller { done: Vec::new(), missed: Instant::now() }
    }
}

/// The hand-off of polling between the engine's thread and threads that wait anyway. A message
/// would wake the engine's thread in addition to the others, which costs them more than polling
/// does. The hand-off is worthwhile: together with the waiters' polling time, it cut a put from 964
/// to 640 us (`benches/notes.md`).
#[derive(Debug, Default)]
pub struct HandOff {
    /// Incremented by every poll of a waiting thread.
    pub(super) looks: AtomicU32,
    /// Incremented when such a thread goes to sleep; the engine's thread sleeps on it while away.
    pub(super) alarm: AtomicU32,
    pub(super) away: AtomicBool,
}
