//! The progress of a recovery, from the reports of its PEs. Pure.
//!
//! The rate is the average of all PEs together since the first began to rebuild, so that it neither
//! jumps between messages nor includes earlier time. If a PE restarts its rebuild, the count
//! restarts.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use raidshmem_core::message::RecoveryStep;
use raidshmem_core::quantity::Pe;

/// The reports of the PEs in a recovery.
#[derive(Debug, Default)]
pub struct Rebuild {
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
    pub step: Option<RecoveryStep>,
    /// Bytes rebuilt, and the total, once a rebuild has begun.
    pub bytes: Option<(u64, u64)>,
    /// Bytes per second.
    pub rate: Option<f64>,
    /// The remaining time at this rate.
    pub left: Option<Duration>,
}

impl Rebuild {
    /// Records that the recovery has reached a step.
    pub fn step(&mut self, step: RecoveryStep) {
        self.step = Some(step);
    }

    /// Records the bytes that a PE has rebuilt, and its total.
    pub fn hear(&mut self, now: Duration, pe: Pe, bytes: (u64, u64)) {
        if bytes.0 == 0 && self.pes.contains_key(&pe) {
            *self = Rebuild::default();
        }
        self.step = Some(RecoveryStep::Rebuild);
        self.begun.get_or_insert(now);
        self.heard = now;
        self.pes.insert(pe, bytes);
    }

    /// Returns the progress at `now`.
    pub fn progress(&self, now: Duration) -> RebuildProgress {
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

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn rate_and_rest_are_those_of_all_pes() {
        let mut rebuild = Rebuild::default();
        assert_eq!(rebuild.progress(at(1.0)), RebuildProgress::default());
        rebuild.step(RecoveryStep::Verify);
        assert_eq!(rebuild.progress(at(1.0)).step, Some(RecoveryStep::Verify));
        rebuild.hear(at(2.0), Pe(1), (0, 600));
        let first = rebuild.progress(at(2.0));
        assert_eq!((first.bytes, first.rate, first.left), (Some((0, 600)), None, None));
        rebuild.hear(at(3.0), Pe(4), (0, 200));
        rebuild.hear(at(4.0), Pe(1), (400, 600));
        let half = rebuild.progress(at(4.0));
        assert_eq!(half.step, Some(RecoveryStep::Rebuild));
        assert_eq!(half.bytes, Some((400, 800)));
        assert_eq!((half.rate, half.left), (Some(200.0), Some(at(2.0))));
        let stands_still = rebuild.progress(at(6.0));
        assert_eq!((stands_still.rate, stands_still.left), (Some(100.0), Some(at(4.0))));
        rebuild.hear(at(6.0), Pe(1), (600, 600));
        rebuild.hear(at(6.0), Pe(4), (200, 200));
        rebuild.step(RecoveryStep::Restore);
        let over = rebuild.progress(at(99.0));
        assert_eq!((over.rate, over.left), (Some(200.0), Some(at(0.0))));
        assert_eq!(over.step, Some(RecoveryStep::Restore));
        rebuild.hear(at(100.0), Pe(4), (0, 200));
        assert_eq!(rebuild.progress(at(100.0)).bytes, Some((0, 200)), "it begins again");
    }
}
