//! What benches that time two ways in turns have in common: processor time, and medians.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time this thread has used: that of other programs does not count.
pub fn busy() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("the clock does not run backwards")
}

pub fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
