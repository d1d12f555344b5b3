//! The cost of survival in four applications: the time of a job without checkpoints (mode `none`),
//! with one at each of its checkpoint calls, and with one in each second (mode `raid5`), and the
//! lines of its source that serve survival.
//!
//! `make applications` takes some minutes; `ROUNDS` sets the number of measurements, `RECORD=1`
//! keeps the results under `benches/record`. Writes `target/applications`: a CSV, and
//! `context.json`. Runs of the three kinds alternate, so that other load affects all of them, and
//! each extra time is relative to the run of the same round without checkpoints. All runs of an
//! application must print the same result, or the measurement fails.
//!
//! ```text
//! seconds        time of the job from start to end, without checkpoints: the median
//! every call     extra time with a checkpoint at every call, %: the median (the least, the most)
//! every second   the same with SHMEM_FT_INTERVAL=1
//! ```
//!
//! The application in Python needs shmem4py, as `cargo test --test shmem4py` builds it.
//!
//! Left out: losses, which tests inject; hosts.

#[path = "../scorecard/figure.rs"]
#[allow(dead_code, reason = "the scorecard asks more of it")]
mod figure;
mod lines;
#[path = "../scorecard/programs.rs"]
#[allow(dead_code, reason = "the scorecard asks more of them")]
mod programs;
#[path = "../scorecard/record.rs"]
#[allow(dead_code, reason = "the scorecard asks more of it")]
mod record;
#[path = "../scorecard/rounds.rs"]
mod rounds;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use figure::{median, ratios};
use programs::{Bench, Trouble};
use rounds::Options;
use serde::Serialize;

/// PEs of each job.
const PES: usize = 4;
/// The settings of each kind of run.
const KINDS: [&[(&str, &str)]; 3] = [
    &[("SHMEM_FT_BACKUP_MODE", "none")],
    &[("SHMEM_FT_BACKUP_MODE", "raid5")],
    &[("SHMEM_FT_BACKUP_MODE", "raid5"), ("SHMEM_FT_INTERVAL", "1")],
];

/// An application: its source, and compiler options or arguments, full and tiny.
struct Application {
    name: &'static str,
    source: &'static str,
    sizes: [&'static [&'static str]; 2],
}

const APPLICATIONS: [Application; 4] = [
    Application {
        name: "amr",
        source: "examples/c/amr.c",
        sizes: [&["-DBLOCKS=48", "-DPHASES=30"], &["-DPHASES=10"]],
    },
    Application {
        name: "md",
        source: "examples/cxx/md.cc",
        sizes: [&["-DCELLS=12", "-DROUNDS=24"], &["-DROUNDS=8"]],
    },
    Application {
        name: "bfs",
        source: "examples/c/bfs.c",
        sizes: [&["-DSCALE=17", "-DSEARCHES=12"], &["-DSCALE=11"]],
    },
    Application { name: "train", source: "python/examples/train.py", sizes: [&["60"], &["4"]] },
];

/// A program that is ready to run: the path and arguments, and variables of its environment.
struct Ready {
    path: PathBuf,
    words: Vec<String>,
    env: Vec<(&'static str, String)>,
}

/// Compiles an application, or finds the interpreter and the packages of one in Python.
fn ready(bench: &Bench, of: &Application, tiny: bool) -> Result<Ready, Trouble> {
    let size = of.sizes[usize::from(tiny)];
    let source = bench.root().join(of.source);
    if of.source.ends_with(".py") {
        let home = bench.target().join("tmp/shmem4py");
        let path = home.join("venv/bin/python");
        if !path.exists() {
            let how = "cargo test --test shmem4py";
            return Err(Trouble::new(format!("{} is missing: {how}", path.display())));
        }
        let packages = [home.join("source/src"), bench.root().join("python/src")];
        let packages = packages.map(|path| path.display().to_string()).join(":");
        let library = bench.target().join("release").display().to_string();
        let env = vec![
            ("PYTHONPATH", packages),
            ("LD_LIBRARY_PATH", library),
            ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        ];
        let source = source.display().to_string();
        let words = std::iter::once(source).chain(size.iter().map(|&word| word.to_owned()));
        return Ok(Ready { path, words: words.collect(), env });
    }
    let compiler = if of.source.ends_with(".cc") { "oshcxx" } else { "oshcc" };
    let path = bench.target().join("scorecard").join(format!("application-{}", of.name));
    let mut command = Command::new(bench.tool(compiler));
    command.args(["-O3", "-march=native"]).args(size).arg("-o").arg(&path).arg(source);
    programs::output(&mut command)?;
    Ok(Ready { path, words: Vec::new(), env: Vec::new() })
}

/// The results of a run.
struct Run {
    seconds: f64,
    /// The last line of the program.
    result: String,
    checkpoints: usize,
    /// KiB of data that a PE saves.
    saved: String,
}

fn run(bench: &Bench, ready: &Ready, settings: &[(&str, &str)]) -> Result<Run, Trouble> {
    let mut all: Vec<(&str, &str)> = settings.to_vec();
    all.extend(ready.env.iter().map(|(name, value)| (*name, value.as_str())));
    let words: Vec<&str> = ready.words.iter().map(String::as_str).collect();
    let begun = Instant::now();
    let text = bench.job(PES, &all, &["--verbose"], &ready.path, &words)?;
    let seconds = begun.elapsed().as_secs_f64();
    let (result, checkpoints, saved) = told(&text)?;
    Ok(Run { seconds, result, checkpoints, saved })
}

/// Returns the result of a job, the number of its checkpoints, and the data that a PE saved in the
/// last one.
fn told(text: &str) -> Result<(String, usize, String), Trouble> {
    let mut lines = text.lines().filter(|line| !line.starts_with("oshrun: "));
    let result = lines.next().filter(|line| !line.contains("FAILED"));
    let result = result.ok_or_else(|| Trouble::new(format!("no result in {text:?}")))?;
    let made = |line: &&str| line.starts_with("oshrun: checkpoint ");
    let last = text.lines().rfind(made).unwrap_or_default();
    let saved = last.split_once(": ").and_then(|(_, rest)| rest.split_once(" a PE"));
    let saved = saved.and_then(|(size, _)| size.split_once(": ")).map_or("", |(_, size)| size);
    Ok((result.to_owned(), text.lines().filter(made).count(), saved.to_owned()))
}

/// The runs of an application: of each kind, one per round.
type Runs = [Vec<Run>; KINDS.len()];

fn measure(bench: &Bench, of: &Application, options: Options) -> Result<Runs, Trouble> {
    let ready = ready(bench, of, options.tiny)?;
    let mut runs = Runs::default();
    for round in 0..options.rounds {
        // Each kind comes first in its turn.
        for kind in (0..KINDS.len()).map(|nth| (nth + round) % KINDS.len()) {
            let run = run(bench, &ready, KINDS[kind])?;
            if let Some(first) = runs.iter().flatten().next()
                && first.result != run.result
            {
                let (one, other) = (&first.result, &run.result);
                return Err(Trouble::new(format!("{}: {one:?}, then {other:?}", of.name)));
            }
            runs[kind].push(run);
        }
    }
    Ok(runs)
}

/// Returns the extra time of runs in per cent: the median, the least and the most.
fn extra(with: &[Run], without: &[Run]) -> String {
    let seconds = |runs: &[Run]| runs.iter().map(|run| run.seconds).collect::<Vec<f64>>();
    let all: Vec<f64> = ratios(&seconds(with), &seconds(without))
        .iter()
        .map(|ratio| 100.0 * (ratio - 1.0))
        .collect();
    let (least, most) = all.iter().fold((f64::MAX, f64::MIN), |(a, b), &x| (a.min(x), b.max(x)));
    format!("{:.0} ({least:.0} to {most:.0})", median(&all))
}

const HEAD: &str = "application,lines for survival,lines,data of a PE,seconds without checkpoints,\
    checkpoints at every call,extra time %,checkpoints every second,extra time % then\n";

/// Returns the row of an application, in the order of the header.
fn row(bench: &Bench, of: &Application, runs: &Runs) -> Result<String, Trouble> {
    let read = |path: &str| std::fs::read_to_string(bench.root().join(path)).map_err(Trouble::new);
    let (text, header) = (read(of.source)?, read("examples/c/survive.h")?);
    let [off, calls, seconds] = runs;
    let number =
        |runs: &[Run]| median(&runs.iter().map(|run| run.checkpoints as f64).collect::<Vec<f64>>());
    Ok(format!(
        "{},{},{},{},{:.2},{:.0},{},{:.0},{}\n",
        of.name,
        lines::count(&text, &header),
        text.lines().count(),
        calls[0].saved,
        median(&off.iter().map(|run| run.seconds).collect::<Vec<f64>>()),
        number(calls),
        extra(calls, off),
        number(seconds),
        extra(seconds, off),
    ))
}

/// The conditions under which the table was measured.
#[derive(Serialize)]
struct Setting<'a> {
    context: &'a record::Context,
    command: String,
    rounds: usize,
    pes: usize,
    sizes: Vec<(&'static str, String)>,
    results: Vec<(&'static str, String)>,
}

fn evaluate(options: Options) -> Result<(), Trouble> {
    let (bench, load) = (Bench::new(options.tiny)?, record::load());
    let (mut csv, mut results) = (HEAD.to_owned(), Vec::new());
    for application in &APPLICATIONS {
        eprintln!("applications: {}", application.name);
        let runs = measure(&bench, application, options)?;
        csv += &row(&bench, application, &runs)?;
        results.push((application.name, runs[0][0].result.clone()));
    }
    let context = &record::Context::new(options.tiny, load);
    let size = |of: &Application| (of.name, of.sizes[usize::from(options.tiny)].join(" "));
    let setting = Setting {
        context,
        command: format!("make applications ROUNDS={} RECORD=1", options.rounds),
        rounds: options.rounds,
        pes: PES,
        sizes: APPLICATIONS.iter().map(size).collect(),
        results,
    };
    rounds::write((&bench, "applications"), options, context, (&csv, &setting))
}

/// Runs the checks of the pure parts.
fn check() {
    lines::check();
    let text = "x: ok checksum=1\noshrun: checkpoint 1: 20.0 KiB a PE protected by 64.0 KiB\n\
        oshrun: checkpoint 2: 1.5 MiB a PE protected by 64.0 KiB of parity in 2 ms, at 1:2:3Z\n";
    let (result, checkpoints, saved) = told(text).expect("it has a result");
    assert_eq!((&*result, checkpoints, &*saved), ("x: ok checksum=1", 2, "1.5 MiB"));
    assert!(told("x: FAILED (1 wrong)\n").is_err());
    assert!(APPLICATIONS.iter().all(|of| Path::new(of.source).extension().is_some()));
}

fn main() -> ExitCode {
    rounds::main(("applications", 7), check, evaluate)
}
