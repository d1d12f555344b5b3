//! A report as one HTML page of the annotated source, without script or network.

use std::collections::{BTreeMap, BTreeSet};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::ir::SourceLine;
use crate::report::{Item, Level, Point, Report};
use crate::text::{place, size};

/// The style, that of the page of `oshreport`. Long lines wrap, and on a narrow screen a row of the
/// table is a block; no information depends on colour alone.
const STYLE: &str = include_str!("html.css");

/// Renders the page; `sources` are the texts of files by name.
#[must_use]
pub fn page(report: &Report, sources: &BTreeMap<String, String>) -> String {
    let warnings = report.warnings();
    let notes = report.findings.len() - warnings;
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { "oshadvise" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "What a checkpoint must hold" }
                p {
                    (report.points.len()) " points of synchronisation, " (warnings) " warnings, "
                    (notes) " notes."
                }
                p.muted {
                    "Live memory is read later, so a checkpoint there must hold it; dead memory \
                     is not. The point with rank 1 is the best place for a checkpoint."
                }
                (table(report))
                @for file in files(report) {
                    @if let Some(text) = sources.get(file) { (source(report, file, text)) }
                }
            }
        }
    };
    markup.into_string() + "\n"
}

/// Returns the files that the report mentions.
#[must_use]
pub fn files(report: &Report) -> BTreeSet<&str> {
    let points = report.points.iter().map(|point| point.place.file.as_str());
    let findings = report.findings.iter().map(|finding| finding.place.file.as_str());
    points.chain(findings).filter(|file| !file.is_empty()).collect()
}

fn table(report: &Report) -> Markup {
    html! {
        section {
            h2 { "Points of synchronisation" }
            table {
                tr { th { "place" } th { "call" } th { "live" } th { "dead" } th { "rank" } }
                @for point in &report.points {
                    tr {
                        td data-name="place" { (place(&point.place)) }
                        td data-name="call" { (point.routine) }
                        td data-name="live" { (size(&point.live)) }
                        td data-name="dead" { (size(&point.dead)) }
                        td data-name="rank" { @if let Some(rank) = point.rank { (rank) } }
                    }
                }
            }
        }
    }
}

fn source(report: &Report, file: &str, text: &str) -> Markup {
    let at = |place: &SourceLine, number| place.file == file && place.line == number;
    html! {
        section {
            h2 { (file) }
            @for (number, line) in (1..).zip(text.lines()) {
                div.line { pre.n { (number) } pre { (line) } }
                @for point in report.points.iter().filter(|point| at(&point.place, number)) {
                    (note(point))
                }
                @for finding in report.findings.iter().filter(|one| at(&one.place, number)) {
                    @let class = if finding.level == Level::Warning { "warning" } else { "note" };
                    div class=(class) { (finding.message) }
                }
            }
        }
    }
}

fn note(point: &Point) -> Markup {
    let kind = match (point.checkpoint, point.safe) {
        (true, _) => "checkpoint",
        (false, true) => "safe point",
        (false, false) => "no safe point",
    };
    let memory = [("live", &point.live), ("dead", &point.dead), ("private", &point.private)];
    html! {
        div.point {
            (kind) ": " (point.routine)
            @for (what, items) in memory.into_iter().filter(|(_, items)| !items.is_empty()) {
                br; (what) ", " (size(items)) ": " (names(items))
            }
        }
    }
}

fn names(items: &[Item]) -> String {
    items.iter().map(|item| item.name.as_str()).collect::<Vec<_>>().join("; ")
}
