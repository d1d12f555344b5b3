//! `whitepaper/figures.typ`: the paper's figures, as values of Typst.
//!
//! ```text
//! scorecard  the newest record of each kind: figures by name
//! scaling    points of the newest scaling study, and its model
//! start      time to start and end a job, by number of PEs
//! advise     findings of the adviser, and checkpoints under its plan
//! searched   states that the model checker explored: the table of docs/guarantees.md
//! risk       the probability of losing a job, by the closed form of `oshinfo plan`
//! reliability  the chance by simulation, with spares and repairs: [`super::reliability`]
//! evaluation the newest record of `make evaluation`, if any
//! local      local rollback compared with global rollback
//! fewer      accesses in a ring before and after a loss, in shrink mode
//! peers      runs of other systems: [`peers`](super::peers)
//! ```
//!
//! Invariant: the paper states no measured number of its own. [`own_numbers`] finds violations;
//! numbers that others published stand between two marks there.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use raidshmem_core::sizing::risk;
use serde_json::Value;

use super::{page, rounded};

/// The records that the paper uses; a newer one replaces its predecessor here.
const SCORECARD: &str =
    "benches/record/amd-epyc-family-26-model-2-gfni512/2026-11-27-01-33-23.json";
const VERBS: &str = "benches/record/amd-epyc-gfni512/2026-11-22-00-32-24.json";

/// Quotes a string for Typst.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the newest file `name` in a folder of `benches/record` whose name begins with `begin`.
fn newest(begin: &str, name: &str) -> Option<String> {
    let folders = |path: PathBuf| {
        let entries = std::fs::read_dir(path).into_iter().flatten();
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir())
    };
    let date = |path: &PathBuf| {
        let own = path.file_name()?.to_str()?.strip_prefix(begin)?.to_owned();
        path.join(name).is_file().then_some(own)
    };
    let kinds = folders(root().join("benches/record"));
    let found = kinds.flat_map(folders).filter_map(|path| Some((date(&path)?, path)));
    let (_, path) = found.max()?;
    let path = path.join(name);
    Some(path.strip_prefix(root()).expect("below the root").to_str()?.to_owned())
}

fn json(path: &str) -> Value {
    serde_json::from_str(&page(path)).expect("a record is JSON")
}

/// Returns the context that a reader needs to judge a record.
fn context(of: &Value) -> String {
    let text = |key: &str| of[key].as_str().unwrap_or("unknown").to_owned();
    let number = |key: &str| of[key].as_u64().map_or("unknown".into(), |n| n.to_string());
    let date = text("date").chars().take(10).collect::<String>();
    let fields = [
        ("date", date),
        ("commit", text("commit")),
        ("processor", text("processor")),
        ("processors", number("processors")),
        ("memory-gib", (of["memory_mib"].as_f64().unwrap_or(0.0) / 1024.0).round().to_string()),
        ("system", text("system")),
        ("load", text("load_before")),
        ("load-after", text("load_after")),
        ("quick", of["quick"].to_string()),
    ];
    let fields = fields.map(|(name, value)| format!("{name}: {}", quoted(&value)));
    format!("({})", fields.join(", "))
}

/// Returns the figures of a scorecard by their names.
fn scorecard(path: &str) -> String {
    let record = json(path);
    let mut text = format!("(\n  machine: {},\n  figures: (\n", context(&record["context"]));
    for figure in record["figures"].as_array().expect("a list of figures") {
        let number = |key: &str| figure[key].as_f64().expect("a number");
        let most = if figure["direction"] == "min" { "at most" } else { "at least" };
        let _ = writeln!(
            text,
            "    {}: (measured: {}, goal: {}, met: {}, runs: {}, reference: {}),",
            quoted(figure["figure"].as_str().expect("a name")),
            quoted(&rounded(number("measured"))),
            quoted(&format!("{most} {}", number("goal"))),
            figure["met"],
            figure["runs"],
            quoted(figure["peer"].as_str().expect("a peer")),
        );
    }
    let (figures, met) = (record["figures"].as_array().expect("figures"), "met");
    let missed = figures.iter().filter(|figure| figure[met] == false).count();
    let _ = writeln!(text, "  ),\n  count: {}, missed: {missed},\n)", figures.len());
    text
}

/// Returns a CSV's heading and its rows.
pub fn rows(csv: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let cells = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let mut lines = csv.lines().filter(|line| !line.is_empty()).map(cells);
    (lines.next().expect("a heading"), lines.collect())
}

/// Returns a CSV as an array of dictionaries: cells that are numbers become numbers.
fn table(csv: &str) -> String {
    let (heading, lines) = rows(csv);
    let cell = |(name, value): (&String, &String)| {
        let value = value.parse::<f64>().map_or_else(|_| quoted(value), |n| n.to_string());
        format!("{}: {value}", name.replace('_', "-"))
    };
    let row = |line: &Vec<String>| {
        let cells: Vec<String> = heading.iter().zip(line).map(cell).collect();
        format!("  ({}),\n", cells.join(", "))
    };
    format!("(\n{})", lines.iter().map(row).collect::<String>())
}

fn scaling() -> String {
    let csv = newest("scaling-", "scaling.csv").expect("a scaling study");
    let model = page(&csv.replace("scaling.csv", "scaling.txt"));
    let of = json(&csv.replace("scaling.csv", "context.json"));
    let rate = |what: &str| {
        let line = model.lines().find(|line| line.starts_with(what)).expect("an equation");
        let (_, rest) = line.split_once("reads at ").expect("a rate");
        let (_, errors) = line.split_once("relative error ").expect("errors");
        let percent = |text: &str| text.split_whitespace().next().expect("a number").to_owned();
        let (middle, most) = errors.split_once(" % in the middle, ").expect("two errors");
        format!(
            "(reads: {}, middle: {}, most: {})",
            quoted(&percent(rest)),
            quoted(middle),
            quoted(&percent(most))
        )
    };
    format!(
        "(\n  machine: {},\n  checkpoint: {}, rebuild: {},\n  points: {},\n)",
        context(&of),
        rate("checkpoint"),
        rate("rebuild"),
        table(&page(&csv))
    )
}

fn start() -> String {
    let csv = newest("start-", "start.csv").expect("a record of starts");
    let text = page(&csv);
    let (points, exponent): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| !line.starts_with("exponent"));
    let exponent = exponent.first().and_then(|line| line.split(',').nth(1)).expect("exponent");
    let of = json(&csv.replace("start.csv", "context.json"));
    format!(
        "(machine: {}, exponent: {}, points: {})",
        context(&of),
        quoted(exponent),
        table(&points.join("\n"))
    )
}

/// Returns the share of live bytes at a program's safe points, in percent.
fn share(program: &Value, kind: &str) -> f64 {
    let points = program["points"].as_array().expect("points");
    let sum = |kind: &str| points.iter().map(|p| p[kind].as_f64().expect("bytes")).sum::<f64>();
    100.0 * sum(kind) / sum("all")
}

fn advise() -> String {
    let folder = std::fs::read_dir(root().join("benches/record")).expect("records");
    let names = folder.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned());
    let name = names.filter(|name| name.starts_with("advise-")).max().expect("a record");
    let record = json(&format!("benches/record/{name}"));
    let mut text = format!(
        "(\n  processor: {},\n  pes: {},\n  programs: (\n",
        quoted(record["processor"].as_str().expect("a processor")),
        record["pes"]
    );
    for program in record["programs"].as_array().expect("programs") {
        let run = |what: &str, key: &str| program["run"][what][key].as_f64().expect("a number");
        let _ = writeln!(
            text,
            "    (name: {}, points: {}, live: \"{:.0}\", within: \"{:.0}\", all-kib: \"{:.0}\", \
             plan-kib: \"{:.0}\", all-ms: \"{}\", plan-ms: \"{}\"),",
            quoted(program["name"].as_str().expect("a name")),
            program["points"].as_array().expect("points").len(),
            share(program, "live"),
            share(program, "within"),
            run("all", "KiB a PE"),
            run("plan", "KiB a PE"),
            run("all", "ms a checkpoint"),
            run("plan", "ms a checkpoint"),
        );
    }
    text + "  ),\n)"
}

/// Returns the table of searches in docs/guarantees.md, and the text about the simulator there.
fn searched() -> String {
    let text = page("docs/guarantees.md");
    let (_, rest) = text.split_once("| PEs | parity | deaths | states |").expect("the table");
    let rows = rest.lines().skip(2).take_while(|line| line.starts_with("| "));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let states = cells[3].strip_suffix(" million").expect("states in millions");
        format!(
            "    (pes: {}, parity: {}, deaths: {}, states: {states}),\n",
            quoted(cells[0]),
            quoted(cells[1]),
            quoted(cells[2]),
        )
    };
    let between = |from: &str, to: &str| {
        let flat = text.replace('\n', " ");
        let (_, rest) = flat.split_once(from).unwrap_or_else(|| panic!("no {from:?}"));
        quoted(rest.split_once(to).unwrap_or_else(|| panic!("no {to:?}")).0)
    };
    let mutants = page("crates/core/src/mutant.rs");
    let rules = mutants.lines().filter(|line| line.trim_start().contains(" = \"")).count();
    format!(
        "(\n  searches: (\n{}  ),\n  seeds: {}, rate: {}, steps: {}, pairs: {}, rules: {rules},\n  \
         odds: {}, reduced: {},\n)",
        rows.map(row).collect::<String>(),
        between("too large to be tried in full: ", " seeds in `make test-all`"),
        between("`make test-all` (", " seeds per minute"),
        between("of processor time), ", " million steps"),
        between("a sample in `make test-all`, all ", " of them in `make soak`"),
        between("passed over by a collision are below one in ", "."),
        between("which leave one state of ", " and are"),
    )
}

/// The assumed mean time between losses of a node, in years, and the assumed size of a group.
pub const YEARS: f64 = 5.0;
pub const GROUP: usize = 8;

/// Returns the seconds between losses in a job on `nodes` nodes.
fn mtbf(nodes: usize) -> f64 {
    YEARS * 365.0 * 86_400.0 / nodes as f64
}

/// Returns the chance to lose a job in 30 days because a group loses more than its parity.
pub fn chance(nodes: usize, parity: usize, recovery: f64) -> f64 {
    let groups = nodes as f64 / GROUP as f64;
    let (nodes, mtbf) = (nodes as f64, mtbf(nodes));
    let exposure = risk::Exposure { nodes, group: GROUP, groups, parity, mtbf, recovery };
    exposure.chance(risk::MONTH)
}

fn risks() -> String {
    let mut points = String::new();
    for recovery in [10.0, 30.0, 100.0, 300.0, 1000.0, 3600.0] {
        let of = |nodes, parity| chance(nodes, parity, recovery);
        let (few, many) = ((of(256, 1), of(256, 2)), (of(4096, 1), of(4096, 2)));
        let _ = writeln!(
            points,
            "    (recovery: {recovery}, one-256: {:.3e}, two-256: {:.3e}, one-4096: {:.3e}, \
             two-4096: {:.3e}),",
            few.0, few.1, many.0, many.1
        );
    }
    let losses = |nodes| quoted(&rounded(risk::MONTH / mtbf(nodes)));
    format!(
        "(\n  points: (\n{points}  ),\n  years: {YEARS}, group: {GROUP},\n  losses-256: {}, \
         losses-4096: {}, launcher: {}, minute: {}, hour: {},\n)",
        losses(256),
        losses(4096),
        quoted(&odds(-(-risk::MONTH / mtbf(1)).exp_m1())),
        quoted(&odds(chance(4096, 1, 60.0))),
        quoted(&odds(chance(4096, 1, 3600.0))),
    )
}

/// Prints a chance in percent, or as one in so many, with two digits.
pub fn odds(chance: f64) -> String {
    if chance > 0.001 {
        return format!("{} %", rounded(100.0 * chance));
    }
    let many = 1.0 / chance;
    let digits = 10f64.powi(many.log10().floor() as i32 - 1);
    format!("one in {}", thousands(((many / digits).round() * digits) as usize))
}

/// Prints a number with a comma before every three digits.
pub fn thousands(number: usize) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", thousands(number / 1000), number % 1000),
    }
}

/// Returns the record of `make evaluation`, each of its tables by its name.
fn evaluation() -> String {
    let Some(path) = newest("evaluation-", "context.json") else { return "none".to_owned() };
    let folder = path.trim_end_matches("/context.json");
    let of = json(&path);
    let tables = ["checkpoint", "recovery", "memory", "jacobi", "interval"];
    let tables = tables
        .map(|name| format!("  {name}: {},\n", table(&page(&format!("{folder}/{name}.csv")))));
    let best = &of["interval"];
    let seconds = |key: &str| best[key].as_f64().expect("seconds");
    let intervals = format!(
        "(mtbf: {}, best: {:.3}, measured: {:.3})",
        seconds("mtbf"),
        seconds("best"),
        seconds("measured")
    );
    format!(
        "(\n  machine: {}, rounds: {}, seed: {}, full: {}, sweeps: {}, halo: {},\n  best: {},\n{})",
        context(&of["context"]),
        of["rounds"],
        of["seed"],
        of["full"],
        of["sweeps"],
        of["halo"],
        intervals,
        tables.concat()
    )
}

/// Returns local rollback compared with global rollback.
fn local() -> String {
    let path = newest("local-", "local.csv").expect("a record of local rollback");
    let of = json(&path.replace("local.csv", "context.json"));
    let csv = page(&path);
    let (heading, rows) = csv.split_once('\n').expect("a heading");
    let heading = heading.replace(['(', ')'], "").replace('%', "percent").replace(' ', "-");
    let (machine, points) = (context(&of["context"]), table(&format!("{heading}\n{rows}")));
    format!("(machine: {machine}, rounds: {}, points: {points})", of["rounds"])
}

fn fewer() -> String {
    let path = newest("fewer-", "ring.csv").expect("a record of shrink mode");
    let of = json(&path.replace("ring.csv", "figures.json"));
    format!("(machine: {}, points: {})", context(&of["context"]), table(&page(&path)))
}

/// Returns the whole file.
pub fn figures() -> String {
    let parts = [
        ("scorecard", scorecard(SCORECARD)),
        ("verbs", scorecard(VERBS)),
        ("scaling", scaling()),
        ("start", start()),
        ("advise", advise()),
        ("searched", searched()),
        ("risk", risks()),
        ("reliability", super::reliability::reliability()),
        ("evaluation", evaluation()),
        ("local", local()),
        ("fewer", fewer()),
        ("peers", super::peers::peers()),
    ];
    let mut text = String::from(
        "// Printed from records by `RAIDSHMEM_WRITE_DOCS=1 cargo test --test figures`: \
         not to be edited.\n",
    );
    for (name, value) in parts {
        let _ = writeln!(text, "\n#let {name} = {}", value.trim_end());
    }
    text
}

/// Removes the text between pairs of `mark`, which do not cross lines.
fn outside(line: &str, mark: char) -> String {
    line.split(mark).step_by(2).collect::<Vec<_>>().join(" ")
}

/// Returns lines of the paper's text with a number that looks measured: with a decimal point, or
/// before a unit of time, rate or share. Strings, formulas and comments do not count as text.
pub fn own_numbers(text: &str) -> Vec<String> {
    const UNITS: [&str; 7] = ["%", "ms", "us", "s", "seconds", "GB/s", "million"];
    let mut published = false;
    let mut found = Vec::new();
    for line in text.lines() {
        match line.trim() {
            "// published by others" => published = true,
            "// end of what others published" => published = false,
            comment if published || comment.starts_with("//") => {}
            _ => {
                let plain = outside(&outside(line, '"'), '$');
                let trimmed =
                    |word: &str| word.trim_matches(|c: char| "(),;:.[]".contains(c)).to_owned();
                let words: Vec<String> =
                    plain.split([' ', '~']).filter(|w| !w.is_empty()).map(trimmed).collect();
                let number = |word: &String| word.parse::<f64>().is_ok();
                let measured =
                    |pair: &[String]| number(&pair[0]) && UNITS.contains(&pair[1].as_str());
                let exact = |word: &String| number(word) && word.contains('.');
                if words.windows(2).any(measured) || words.iter().any(exact) {
                    found.push(line.to_owned());
                }
            }
        }
    }
    found
}
