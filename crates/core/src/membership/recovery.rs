//! The recovery from losses, as far as the launcher knows it: the lost PEs, and the checkpoint from
//! which all continue.
//!
//! Part of the machine in [`super`].

use std::collections::BTreeSet;

use crate::quantity::{CheckpointNumber, Pe};

/// Maximum restarts of a recovery because of corrupt tiles.
pub(super) const CORRUPT_MAX: u32 = 8;

/// The lost PEs and the last checkpoint.
#[derive(Debug, Clone)]
pub(super) struct Recovery {
    pub checkpoint: CheckpointNumber,
    /// PEs lost since the job last resumed.
    pub lost: BTreeSet<Pe>,
    /// Restarts of the current recovery because of corrupt tiles.
    corrupt: u32,
    /// True if memory comes from disk, until all PEs have restored its checkpoint.
    pub from_disk: bool,
}

impl Recovery {
    /// Creates the state of a job without losses.
    pub fn none() -> Recovery {
        let (checkpoint, lost) = (CheckpointNumber::START, BTreeSet::new());
        Recovery { checkpoint, lost, corrupt: 0, from_disk: false }
    }

    /// Begins from a checkpoint on disk: to the program, all `n_pes` PEs were lost.
    pub fn begin_from(&mut self, number: CheckpointNumber, n_pes: usize) {
        self.lost = Pe::all(n_pes).collect();
        (self.checkpoint, self.from_disk) = (number, true);
    }

    /// Records that PEs continue from checkpoint `number`.
    pub fn resume(&mut self, number: CheckpointNumber) {
        (self.checkpoint, self.from_disk) = (number, false);
    }

    /// Clears the list of lost PEs.
    pub fn forget(&mut self) {
        (self.lost, self.corrupt) = (BTreeSet::new(), 0);
    }

    /// Records that a PE has finished its local rollback. Returns true if no lost PE is left.
    pub fn catch_up(&mut self, pe: Pe) -> bool {
        self.lost.remove(&pe);
        if self.lost.is_empty() {
            self.corrupt = 0;
        }
        self.lost.is_empty()
    }

    /// Counts a restart because of corrupt tiles. Returns false if that was one too many.
    pub fn restart(&mut self) -> bool {
        self.corrupt += 1;
        self.corrupt <= CORRUPT_MAX
    }
}
