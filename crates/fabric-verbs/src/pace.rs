//! The time for which a waiting thread polls before it sleeps (pure).
//!
//! A thread that sleeps pays for being woken, and one that polls occupies a processor. So a thread
//! polls for a few measured round trips of its connection, and then sleeps. The estimate is that of
//! TCP's timer (RFC 6298, section 2): a smoothed round trip, and its variation.
//!
//! Invariant: [`Pace`] only receives the times of operations that were polled throughout (RFC 6298,
//! section 3, has a similar rule for retransmitted segments). A completion that no thread was
//! polling for measures when a thread looked, not the network.
//!
//! Left out: the choice of operations to measure, and the clock.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// Minimum polling time: the cost of a wake-up from a deep sleep.
pub const LEAST: Duration = Duration::from_micros(200);
/// Maximum polling time: for longer waits, the cost of sleeping is relatively small.
pub const MOST: Duration = Duration::from_millis(20);
/// Polling time in worst-case round trips.
const TRIPS: u32 = 2;

/// The round trips of a connection.
#[derive(Debug, Default, Clone, Copy)]
pub struct Pace {
    /// Mean and deviation, smoothed; `None` until the first measurement.
    trip: Option<(Duration, Duration)>,
}

impl Pace {
    /// Records the time of a round trip.
    pub fn measured(&mut self, took: Duration) {
        self.trip = Some(match self.trip {
            None => (took, took / 2),
            Some((mean, deviation)) => {
                ((7 * mean + took) / 8, (3 * deviation + mean.abs_diff(took)) / 4)
            }
        });
    }

    /// Returns the worst-case time of a round trip; 0 before the first measurement.
    pub fn longest(&self) -> Duration {
        self.trip.map_or(Duration::ZERO, |(mean, deviation)| mean + 4 * deviation)
    }

    /// Returns how long to poll. Before the first measurement a thread polls for [`MOST`], because
    /// a thread that slept at once would measure its own wake-up.
    pub fn patience(&self) -> Duration {
        match self.trip {
            None => MOST,
            Some((mean, _)) if mean > MOST => LEAST, // it will sleep anyway
            Some(_) => (TRIPS * self.longest()).clamp(LEAST, MOST),
        }
    }
}

/// Returns the time of a round trip posted at `posted` and found complete at `found`, if it was
/// polled closely enough: the last poll that found it pending, at `missed`, was in its last
/// quarter.
pub fn trip(posted: Instant, missed: Instant, found: Instant) -> Option<Duration> {
    let took = found.saturating_duration_since(posted);
    let unseen = found.saturating_duration_since(missed.max(posted));
    (4 * unseen <= took).then_some(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn after(trips: impl IntoIterator<Item = u64>) -> Pace {
        let mut pace = Pace::default();
        trips.into_iter().for_each(|trip| pace.measured(us(trip)));
        pace
    }

    #[test]
    fn patience_is_a_few_round_trips_and_what_they_vary() {
        assert_eq!(after([]).patience(), MOST, "nothing is known yet");
        assert_eq!(after([]).longest(), Duration::ZERO);
        // The first trip R: mean R, deviation R/2, so the worst case is R + 4 R/2.
        assert_eq!(after([1000]).patience(), TRIPS * us(3000));
        // Then mean (7 * 1000 + 2000) / 8, deviation (3 * 500 + 1000) / 4.
        assert_eq!(after([1000, 2000]).patience(), TRIPS * us(1125 + 4 * 625));
        let steady = after([2000; 100]).patience();
        assert!(steady >= TRIPS * us(2000) && steady < TRIPS * us(2001), "{steady:?}");
    }

    #[test]
    fn it_follows_a_change_within_some_trips() {
        let slower = after([100; 50].into_iter().chain([1500; 12])).patience();
        assert!(slower > us(2 * 1500), "{slower:?}");
        let faster = after([1500; 50].into_iter().chain([100; 60])).patience();
        assert!(faster < us(2 * 150), "{faster:?}");
    }

    #[test]
    fn polling_lasts_as_long_as_waking_costs() {
        assert_eq!(after([2; 10]).patience(), LEAST);
    }

    #[test]
    fn a_wait_that_would_end_in_sleep_sleeps_at_once() {
        assert_eq!(after([15_000; 9]).patience(), MOST);
        assert_eq!(after([21_000; 9]).patience(), LEAST);
    }

    #[test]
    fn unpolled_operations_are_not_measured() {
        let zero = Instant::now();
        let trip =
            |posted, missed, found| trip(zero + us(posted), zero + us(missed), zero + us(found));
        assert_eq!(trip(10, 1005, 1010), Some(us(1000)));
        assert_eq!(trip(10, 760, 1010), Some(us(1000)));
        assert_eq!(trip(10, 759, 1010), None, "it came at any time since 759");
        assert_eq!(trip(10, 5, 1010), None, "no poll since it was posted");
        assert_eq!(trip(10, 5, 9), Some(us(0)), "it was found by a look that began before");
    }
}
