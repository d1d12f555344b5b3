//! Why calls of this API fail, and how PEs are lost.

#![forbid(unsafe_code)]

use crate::faults;
use crate::pgas;

/// A PE was lost: what was done since the last checkpoint will be undone by the restart.
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

/// Why a call of this API failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A PE was lost; see [`ft`](super::ft).
    #[error("{0}")]
    Fault(#[from] Fault),
    /// The symmetric heap has no room.
    #[error("no room for {bytes} bytes in the symmetric heap; set SHMEM_SYMMETRIC_SIZE")]
    NoRoom {
        /// Bytes asked for.
        bytes: usize,
    },
    /// No team could be made; the same on every PE that asked.
    #[error("no team: {0}")]
    NoTeam(&'static str),
    /// The checkpoint was refused on every PE; the last one stays good.
    #[error("{0}")]
    Refused(String),
}

/// How a PE was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Its process died; the memory may have been adopted.
    Process,
    /// Its node is gone, and its memory with it.
    Node,
}

impl Loss {
    pub(super) fn of(status: i32) -> Loss {
        if status == faults::NODE_FAILED { Loss::Node } else { Loss::Process }
    }
}
