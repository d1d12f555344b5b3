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
            RecoveryStep::Verify => "what is left is checked",
            RecoveryStep::Rebuild => "what was lost is rebuilt",
            RecoveryStep::Restore => "memory is restored from the checkpoint",
            RecoveryStep::Reencode => "lost parity is computed anew",
        }
    }
}
