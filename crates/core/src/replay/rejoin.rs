//! The agreement on one view in a job with logs, before a checkpoint and at the end.
//!
//! Survivors of a loss have adopted its views one by one; a substitute has joined no view. So all
//! PEs meet, each with the view that it has joined and the one that it sees, until all see the same
//! view; then all join it, and meet again. Each meeting is logged like any other: a PE that is lost
//! before the last of them rolls back locally.
//!
//! A view that all PEs see has no lost PE: a PE that is lost in it has never seen it.
//!
//! Invariants: PEs that pass the agreement are members of one view. A PE that is lost after the
//! deciding meeting has no part in what follows, so all PEs roll back, except at the end of the
//! job, where nothing follows.

use super::decide::Reason;
use super::handover::catch_up;
use super::log::LogRecord;
use super::meeting::{meet, work_out};
use super::port::{LogMode, MeetingPort};
use crate::mutant::Mutant;
use crate::quantity::ViewNumber;

/// Bytes of a view number.
const NUMBER: usize = size_of::<u64>();

/// The contribution of a PE to the agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeenViews {
    /// The view that it has joined.
    pub joined: ViewNumber,
    /// The view that it sees.
    pub seen: ViewNumber,
}

impl SeenViews {
    /// Encodes it as the payload of a record.
    pub fn bytes(self) -> [u8; 2 * NUMBER] {
        let mut bytes = [0; 2 * NUMBER];
        bytes[..NUMBER].copy_from_slice(&self.joined.0.to_ne_bytes());
        bytes[NUMBER..].copy_from_slice(&self.seen.0.to_ne_bytes());
        bytes
    }

    /// Decodes a payload. Any other payload gives view 0, which no PE sees in a running job.
    pub fn of(bytes: &[u8]) -> SeenViews {
        let number = |nth: usize| {
            let word = bytes.as_chunks::<NUMBER>().0.get(nth);
            ViewNumber(word.map_or(0, |word| u64::from_ne_bytes(*word)))
        };
        SeenViews { joined: number(0), seen: number(1) }
    }
}

/// The records of the meetings of an agreement.
#[derive(Debug, Clone, Copy)]
pub struct RejoinRecords {
    /// A meeting with the views of each PE.
    pub views: LogRecord,
    /// The meeting of all members of the new view.
    pub members: LogRecord,
}

/// The additional access that the agreement needs.
pub trait RejoinPort: MeetingPort {
    /// Waits until the published view has no lost PE.
    fn await_whole(&mut self) -> Result<(), Self::Cut>;
    /// Returns the views that this PE has joined and sees.
    fn seen_views(&mut self) -> Result<SeenViews, Self::Cut>;
    /// Returns the payload of the next own record in the replay, as views.
    fn seen_before(&mut self) -> Result<SeenViews, Self::Cut>;
    /// Returns the contributions to the last meeting, as views, in the order of the PEs.
    fn all_seen(&mut self) -> Result<Vec<SeenViews>, Self::Cut>;
    /// Waits, while PEs roll back locally, for a view without a lost PE. Returns its number; None
    /// if all PEs roll back, or none does.
    fn await_local_whole(&mut self) -> Result<Option<ViewNumber>, Self::Cut>;
}

/// The outcome of a meeting of an agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agreed {
    /// PEs see different views: they meet again.
    NotYet,
    /// All are members of the view that they see.
    Members,
    /// All see this view, and not all have joined it.
    Join(ViewNumber),
}

/// Returns the outcome of a meeting with these contributions.
fn outcome(all: &[SeenViews], compares: bool) -> Agreed {
    let Some(first) = all.first() else { return Agreed::Members };
    if compares && all.iter().any(|views| views.seen != first.seen) {
        return Agreed::NotYet;
    }
    match all.iter().all(|views| views.joined == first.seen) {
        true => Agreed::Members,
        false => Agreed::Join(first.seen),
    }
}

/// Agrees with all PEs on one view, and joins it. Calls `reset` before a checkpoint: it resets the
/// words of meetings without records, which no PE is in. Calls it with true before this PE joins
/// another view, whose members begin their meetings anew.
/// Returns false if a PE left no record: all are then members of one view, and continue as in a
/// job without logs.
///
/// # Errors
/// Fails if all PEs roll back.
pub fn agree<P: RejoinPort>(
    port: &mut P,
    records: &RejoinRecords,
    at_end: bool,
    reset: impl FnOnce(&mut P, bool) -> Result<(), P::Cut>,
) -> Result<bool, P::Cut> {
    loop {
        let replayed = port.way() == LogMode::Replayed;
        let own = if replayed { port.seen_before()? } else { port.seen_views()? };
        let Some(view) = meet(port, records.views, &own.bytes())? else {
            catch_up(port)?;
            if !at_end && !port.breaks(Mutant::WordsKept) {
                reset(port, false)?;
            }
            return Ok(false);
        };
        let mut all = Vec::new();
        work_out(port, view, |port| {
            all = port.all_seen()?;
            Ok(())
        })?;
        catch_up(port)?;
        match outcome(&all, !port.breaks(Mutant::OtherViewsIgnored)) {
            Agreed::NotYet => port.await_whole()?,
            agreed if replayed && !port.breaks(Mutant::AgreementRepeated) => {
                return lost_since(port, records, at_end, agreed).map(|()| true);
            }
            Agreed::Members => {
                // Those of `shmem_init` are not zero.
                if !at_end && !port.breaks(Mutant::WordsKept) {
                    reset(port, false)?;
                }
                return Ok(true);
            }
            Agreed::Join(view) => {
                reset(port, true)?;
                // A later view shows a loss.
                if !port.join(view)? && !at_end {
                    return Err(port.roll_all_back(Reason::InCheckpoint));
                }
                meet_members(port, records)?;
                return port.report_replay().map(|()| true);
            }
        }
    }
}

/// Handles the loss of this PE's predecessor after the deciding meeting. At the end of the job, the
/// other PEs may still wait for it.
fn lost_since<P: RejoinPort>(
    port: &mut P,
    records: &RejoinRecords,
    at_end: bool,
    agreed: Agreed,
) -> Result<(), P::Cut> {
    if !at_end {
        return Err(port.roll_all_back(Reason::InCheckpoint));
    }
    if agreed != Agreed::Members && !port.breaks(Mutant::EndNotMet) {
        meet_members(port, records)?;
    }
    join_at_end(port)?;
    port.report_replay()
}

/// Waits until all PEs have joined the view that they agreed on.
fn meet_members<P: RejoinPort>(port: &mut P, records: &RejoinRecords) -> Result<(), P::Cut> {
    if !port.breaks(Mutant::MembersNotAwaited) {
        meet(port, records.members, &[])?;
    }
    catch_up(port)
}

/// Joins, at the end of the job, a view in which lost PEs have rolled back locally. Returns false
/// if all PEs roll back.
///
/// # Errors
/// Fails if all PEs roll back.
pub fn join_at_end<P: RejoinPort>(port: &mut P) -> Result<bool, P::Cut> {
    while let Some(view) = port.await_local_whole()? {
        if port.join(view)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn views(joined: u64, seen: u64) -> SeenViews {
        SeenViews { joined: ViewNumber(joined), seen: ViewNumber(seen) }
    }

    #[test]
    fn views_read_back_and_other_payloads_give_no_view() {
        assert_eq!(SeenViews::of(&views(3, 1 << 40).bytes()), views(3, 1 << 40));
        assert_eq!(SeenViews::of(&[7; 9]).seen, ViewNumber(0));
        assert_eq!(SeenViews::of(&[]), views(0, 0));
    }

    #[test]
    fn members_of_the_view_that_all_see_need_not_join_it() {
        assert_eq!(outcome(&[views(4, 4), views(4, 4)], true), Agreed::Members);
        assert_eq!(outcome(&[views(4, 4), views(0, 4)], true), Agreed::Join(ViewNumber(4)));
        assert_eq!(outcome(&[views(3, 4), views(3, 4)], true), Agreed::Join(ViewNumber(4)));
        assert_eq!(outcome(&[views(4, 4), views(4, 5)], true), Agreed::NotYet);
        assert_eq!(outcome(&[views(4, 5), views(5, 4)], true), Agreed::NotYet);
    }
}
