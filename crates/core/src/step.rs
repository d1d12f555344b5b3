//! The steps of a recovery, as shown to people.

#![allow(missing_docs)] // each name describes its step

use serde::{Deserialize, Serialize};

/// A step of a recovery that may take noticeable time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecoveryStep {
    Verify,
    Rebuild,
    Restore,
    Reencode,
}

impl RecoveryStep {
    /// Returns a description of the step, for messages.
    pub const fn name(self) -> &'static str {
        match self {
            RecoveryStep::Verify => "checking the surviving data",
            RecoveryStep::Rebuild => "rebuilding lost data",
            RecoveryStep::Restore => "restoring memory from the checkpoint",
            RecoveryStep::Reencode => "recomputing lost parity",
        }
    }
}
