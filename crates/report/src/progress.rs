//! The recovery under way: when it began, which PEs are still lost, and how far it is. Pure.
//!
//! A recovery begins with a loss. It ends when all PEs have resumed, when a PE continues alone
//! because the others are in `shmem_finalize`, or when the last lost PE has caught up after a local
//! rollback.
//!
//! The rate of a rebuild is the average of all PEs together since the first began, so that it
//! neither jumps between messages nor includes earlier time. If a PE restarts its rebuild, the
//! count restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use raidshmem_core::message::{ProgressReport, Reader, RecoveryStep};
use raidshmem_core::quantity::Pe;

use crate::event::{Event, What};

/// The recovery under way, if there is one.
#[derive(Debug, Default)]
pub struct OpenRecovery {
    /// The time of the first loss.
    begun: Option<Duration>,
    /// The PEs that were lost and are not back.
    lost: BTreeSet<Pe>,
    rebuild: Rebuild,
}

/// An event's effect on the recovery under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// None.
    Stays,
    /// It begins.
    Begins,
    /// It ends, and began at that time. None if no PE was lost: all came from a checkpoint on disk.
    Ends(Option<Duration>),
}

/// The reports of the PEs that rebuild.
#[derive(Debug, Default)]
struct Rebuild {
    step: Option<RecoveryStep>,
    /// The time at which the first PE began to rebuild.
    begun: Option<Duration>,
    /// The time of the last report.
    heard: Duration,
    /// Bytes that each PE has rebuilt, and its total.
    pes: BTreeMap<Pe, (u64, u64)>,
}

/// The progress of a recovery.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RebuildProgress {
    /// The step that it has reached.
    pub step: Option<RecoveryStep>,
    /// Bytes rebuilt, and the total, once a rebuild has begun.
    pub bytes: Option<(u64, u64)>,
    /// Bytes per second.
    pub rate: Option<f64>,
    /// The remaining time at this rate.
    pub left: Option<Duration>,
}

impl OpenRecovery {
    /// Adds an event. Returns its effect.
    pub fn hear(&mut self, event: &Event) -> Turn {
        match &event.what {
            What::Lost { pes, .. } => {
                self.lost.extend(pes);
                self.rebuild = Rebuild::default();
                match self.begun.replace(self.begun.unwrap_or(event.time)) {
                    None => Turn::Begins,
                    Some(_) => Turn::Stays,
                }
            }
            What::Report(report) => self.hear_report(event.time, report),
            other => {
                other.ignored_by(Reader::Recovery);
                Turn::Stays
            }
        }
    }

    fn hear_report(&mut self, now: Duration, report: &ProgressReport) -> Turn {
        match report {
            ProgressReport::Step { step } => self.rebuild.step = Some(*step),
            ProgressReport::Rebuilding { pe, bytes, of } => {
                self.rebuild.hear(now, *pe, (*bytes, *of));
            }
            ProgressReport::Replayed { pe, .. } => {
                self.lost.remove(pe);
                if self.lost.is_empty() {
                    return self.end();
                }
            }
            ProgressReport::Resumed { .. } | ProgressReport::Alone { .. } => return self.end(),
            other => other.ignored_by(Reader::Recovery),
        }
        Turn::Stays
    }

    fn end(&mut self) -> Turn {
        Turn::Ends(std::mem::take(self).begun)
    }

    /// Returns the time of the first loss since all PEs last ran.
    pub fn begun(&self) -> Option<Duration> {
        self.begun
    }

    /// Returns the PEs that were lost and are not back.
    pub fn lost(&self) -> &BTreeSet<Pe> {
        &self.lost
    }

    /// Returns the progress at `now`.
    pub fn progress(&self, now: Duration) -> RebuildProgress {
        self.rebuild.progress(now)
    }
}

impl Rebuild {
    /// Records the bytes that a PE has rebuilt, and its total.
    fn hear(&mut self, now: Duration, pe: Pe, bytes: (u64, u64)) {
        if bytes.0 == 0 && self.pes.contains_key(&pe) {
            *self = Rebuild::default();
        }
        self.step = Some(RecoveryStep::Rebuild);
        self.begun.get_or_insert(now);
        self.heard = now;
        self.pes.insert(pe, bytes);
    }

    fn progress(&self, now: Duration) -> RebuildProgress {
        let (done, of) = self.pes.values().fold((0, 0), |sum, pe| (sum.0 + pe.0, sum.1 + pe.1));
        let bytes = (!self.pes.is_empty()).then_some((done, of));
        // The rate stays constant once everything is rebuilt.
        let until = if done < of { now } else { self.heard };
        let lasted = self.begun.map(|begun| until.saturating_sub(begun).as_secs_f64());
        let rate = lasted.map(|lasted| done as f64 / lasted).filter(|rate| rate.is_normal());
        let left = rate.map(|rate| of.saturating_sub(done) as f64 / rate);
        let left = left.and_then(|left| Duration::try_from_secs_f64(left).ok());
        RebuildProgress { step: self.step, bytes, rate, left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidshmem_core::quantity::{CheckpointNumber, ViewNumber};

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    impl OpenRecovery {
        fn at(&mut self, seconds: f64, what: impl Into<What>) -> Turn {
            self.hear(&Event { time: at(seconds), what: what.into() })
        }
    }

    fn lost(pe: u32) -> What {
        What::Lost { pes: vec![Pe(pe)], node: None, cause: String::new(), drained: false }
    }

    #[test]
    fn it_ends_with_the_last_pe_that_comes_back() {
        let (checkpoint, took, calls) = (CheckpointNumber(2), at(0.1), 3);
        let replayed = |pe| ProgressReport::Replayed { pe: Pe(pe), checkpoint, calls, took };
        let view = ViewNumber(2);
        let resumed = || ProgressReport::Resumed { checkpoint, view, took };
        let mut open = OpenRecovery::default();
        assert_eq!(open.at(0.5, resumed()), Turn::Ends(None), "from a checkpoint on disk");
        assert_eq!((open.at(1.0, lost(1)), open.at(1.5, lost(3))), (Turn::Begins, Turn::Stays));
        assert_eq!(open.at(2.0, replayed(3)), Turn::Stays);
        assert_eq!((open.begun(), open.lost()), (Some(at(1.0)), &BTreeSet::from([Pe(1)])));
        assert_eq!(open.at(3.0, replayed(1)), Turn::Ends(Some(at(1.0))));
        for pe in 0..3 {
            open.at(4.0, lost(pe));
        }
        assert_eq!(open.at(5.0, resumed()), Turn::Ends(Some(at(4.0))));
        assert!(open.begun().is_none() && open.lost().is_empty());
    }

    #[test]
    fn rate_and_rest_are_those_of_all_pes() {
        let mut open = OpenRecovery::default();
        let hears = |open: &mut OpenRecovery, seconds, pe, (bytes, of)| {
            open.at(seconds, ProgressReport::Rebuilding { pe: Pe(pe), bytes, of });
        };
        assert_eq!(open.progress(at(1.0)), RebuildProgress::default());
        open.at(1.0, ProgressReport::Step { step: RecoveryStep::Verify });
        assert_eq!(open.progress(at(1.0)).step, Some(RecoveryStep::Verify));
        hears(&mut open, 2.0, 1, (0, 600));
        let first = open.progress(at(2.0));
        assert_eq!((first.bytes, first.rate, first.left), (Some((0, 600)), None, None));
        hears(&mut open, 3.0, 4, (0, 200));
        hears(&mut open, 4.0, 1, (400, 600));
        let half = open.progress(at(4.0));
        assert_eq!(half.step, Some(RecoveryStep::Rebuild));
        assert_eq!(half.bytes, Some((400, 800)));
        assert_eq!((half.rate, half.left), (Some(200.0), Some(at(2.0))));
        let stands_still = open.progress(at(6.0));
        assert_eq!((stands_still.rate, stands_still.left), (Some(100.0), Some(at(4.0))));
        hears(&mut open, 6.0, 1, (600, 600));
        hears(&mut open, 6.0, 4, (200, 200));
        open.at(7.0, ProgressReport::Step { step: RecoveryStep::Restore });
        let over = open.progress(at(99.0));
        assert_eq!((over.rate, over.left), (Some(200.0), Some(at(0.0))));
        assert_eq!(over.step, Some(RecoveryStep::Restore));
        hears(&mut open, 100.0, 4, (0, 200));
        assert_eq!(open.progress(at(100.0)).bytes, Some((0, 200)), "it begins again");
        open.at(101.0, lost(2));
        assert_eq!(open.progress(at(101.0)), RebuildProgress::default());
    }
}
