//! The sections on checkpoints over time, memory by kind, the output of `oshrun`, and the settings.

use std::time::Duration;

use maud::{Markup, html};

use super::scale::{Scale, anchor, percent};
use super::summary::kept;
use crate::event::What;
use crate::job::SettingValue;
use crate::record::{AtEnd, Record};
use crate::words::{bytes, count, time};

/// Height of the checkpoint chart in pixels.
const HIGH: f64 = 96.0;
/// Maximum number of PEs in the table of memory.
const ROWS: usize = 64;
/// Maximum number of lines of output.
const LINES: usize = 500;

/// Draws the duration of checkpoints, over time.
pub fn checkpoints(record: &Record) -> Markup {
    let spans = &record.checkpoints;
    let scale = Scale::new(Duration::ZERO, record.end.ran);
    let most = spans.iter().map(|span| span.longest).max().unwrap_or_default();
    if most.is_zero() {
        return html! {};
    }
    let high = |took: Duration| took.as_secs_f64() / most.as_secs_f64() * HIGH;
    let bar = |class: &str, begin, end, took| {
        let (begin, end, high) = (scale.at(begin), scale.at(end), high(took));
        html! {
            rect class=(class) x=(percent(begin)) width=(percent(end - begin))
                y=(format!("{:.1}", HIGH - high)) height=(format!("{high:.1}")) {}
        }
    };
    let mean = record.totals.saving.as_secs_f64() / record.totals.checkpoints.max(1) as f64;
    let (mean, all) = (Duration::from_secs_f64(mean), record.totals.checkpoints);
    let what =
        format!("{}: {} on average, {} at most", count(all, "checkpoint"), time(mean), time(most));
    html! {
        section #checkpoints {
            h2 { "Checkpoints" }
            p { (what) "." }
            p.muted.scale { (time(most)) }
            svg.chart width="100%" height=(HIGH + 22.0) role="img" aria-label=(what) {
                @for span in spans {
                    @let each = span.took.as_secs_f64() / span.count.max(1) as f64;
                    @if span.count > 1 { (bar("longest", span.begin, span.end, span.longest)) }
                    (bar("took", span.begin, span.end, Duration::from_secs_f64(each)))
                }
                line.axis x1="0" x2="100%" y1=(HIGH) y2=(HIGH) {}
                @for (place, words) in scale.marks(Duration::ZERO) {
                    text.mark x=(percent(place)) y=(HIGH + 16.0) text-anchor=(anchor(place)) {
                        (words)
                    }
                }
                line.axis x1="0" x2="100%" y1="0" y2="0" {}
            }
        }
    }
}

/// Shows a PE's memory by kind, compared with the modes that keep copies.
pub fn memory(record: &Record) -> Markup {
    let (job, totals) = (&record.job, &record.totals);
    let (data, own) = (totals.data, totals.data.saturating_mul(u64::from(job.snapshots)));
    let others = totals.kept.saturating_mul(u64::from(job.slots));
    let copies = matches!(job.mode.as_str(), "single" | "double");
    let word = if copies { "copies for others" } else { "parity for others" };
    let rows = [
        (job.mode.as_str(), [data, own, others], true),
        ("single", [data, 0, data], false),
        ("double", [data, data, data], false),
    ];
    let shown = rows.into_iter().filter(|(mode, _, own)| *own || *mode != job.mode);
    let shown: Vec<_> = shown.collect();
    let sum = |parts: &[u64; 3]| parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part));
    let most = shown.iter().map(|(_, parts, _)| sum(parts)).max().unwrap_or(1).max(1);
    let share = |bytes: u64| bytes as f64 / most as f64 * 100.0;
    html! {
        section #memory {
            h2 { "Memory of a PE" }
            @if data == 0 {
                p { "No checkpoint was made. The symmetric heap is " (bytes(job.heap)) "." }
            } @else {
                p {
                    (bytes(data)) " of data in a symmetric heap of " (bytes(job.heap))
                    ", and " (bytes(kept(record))) " for checkpoints; as PE 0 had it."
                }
                div.modes {
                    @for (mode, parts, is_own) in &shown {
                        div.mode { @if *is_own { b { (mode) } } @else { (mode) } }
                        svg.bar width="100%" height="22" role="img"
                            aria-label=(format!("mode {mode}: {}", bytes(sum(parts)))) {
                            @let [one, two, three] = *parts;
                            rect.data x="0" width=(percent(share(one))) height="22" {}
                            rect.own x=(percent(share(one))) width=(percent(share(two)))
                                height="22" {}
                            rect.others x=(percent(share(one.saturating_add(two))))
                                width=(percent(share(three))) height="22" {}
                        }
                        div.number { (bytes(sum(parts))) }
                    }
                }
                table.shares {
                    tr {
                        th scope="row" { span.key.data {} "data of the program" }
                        td.number { (bytes(data)) }
                    }
                    @if own > 0 {
                        tr {
                            th scope="row" { span.key.own {} "own copy of the last checkpoint" }
                            td.number { (bytes(own)) }
                        }
                    }
                    tr {
                        th scope="row" { span.key.others {} (word)
                            @if job.slots > 1 { ", of the last checkpoint and of the next" } }
                        td.number { (bytes(others)) }
                    }
                }
            }
            (at_end(&record.at_end))
        }
    }
}

fn at_end(pes: &[AtEnd]) -> Markup {
    let optional = |value: Option<u64>| value.map(bytes).unwrap_or_default();
    html! {
        @if !pes.is_empty() {
            details {
                summary { "Statistics that each PE reported at its end" }
                div.scroll tabindex="0" role="group" aria-label="PEs at their end" {
                    table {
                        tr {
                            th { "PE" } th { "memory" } th { "scrubbed" } th { "damaged" }
                            th { "repaired" } th { "longest log" } th { "records" }
                        }
                        @for end in pes.iter().take(ROWS) {
                            tr {
                                td.number { (end.pe) }
                                td.number { (optional(end.memory)) }
                                td.number { (optional(end.scrubbed.map(|(bytes, ..)| bytes))) }
                                @let (_, damaged, repaired) = end.scrubbed.unwrap_or_default();
                                td.number { (damaged) }
                                td.number { (repaired) }
                                td.number { (optional(end.logged.map(|(bytes, _)| bytes))) }
                                td.number { (end.logged.map_or(0, |(_, records)| records)) }
                            }
                        }
                    }
                }
                @if pes.len() > ROWS { p.muted { "and " (pes.len() - ROWS) " more" } }
            }
        }
    }
}

/// Lists the lines that `oshrun` printed, with the time in the job.
pub fn lines(record: &Record) -> Markup {
    let said = record.events.iter().filter_map(|event| {
        let What::Said { line } = &event.what else { return None };
        Some((event.time, line))
    });
    let said: Vec<_> = said.collect();
    let more = said.len().saturating_sub(LINES);
    html! {
        @if !said.is_empty() {
            section #lines {
                h2 { "Messages of oshrun" }
                div.scroll.lines tabindex="0" role="group" aria-label="lines of oshrun" {
                    table {
                        @for (when, line) in said.iter().take(LINES) {
                            tr {
                                td.number { (format!("{:.3} s", when.as_secs_f64())) }
                                td.line { (line) }
                            }
                        }
                    }
                }
                @if more > 0 { p.muted { "and " (more) " more lines" } }
                @if record.left_out > 0 {
                    p.muted { (record.left_out) " events in the middle of the job were not kept." }
                }
            }
        }
    }
}

/// Lists the settings in force, those with a user's value first.
pub fn settings(record: &Record) -> Markup {
    let (chosen, others): (Vec<_>, Vec<_>) =
        record.job.settings.iter().partition(|setting| !setting.default);
    html! {
        section #settings {
            h2 { "Settings" }
            @if chosen.is_empty() {
                p { "All settings have their default values." }
            } @else {
                (table(&chosen))
            }
            @if !others.is_empty() {
                details {
                    summary { (others.len()) " more, with their default values" }
                    (table(&others))
                }
            }
        }
    }
}

fn table(settings: &[&SettingValue]) -> Markup {
    html! {
        table.settings {
            @for setting in settings {
                tr {
                    th scope="row" { code { (setting.name) } }
                    td { code { (setting.value.as_deref().unwrap_or("unset")) } }
                    td.muted { (setting.doc) }
                }
            }
        }
    }
}
