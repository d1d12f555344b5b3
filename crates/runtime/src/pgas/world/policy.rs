//! The consequences of a loss for a job: one value, chosen at its start.
//!
//! Invariant: only this module sees [`Policy`]; other code asks the world about its consequences
//! (`pgas/policy.rs`).

#![forbid(unsafe_code)]

use raidshmem_core::settings::{Rollback, Settings};
use raidshmem_fabric::Engine;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// All PEs roll back together to the last checkpoint.
    Global,
    /// Calls are logged, and a lost PE rolls back locally while that is possible.
    Local,
    /// No PE rolls back: calls are carried out among the PEs that live.
    Shrink,
}

/// The consequences of a loss.
#[derive(Debug, Clone, Copy)]
pub struct LossPolicy(Policy);

impl LossPolicy {
    /// Returns the policy of a job with these settings; logs need an agent.
    pub(in crate::pgas) fn of(settings: &Settings, may_log: bool) -> LossPolicy {
        LossPolicy(match settings.rollback {
            Rollback::None => Policy::Shrink,
            Rollback::Local if may_log => Policy::Local,
            Rollback::Local | Rollback::Global => Policy::Global,
        })
    }

    /// Returns true if every loss rolls back all PEs.
    pub(in crate::pgas) fn always_rolls_all_back(self) -> bool {
        self.0 == Policy::Global
    }

    /// Prepares the engine for the deaths of peers, if PEs continue after a loss.
    pub(in crate::pgas) fn prepare(self, engine: &dyn Engine) {
        if self.0 != Policy::Global {
            engine.outlive_peers();
        }
    }

    /// Returns true if calls are logged unless something rules it out.
    pub(in crate::pgas) fn keeps_logs(self) -> bool {
        self.0 == Policy::Local
    }

    /// Returns true in shrink mode, in which the living PEs continue without the lost.
    #[inline]
    pub(in crate::pgas) fn shrinks(self) -> bool {
        self.0 == Policy::Shrink
    }
}
