//! Restart backoff: substitutes whose start is delayed.

use std::time::{Duration, Instant};

use raidshmem_core::quantity::Pe;

/// PEs, with the times at which their substitutes may start.
#[derive(Debug, Default)]
pub struct RestartBackoff(Vec<(Instant, Pe)>);

impl RestartBackoff {
    /// Delays the substitute of `pe` by `ms` milliseconds.
    pub fn add(&mut self, pe: Pe, ms: u64) {
        self.0.push((Instant::now() + Duration::from_millis(ms), pe));
    }

    /// Returns the time until the next start.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        self.0.iter().map(|(end, _)| end.saturating_duration_since(now)).min()
    }

    /// Takes the PEs whose delay is over.
    pub fn over(&mut self) -> Vec<Pe> {
        let now = Instant::now();
        let over = self.0.extract_if(.., |(end, _)| *end <= now);
        over.map(|(_, pe)| pe).collect()
    }
}
