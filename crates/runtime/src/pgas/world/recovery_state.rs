//! The contribution of this PE to a decision: its recovery phase, and the earlier decision.
//!
//! The owner keeps it in its own memory and publishes it in its store header. Invariant: it is
//! published again before every vote, because shared memory may have been damaged since.

use std::sync::atomic::{AtomicU64, Ordering};

use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::store::phase::{Phase, Vote};
use raidshmem_segment::Segment;

/// Phase and pending decision, packed as in the header; 0 if absent.
#[derive(Debug)]
pub struct RecoveryState {
    own: &'static Segment,
    phase: AtomicU64,
    decision: AtomicU64,
}

impl RecoveryState {
    /// Returns the state of a new process.
    pub(in crate::pgas) fn new(own: &'static Segment, vote: Vote) -> RecoveryState {
        let decision = CheckpointNumber::pack(vote.decided).into();
        RecoveryState { own, phase: vote.phase.map_or(0, Phase::pack).into(), decision }
    }

    /// Returns the phase of this PE, or of the dead process whose memory it adopted; None in a
    /// substitute that adopted no memory and has not recovered yet.
    pub(crate) fn phase(&self) -> Option<Phase> {
        Phase::unpack(self.phase.load(Ordering::SeqCst))
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase.pack(), Ordering::SeqCst);
        self.show();
    }

    /// Drops the phase, which memory no longer matches: this PE has no vote until it has recovered.
    pub(crate) fn forget_phase(&self) {
        self.phase.store(0, Ordering::SeqCst);
        self.show();
    }

    /// Records the pending decision; None once it is carried out.
    pub(crate) fn set_decision(&self, target: Option<CheckpointNumber>) {
        self.decision.store(CheckpointNumber::pack(target), Ordering::SeqCst);
        self.show();
    }

    /// Returns the vote of this PE.
    pub(crate) fn vote(&self) -> Vote {
        let decided = CheckpointNumber::unpack(self.decision.load(Ordering::SeqCst));
        Vote { phase: self.phase(), decided }
    }

    /// Publishes both in the store header.
    pub(crate) fn show(&self) {
        let header = self.own.header();
        header.phase.store(self.phase.load(Ordering::SeqCst), Ordering::SeqCst);
        header.decision.store(self.decision.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}
