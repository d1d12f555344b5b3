//! The meetings of the protocol that a PE has entered (`pgas/meeting.rs`).

#![forbid(unsafe_code)]

use raidshmem_core::protocol::brought::Brought;
use raidshmem_core::quantity::ViewNumber;
use raidshmem_core::tree::Tree;
use raidshmem_core::tree::meeting::Meeting;
use raidshmem_core::tree::post::MeetingId;

/// The meetings of a PE.
#[derive(Debug, Default)]
pub struct Meetings {
    /// The tree of a view.
    pub(in crate::pgas) tree: Option<(ViewNumber, Tree)>,
    /// Checkpoints begun since the last reset.
    pub(in crate::pgas) checkpoints: u64,
    /// The last meeting of a completed recovery.
    pub(in crate::pgas) last: Option<MeetingId>,
    /// The contributions of all PEs to the meeting that agrees, in that view.
    pub(in crate::pgas) settled: Option<Brought>,
    /// The current meeting of this PE, or its last one.
    pub(in crate::pgas) now: Option<(MeetingId, Meeting<Brought>)>,
}
