//! The end of a job: its exit status, and the signals and time limits that bring it about.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use rustix::event::PollFd;

use super::report::{signalled, timed_out};
use super::signals::Signals;
use crate::output;

/// Time limit for the other PEs to report an agreed error that one PE has reported.
const VERDICT_TIME: Duration = Duration::from_secs(5);

/// The end of a job.
pub(super) struct JobEnd {
    status: Option<i32>,
    signals: Signals,
    /// True once a signal stops the job: the launcher then waits for no slow reader.
    hurried: bool,
    /// The time limit of the job.
    timeout: Option<Duration>,
    /// The time at which an unrecoverable job ends without the reports that it waits for.
    last_words: Option<Instant>,
}

impl JobEnd {
    /// Creates the end of a job with a time limit, if any, that has just begun.
    pub fn new(signals: Signals, timeout: Option<Duration>) -> JobEnd {
        JobEnd { status: None, signals, hurried: false, timeout, last_words: None }
    }

    /// Returns the exit status of a job that is over.
    pub fn status(&self) -> Option<i32> {
        self.status
    }

    /// Ends the job with `status`, whatever was decided before.
    pub fn decide(&mut self, status: i32) {
        self.status = Some(status);
    }

    /// Ends the job with `status` unless it is over. Returns true if this decided it.
    pub fn propose(&mut self, status: i32) -> bool {
        let is_first = self.status.is_none();
        self.status.get_or_insert(status);
        is_first
    }

    /// Returns the status and the reason of a stop by `signal`, after which no reader is waited
    /// for.
    pub fn hurry(&mut self, signal: i32) -> (i32, String) {
        self.hurried = true;
        signalled(signal)
    }

    /// Returns true if a signal stops the job.
    pub fn is_hurried(&self) -> bool {
        self.hurried
    }

    /// Returns true while a slow reader is behind and no signal asks for a stop.
    pub fn is_patient(&mut self) -> bool {
        self.hurried |= self.signals.stopped().is_some();
        !self.hurried && output::is_held_up()
    }

    /// Takes a signal that stops the job, and returns true with the one after which the job may
    /// write a checkpoint before it stops.
    pub fn stopped(&self) -> Option<(i32, bool)> {
        let signal = self.signals.stopped()?;
        Some((signal, signal == self.signals.asks_for_a_stop()))
    }

    /// Returns the signal after which the job may write a checkpoint before it stops.
    pub fn stop_signal(&self) -> i32 {
        self.signals.asks_for_a_stop()
    }

    /// Takes a signal for the PEs, like [`Signals::passed`].
    pub fn passed(&self) -> Option<i32> {
        self.signals.passed()
    }

    /// Returns the descriptors to poll.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.signals.fds()
    }

    /// Returns the status and the reason if the job has `run` up to its time limit.
    pub fn time_out(&self, run: Duration) -> Option<(i32, String)> {
        self.timeout.filter(|limit| run >= *limit).map(timed_out)
    }

    /// Returns true once an unrecoverable job, which `waits` for reports of its PEs, has waited
    /// long enough.
    pub fn words_are_late(&mut self, waits: bool) -> bool {
        if !waits {
            self.last_words = None;
            return false;
        }
        let now = Instant::now();
        now >= *self.last_words.get_or_insert(now + VERDICT_TIME)
    }

    /// Returns the time until the next of these limits, for a job that has `run` so far and may be
    /// `unrecoverable`.
    pub fn left(&self, now: Instant, run: Duration, unrecoverable: bool) -> Option<Duration> {
        let words = unrecoverable.then(|| self.last_words.unwrap_or(now));
        let words = words.map(|end| end.saturating_duration_since(now));
        let over = self.timeout.map(|limit| limit.saturating_sub(run));
        words.into_iter().chain(over).min()
    }
}
