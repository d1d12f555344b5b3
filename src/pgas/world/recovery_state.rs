//! What this PE brings to a decision: how far it has come, and what was decided before.
//!
//! The owner keeps it in its own memory and shows it in its store header. Invariant: it is shown
//! anew before every vote, because what lies in shared memory may have been damaged since.

use std::sync::atomic::{AtomicU64, Ordering};

use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::store::phase::{Phase, Vote};
use raidshmem_segment::Segment;

/// Phase and pending decision, as the words of the header; 0 is none.
#[derive(Debug)]
pub struct RecoveryState {
    own: &'static Segment,
    phase: AtomicU64,
    decision: AtomicU64,
}

impl RecoveryState {
    /// The state of a process that begins.
    pub(in crate::pgas) fn new(own: &'static Segment, vote: Vote) -> RecoveryState {
        let decision = CheckpointNumber::pack(vote.decided).into();
        RecoveryState { own, phase: vote.phase.map_or(0, Phase::pack).into(), decision }
    }

    /// How far this PE has come, or the dead had whose memory it took over; None in a substitute
    /// that has not recovered yet and took over none.
    pub(crate) fn phase(&self) -> Option<Phase> {
        Phase::unpack(self.phase.load(Ordering::SeqCst))
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase.pack(), Ordering::SeqCst);
        self.show();
    }

    /// The memory is not what any phase says: this PE has no say until it has recovered.
    pub(crate) fn forget_phase(&self) {
        self.phase.store(0, Ordering::SeqCst);
        self.show();
    }

    /// Writes down what was decided, or that it is over.
    pub(crate) fn set_decision(&self, target: Option<CheckpointNumber>) {
        self.decision.store(CheckpointNumber::pack(target), Ordering::SeqCst);
        self.show();
    }

    /// What this PE brings.
    pub(crate) fn vote(&self) -> Vote {
        let decided = CheckpointNumber::unpack(self.decision.load(Ordering::SeqCst));
        Vote { phase: self.phase(), decided }
    }

    /// Shows both in the store header.
    pub(crate) fn show(&self) {
        let header = self.own.header();
        header.phase.store(self.phase.load(Ordering::SeqCst), Ordering::SeqCst);
        header.decision.store(self.decision.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}
