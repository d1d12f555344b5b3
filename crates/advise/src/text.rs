//! A report as text for a terminal.

use std::fmt::Write;

use crate::ir::SourceLine;
use crate::report::{Item, Level, Point, Report, bytes};

/// Maximum number of places for a checkpoint that are listed.
const PLACES: usize = 5;

/// Renders the report; `brief` omits points that are not checkpoints.
#[must_use]
pub fn text(report: &Report, brief: bool) -> String {
    let mut text = String::new();
    for point in report.points.iter().filter(|point| !brief || point.checkpoint) {
        describe(&mut text, point);
    }
    let mut places: Vec<&Point> = report.points.iter().filter(|p| p.rank.is_some()).collect();
    places.sort_by_key(|point| point.rank);
    if !places.is_empty() && !brief {
        let _ = writeln!(text, "\nplaces for a checkpoint, the best first:");
    }
    for point in places.iter().take(PLACES).filter(|_| !brief) {
        let often = if point.repeats { "in a loop" } else { "once" };
        let _ = writeln!(
            text,
            "    {}: {} ({often}, {} live, {} private to protect)",
            place(&point.place),
            point.routine,
            size(&point.live),
            point.private.len()
        );
    }
    if !report.unknown.is_empty() {
        let _ = writeln!(
            text,
            "\ncode that was not given, taken to read and write all that it can reach: {}",
            report.unknown.join(", ")
        );
    }
    if !report.findings.is_empty() && !text.is_empty() {
        text.push('\n');
    }
    for finding in &report.findings {
        let level = match finding.level {
            Level::Warning => "warning",
            Level::Note => "note",
        };
        let _ = writeln!(
            text,
            "{}: {level}: {} [{}]",
            place(&finding.place),
            finding.message,
            finding.rule
        );
    }
    text
}

/// Returns `FILE:LINE`, as far as it is known.
#[must_use]
pub fn place(place: &SourceLine) -> String {
    match (place.file.is_empty(), place.line) {
        (true, _) => "unknown".to_owned(),
        (false, 0) => place.file.clone(),
        (false, line) => format!("{}:{line}", place.file),
    }
}

fn describe(text: &mut String, point: &Point) {
    let kind = match (point.checkpoint, point.safe) {
        (true, _) => "checkpoint",
        (false, true) => "safe point",
        (false, false) => "no safe point",
    };
    let _ =
        writeln!(text, "{}: {kind}: {} in {}", place(&point.place), point.routine, point.function);
    for (what, items) in [("live", &point.live), ("dead", &point.dead), ("private", &point.private)]
    {
        if items.is_empty() {
            continue;
        }
        let _ = writeln!(text, "    {what}, {}:", size(items));
        for item in items {
            let _ = writeln!(
                text,
                "        {} ({}, {}){}",
                item.name,
                item.storage,
                place(&item.place),
                item.bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default()
            );
        }
    }
}

/// Returns the bytes of items, including a count of unknown sizes.
#[must_use]
pub fn size(items: &[Item]) -> String {
    match bytes(items) {
        (known, 0) => format!("{known} bytes"),
        (0, unknown) => format!("{unknown} of unknown size"),
        (known, unknown) => format!("{known} bytes and {unknown} of unknown size"),
    }
}
