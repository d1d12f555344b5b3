//! The state of polling for completions, which [`crate::work`] does.

#![forbid(unsafe_code)]

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
