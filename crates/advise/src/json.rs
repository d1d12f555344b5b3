//! A report as JSON, and as SARIF 2.1.0 for editors.

use serde_json::{Value, json};

use crate::ir::SourceLine;
use crate::report::{Finding, Item, Level, Point, RULES, Report};

/// The version of our JSON format.
const VERSION: u32 = 1;
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Returns the report in our own JSON format.
#[must_use]
pub fn json(report: &Report) -> String {
    let value = json!({
        "raidshmem_advise": VERSION,
        "points": report.points.iter().map(point).collect::<Vec<_>>(),
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "unknown": report.unknown,
    });
    format!("{value:#}\n")
}

/// Returns the findings as SARIF; `version` is that of the tool.
#[must_use]
pub fn sarif(report: &Report, version: &str) -> String {
    let rule = |(id, text): &(&str, &str)| json!({"id": id, "shortDescription": {"text": text}});
    let value = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "oshadvise",
                "version": version,
                "rules": RULES.iter().map(rule).collect::<Vec<_>>(),
            }},
            "results": report.findings.iter().map(result).collect::<Vec<_>>(),
        }],
    });
    format!("{value:#}\n")
}

fn place(place: &SourceLine) -> Value {
    json!({"file": place.file, "line": place.line})
}

fn item(item: &Item) -> Value {
    json!({
        "name": item.name,
        "storage": item.storage,
        "declared": place(&item.place),
        "bytes": item.bytes,
    })
}

fn point(point: &Point) -> Value {
    let items = |items: &[Item]| items.iter().map(item).collect::<Vec<_>>();
    json!({
        "place": place(&point.place),
        "function": point.function,
        "routine": point.routine,
        "checkpoint": point.checkpoint,
        "safe": point.safe,
        "repeats": point.repeats,
        "live": items(&point.live),
        "dead": items(&point.dead),
        "private": items(&point.private),
        "contexts_not_quiet": point.pending,
        "rank": point.rank,
    })
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Warning => "warning",
        Level::Note => "note",
    }
}

fn finding(finding: &Finding) -> Value {
    json!({
        "place": place(&finding.place),
        "level": level(finding.level),
        "rule": finding.rule,
        "message": finding.message,
        "related": finding.related.as_ref().map(place),
    })
}

fn location(place: &SourceLine) -> Value {
    json!({"physicalLocation": {
        "artifactLocation": {"uri": place.file},
        "region": {"startLine": place.line.max(1)},
    }})
}

fn result(finding: &Finding) -> Value {
    json!({
        "ruleId": finding.rule,
        "level": level(finding.level),
        "message": {"text": finding.message},
        "locations": [location(&finding.place)],
        "relatedLocations": finding.related.iter().map(location).collect::<Vec<_>>(),
    })
}
