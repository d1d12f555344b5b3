//! Signals for PEs that ran when they came, but whose start the worker had not yet reported.
//!
//! Left out: PEs that are started later do not get the signal.

#![forbid(unsafe_code)]

use std::time::Instant;

/// Signals that came while processes were being started, and when.
#[derive(Debug, Default)]
pub(super) struct Missed(Vec<(Instant, i32)>);

impl Missed {
    /// A signal came now.
    pub(super) fn note(&mut self, now: Instant, signal: i32) {
        self.0.push((now, signal));
    }

    /// The signals that came after a process had begun to start.
    pub(super) fn since(&self, begun: Instant) -> impl Iterator<Item = i32> + '_ {
        let after = move |&&(came, _): &&(Instant, i32)| came >= begun;
        self.0.iter().filter(after).map(|&(_, signal)| signal)
    }

    /// No process is being started any more.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_began_before_a_signal_gets_it_and_who_began_later_does_not() {
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
