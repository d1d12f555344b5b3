//! Errors of this API, and the ways to lose a PE.

#![forbid(unsafe_code)]

use raidshmem_runtime::fault_tolerance as ft;
use raidshmem_runtime::pgas;

/// A PE was lost: the restart will undo all work since the last checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a PE was lost")]
pub struct Fault(());

impl Fault {
    pub(super) fn new() -> Fault {
        Fault(())
    }

    pub(super) fn of(_: pgas::Fault) -> Fault {
        Fault::new()
    }
}

/// The reasons why a call of this API fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A PE was lost; see [`ft`](super::ft).
    #[error("{0}")]
    Fault(#[from] Fault),
    /// The symmetric heap has no space left.
    #[error("no space for {bytes} bytes in the symmetric heap; set SHMEM_SYMMETRIC_SIZE")]
    NoRoom {
        /// Bytes requested.
        bytes: usize,
    },
    /// No team could be made; every PE of the call gets this error.
    #[error("no team: {0}")]
    NoTeam(&'static str),
    /// The checkpoint was refused on every PE; the last one stays valid.
    #[error("{0}")]
    Refused(String),
    /// A checkpoint on disk cannot be read.
    #[error("{0}")]
    Set(String),
}

/// The cause of a PE's loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Its process died; its memory may have been adopted.
    Process,
    /// Its node is gone, with its memory.
    Node,
}

impl Loss {
    pub(super) fn of(status: i32) -> Loss {
        if status == ft::NODE_FAILED { Loss::Node } else { Loss::Process }
    }
}
