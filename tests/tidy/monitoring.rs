//! The dashboard and the alerts for `--metrics`: they name only metrics that a job serves.

use std::collections::BTreeSet;

use super::files::{File, expect_none, files, page, snippet};

const ALERTS: &str = "monitoring/alerts.yml";

/// Returns the series of the metrics in the table of docs/report.md.
fn served(page: &str) -> BTreeSet<String> {
    let (_, rest) = page.split_once("| metric | meaning |\n").expect("the table of metrics");
    let rows = rest.lines().skip(1).take_while(|line| line.starts_with('|'));
    let series = |row: &str| -> Vec<String> {
        let name = row.split('`').nth(1).expect("a metric in each row");
        let ends: &[&str] = match row.contains("| histogram ") {
            true => &["_sum", "_count", "_bucket"],
            false => &[""],
        };
        ends.iter().map(|end| format!("{name}{end}")).collect()
    };
    rows.flat_map(series).collect()
}

/// Returns the metrics that a file names, and no job serves or rule records.
fn unserved(file: &File, known: &BTreeSet<String>) -> Vec<String> {
    let text = file.text.replace("\\n", " "); // a line's end in JSON
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let ours = |word: &&str| word.starts_with("raidshmem_") || word.starts_with("raidshmem:");
    let words: BTreeSet<&str> = text.split(|c| !part(c)).filter(ours).collect();
    let unknown = |word: &&str| !known.contains(*word);
    let say = |word| format!("{}: no job serves {word}", file.path);
    words.into_iter().filter(unknown).map(say).collect()
}

/// Returns the alerts without a word that they should have, or without a test that they fire.
fn bare_alerts(rules: &str, tests: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for alert in rules.split("- alert: ").skip(1) {
        let name = alert.lines().next().unwrap_or_default();
        for part in ["severity: ", "summary: ", "description: ", "action: "] {
            if !alert.contains(part) {
                wrong.push(format!("{ALERTS}: {name} has no {part}"));
            }
        }
        if !tests.contains(&format!("alertname: {name}\n        exp_alerts:\n")) {
            wrong.push(format!("{ALERTS}: no test in which {name} fires"));
        }
    }
    wrong
}

#[test]
fn monitoring_names_the_metrics_there_are() {
    let mut known = served(&page("docs/report.md"));
    let rules = page(ALERTS);
    let recorded = rules.lines().filter_map(|line| line.trim().strip_prefix("- record: "));
    known.extend(recorded.map(str::to_owned));
    let all = files("monitoring", |name| name.ends_with(".yml") || name.ends_with(".json"));
    assert!(all.len() >= 4, "the dashboard, the alerts, their tests and an example");
    expect_none(all.iter().flat_map(|file| unserved(file, &known)).collect());
}

#[test]
fn the_dashboard_is_json() {
    let text = page("monitoring/dashboard.json");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    assert!(panels.iter().any(|panel| panel["targets"][0]["expr"].is_string()));
}

#[test]
fn alerts_say_what_to_do_and_are_tested() {
    expect_none(bare_alerts(&page(ALERTS), &page("monitoring/alerts_test.yml")));
}

#[test]
fn rules_see_other_metrics_and_bare_alerts() {
    let table = "| metric | meaning |\n| --- | --- |\n| `raidshmem_a` | b |\n\
                 | `raidshmem_c` | histogram of d |\n\n| `raidshmem_e` | f |\n";
    let known = served(table);
    assert_eq!(known.len(), 4, "{known:?}");
    let text = "raidshmem_a\\nraidshmem_c_sum{raidshmem:f} raidshmem_c raidshmem_e";
    assert_eq!(unserved(&snippet(text), &known).len(), 3);
    let rules = "- alert: A\n  severity: b\n  summary: c\n  action: d\n";
    let tests = "alertname: A\n        exp_alerts: []\n";
    assert_eq!(bare_alerts(rules, tests).len(), 2);
}
