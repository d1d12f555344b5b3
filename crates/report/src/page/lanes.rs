//! The timeline: a lane for each PE, with its activities.
//!
//! A lane is a row of an SVG whose positions are percentages of its width, next to a row of text.

use std::time::Duration;

use maud::{Markup, html};
use raidshmem_core::quantity::Pe;

use super::scale::{Scale, anchor, percent};
use crate::record::{Record, Span};
use crate::story::{Fragile, Recovery, Story};
use crate::words::count;

/// Height of a lane in pixels.
const LANE: usize = 20;
/// Height of the space above the lanes for flags.
const HEAD: usize = 20;
/// Height of the bars in a lane.
const BAR: usize = 14;
/// Maximum number of PEs with a lane each.
const LANES: usize = 48;
/// Maximum number of recoveries drawn.
const DRAWN: usize = 200;

/// A bar, drawn by the name of its class.
#[derive(Debug, Clone, PartialEq)]
pub struct LanePart {
    pub begin: Duration,
    pub end: Duration,
    pub class: &'static str,
    pub words: String,
}

/// A lane.
#[derive(Debug)]
pub struct Lane {
    pub name: String,
    /// Less important text after the name.
    pub also: String,
    pub parts: Vec<LanePart>,
}

/// Returns the fill patterns that supplement colors, once per page.
pub fn patterns() -> Markup {
    html! {
        svg.patterns width="0" height="0" aria-hidden="true" {
            defs {
                pattern #hatch width="6" height="6" patternUnits="userSpaceOnUse"
                    patternTransform="rotate(45)" {
                    rect.again-ground width="6" height="6" {}
                    rect.again-line width="2.5" height="6" {}
                }
                pattern #cross width="6" height="6" patternUnits="userSpaceOnUse"
                    patternTransform="rotate(45)" {
                    rect.lost-ground width="6" height="6" {}
                    rect.lost-line width="1.5" height="6" {}
                }
            }
        }
    }
}

/// Draws lanes with the axis below them. `over` is drawn on top, extending into the head if there
/// is one.
pub fn picture(
    scale: Scale,
    zero: Duration,
    lanes: &[Lane],
    over: Option<&Markup>,
    what: &str,
) -> Markup {
    let height = lanes.len() * LANE;
    let head = if over.is_some() { HEAD } else { 0 };
    html! {
        div.lanes style=(format!("padding-top:{head}px")) {
            div.names aria-hidden="true" {
                @for lane in lanes {
                    div { b { (lane.name) } " " span.muted { (lane.also) } }
                }
            }
            svg width="100%" height=(height + 22) role="img" aria-label=(what) {
                @for (row, lane) in lanes.iter().enumerate() {
                    @for part in &lane.parts { (draw(scale, row, part)) }
                }
                @if let Some(over) = over { (over) }
                (axis(scale, zero, height))
            }
        }
    }
}

fn draw(scale: Scale, row: usize, part: &LanePart) -> Markup {
    let (begin, end) = (scale.at(part.begin), scale.at(part.end));
    html! {
        rect class=(part.class) x=(percent(begin)) width=(percent(end - begin))
            y=(row * LANE + (LANE - BAR) / 2) height=(BAR) {
            @if !part.words.is_empty() { title { (part.words) } }
        }
    }
}

fn axis(scale: Scale, zero: Duration, height: usize) -> Markup {
    html! {
        line.axis x1="0" x2="100%" y1=(height + 2) y2=(height + 2) {}
        @for (place, words) in scale.marks(zero) {
            line.axis x1=(percent(place)) x2=(percent(place)) y1=(height + 2) y2=(height + 6) {}
            text.mark x=(percent(place)) y=(height + 18) text-anchor=(anchor(place)) { (words) }
        }
    }
}

/// Draws the whole job.
pub fn timeline(record: &Record, story: &Story) -> Markup {
    let end = record.end.ran;
    let scale = Scale::new(Duration::ZERO, end);
    let lanes = lanes(record, story);
    let shown = lanes.len() * LANE;
    let over = html! {
        @for span in &record.checkpoints { (checkpoint(scale, span, shown)) }
        @for (number, recovery) in story.recoveries.iter().enumerate().take(DRAWN) {
            (flag(scale, number + 1, recovery, shown))
        }
    };
    let what = format!(
        "Activity of each PE over time: {} and {}",
        count(record.totals.checkpoints, "checkpoint"),
        losses(story.recoveries.len())
    );
    let of_all = record.job.node_of.len();
    html! {
        section #timeline {
            h2 { "Time line" }
            (picture(scale, Duration::ZERO, &lanes, Some(&over), &what))
            @if of_all > LANES {
                p.muted { "Of " (of_all) " PEs those that were lost have a lane of their own." }
            }
            @if story.recoveries.len() > DRAWN {
                p.muted {
                    "Of " (story.recoveries.len()) " recoveries the first " (DRAWN) " are drawn."
                }
            }
            ul.legend {
                li { span.key.work {} "computing" }
                li { span.key.checkpoint {} "checkpoint" }
                @if !story.fragile.is_empty() {
                    li { span.key.fragile {} "one more loss would have ended the job" }
                }
                @if !story.recoveries.is_empty() {
                    li { span.key.again {} "work lost, done again" }
                    li { span.key.gone {} "dead" }
                    li { span.key.recovery {} "recovery" }
                    li { span.key.back {} "adopted, rebuilt or read" }
                }
            }
        }
    }
}

fn losses(recoveries: usize) -> String {
    match recoveries {
        0 => "no loss".to_owned(),
        1 => "1 recovery".to_owned(),
        many => format!("{many} recoveries"),
    }
}

fn checkpoint(scale: Scale, span: &Span, height: usize) -> Markup {
    let (begin, end) = (scale.at(span.begin), scale.at(span.end));
    let words = match span.count {
        1 => format!("checkpoint {}, {:.1} ms", span.last, span.took.as_secs_f64() * 1e3),
        many => format!("checkpoints {} to {}, {many} of them", span.first, span.last),
    };
    let share = span.took.as_secs_f64() / (span.end - span.begin.min(span.end)).as_secs_f64();
    let opacity = if span.count == 1 { 1.0 } else { share.clamp(0.25, 1.0) };
    html! {
        rect.checkpoint x=(percent(begin)) width=(percent(end - begin)) y="0" height=(height)
            opacity=(format!("{opacity:.2}")) {
            title { (words) }
        }
    }
}

/// Draws a loss, with the number of its recovery.
fn flag(scale: Scale, number: usize, recovery: &Recovery, height: usize) -> Markup {
    let place = percent(scale.at(recovery.begin));
    html! {
        line.loss x1=(place) x2=(place) y1="-6" y2=(height + 2) {}
        a href=(format!("#recovery-{number}")) aria-label=(format!("recovery {number}")) {
            circle.loss cx=(place) cy="-11" r="8.5" {}
            text.flag x=(place) y="-7" text-anchor="middle" { (number) }
        }
    }
}

/// Returns a lane for each PE, or for each lost PE and one for the others.
fn lanes(record: &Record, story: &Story) -> Vec<Lane> {
    let of_all = record.job.node_of.len();
    let mut shown: Vec<Pe> = match of_all {
        ..=LANES => Pe::all(of_all).collect(),
        _ => story.recoveries.iter().flat_map(Recovery::lost).collect(),
    };
    shown.sort_unstable();
    shown.dedup();
    shown.truncate(LANES);
    let protection = (!story.fragile.is_empty()).then(|| protection(story));
    let of_pes = shown.iter().map(|&pe| lane(record, story, Some(pe)));
    let mut lanes: Vec<Lane> = protection.into_iter().chain(of_pes).collect();
    if shown.len() < of_all {
        let mut others = lane(record, story, None);
        others.name = format!("{} others", of_all - shown.len());
        lanes.push(others);
    }
    lanes
}

/// Returns the spans in which one more loss would have ended the job.
fn protection(story: &Story) -> Lane {
    let part = |span: &Fragile| LanePart {
        begin: span.begin,
        end: span.end,
        class: "fragile",
        words: span.why.clone(),
    };
    let parts = story.fragile.iter().take(DRAWN).map(part).collect();
    Lane { name: "protection".to_owned(), also: String::new(), parts }
}

fn lane(record: &Record, story: &Story, pe: Option<Pe>) -> Lane {
    let begin = story.started.unwrap_or_default();
    let end = record.end.ran;
    let mut parts = vec![LanePart { begin, end, class: "work", words: String::new() }];
    for recovery in story.recoveries.iter().take(DRAWN) {
        let (begin, end) = (recovery.base, recovery.begin);
        if !recovery.is_planned() {
            let words = "repeated work".to_owned();
            parts.push(LanePart { begin, end, class: "again", words });
        }
        parts.extend(of_recovery(recovery, pe, record.end.ran));
    }
    let home = pe.and_then(|pe| record.job.node_of.get(pe.at()));
    let node = home.and_then(|&node| record.job.nodes.get(node as usize));
    let name = pe.map(|pe| format!("PE {pe}")).unwrap_or_default();
    Lane { name, also: node.cloned().unwrap_or_default(), parts }
}

/// Returns the activities of `pe`, or of a PE that was not lost, in a recovery; `over` is the end
/// of the job.
pub fn of_recovery(recovery: &Recovery, pe: Option<Pe>, over: Duration) -> Vec<LanePart> {
    let end = recovery.end.unwrap_or(over);
    let mut parts = vec![LanePart {
        begin: recovery.begin,
        end,
        class: "recovery",
        words: "recovery".to_owned(),
    }];
    let Some(pe) = pe else { return parts };
    let own = recovery.losses.iter().filter(|loss| loss.pes.contains(&pe));
    for loss in own {
        let replaced = recovery.replaced.get(&pe).map(|(time, _)| *time);
        let until = replaced.filter(|time| *time >= loss.time).unwrap_or(end);
        let words = format!("PE {pe} {}", loss.cause);
        parts.push(LanePart { begin: loss.time, end: until, class: "gone", words });
    }
    if let Some(back) = recovery.back.get(&pe) {
        let words = match &back.from {
            None if back.from_disk => format!("PE {pe} read from disk"),
            None => format!("memory of PE {pe} adopted"),
            Some(_) => format!("PE {pe} rebuilt"),
        };
        parts.push(LanePart { begin: back.begin, end: back.end, class: "back", words });
    }
    parts
}
