//! The second level: sets of checkpoints on disk, to which a job falls back when more is lost than
//! the parity covers.
//!
//! A set is written while the program runs, so the disk and not the program bounds how often. Pure.
//!
//! Left out: losses of the disk, and the time that the program loses to writing.

use super::interval::young;
use super::{Candidate, SizingInput, risk};

/// Longest time between two sets in seconds: work of more than a day is not put at risk.
const DAY: f64 = 86_400.0;

/// Sets on disk for a candidate, and the cost of falling back to one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SecondLevel {
    /// Seconds that it takes to write a set, or to read it.
    pub write: f64,
    /// Seconds between two sets.
    pub interval: f64,
    /// Falls that are expected within 30 days.
    pub falls: f64,
    /// Seconds that a fall costs on average: half an interval of work done again, the notice of the
    /// loss, and reading the set.
    pub cost: f64,
}

impl SecondLevel {
    /// Returns the second level of a candidate; None without the rate of a disk.
    pub fn of(site: &SizingInput, candidate: &Candidate) -> Option<SecondLevel> {
        let write = site.bytes_a_node() / site.disk?;
        let falls = -(-candidate.chance).ln_1p();
        let between = risk::MONTH / falls;
        let least = write.max(candidate.interval);
        let interval = young(write, between).clamp(least, least.max(DAY));
        Some(SecondLevel { write, interval, falls, cost: interval / 2.0 + site.detection + write })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{choose, tests::site};
    use super::*;

    fn second(disk: f64, chance: f64) -> SecondLevel {
        let site = SizingInput { disk: Some(disk), ..site() };
        let choice = choose(&site);
        let best = choice.candidates[choice.best.expect("one is possible")].clone();
        SecondLevel::of(&site, &Candidate { chance, ..best }).expect("there is a disk")
    }

    #[test]
    fn sets_come_no_faster_than_the_disk_takes_them_and_once_a_day_at_least() {
        let bytes = site().bytes_a_node();
        let slow = second(bytes / 7200.0, 0.999);
        assert_eq!((slow.write, slow.interval), (7200.0, young(7200.0, risk::MONTH / slow.falls)));
        assert_eq!(second(bytes / 60.0, 1e-9).interval, DAY);
        assert_eq!(second(bytes / (2.0 * DAY), 1e-9).interval, 2.0 * DAY);
    }

    #[test]
    fn a_small_chance_is_the_number_of_falls() {
        let level = second(1e9, 1e-6);
        assert!((level.falls / 1e-6 - 1.0).abs() < 1e-5);
        assert_eq!(level.cost, level.interval / 2.0 + site().detection + level.write);
        assert!(second(1e9, 0.9).falls > 2.0, "several a month");
    }

    #[test]
    fn there_is_none_without_a_disk() {
        let choice = choose(&site());
        assert_eq!(SecondLevel::of(&site(), &choice.candidates[0]), None);
    }
}
