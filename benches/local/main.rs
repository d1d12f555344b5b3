//! Costs and benefits of local rollback, in which only the lost PE rolls back: programs with and
//! without logs, without a loss and with a death in the middle of an interval, compared with global
//! rollback.
//!
//! `make local` takes some minutes; `ROUNDS` sets the number of measurements, `RECORD=1` keeps the
//! results under `benches/record`. Writes `target/local`: a CSV, and `context.json`. Runs with and
//! without logs alternate, so that other load affects both; medians over the rounds are written.
//! All runs of a program must produce the same checksum, or the measurement fails.
//!
//! ```text
//! overhead     extra run time caused by the logs, without a loss, in per cent; from pairs of runs
//! caught up    time from the death until the lost PE has caught up
//! extra        run time with a loss, minus that without, for the same kind of rollback
//! processor    CPU time of all processes, with a loss relative to without
//! ```
//!
//! Each program runs on one machine, where all PEs map each other, and on four nodes that only UCX
//! connects.
//!
//! Left out: losses of nodes.

#[path = "../scorecard/figure.rs"]
#[allow(dead_code, reason = "the scorecard asks more of it")]
mod figure;
#[path = "../scorecard/programs.rs"]
#[allow(dead_code, reason = "the scorecard asks more of them")]
mod programs;
#[path = "../scorecard/record.rs"]
#[allow(dead_code, reason = "the scorecard asks more of it")]
mod record;
#[path = "../scorecard/rounds.rs"]
mod rounds;
mod run;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use figure::median;
use programs::{Bench, Trouble};
use rounds::Options;
use run::{Asked, Run, Subject};
use serde::Serialize;

/// The time of death as a fraction of an interval; the second one is the paper's.
const FRACTIONS: [f64; 2] = [0.5, 0.875];
/// Pairs of runs without a loss in a round; they alternate in running first with logs.
const PAIRS: usize = 4;

/// Each program: name, source, arguments, and compiler options.
const PROGRAMS: [(&str, &str, &[&str], &[&str]); 5] = [
    ("jacobi", "examples/jacobi.c", &["--bytes", "32M", "--sweeps", "1536", "--halo", "32"], &[]),
    ("himeno", "examples/c/himeno.c", &["65", "65", "129", "700", "2"], &[]),
    ("cg", "examples/c/cg.c", &[], &["-DGRID=384", "-DROUNDS_A_STEP=2"]),
    ("isort", "examples/c/isort.c", &[], &["-DROUNDS=96"]),
    ("hash", "examples/c/hash.c", &["4000", "300", "300"], &[]),
];

/// The conditions under which the table was measured.
#[derive(Serialize)]
struct Setting<'a> {
    context: &'a record::Context,
    rounds: usize,
    pes: usize,
    /// Seconds between two checkpoints.
    interval: f64,
    checksums: Vec<(String, String)>,
}

/// The measurements of a program, one run of each kind per round.
#[derive(Default)]
struct Measured {
    /// Runs without a loss: without logs and with them.
    plain: [Vec<Run>; 2],
    /// Runs with a death: by its time, without logs and with them.
    lost: [[Vec<Run>; 2]; FRACTIONS.len()],
    /// Records and bytes per PE and interval, and checkpoint calls per interval.
    logged: (f64, f64),
}

fn measure(bench: &Bench, subject: &Subject, rounds: usize) -> Result<Measured, Trouble> {
    let mut measured = Measured::default();
    let ask = |logs, death| subject.run(bench, &Asked { logs, death, tells: false });
    for _ in 0..rounds {
        for nth in 0..PAIRS {
            for logs in [nth % 2 == 1, nth % 2 == 0] {
                measured.plain[usize::from(logs)].push(ask(logs, None)?);
            }
        }
        for (nth, fraction) in FRACTIONS.into_iter().enumerate() {
            for logs in [false, true] {
                measured.lost[nth][usize::from(logs)].push(ask(logs, Some(fraction))?);
            }
        }
    }
    let told = subject.run(bench, &Asked { logs: true, death: None, tells: true })?;
    measured.logged = told.logged;
    Ok(measured)
}

fn of(runs: &[Run], what: impl Fn(&Run) -> f64) -> f64 {
    median(&runs.iter().map(what).collect::<Vec<_>>())
}

/// Returns the rows of a program, in the order of the header.
fn rows(name: &str, measured: &Measured) -> String {
    let [off, on] = &measured.plain;
    let ratios: Vec<f64> = on.iter().zip(off).map(|(on, off)| on.total / off.total).collect();
    let overhead = 100.0 * (median(&ratios) - 1.0);
    let (records, bytes) = measured.logged;
    let mut text = String::new();
    for (fraction, runs) in FRACTIONS.iter().zip(&measured.lost) {
        let extra =
            |at: usize| 1e3 * (of(&runs[at], |r| r.total) - of(&measured.plain[at], |r| r.total));
        let processor =
            |at: usize| of(&runs[at], |r| r.processor) - of(&measured.plain[at], |r| r.processor);
        let caught = |at: usize| 1e3 * of(&runs[at], |run| run.caught_up);
        let alone = runs[1].iter().filter(|run| run.alone).count();
        text += &format!(
            "{name},{fraction},{:.3},{overhead:.1},{:.0},{:.0},{:.0},{:.0},{:.2},{:.2},{alone}/{},\
             {records:.0},{bytes:.0}\n",
            of(off, |run| run.total),
            caught(0),
            caught(1),
            extra(0),
            extra(1),
            processor(0),
            processor(1),
            runs[1].len(),
        );
    }
    text
}

const HEAD: &str = "program,death at,seconds without logs,overhead %,caught up ms (all),\
    caught up ms (alone),extra ms (all),extra ms (alone),processor s (all),processor s (alone),\
    alone,records of an interval,bytes of an interval\n";

fn evaluate(options: Options) -> Result<(), Trouble> {
    let (bench, load) = (Bench::new(options.tiny)?, record::load());
    let mut csv = HEAD.to_owned();
    let mut checksums = Vec::new();
    for (name, source, words, flags) in PROGRAMS {
        let mut subject = Subject::build(&bench, name, source, (words, flags), options.tiny)?;
        for apart in [false, true] {
            let name = if apart { format!("{name} over UCX") } else { name.to_owned() };
            eprintln!("local: {name}");
            subject.apart = apart;
            csv += &rows(&name, &measure(&bench, &subject, options.rounds)?);
        }
        checksums.push((name.to_owned(), subject.checksum()));
    }
    let context = &record::Context::new(options.tiny, load);
    let interval = run::interval(options.tiny);
    let setting = Setting { context, rounds: options.rounds, pes: run::PES, interval, checksums };
    rounds::write((&bench, "local"), options, context, (&csv, &setting))
}

/// Compiles a program with the code for its deaths and times.
fn compile(
    bench: &Bench,
    (name, source): (&str, &str),
    flags: &[&str],
) -> Result<PathBuf, Trouble> {
    let out = bench.target().join("scorecard").join(format!("local-{name}"));
    let mut command = Command::new(bench.tool("oshcc"));
    let sources = [source, "benches/local/deaths.c"].map(|path| bench.root().join(path));
    command.args(["-O3", "-march=native"]).args(flags).arg("-o").arg(&out).args(sources);
    programs::output(&mut command).map(|_| out)
}

fn main() -> ExitCode {
    rounds::main(("local", 5), run::check, evaluate)
}
