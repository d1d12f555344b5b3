//! Meetings of all PEs of a job with logs: barriers and collectives, once each.
//!
//! A PE leaves what it brings in its log, and says that it has come. When all have come, each works
//! out from the logs of all what comes out. So nobody has to make a meeting again for a PE that
//! goes back alone, and whoever waits there goes on when its substitute comes to it.
//!
//! Invariant: what a PE brought to a meeting stays in its log until all have agreed on a checkpoint
//! after it.

use super::call::next_with;
use super::handover::catch_up;
use super::log::{Located, LogRecord};
use super::port::{LogMode, MeetingPort};
use crate::mutant::Mutant;
use crate::quantity::ViewNumber;

/// The latest time of what all brought to a meeting; None if they made different calls: they find
/// out on the way of jobs without logs.
pub fn together(parts: &[Located]) -> Option<u64> {
    let time = parts.iter().map(|found| found.record.time).max()?;
    let digest = parts.first()?.record.digest;
    parts.iter().all(|found| found.record.digest == digest).then_some(time)
}

/// Comes to a meeting of all PEs with `what`, and waits for the others. The view in which what all
/// brought can be read; None: one left no record, so it is made as if there were no logs.
///
/// # Errors
/// All go back.
pub fn meet<P: MeetingPort>(
    port: &mut P,
    record: LogRecord,
    what: &[u8],
) -> Result<Option<ViewNumber>, P::Cut> {
    let number = port.next_meeting()?;
    let record = LogRecord { at: number, ..record };
    if port.way() == LogMode::Replayed {
        next_with(port, &record, what)?;
        port.has_come(number)?;
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
    let Some(time) = time else { return Ok(None) };
    if port.way() == LogMode::Replayed && !port.breaks(Mutant::MeetingBringsNothing) {
        port.apply(time)?;
    }
    if !port.breaks(Mutant::MeetingTimesIgnored) {
        port.know(time)?;
    }
    Ok(Some(view))
}

/// Works out what comes out of what all brought, which could be read in `view`. Memory that is lost
/// with a node is wiped, so that is done again if a loss came meanwhile, when the log is back.
///
/// # Errors
/// All go back.
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
