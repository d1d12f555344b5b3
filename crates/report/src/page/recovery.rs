//! The section on a recovery: the losses, the steps with their times, and the source of each
//! restored PE.

use std::time::Duration;

use maud::{Markup, html};
use raidshmem_core::message::RecoveryStep;
use raidshmem_core::quantity::Pe;

use super::lanes::{Lane, LanePart, of_recovery, picture};
use super::map;
use super::scale::Scale;
use crate::record::Record;
use crate::story::{Loss, Recovery};
use crate::words::{bytes, time};

/// Maximum number of PEs with a lane.
const LANES: usize = 8;
/// The fraction of its duration that is shown before and after it.
const AROUND: f64 = 0.06;

/// Renders the section of a recovery.
pub fn section(record: &Record, number: usize, recovery: &Recovery) -> Markup {
    html! {
        section id=(format!("recovery-{number}")) {
            h2 { span.number { (number) } " Recovery of " (Pe::names(&recovery.lost())) }
            div.side-by-side {
                ol.story {
                    @for sentence in story(record, recovery) { li { (sentence) } }
                }
                div { (map::of_recovery(record, recovery)) }
            }
            (zoom(record, recovery))
        }
    }
}

fn node(record: &Record, node: u32) -> String {
    let name = record.name_of(node).unwrap_or_default();
    if name == format!("node{node}") {
        format!("node {node}")
    } else {
        format!("node {node} ({name})")
    }
}

fn loss(record: &Record, loss: &Loss) -> String {
    let at = time(loss.time);
    match loss.node {
        Some(of) if loss.planned => {
            format!("At {at} {} left the job, with {}.", node(record, of), Pe::names(&loss.pes))
        }
        Some(of) => format!("At {at} {} was lost with {}.", node(record, of), Pe::names(&loss.pes)),
        None => format!("At {at} {} {}.", Pe::names(&loss.pes), loss.cause),
    }
}

/// Returns the course of a recovery, one sentence per event.
fn story(record: &Record, recovery: &Recovery) -> Vec<String> {
    let mut all: Vec<String> = recovery.losses.iter().map(|one| loss(record, one)).collect();
    let since = |from: Duration| time(from.saturating_sub(recovery.begin));
    let work = time(recovery.begin.saturating_sub(recovery.base));
    all.push(match recovery.is_planned() {
        true => "It was planned, right after a checkpoint: nothing was computed again.".to_owned(),
        false => format!("{work} of work was lost, since the last checkpoint or restart."),
    });
    if let Some((set, why)) = &recovery.fell {
        all.push(format!(
            "More was lost than the parity covers ({why}): all PEs began again from set {set} on \
             disk."
        ));
    }
    for (pe, (when, at)) in recovery.replaced.iter().take(LANES) {
        let moved = record.job.node_of.get(pe.at()).is_some_and(|home| home != at);
        let on = if moved { format!(" on {}", node(record, *at)) } else { String::new() };
        all.push(format!("A substitute took over PE {pe}{on} after {}.", since(*when)));
    }
    for (pe, back) in recovery.back.iter().take(LANES) {
        all.push(match &back.from {
            None if back.from_disk => {
                format!("The memory of PE {pe} was read from disk: {}.", bytes(back.bytes))
            }
            None => format!(
                "The substitute of PE {pe} adopted the memory that the dead process had left: {}.",
                bytes(back.bytes)
            ),
            Some(from) => format!(
                "PE {pe} was rebuilt from {}: {} in {}.",
                Pe::names(from),
                bytes(back.bytes),
                time(back.end.saturating_sub(back.begin))
            ),
        });
    }
    all.push(match (recovery.end, recovery.checkpoint, recovery.alone) {
        (Some(end), Some(number), None) => {
            format!("All PEs resumed from checkpoint {number} after {}.", since(end))
        }
        (Some(end), Some(number), Some(pe)) => format!(
            "PE {pe} went on alone from checkpoint {number} after {}: the others were in \
             shmem_finalize.",
            since(end)
        ),
        _ => "The job ended before all PEs had resumed.".to_owned(),
    });
    all
}

/// Draws the time from the first death on, enlarged.
fn zoom(record: &Record, recovery: &Recovery) -> Markup {
    let end = recovery.end.unwrap_or(record.end.ran).max(recovery.begin);
    let last = recovery.back.values().map(|back| back.end).fold(end, Duration::max);
    let around = (last - recovery.begin).mul_f64(AROUND);
    let scale = Scale::new(recovery.begin.saturating_sub(around), last + around);
    let lost = recovery.lost();
    let mut lanes =
        vec![Lane { name: "steps".to_owned(), also: String::new(), parts: steps(recovery, end) }];
    let lane = |name: String, pe: Option<Pe>| {
        let work = |begin, end| LanePart { begin, end, class: "work", words: String::new() };
        let (before, after) = (recovery.begin.saturating_sub(around), last + around);
        let mut parts = vec![work(before, recovery.begin)];
        parts.extend(recovery.end.map(|end| work(end, after)));
        parts.extend(of_recovery(recovery, pe, record.end.ran));
        Lane { name, also: String::new(), parts }
    };
    lanes.extend(lost.iter().take(LANES).map(|&pe| lane(format!("PE {pe}"), Some(pe))));
    let others = record.job.node_of.len().saturating_sub(lost.len().min(LANES));
    lanes.extend((others > 0).then(|| lane(format!("{others} others"), None)));
    let what = format!("The recovery of {} in steps over time", Pe::names(&lost));
    let shown = [
        ("meet", "agreement"),
        ("verify", "check"),
        ("rebuild", "rebuild"),
        ("restore", "restore"),
        ("reencode", "new parity"),
    ];
    let there = |class: &str| lanes[0].parts.iter().any(|part| part.class == class);
    html! {
        (picture(scale, recovery.begin, &lanes, None, &what))
        ul.legend {
            @for (class, words) in shown.into_iter().filter(|(class, _)| there(class)) {
                li { span class=(format!("key {class}")) {} (words) }
            }
            li { span.key.gone {} "dead" }
            li { span.key.recovery {} "recovery" }
            li { span.key.back {} "adopted, rebuilt or read" }
        }
    }
}

fn steps(recovery: &Recovery, end: Duration) -> Vec<LanePart> {
    let class = |step| match step {
        RecoveryStep::Verify => "verify",
        RecoveryStep::Rebuild => "rebuild",
        RecoveryStep::Restore => "restore",
        RecoveryStep::Reencode => "reencode",
    };
    let first = recovery.steps.first().map_or(end, |(time, _)| *time);
    let words = "a substitute starts, and all PEs agree on the restart".to_owned();
    let mut parts = vec![LanePart { begin: recovery.begin, end: first, class: "meet", words }];
    for (at, (begin, step)) in recovery.steps.iter().enumerate() {
        let end = recovery.steps.get(at + 1).map_or(end, |(time, _)| *time);
        let words = step.name().to_owned();
        parts.push(LanePart { begin: *begin, end, class: class(*step), words });
    }
    parts
}
