//! The decision that a checkpoint is due, which one PE makes for all: from the time since the last
//! one, its cost and the losses seen (`SHMEM_FT_INTERVAL`, `SHMEM_FT_MTBF`).
//!
//! Pure: times are arguments, in seconds since the start of the job. [`interval`] has the formula.
//!
//! Before enough losses are seen, the time between two of them is assumed to be [`EXPECTED`], with
//! the weight of [`WEIGHT`] losses: after `n` losses in `t` seconds it is
//! `(WEIGHT EXPECTED + t) / (WEIGHT + n)`.

use super::interval;
use crate::settings::Interval;

/// Assumed time between two losses before one was seen, in seconds: a day.
const EXPECTED: f64 = 86_400.0;
/// Weight of that assumption, in losses.
const WEIGHT: f64 = 0.1;
/// Weight of the latest measurement in the estimated cost of a checkpoint.
const LATEST: f64 = 0.5;

/// The history of a job's checkpoints and losses.
#[derive(Debug, Clone, PartialEq)]
pub struct Due {
    wanted: Interval,
    mtbf: Option<f64>,
    losses: u32,
    /// When the last checkpoint was complete.
    saved: f64,
    /// Estimated cost of a checkpoint; None before the first.
    cost: Option<f64>,
}

impl Due {
    /// Creates the decision for a job with this interval, this time between two losses, if known,
    /// and this number of losses so far, so that a substitute of PE 0 decides as its predecessor
    /// would.
    pub fn new(wanted: Interval, mtbf: Option<f64>, losses: u32) -> Due {
        Due { wanted, mtbf, losses, saved: 0.0, cost: None }
    }

    /// Records a checkpoint completed at `now` that took `cost`.
    pub fn saved(&mut self, now: f64, cost: f64) {
        let before = self.cost.unwrap_or(cost);
        (self.saved, self.cost) = (now, Some(before + LATEST * (cost - before)));
    }

    /// Records a repaired loss, and returns the number of losses.
    pub fn lost(&mut self) -> u32 {
        self.losses = self.losses.saturating_add(1);
        self.losses
    }

    /// Returns the time between two losses, as estimated at `now`.
    pub fn mtbf(&self, now: f64) -> f64 {
        let seen = (WEIGHT * EXPECTED + now) / (WEIGHT + f64::from(self.losses));
        self.mtbf.unwrap_or(seen)
    }

    /// Returns the time from one checkpoint to the next; None if each call makes one.
    pub fn interval(&self, now: f64) -> Option<f64> {
        match (self.wanted, self.cost) {
            (Interval::Auto, Some(cost)) => Some(interval::daly(cost, self.mtbf(now))),
            (Interval::Auto, None) | (Interval::EACH_CALL, _) => None,
            (Interval::After(time), _) => Some(time.as_secs_f64()),
        }
    }

    /// Returns true if a call at `now` makes a checkpoint.
    pub fn is_due(&self, now: f64) -> bool {
        self.interval(now).is_none_or(|interval| now - self.saved >= interval)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_given_interval_is_kept() {
        let mut due = Due::new(Interval::After(Duration::from_secs(5)), Some(1.0), 0);
        due.saved(10.0, 100.0);
        assert!(!due.is_due(14.9) && due.is_due(15.0));
        due.lost();
        assert!(!due.is_due(14.9), "losses do not change it");
        let each = Due::new(Interval::After(Duration::ZERO), None, 0);
        assert!(each.is_due(0.0), "by default each call makes one");
    }

    #[test]
    fn it_follows_cost_and_given_losses_as_daly_has_it() {
        let mut due = Due::new(Interval::Auto, Some(3600.0), 0);
        assert!(due.is_due(0.0), "nothing was measured yet");
        due.saved(100.0, 2.0);
        let expected = interval::daly(2.0, 3600.0);
        assert!((118.0..119.0).contains(&expected), "{expected}");
        assert!(!due.is_due(99.0 + expected) && due.is_due(101.0 + expected));
        due.saved(300.0, 8.0); // estimated at 5
        assert_eq!(due.interval(300.0), Some(interval::daly(5.0, 3600.0)));
    }

    #[test]
    fn losses_that_were_seen_shorten_it() {
        let mut due = Due::new(Interval::Auto, None, 0);
        due.saved(0.0, 1.0);
        let day = due.interval(0.0).expect("measured");
        assert_eq!(due.mtbf(0.0), EXPECTED);
        assert_eq!((0..10).map(|_| due.lost()).last(), Some(10));
        let hour = due.interval(3600.0).expect("measured");
        assert!(hour < day / 5.0, "{hour} and {day}");
        assert!((due.mtbf(1e7) / 1e6 - 1.0).abs() < 0.02, "in the end only what was seen counts");
        let substitute = Due::new(Interval::Auto, None, 10);
        assert_eq!(substitute.mtbf(3600.0), due.mtbf(3600.0), "it knows of earlier losses");
    }
}
