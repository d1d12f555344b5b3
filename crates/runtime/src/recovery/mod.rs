//! From a death back to the program: settle, verify, plan, rebuild, restore, re-encode, resume.
//!
//! ```text
//! settle     all live PEs meet, agree on n or n+1, write the decision, complete n+1 if forward
//! verify     each PE examines its store, checks all of it if an earlier recovery was interrupted,
//!            and publishes its findings
//! plan       the missing parts, or an agreed error if too much is lost (`raidshmem_core::plan`)
//! rebuild    a PE without some chunks of its snapshot decodes them from its group's survivors
//! restore    snapshot, checked on the way -> live memory, allocator state; lost read-only ranges
//!            are decoded
//! reencode   a PE without its parity re-encodes it from live memory: full redundancy again
//! resume     control words are reset; the view is adopted; the program continues
//! ```
//!
//! The order of the steps, and the meetings of the PEs between them, is the state machine in
//! [`raidshmem_core::protocol`]. A further death at any point changes the view, and all PEs start
//! over.
//!
//! Invariants: nothing of the store that the decision relies on is overwritten before redundancy is
//! restored; nothing is sealed that was computed from a peer's memory while the view changed.

mod damaged;
pub(crate) mod decode;
pub(crate) mod degraded;
pub(crate) mod local;
pub(crate) mod readonly;
pub(crate) mod rebuild;
mod renew;
pub(crate) mod restore;
pub(crate) mod verify;

use raidshmem_core::view::View;

use crate::pgas::Membership;

/// The view changed: start over with the next one.
pub(crate) struct Changed;

/// Checks the view after peers' memory was read, and before any result of that counts: memory of a
/// lost PE is taken away only after the view shows the loss, so while the view stands, the bytes
/// read were there.
fn unchanged(members: &Membership, view: &View) -> Result<(), Changed> {
    if members.view_number() == view.number { Ok(()) } else { Err(Changed) }
}
