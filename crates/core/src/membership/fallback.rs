//! The state of falling back to disk (`falling.rs`): sets of the job, the progress of a fall, and
//! the status of a job that cannot fall.

use super::crashes::Crashes;
use crate::ended::{REQUEUE, UNRECOVERABLE};
use crate::mutant::{Mutant, breaks};
use crate::quantity::CheckpointNumber;

/// The progress of a job that falls back to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FallStage {
    /// It does not fall back.
    Running,
    /// The processes of its PEs are being ended.
    Ending,
    /// The launcher looks for a set.
    Choosing,
}

/// The sets of a job, as far as decisions depend on them.
#[derive(Debug, Clone)]
pub(super) struct FallBack {
    /// True if the job writes sets.
    stores: bool,
    /// True once a set is on disk.
    pub has_set: bool,
    pub stage: FallStage,
    /// The checkpoint from which the job, or the last fall, began.
    begun: CheckpointNumber,
    /// True if a node was lost.
    pub node_lost: bool,
    /// Falls, counted like crashes of a PE.
    pub falls: Crashes,
}

impl FallBack {
    /// Creates the state of a job that writes sets if `stores`, and has none.
    pub fn new(stores: bool) -> FallBack {
        FallBack {
            stores,
            has_set: false,
            stage: FallStage::Running,
            begun: CheckpointNumber::START,
            node_lost: false,
            falls: Crashes::original(),
        }
    }

    /// Records that the job begins from the set of checkpoint `number`.
    pub fn begin_from(&mut self, number: CheckpointNumber) {
        (self.begun, self.stage) = (number, FallStage::Running);
        self.falls.begin();
        self.falls.resume(number);
    }

    /// Returns true while the job falls back.
    pub fn is_under_way(&self) -> bool {
        self.stage != FallStage::Running
    }

    /// Returns true if a set is on disk.
    pub fn can_fall(&self) -> bool {
        self.stores && self.has_set
    }

    /// Returns the status of a job that cannot continue after checkpoint `now`. A batch system may
    /// submit it again only if it lost nodes and came further than the set that it began from.
    pub fn status(&self, now: CheckpointNumber) -> i32 {
        let has_passed = now > self.begun && self.node_lost;
        match self.can_fall() && (has_passed || breaks(Mutant::CrashRequeued)) {
            true => REQUEUE,
            false => UNRECOVERABLE,
        }
    }
}
