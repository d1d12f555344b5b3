//! Substitutes that are held back: whose time is over when.

use std::time::{Duration, Instant};

use raidshmem_core::quantity::Pe;

/// PEs and when their substitutes may start.
#[derive(Debug, Default)]
pub struct Rests(Vec<(Instant, Pe)>);

impl Rests {
    /// The substitute of `pe` may start in `ms` milliseconds.
    pub fn add(&mut self, pe: Pe, ms: u64) {
        self.0.push((Instant::now() + Duration::from_millis(ms), pe));
    }

    /// How long until the next one.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        self.0.iter().map(|(end, _)| end.saturating_duration_since(now)).min()
    }

    /// Takes those whose time is over.
    pub fn over(&mut self) -> Vec<Pe> {
        let now = Instant::now();
        let over = self.0.extract_if(.., |(end, _)| *end <= now);
        over.map(|(_, pe)| pe).collect()
    }
}
