//! Events as lines of `--verbose`, and the ends of a job that come from outside.

#![forbid(unsafe_code)]

use std::time::{Duration, SystemTime};

use raidshmem_control::trace::time_of_day;
use raidshmem_core::inject::InjectedFault;
use raidshmem_core::message::{ChangedTiles, ProgressReport, Reader};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::signals::name;
use raidshmem_report::event::What;
use raidshmem_report::words::{bytes, count, time};

/// Exit status of a job whose time limit is over, like that of `timeout`.
const TIME_IS_OVER: i32 = 124;

/// Returns the status of a job that was stopped by `signal`, as in a shell, and the reason.
pub(super) fn signalled(signal: i32) -> (i32, String) {
    (128 + signal, format!("stopped by {}; every PE is killed", name(signal)))
}

/// Returns the status of a job that reached its time limit, and the reason.
pub(super) fn timed_out(limit: Duration) -> (i32, String) {
    let words =
        format!("--timeout {}: time limit reached; every PE is killed", limit.as_secs_f64());
    (TIME_IS_OVER, words)
}

/// Returns lines on injection rules that never triggered; `last` is the last checkpoint.
pub(super) fn never_due<'a>(
    rules: impl Iterator<Item = &'a InjectedFault>,
    last: CheckpointNumber,
) -> Vec<String> {
    let made = match last {
        CheckpointNumber::START => "no checkpoint was made".to_owned(),
        last => format!("the last checkpoint was number {last}"),
    };
    rules.map(|rule| format!("rule {rule} never triggered: {made}")).collect()
}

/// Formats the number of changed blocks, as the end of a line.
fn changed(found: &ChangedTiles) -> String {
    let ChangedTiles { changed, of, by } = found;
    format!("; {changed} of {} changed, by {by}", count(*of, "block"))
}

/// Formats an event as a line of `--verbose`; None if it is always printed, or only on request.
/// `kept` names the data that a PE keeps for peers in this job's mode.
pub(super) fn line_of(what: &What, kept: &str) -> Option<String> {
    match what {
        What::Stored { checkpoint, place, bytes: all, raw, spill, took } => {
            let (all, took) = (bytes(*all), time(*took));
            let raw =
                raw.map_or_else(String::new, |raw| format!(" compressed from {}", bytes(raw)));
            let spill = match spill {
                0 => String::new(),
                spill => format!(", {} spilled to memory", bytes(*spill)),
            };
            Some(format!(
                "checkpoint {checkpoint} is on disk: {place}, {all}{raw} in {took}{spill}"
            ))
        }
        What::Report(report) => line_of_report(report, kept),
        other => {
            other.ignored_by(Reader::Lines);
            None
        }
    }
}

fn line_of_checkpoint(report: &ProgressReport, kept: &str) -> Option<String> {
    let ProgressReport::Checkpoint {
        number,
        bytes: own,
        kept: others,
        took,
        protects,
        changed: by,
        ..
    } = report
    else {
        return None;
    };
    let in_all = match protects > took {
        true => format!(" of the program's time, and {} in all", time(*protects)),
        false => String::new(),
    };
    Some(format!(
        "checkpoint {number}: {} a PE protected by {} of {kept} in {}{in_all}{}, at {}",
        bytes(*own),
        bytes(*others),
        time(*took),
        by.as_ref().map(changed).unwrap_or_default(),
        time_of_day(SystemTime::now())
    ))
}

fn line_of_report(report: &ProgressReport, kept: &str) -> Option<String> {
    Some(match report {
        ProgressReport::Checkpoint { .. } => line_of_checkpoint(report, kept)?,
        ProgressReport::Readonly { bytes: own, kept: others } => format!(
            "{} a PE are read-only, protected once by {} of {kept}",
            bytes(*own),
            bytes(*others)
        ),
        ProgressReport::Adopted { pe, checkpoint, bytes: own, from_disk: true, took } => format!(
            "PE {pe}: {} of checkpoint {checkpoint} read from disk, checked after {}",
            bytes(*own),
            time(*took)
        ),
        ProgressReport::Adopted { pe, checkpoint, bytes: own, from_disk: false, took } => format!(
            "PE {pe}: memory of the dead process adopted, with {} of checkpoint {checkpoint}, \
             after {}",
            bytes(*own),
            time(*took)
        ),
        ProgressReport::Rebuilt { pe, checkpoint, bytes: own, from, took } => format!(
            "PE {pe}: {} of checkpoint {checkpoint} rebuilt from {} in {}",
            bytes(*own),
            Pe::names(from),
            time(*took)
        ),
        ProgressReport::Memory { pe, bytes: own } => format!("PE {pe}: {} of memory", bytes(*own)),
        ProgressReport::Logged { pe, bytes: own, records } => format!(
            "PE {pe}: at most {} in {records} records of its log between two checkpoints",
            bytes(*own)
        ),
        ProgressReport::Damaged { pe, checkpoint, part, from } => {
            let found = format!("PE {pe}: damage in its {part} of checkpoint {checkpoint}");
            match from.as_deref() {
                Some([]) => format!("{found}, repaired"),
                Some(from) => format!("{found}, repaired from {}", Pe::names(from)),
                None if part == "read-only memory" => {
                    format!("{found}, not repaired: it counts as lost")
                }
                None => format!(
                    "{found}, not repaired: it counts as lost until checkpoint {}",
                    checkpoint.next()
                ),
            }
        }
        ProgressReport::Scrubbed { pe, bytes: all, damaged, repaired } => format!(
            "PE {pe}: {} of its checkpoints scrubbed, {damaged} damaged, {repaired} repaired",
            bytes(*all)
        ),
        ProgressReport::Note { line } => line.clone(),
        other => {
            other.ignored_by(Reader::Lines);
            return None;
        }
    })
}
