//! Reports of PEs as lines of `--verbose`, and the ends of a job that nobody in it asked for.

#![forbid(unsafe_code)]

use std::time::{Duration, SystemTime};

use raidshmem_core::inject::Rule;
use raidshmem_core::message::{Found, Report};
use raidshmem_core::signals::name;

use super::words::{bytes, count, millis};
use crate::launch::lines::say;

/// Status of a job whose time is over, as of `timeout`.
const TIME_IS_OVER: i32 = 124;

/// The status of a job that was stopped by `signal`, as a shell would show it.
pub(super) fn signalled(signal: i32) -> i32 {
    say(&format!("stopped by {}; every PE is killed", name(signal)));
    128 + signal
}

/// The status of a job that ran for as long as it may.
pub(super) fn timed_out(limit: Duration) -> i32 {
    say(&format!("--timeout {}: time is over; every PE is killed", limit.as_secs_f64()));
    TIME_IS_OVER
}

/// Lines on rules of injection that did nothing; `last` is the number of the last checkpoint.
pub(super) fn never_due<'a>(rules: impl Iterator<Item = &'a Rule>, last: u64) -> Vec<String> {
    let made = match last {
        0 => "no checkpoint was made".to_owned(),
        last => format!("the last checkpoint was number {last}"),
    };
    rules.map(|rule| format!("{rule} was to be killed or stopped, and never was: {made}")).collect()
}

/// What changed, as the end of a line.
fn changed(found: &Found) -> String {
    let Found { changed, of, by_pages } = found;
    let by = if *by_pages { "pages" } else { "digests" };
    format!("; {changed} of {} changed, by {by}", count(*of, "block"))
}

/// The time of the day, for people who compare it with other records.
fn clock() -> String {
    let text = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    text.split_once('T').map(|(_, time)| time.to_owned()).unwrap_or(text)
}

/// A report as a line. `kept` is what a PE keeps for others in this job's mode.
pub(super) fn tell(report: &Report, kept: &str) -> Option<String> {
    let pes = |pes: &[u32]| pes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    Some(match report {
        Report::Checkpoint { number, bytes: own, parity_bytes, micros, found } => format!(
            "checkpoint {number}: {} a PE protected by {} of {kept} in {}{}, at {}",
            bytes(*own),
            bytes(*parity_bytes),
            millis(*micros),
            found.as_ref().map(changed).unwrap_or_default(),
            clock()
        ),
        Report::Adopted { pe, number, bytes: own, micros } => format!(
            "PE {pe}: memory of the dead process adopted, with {} of checkpoint {number}, \
             after {}",
            bytes(*own),
            millis(*micros)
        ),
        Report::Rebuilt { pe, number, bytes: own, from, micros } => format!(
            "PE {pe}: {} of checkpoint {number} rebuilt from {} {} in {}",
            bytes(*own),
            if from.len() == 1 { "PE" } else { "PEs" },
            pes(from),
            millis(*micros)
        ),
        Report::Resumed { .. } | Report::Alone { .. } => return None, // said to all
        Report::Memory { pe, bytes: own } => format!("PE {pe}: {} of memory", bytes(*own)),
        Report::Damaged { pe, number, part, from } => {
            let found = format!("PE {pe}: damage in its {part} of checkpoint {number}");
            match from.as_deref() {
                Some([]) => format!("{found}, repaired"),
                Some([from]) => format!("{found}, repaired from PE {from}"),
                Some(from) => format!("{found}, repaired from PEs {}", pes(from)),
                None => format!(
                    "{found}, not repaired: it counts as lost until checkpoint {}",
                    number + 1
                ),
            }
        }
        Report::Scrubbed { pe, counts } => format!(
            "PE {pe}: {} of its checkpoints looked over, {} damaged, {} repaired",
            bytes(counts.bytes),
            counts.damaged,
            counts.repaired
        ),
        Report::Note(line) => line.clone(),
    })
}
