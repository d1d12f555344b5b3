//! Crash loops: a PE that dies again and again without progress of the program.
//!
//! Pure, and for one PE; `deaths` acts on it. A program that crashes at one place takes a
//! checkpoint or two of an unchanged state before it crashes again, so a growing checkpoint number
//! is not progress by itself. Progress is judged by the number of checkpoints that a process passes
//! from its restart to its death: at most [`FEW`] do not count as progress, nor do at most [`MANY`]
//! if its predecessor passed equally many.
//!
//! From the second such death on, the next substitute is delayed, longer each time, so that a
//! transient cause (such as a memory shortage) can pass.

use crate::mutant::{Mutant, breaks};
use crate::quantity::CheckpointNumber;

/// Maximum checkpoints passed on the way back to the place of a crash.
const FEW: u64 = 2;
/// The corresponding maximum for a program that calls the checkpoint from many places.
const MANY: u64 = 8;
/// Delay of the first substitute in milliseconds; it doubles with each further one.
const REST: u64 = 100;
/// Maximum delay in milliseconds.
const LONGEST: u64 = 5000;

/// The history of one PE's deaths.
#[derive(Debug, Clone)]
pub(super) struct Crashes {
    /// The checkpoint from which its process started; None until its restart is over.
    from: Option<CheckpointNumber>,
    /// Checkpoints that the previous process had passed.
    before: Option<u64>,
    /// Consecutive deaths without progress, including the last one.
    deaths: u32,
}

impl Crashes {
    /// Creates the empty history of a process that the job started with.
    pub fn original() -> Crashes {
        Crashes { from: Some(CheckpointNumber::START), before: None, deaths: 0 }
    }

    /// Records the start of a substitute.
    pub fn begin(&mut self) {
        self.from = None;
    }

    /// Records that all PEs continue from checkpoint `number`.
    pub fn resume(&mut self, number: CheckpointNumber) {
        self.from.get_or_insert(number);
    }

    /// Records a death after checkpoint `now`; returns the number of deaths without progress.
    pub fn die(&mut self, now: CheckpointNumber) -> u32 {
        let passed = self.from.map_or(0, |from| now.0.saturating_sub(from.0));
        let again = passed <= MANY && self.before == Some(passed);
        if passed > FEW && !again {
            self.deaths = 0;
        }
        (self.before, self.from) = (Some(passed), None);
        self.deaths += u32::from(!breaks(Mutant::CrashNotCounted));
        self.deaths
    }
}

/// Returns the delay in milliseconds of the substitute after `deaths` deaths without progress.
pub(super) fn rest(deaths: u32) -> u64 {
    match deaths {
        0 | 1 => 0,
        _ => LONGEST.min(REST << (deaths - 2).min(16)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the deaths counted after each of several lives that passed so many checkpoints.
    fn counted(lives: &[u64]) -> Vec<u32> {
        let (mut crashes, mut now) = (Crashes::original(), 0);
        let mut count = |passed: &u64| {
            now += passed;
            let deaths = crashes.die(CheckpointNumber(now));
            crashes.begin();
            crashes.resume(CheckpointNumber(now));
            deaths
        };
        lives.iter().map(&mut count).collect()
    }

    #[test]
    fn lives_that_only_repeat_a_checkpoint_are_no_progress() {
        assert_eq!(counted(&[100, 1, 1, 1]), [1, 2, 3, 4]);
        assert_eq!(counted(&[1, 0, 2, 1]), [1, 2, 3, 4]);
        assert_eq!(counted(&[7, 5, 5, 5, 5]), [1, 1, 2, 3, 4], "five calls of the checkpoint");
    }

    #[test]
    fn progress_resets_the_count() {
        assert_eq!(counted(&[100, 50, 30, 10, 9]), [1, 1, 1, 1, 1]);
        assert_eq!(counted(&[3, 1, 1, 40, 1, 1]), [1, 2, 3, 1, 2, 3]);
        assert_eq!(counted(&[90, 90, 90]), [1, 1, 1], "a leak that takes its time");
    }

    #[test]
    fn a_death_before_the_end_of_the_restart_counts_as_no_progress() {
        let mut crashes = Crashes::original();
        assert_eq!(crashes.die(CheckpointNumber(70)), 1);
        for deaths in 2..6 {
            crashes.begin();
            assert_eq!(crashes.die(CheckpointNumber(70 + u64::from(deaths))), deaths);
        }
    }

    #[test]
    fn a_substitute_is_held_back_longer_each_time() {
        assert_eq!([1, 2, 3, 4, 9, 1_000_000].map(rest), [0, 100, 200, 400, 5000, 5000]);
    }
}
