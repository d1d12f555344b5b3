//! The steps of a recovery, as people are told of them.

#![allow(missing_docs)] // the name of each says what is done in it

use serde::{Deserialize, Serialize};

/// A step of a recovery that takes its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecoveryStep {
    Verify,
    Rebuild,
    Restore,
    Reencode,
}

impl RecoveryStep {
    /// What is done in it, for people.
    pub const fn name(self) -> &'static str {
        match self {
            RecoveryStep::Verify => "what is left is checked",
            RecoveryStep::Rebuild => "what was lost is rebuilt",
            RecoveryStep::Restore => "memory goes back to the checkpoint",
            RecoveryStep::Reencode => "lost parity is computed anew",
        }
    }
}
