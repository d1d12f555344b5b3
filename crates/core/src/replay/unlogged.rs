//! Calls without records: those that no log holds, and all calls once a log is full.
//!
//! A PE whose log lacks a call rules out local rollback until the next checkpoint, but only for
//! losses from then on. So it first waits until every PE that rolls back locally has caught up,
//! which needs nothing of this PE:
//!
//! ```text
//! wait     until all PEs are reached
//! end      publishes that its log ends, and why: a substitute that reads this rolls all PEs back
//! wait     again, since a PE may have been lost meanwhile
//! join     the view, in which no PE is lost
//! ```
//!
//! A substitute reads the reasons before it may be reached: it finds none that was published after
//! the first wait.
//!
//! PEs meet without records by words outside of the logs: the counters of barriers and the words of
//! teams. Meetings with records leave these as they were at the last checkpoint, where they are
//! reset; a substitute begins with the same. So PEs join a view one by one, and need no meeting for
//! that.
//!
//! Invariants: a PE makes a call without a record only as a member of a view in which all PEs are
//! reached. A loss after the end of a log rolls back all PEs.

use super::decide::Reason;
use super::port::{LogMode, UnloggedPort};
use crate::mutant::Mutant;

/// Ends the records of this PE in this interval for the reason `why`, and joins the view.
///
/// # Errors
/// Fails if all PEs roll back.
pub fn end_records<P: UnloggedPort>(port: &mut P, why: &Reason) -> Result<(), P::Cut> {
    if port.keeps_records()? {
        // A substitute reads its own reason when it has caught up.
        if port.way() == LogMode::Replayed {
            return port.end_records(why);
        }
        if !port.breaks(Mutant::AwayNotAwaited) {
            port.await_all_reached()?;
        }
        port.end_records(why)?;
        port.order()?; // the end is visible before the look
    }
    share_view(port)
}

/// Joins the view that this PE has adopted, if it has not, once all PEs are reached in it.
///
/// # Errors
/// Fails if all PEs roll back.
pub(super) fn share_view<P: UnloggedPort>(port: &mut P) -> Result<(), P::Cut> {
    while port.is_any_pe_away()? && !port.breaks(Mutant::ViewNotShared) {
        let view = port.await_all_reached()?;
        if port.join(view)? {
            port.report_replay()?;
        }
    }
    Ok(())
}
