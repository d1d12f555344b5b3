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
    /// Those of them that others do not reach yet.
    away: BTreeSet<Pe>,
    /// Restarts of the current recovery because of corrupt tiles.
    corrupt: u32,
    /// True if memory comes from disk, until all PEs have restored its checkpoint.
    pub from_disk: bool,
}

impl Recovery {
    /// Creates the state of a job without losses.
    pub fn none() -> Recovery {
        let (checkpoint, lost, away) = (CheckpointNumber::START, BTreeSet::new(), BTreeSet::new());
        Recovery { checkpoint, lost, away, corrupt: 0, from_disk: false }
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

    /// Records lost PEs.
    pub fn lose(&mut self, pes: &[Pe]) {
        self.lost.extend(pes);
        self.away.extend(pes);
    }

    /// Clears the list of lost PEs.
    pub fn forget(&mut self) {
        self.lost.clear();
        self.away.clear();
        self.corrupt = 0;
    }

    /// Records that a PE has rolled back locally and is reached again.
    pub fn note_live(&mut self, pe: Pe) {
        self.away.remove(&pe);
    }

    /// Returns true if a lost PE is not reached yet.
    pub fn is_any_away(&self) -> bool {
        !self.away.is_empty()
    }

    /// Records that a PE that has rolled back locally is a member of the view. Returns true if no
    /// lost PE is left.
    pub fn catch_up(&mut self, pe: Pe) -> bool {
        self.lost.remove(&pe);
        self.away.remove(&pe);
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
