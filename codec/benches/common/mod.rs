//! Helpers for benches that time variants in alternation: processor time and medians.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the processor time of this thread, which excludes other programs.
pub fn busy() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("the clock does not run backwards")
}

pub fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
