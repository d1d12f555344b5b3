//! The summary of a job: its outcome, its figures, and a breakdown of its time.

use std::time::Duration;

use maud::{Markup, html};

use super::scale::percent;
use crate::record::Record;
use crate::story::Story;
use crate::words::{bytes, count, losses, span, time};

/// Renders title and verdict.
pub fn header(record: &Record, story: &Story) -> Markup {
    let job = &record.job;
    html! {
        header {
            h1 { (job.program) }
            p.muted {
                (count(job.node_of.len() as u64, "PE")) " on " (count(used(record), "node"))
                ", mode " (job.mode) ", over " (job.fabric) "; since " (job.since)
                @if !job.host.is_empty() { ", from " (job.host) }
                "; raidshmem " (job.raidshmem)
            }
            (verdict(record, story))
        }
    }
}

/// Returns the number of nodes that carried PEs at the start.
fn used(record: &Record) -> u64 {
    let mut nodes = record.job.node_of.clone();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.len() as u64
}

/// Describes the losses; None if nothing was lost.
fn lost(record: &Record) -> Option<String> {
    let totals = &record.totals;
    losses(totals.processes, totals.nodes, totals.drained)
}

fn verdict(record: &Record, story: &Story) -> Markup {
    let end = &record.end;
    let back = story.recoveries.iter().all(|recovery| recovery.end.is_some());
    let (class, words) = match (end.status, lost(record)) {
        (0, None) => ("good", "Ended well; nothing was lost.".to_owned()),
        (0, Some(lost)) if back => ("good", format!("Ended well; {lost}, and all came back.")),
        (0, Some(lost)) => ("good", format!("Ended well; {lost}, of which not all were replaced.")),
        (status, None) => ("bad", format!("Ended with status {status}.")),
        (status, Some(lost)) => ("bad", format!("Ended with status {status}; {lost}.")),
    };
    html! {
        p class=(format!("verdict {class}")) {
            b { (words) }
            @if let Some(why) = &end.words { " " span.why { (why) } }
        }
    }
}

/// Renders the most important figures.
pub fn figures(record: &Record, story: &Story) -> Markup {
    let totals = &record.totals;
    let ran = record.end.ran;
    let each = match totals.checkpoints {
        0 => "none was made".to_owned(),
        made => format!("{} each", time(divided(totals.saving, made))),
    };
    let cost = totals.again + totals.recovery;
    let kept = kept(record);
    let part = format!("{:.1} %", share(totals.saving, ran));
    html! {
        section.figures aria-label="Figures" {
            (figure("ran for", &span(ran), &share_of_work(record)))
            (figure("checkpoints", &totals.checkpoints.to_string(), &each))
            (figure(
                "time in checkpoints",
                &part,
                &format!("{} of {}", time(totals.saving), span(ran))
            ))
            (figure(
                "losses",
                &(totals.processes + totals.nodes).to_string(),
                &lost(record).unwrap_or_else(|| "nothing".to_owned())
            ))
            (figure(
                "cost of losses",
                &time(cost),
                &recoveries(story)
            ))
            (figure(
                "memory for checkpoints",
                &bytes(kept),
                &format!("in each PE, for {} of data", bytes(totals.data))
            ))
        }
    }
}

/// Returns the number of completed recoveries, and a note if the last one failed.
fn recoveries(story: &Story) -> String {
    let over = story.recoveries.iter().filter(|recovery| recovery.end.is_some()).count();
    let word = if over == 1 { "recovery" } else { "recoveries" };
    let failed = if over < story.recoveries.len() { "; the last one failed" } else { "" };
    format!("{over} {word} in all{failed}")
}

fn figure(name: &str, value: &str, also: &str) -> Markup {
    html! {
        div.figure {
            div.name { (name) }
            div.value { (value) }
            div.also { (also) }
        }
    }
}

/// Returns the bytes that a PE keeps for checkpoints: its own snapshots, and the data that it holds
/// for others.
pub fn kept(record: &Record) -> u64 {
    let (job, totals) = (&record.job, &record.totals);
    let own = totals.data.saturating_mul(u64::from(job.snapshots));
    own.saturating_add(totals.kept.saturating_mul(u64::from(job.slots)))
}

fn divided(time: Duration, by: u64) -> Duration {
    Duration::from_secs_f64(time.as_secs_f64() / by.max(1) as f64)
}

fn share(part: Duration, of: Duration) -> f64 {
    part.as_secs_f64() / of.as_secs_f64().max(1e-9) * 100.0
}

fn share_of_work(record: &Record) -> String {
    let parts = parts(record);
    format!("{:.1} % computing", share(parts[1].1, record.end.ran))
}

/// Returns the breakdown of the time: class, time, label.
fn parts(record: &Record) -> [(&'static str, Duration, &'static str); 5] {
    let totals = &record.totals;
    let started = Story::of(record).started.unwrap_or_default();
    let rest = [started, totals.saving, totals.again, totals.recovery].iter().sum();
    let work = record.end.ran.saturating_sub(rest);
    [
        ("start", started, "starting"),
        ("work", work, "computing"),
        ("checkpoint", totals.saving, "checkpoints"),
        ("again", totals.again, "work lost and done again"),
        ("recovery", totals.recovery, "recoveries, from the death on"),
    ]
}

/// Renders the breakdown of the time.
pub fn time_section(record: &Record) -> Markup {
    let ran = record.end.ran;
    let parts = parts(record);
    let mut begin = 0.0;
    let places: Vec<(f64, f64)> = parts
        .iter()
        .map(|(_, time, _)| {
            let wide = share(*time, ran).clamp(0.0, 100.0 - begin);
            begin += wide;
            (begin - wide, wide)
        })
        .collect();
    html! {
        section #time {
            h2 { "Where the time went" }
            svg.bar width="100%" height="26" role="img"
                aria-label="Shares of time, as in the table" {
                @for ((class, _, words), (x, wide)) in parts.iter().zip(places) {
                    rect class=(class) x=(percent(x)) width=(percent(wide)) height="26" {
                        title { (words) }
                    }
                }
            }
            table.shares {
                @for (class, spent, words) in parts.iter().filter(|part| !part.1.is_zero()) {
                    tr {
                        th scope="row" { span class=(format!("key {class}")) {} (words) }
                        td.number { (time(*spent)) }
                        td.number { (format!("{:.1} %", share(*spent, ran))) }
                    }
                }
            }
        }
    }
}
