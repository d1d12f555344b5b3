//! How far a recovery is, by what its PEs say of it. Pure.
//!
//! The rate is that of all PEs together since the first of them began, so that it neither jumps
//! from one message to the next nor counts the time before. A PE that begins again is counted anew.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use raidshmem_core::message::RecoveryStep;
use raidshmem_core::quantity::Pe;

/// What the PEs of a recovery have said.
#[derive(Debug, Default)]
pub struct Rebuild {
    step: Option<RecoveryStep>,
    /// When the first of them began to rebuild.
    begun: Option<Duration>,
    /// When something was last heard of it.
    heard: Duration,
    /// Bytes that each has rebuilt, and of how many.
    pes: BTreeMap<Pe, (u64, u64)>,
}

/// How far it is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RebuildProgress {
    pub step: Option<RecoveryStep>,
    /// Bytes that are rebuilt, and of how many, once some are to be.
    pub bytes: Option<(u64, u64)>,
    /// Bytes in a second.
    pub rate: Option<f64>,
    /// Time that the rest takes at this rate.
    pub left: Option<Duration>,
}

impl Rebuild {
    /// The recovery has come to a step.
    pub fn step(&mut self, step: RecoveryStep) {
        self.step = Some(step);
    }

    /// A PE has rebuilt so many bytes of so many.
    pub fn hear(&mut self, now: Duration, pe: Pe, bytes: (u64, u64)) {
        if bytes.0 == 0 && self.pes.contains_key(&pe) {
            *self = Rebuild::default();
        }
        self.step = Some(RecoveryStep::Rebuild);
        self.begun.get_or_insert(now);
        self.heard = now;
        self.pes.insert(pe, bytes);
    }

    /// How far it is by `now`.
    pub fn progress(&self, now: Duration) -> RebuildProgress {
        let (done, of) = self.pes.values().fold((0, 0), |sum, pe| (sum.0 + pe.0, sum.1 + pe.1));
        let bytes = (!self.pes.is_empty()).then_some((done, of));
        // Once all is there the rate stands.
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
