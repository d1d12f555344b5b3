//! Runs of other systems and of this library, as values of Typst: medians of recorded lines.
//!
//! ```text
//! checkpoints  time over a copy by the same processes, first checkpoint, extra memory
//! recoveries   from the death until all processes have resumed
//! growth       checkpoints of many PEs, one run each
//! transfers    OpenSHMEM: time over that of Open MPI, the median over rounds, in two windows
//! codec        throughput over ISA-L's, of two versions
//! ```
//!
//! Invariant: a run that failed (`rc` other than 0) or timed out counts nowhere, except where Open
//! MPI crashed after it had printed its figures. Each value has the number of its runs.

use std::fmt::Write as _;

use serde_json::Value;

use super::paper::quoted;
use super::{page, rounded};

const FOLDER: &str = "benches/record/amd-epyc-gfni512/peers-2026-11-27";

/// The calls of OpenSHMEM that the paper compares, as the program prints them.
const CALLS: [&str; 16] = [
    "put_8",
    "put_4K",
    "put_1M",
    "get_8",
    "get_4K",
    "get_1M",
    "bcast_8",
    "bcast_4K",
    "bcast_1M",
    "reduce_8",
    "reduce_4K",
    "reduce_1M",
    "alltoall_8",
    "alltoall_1M",
    "barrier",
    "fetch_add",
];

/// The figures of the codec that the paper compares.
const CODEC: [&str; 9] = [
    "xor 8+1 cache",
    "raid6 8+2 cache",
    "encode 8+2 cache",
    "encode 8+2 memory",
    "encode 10+4 memory",
    "rebuild 1 of 8+2 memory",
    "rebuild 2 of 8+2 memory",
    "rebuild 1 of 10+4 memory",
    "update 8+2 cache",
];

/// Returns the runs of a file, one per line.
fn runs(name: &str) -> Vec<Value> {
    let text = page(&format!("{FOLDER}/{name}.jsonl"));
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn number(run: &Value, key: &str) -> Option<f64> {
    run[key].as_f64()
}

/// Returns the number that stands before ` unit` and after the last space in the line of a run that
/// contains it.
fn said(run: &Value, unit: &str) -> Option<f64> {
    let lines = run["lines"].as_array()?.iter().filter_map(Value::as_str);
    let before = lines.filter_map(|line| line.split_once(unit)).map(|(before, _)| before).next()?;
    before.rsplit(' ').next()?.parse().ok()
}

/// Runs, median, minimum and maximum, under names that begin with `name`.
fn spread(name: &str, mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.first().expect("a run"), values.last().expect("a run"));
    let half = values.len() / 2;
    let median = if values.len() % 2 == 1 {
        values[half]
    } else {
        f64::midpoint(values[half - 1], values[half])
    };
    let [median, low, high] = [median, *low, *high].map(|value| quoted(&rounded(value)));
    format!(
        "{name}-runs: {}, {name}: {median}, {name}-low: {low}, {name}-high: {high}",
        values.len()
    )
}

fn checkpoints() -> String {
    let mut text = String::from("(\n");
    for mib in ["64", "256"] {
        let all = runs(&format!("checkpoint-{mib}"));
        for job in ["raid5", "two", "rs2", "redset", "redset_rs", "fenix"] {
            let of = |run: &&Value| run["job"] == job && run["rc"] == 0;
            let found: Vec<&Value> = all.iter().filter(of).collect();
            if found.is_empty() {
                continue;
            }
            let values = |get: &dyn Fn(&Value) -> Option<f64>| -> Vec<f64> {
                found.iter().filter_map(|run| get(run)).collect()
            };
            let ratio =
                values(&|run| Some(number(run, "checkpoint_ms")? / number(run, "copy_ms")?));
            // The programs also hold the destination of their copy, as large as the live data.
            let extra =
                values(&|run| Some(number(run, "pss_mib")? / number(run, "live_mib")? - 2.0));
            let memory = if extra.is_empty() { String::new() } else { spread("extra", extra) };
            let first = spread("first", values(&|run| number(run, "first_ms")));
            let ratio = spread("ratio", ratio);
            let _ = writeln!(text, "  (job: \"{job}\", mib: {mib}, {ratio}, {first}, {memory}),");
        }
    }
    text + ")"
}

fn recoveries() -> String {
    let all = runs("recovery");
    let mut text = String::from("(\n");
    for job in ["proc", "proc_warm", "node", "node_warm", "fenix"] {
        let of = |run: &&Value| run["job"] == job && run["rc"] == 0;
        let back = |run: &Value| match job {
            "fenix" => number(run, "death_to_back"),
            _ => said(run, " ms until all were back"),
        };
        let values: Vec<f64> = all.iter().filter(of).filter_map(back).collect();
        let _ = writeln!(text, "  (job: \"{job}\", {}),", spread("back", values));
    }
    text + ")"
}

/// Returns the number after `name ` at the beginning of a line of what a run printed.
fn printed(run: &Value, name: &str) -> Option<f64> {
    let lines = run["txt"].as_str()?.lines();
    let mut found = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.next()?.trim().parse().ok()
}

fn growth() -> String {
    let all = runs("transfer");
    let mut text = String::from("(\n");
    for (pes, job) in
        [(16, "ckn16"), (32, "ckn32"), (64, "ckn64"), (128, "ckn128"), (256, "prof_ck256")]
    {
        let run = all.iter().find(|run| run["job"] == job).expect("a run");
        let of = |name: &str| printed(run, name).expect("a figure");
        let (checkpoint, copy) = (of("checkpoint_ms"), of("copy_ms"));
        let _ = writeln!(
            text,
            "  (pes: {pes}, checkpoint: {}, copy: {}, first: {}, ratio: {}),",
            quoted(&rounded(checkpoint)),
            quoted(&rounded(copy)),
            quoted(&rounded(of("first_ms"))),
            quoted(&rounded(checkpoint / copy)),
        );
    }
    text + ")"
}

/// Returns, for each round of a window, this library's time over that of Open MPI.
fn ratios(file: &str, call: &str) -> Vec<f64> {
    let all = runs(file);
    let time = |round: &Value, ours: bool| {
        let (job, who) = match (file, ours) {
            ("recovery", true) => ("lat_ours2", None),
            ("recovery", false) => ("lat_ompi2", None),
            (_, true) => ("lat", Some("ours")),
            (_, false) => ("lat", Some("ompi")),
        };
        let of = |run: &&Value| {
            run["job"] == job && run["round"] == *round && who.is_none_or(|who| run["who"] == who)
        };
        printed(all.iter().find(of)?, call)
    };
    let rounds = all
        .iter()
        .filter(|run| run["job"] == "lat_ours2" || (run["job"] == "lat" && run["who"] == "ours"));
    let ratio = |run: &Value| Some(time(&run["round"], true)? / time(&run["round"], false)?);
    rounds.filter_map(ratio).collect()
}

fn transfers() -> String {
    let mut text = String::from("(\n");
    for call in CALLS {
        let (one, two) = (ratios("recovery", call), ratios("transfer", call));
        let _ =
            writeln!(text, "  (call: \"{call}\", {}, {}),", spread("one", one), spread("two", two));
    }
    text + ")"
}

fn codec() -> String {
    let all = runs("recovery");
    let of = |lib: &str, name: &str| {
        let run = all.iter().find(|run| run["job"] == "isal" && run["lib"] == lib).expect("a run");
        let mut rows = run["txt"].as_str().expect("text").lines().filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            (cells[0] == name).then(|| cells[3].to_owned())
        });
        quoted(&rows.next().expect("a figure"))
    };
    let row = |name: &&str| {
        format!("  (name: \"{name}\", debian: {}, july: {}),\n", of("2.30", name), of("git", name))
    };
    format!("(\n{})", CODEC.iter().map(row).collect::<String>())
}

/// Returns all of them.
pub fn peers() -> String {
    let context: Value =
        serde_json::from_str(&page(&format!("{FOLDER}/context.json"))).expect("a context of JSON");
    let commit = quoted(context["commit"].as_str().expect("a commit"));
    let processor = quoted(context["processor"].as_str().expect("a processor"));
    format!(
        "(\n  commit: {commit}, processor: {processor}, processors: \"{}\",\n  checkpoints: {},\n  \
         recoveries: {},\n  growth: {},\n  transfers: {},\n  codec: {},\n)",
        context["processors"],
        checkpoints(),
        recoveries(),
        growth(),
        transfers(),
        codec()
    )
}
