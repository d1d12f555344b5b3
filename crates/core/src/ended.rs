//! The ways a process ends, and the exit status of a job that cannot continue.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::signals::name;

/// Exit status of a job that fault tolerance could not save.
pub const UNRECOVERABLE: i32 = 3;

/// Exit status of a job that a batch system may submit again: it continues from a set on disk
/// (`EX_TEMPFAIL`).
pub const REQUEUE: i32 = 75;

/// The way a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
}

impl Ended {
    /// Describes the end of a PE that had not left `shmem_finalize`.
    pub fn cause(self) -> String {
        match self {
            Ended::Exited(_) => format!("{self}, without shmem_finalize"),
            Ended::Killed(_) => self.to_string(),
        }
    }

    /// Returns the status that a shell would show.
    pub fn status(self) -> i32 {
        match self {
            Ended::Exited(status) => status,
            Ended::Killed(signal) => 128 + signal,
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Exited(status) => write!(f, "exited with status {status}"),
            Ended::Killed(signal) => write!(f, "was killed by {}", name(*signal)),
        }
    }
}
