//! What a loss means to a job: one value, chosen at its start.
//!
//! Invariant: nothing else sees [`Policy`]; what follows from it is asked of the world
//! (`pgas/policy.rs`).

#![forbid(unsafe_code)]

use raidshmem_core::settings::{Rollback, Settings};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// All go back together to the last checkpoint.
    Global,
    /// Calls are logged, and a lost PE goes back alone while that can be.
    Local,
    /// Nobody goes back: what is called is carried out among those that live.
    Shrink,
}

/// What a loss means.
#[derive(Debug, Clone, Copy)]
pub struct LossPolicy(Policy);

impl LossPolicy {
    /// That of a job with these settings; logs need PEs that map each other, and an agent.
    pub(in crate::pgas) fn of(settings: &Settings, may_log: bool) -> LossPolicy {
        LossPolicy(match settings.rollback {
            Rollback::None => Policy::Shrink,
            Rollback::Local if may_log => Policy::Local,
            Rollback::Local | Rollback::Global => Policy::Global,
        })
    }

    /// True if a loss takes all back, whatever came before.
    pub(in crate::pgas) fn goes_back_together(self) -> bool {
        self.0 == Policy::Global
    }

    /// True if calls are logged as long as nothing speaks against it.
    pub(in crate::pgas) fn keeps_logs(self) -> bool {
        self.0 == Policy::Local
    }

    /// True if those that live go on without the lost.
    #[inline]
    pub(in crate::pgas) fn goes_on(self) -> bool {
        self.0 == Policy::Shrink
    }
}
