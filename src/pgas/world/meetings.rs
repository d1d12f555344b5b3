//! The meetings of the protocol that a PE has come to (`pgas/meeting.rs`).

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
    /// The last meeting of a recovery that is over.
    pub(in crate::pgas) last: Option<MeetingId>,
    /// What all brought to the meeting that settles, in that view.
    pub(in crate::pgas) settled: Option<Brought>,
    /// The meeting that this PE is in, or was in last.
    pub(in crate::pgas) now: Option<(MeetingId, Meeting<Brought>)>,
}
