//! A report as one HTML page of the annotated source, without script or network.

use std::collections::{BTreeMap, BTreeSet};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::ir::SourceLine;
use crate::report::{Item, Level, Point, Report};
use crate::text::{place, size};

/// Long lines wrap and wide tables scroll, so that the page does not; no information depends on
/// colour alone.
const STYLE: &str = "body{font:15px sans-serif;margin:2em;max-width:70em}\
    pre{margin:0;font:13px monospace;white-space:pre-wrap;overflow-wrap:anywhere}\
    .line{display:flex}\
    .n{color:#666;width:4em;text-align:right;padding-right:1em;flex:none}\
    .note,.warning,.point{margin:.2em 0 .4em 5.5em;padding:.3em .6em;border-left:4px solid;\
    overflow-wrap:anywhere}.table{overflow-x:auto}td{white-space:nowrap}\
    .warning::before{content:'warning: ';font-weight:bold}.note::before{content:'note: '}\
    @media(max-width:40em){body{margin:1em}.n{width:2.2em}.note,.warning,.point{margin-left:0}}\
    .point{border-color:#38a;background:#eef5fa}.note{border-color:#999;background:#f4f4f4}\
    .warning{border-color:#c40;background:#fdf0e8}td,th{text-align:left;padding:0 1em .2em 0}";

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
        div.table {
            table {
                tr { th { "place" } th { "call" } th { "live" } th { "dead" } th { "rank" } }
                @for point in &report.points {
                    tr {
                        td { (place(&point.place)) }
                        td { (point.routine) }
                        td { (size(&point.live)) }
                        td { (size(&point.dead)) }
                        td { @if let Some(rank) = point.rank { (rank) } }
                    }
                }
            }
        }
    }
}

fn source(report: &Report, file: &str, text: &str) -> Markup {
    let at = |place: &SourceLine, number| place.file == file && place.line == number;
    html! {
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
