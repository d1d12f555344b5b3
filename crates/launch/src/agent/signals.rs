//! Signals that arrive while the worker is starting processes, for PEs not reported yet.
//!
//! Left out: PEs started after a signal, which do not get it.

#![forbid(unsafe_code)]

use std::time::Instant;

/// Signals that arrived while processes were being started, with their times.
#[derive(Debug, Default)]
pub(super) struct Missed(Vec<(Instant, i32)>);

impl Missed {
    /// Records a signal that arrived at `now`.
    pub(super) fn note(&mut self, now: Instant, signal: i32) {
        self.0.push((now, signal));
    }

    /// Returns the signals that arrived after the start of a process had begun.
    pub(super) fn since(&self, begun: Instant) -> impl Iterator<Item = i32> + '_ {
        let after = move |&&(came, _): &&(Instant, i32)| came >= begun;
        self.0.iter().filter(after).map(|&(_, signal)| signal)
    }

    /// Clears the record, once no process is being started.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_processes_started_before_a_signal_get_it() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut missed = Missed::default();
        missed.note(at(1), 10);
        missed.note(at(3), 12);
        let of = |missed: &Missed, begun| missed.since(begun).collect::<Vec<_>>();
        assert_eq!(of(&missed, begun), [10, 12]);
        assert_eq!(of(&missed, at(2)), [12]);
        assert_eq!(of(&missed, at(4)), [0; 0]);
        missed.forget();
        assert_eq!(of(&missed, begun), [0; 0]);
    }
}
