//! A report as one HTML page of the annotated source, without script or network.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::report::{Finding, Item, Level, Point, Report};
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
pub fn html(report: &Report, sources: &BTreeMap<String, String>) -> String {
    let mut page = String::new();
    let warnings = report.warnings();
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>oshadvise</title><style>{STYLE}</style></head><body>\n\
         <h1>What a checkpoint must hold</h1>\n<p>{} points of synchronisation, {warnings} \
         warnings, {} notes.</p>\n",
        report.points.len(),
        report.findings.len() - warnings
    );
    table(&mut page, report);
    for file in files(report) {
        if let Some(text) = sources.get(file) {
            source(&mut page, report, file, text);
        }
    }
    page.push_str("</body></html>\n");
    page
}

/// Returns the files that the report mentions.
#[must_use]
pub fn files(report: &Report) -> BTreeSet<&str> {
    let points = report.points.iter().map(|point| point.place.file.as_str());
    let findings = report.findings.iter().map(|finding| finding.place.file.as_str());
    points.chain(findings).filter(|file| !file.is_empty()).collect()
}

fn table(page: &mut String, report: &Report) {
    page.push_str("<div class=\"table\"><table><tr><th>place</th><th>call</th><th>live</th>");
    page.push_str("<th>dead</th><th>rank</th></tr>\n");
    for point in &report.points {
        let rank = point.rank.map(|rank| rank.to_string()).unwrap_or_default();
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{rank}</td></tr>",
            escape(&place(&point.place)),
            escape(&point.routine),
            size(&point.live),
            size(&point.dead)
        );
    }
    page.push_str("</table></div>\n");
}

fn source(page: &mut String, report: &Report, file: &str, text: &str) {
    let _ = writeln!(page, "<h2>{}</h2>", escape(file));
    for (index, line) in text.lines().enumerate() {
        let number = index as u32 + 1;
        let at = |place: &crate::ir::SourceLine| place.file == file && place.line == number;
        let _ = writeln!(
            page,
            "<div class=\"line\"><pre class=\"n\">{number}</pre><pre>{}</pre></div>",
            escape(line)
        );
        report.points.iter().filter(|is| at(&is.place)).for_each(|point| note(page, point));
        report.findings.iter().filter(|is| at(&is.place)).for_each(|is| told(page, is));
    }
}

fn note(page: &mut String, point: &Point) {
    let kind = match (point.checkpoint, point.safe) {
        (true, _) => "checkpoint",
        (false, true) => "safe point",
        (false, false) => "no safe point",
    };
    let _ = write!(page, "<div class=\"point\">{kind}: {}", escape(&point.routine));
    for (what, items) in [("live", &point.live), ("dead", &point.dead), ("private", &point.private)]
    {
        if !items.is_empty() {
            let _ = write!(page, "<br>{what}, {}: {}", size(items), escape(&names(items)));
        }
    }
    page.push_str("</div>\n");
}

fn names(items: &[Item]) -> String {
    items.iter().map(|item| item.name.as_str()).collect::<Vec<_>>().join("; ")
}

fn told(page: &mut String, finding: &Finding) {
    let class = if finding.level == Level::Warning { "warning" } else { "note" };
    let _ = writeln!(page, "<div class=\"{class}\">{}</div>", escape(&finding.message));
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
