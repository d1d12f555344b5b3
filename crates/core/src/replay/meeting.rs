//! Meetings of PEs of a job with logs: barriers and collectives, executed once each.
//!
//! All PEs meet, or those of a team or an active set. A PE appends its contribution to its log and
//! posts its arrival. When all have arrived, each computes the result from their logs. So no PE
//! repeats a meeting for the local rollback of another, and PEs that wait in a meeting resume when
//! the substitute arrives there.
//!
//! Invariant: the contribution of a PE to a meeting stays in its log until all PEs have agreed on a
//! later checkpoint.

use super::call::{apply_before, next_with};
use super::decide::Reason;
use super::handover::catch_up;
use super::log::{Located, LogRecord};
use super::port::{LogMode, MeetingPort};
use super::unlogged::share_view;
use crate::mutant::Mutant;
use crate::quantity::ViewNumber;

/// Returns the latest time of all contributions to a meeting; None if the PEs made different calls,
/// which the protocol of jobs without logs then reports.
pub fn together(parts: &[Located]) -> Option<u64> {
    let time = parts.iter().map(|found| found.record.time).max()?;
    let digest = parts.first()?.record.digest;
    parts.iter().all(|found| found.record.digest == digest).then_some(time)
}

/// Joins a meeting with the contribution `what`, and waits for the other PEs. Returns the view in
/// which all contributions can be read; None if a PE left no record: the meeting then takes place
/// as in a job without logs, and this PE is a member of the view.
///
/// # Errors
/// Fails if all PEs roll back.
pub fn meet<P: MeetingPort>(
    port: &mut P,
    record: LogRecord,
    what: &[u8],
) -> Result<Option<ViewNumber>, P::Cut> {
    let number = port.next_meeting()?;
    let record = LogRecord { at: number, ..record };
    if port.way() == LogMode::Replayed {
        let from = next_with(port, &record, what)?.from;
        port.has_arrived(number, from)?;
        if !port.breaks(Mutant::LastMeetingTrusted) {
            catch_up(port)?;
        }
    } else {
        let from = port.append(record, what)?;
        port.come(number, from)?;
    }
    port.await_all(number)?;
    let (time, view) = loop {
        let view = port.view()?;
        let is_there = port.breaks(Mutant::LogsNotChecked) || port.has_all_logs()?;
        let time = if is_there { Some(port.gather(number)?) } else { None };
        match time {
            Some(time) if port.view()? == view || port.breaks(Mutant::NotLookedAgain) => {
                break (time, view);
            }
            _ => port.await_logs()?,
        }
    };
    let Some(time) = time else { return without_records(port).map(|()| None) };
    port.keep_parts()?;
    if port.way() == LogMode::Replayed && !port.breaks(Mutant::MeetingBringsNothing) {
        apply_before(port, time)?;
    }
    if !port.breaks(Mutant::MeetingTimesIgnored) {
        port.know(time)?;
    }
    Ok(Some(view))
}

/// Handles a meeting to which a PE left no record: it takes place without logs, among members of
/// one view. If no PE has ended its records, PEs make different calls. A PE that was lost with its
/// node when it had made a checkpoint may come back to a meeting before it, while others leave it.
#[cold]
fn without_records<P: MeetingPort>(port: &mut P) -> Result<(), P::Cut> {
    if !port.is_any_pe_away()? {
        return Ok(());
    }
    let is_later = port.is_any_log_later()?;
    if is_later || port.way() == LogMode::Replayed || !port.has_findings()? {
        port.check_findings()?;
        let why = if is_later { Reason::InCheckpoint } else { Reason::Unlike };
        return Err(port.roll_all_back(why));
    }
    share_view(port)
}

/// Computes the result of a meeting from the contributions, which were readable in `view`. Repeats
/// that after a loss in the meantime, once the log is restored: the memory of a lost node is wiped.
///
/// # Errors
/// Fails if all PEs roll back.
pub fn work_out<P: MeetingPort>(
    port: &mut P,
    mut view: ViewNumber,
    mut make: impl FnMut(&mut P) -> Result<(), P::Cut>,
) -> Result<(), P::Cut> {
    loop {
        make(port)?;
        let now = port.view()?;
        if std::mem::replace(&mut view, now) == now || port.breaks(Mutant::NotLookedAgain) {
            return Ok(());
        }
        port.await_logs()?;
    }
}
