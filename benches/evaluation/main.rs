//! The evaluation of the thesis, extended: time of checkpoint and recovery against heap and PEs
//! (its figures 6.1 and 6.2), memory, Jacobi with faults (6.4) compared with its model, and the
//! interval between checkpoints, predicted and measured.
//!
//! `make evaluation` takes at most a quarter of an hour; `FULL=1` has no limit and larger sizes,
//! `ROUNDS` sets the number of measurements, `RECORD=1` keeps the results under `benches/record`.
//! Writes `target/evaluation`: a CSV for each table, an SVG for each plot, `context.json`.
//!
//! A round measures everything once, so that other load affects all of it; medians over the rounds
//! are written. No round starts if the remaining time is shorter than a round. Every run of Jacobi
//! must produce the same checksum, or the evaluation fails.
//!
//! ```text
//! run       one run of Jacobi: its times, and their model; pure
//! jacobi    runs with faults, at several checkpoint intervals
//! store     checkpoint, recovery and memory, measured by benches/checkpoint.c
//! table     medians per configuration, as CSV
//! chart     SVG
//! ```

mod chart;
#[path = "../scorecard/figure.rs"]
#[allow(dead_code, reason = "the scorecard asks more of it")]
mod figure;
mod jacobi;
#[path = "../scorecard/programs.rs"]
#[allow(dead_code, reason = "the scorecard asks more of them")]
mod programs;
#[path = "../scorecard/record.rs"]
#[allow(dead_code, reason = "the scorecard asks more of it")]
mod record;
mod run;
mod store;
mod table;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use programs::{Bench, Trouble};
use serde::Serialize;
use table::Tables;

const USAGE: &str = "usage: evaluation [--full] [--tiny] [--record] [--rounds N] [--seed N]";
/// Time limit of the quick form.
const BOUND: Duration = Duration::from_secs(14 * 60);

/// The extent of the measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Seconds: to check that everything runs.
    Tiny,
    /// A quarter of an hour.
    Quick,
    /// The whole matrix.
    Full,
}

#[derive(Debug, Clone, Copy)]
struct Options {
    size: Size,
    record: bool,
    rounds: usize,
    seed: u64,
}

fn options(words: impl Iterator<Item = String>) -> Result<Options, Trouble> {
    let mut words = words.filter(|word| word != "--bench"); // cargo's own
    let (mut size, mut record, mut rounds, mut seed) = (Size::Quick, false, None, 20160501);
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().unwrap_or_default();
            value.parse::<u64>().ok().filter(|&n| n > 0).ok_or_else(|| {
                Trouble::new(format!("{word} {value}: expected a number of at least 1; {USAGE}"))
            })
        };
        match word.as_str() {
            "--full" => size = Size::Full,
            "--tiny" => size = Size::Tiny,
            "--record" => record = true,
            "--rounds" => rounds = Some(number()? as usize),
            "--seed" => seed = number()?,
            _ => return Err(Trouble::new(format!("{word}: {USAGE}"))),
        }
    }
    let usual = match size {
        Size::Tiny => 1,
        Size::Quick => 3,
        Size::Full => 5,
    };
    Ok(Options { size, record, rounds: rounds.unwrap_or(usual), seed })
}

/// The conditions under which the tables were measured.
#[derive(Serialize)]
struct Setting {
    context: record::Context,
    full: bool,
    /// Rounds behind each median.
    rounds: usize,
    /// The seed of the death times; a round adds its number.
    seed: u64,
    sweeps: usize,
    halo: usize,
    /// The checksum of every run of Jacobi, by the bytes of its array.
    checksums: Vec<(String, String)>,
    /// The inputs of the interval, in seconds, and its values.
    interval: jacobi::Predicted,
}

fn evaluate(options: Options) -> Result<(), Trouble> {
    let (bench, load) = (Bench::new(options.size != Size::Full)?, record::load());
    let store = store::Study::new(&bench, options.size)?;
    let mut jacobi = jacobi::Study::new(&bench, options.size, options.seed)?;
    let (begun, mut tables) = (Instant::now(), Tables::default());
    let mut rounds = 0;
    for round in 0..options.rounds {
        let before = begun.elapsed();
        eprintln!("evaluation: round {} of {}", round + 1, options.rounds);
        store.measure(&mut tables)?;
        jacobi.measure(round, &mut tables)?;
        rounds += 1;
        let took = begun.elapsed() - before;
        if options.size == Size::Quick && begun.elapsed() + took > BOUND {
            break;
        }
    }
    if options.size == Size::Quick {
        eprintln!("evaluation: a large heap");
        jacobi.large(&mut tables)?;
    }
    eprintln!("evaluation: {rounds} rounds in {:.0} s", begun.elapsed().as_secs_f64());
    let folder = bench.target().join("evaluation");
    if folder.exists() {
        // Existing contents come from an earlier run.
        std::fs::remove_dir_all(&folder).map_err(|e| Trouble::new(format!("{folder:?}: {e}")))?;
    }
    std::fs::create_dir_all(&folder).map_err(|e| Trouble::new(format!("{folder:?}: {e}")))?;
    let setting = Setting {
        context: record::Context::new(options.size != Size::Full, load),
        full: options.size == Size::Full,
        rounds,
        seed: options.seed,
        sweeps: jacobi.sweeps,
        halo: jacobi.halo,
        checksums: jacobi.checksums(),
        interval: jacobi.predicted(&tables),
    };
    tables.write(&folder)?;
    draw(&folder, &tables, jacobi.mib())?;
    let text = serde_json::to_string_pretty(&setting).map_err(Trouble::new)? + "\n";
    let path = folder.join("context.json");
    std::fs::write(&path, text).map_err(|e| Trouble::new(format!("{}: {e}", path.display())))?;
    println!("{}", folder.display());
    match options.record {
        true => record::keep(&bench, &setting.context, ("evaluation", &folder)),
        false => Ok(()),
    }
}

/// Draws the plots of the thesis, and the additional ones.
fn draw(folder: &Path, tables: &Tables, mib: usize) -> Result<(), Trouble> {
    use chart::Axes;
    let log = |across, up| Axes { across, up, logarithmic: true };
    let (heap, middle) = ("MiB saved by each of 4 PEs", format!("mib={}", store::MIDDLE));
    let (none, faults) = (format!("faults=0 mib={mib}"), format!("mode=raid5 mib={mib}"));
    let one = format!("faults=1 mib={mib}");
    let (checkpoint, recovery) = ("ms of a checkpoint", "ms of a recovery");
    let one_lost = Axes { across: "PEs", up: "overhead with one fault, %", logarithmic: false };
    let lost = Axes { across: "PEs", up: "overhead in raid5, %", logarithmic: false };
    let between = log("seconds from checkpoint to checkpoint", "time over that without losses");
    let plots = [
        ("checkpoint-heap", "mib", "pes=4", "checkpoint_ms", log(heap, checkpoint)),
        ("checkpoint-pes", "pes", middle.as_str(), "checkpoint_ms", log("PEs", checkpoint)),
        ("recovery-heap", "mib", "pes=4", "recovery_ms", log(heap, recovery)),
        ("recovery-pes", "pes", middle.as_str(), "recovery_ms", log("PEs", recovery)),
        ("jacobi-modes", "pes", none.as_str(), "seconds", log("PEs", "seconds without a fault")),
        ("jacobi-faults", "pes", faults.as_str(), "seconds", log("PEs", "seconds in raid5")),
        ("jacobi-fault", "pes", one.as_str(), "overhead_percent", one_lost),
        ("jacobi-overhead", "pes", faults.as_str(), "overhead_percent", lost),
        ("interval", "interval_s", "", "measured predicted", between),
    ];
    for (name, across, only, up, axes) in plots {
        let table = name.split('-').next().unwrap_or_default();
        let series = up.split(' ').flat_map(|up| tables.series(table, across, only, up));
        let path = folder.join(format!("{name}.svg"));
        chart::draw(&path, &axes, &series.collect::<Vec<_>>())?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --all-targets` runs benches without `--bench`: then only the pure parts run.
    if !words.iter().any(|word| word == "--bench") {
        run::check();
        table::check();
        store::check();
        jacobi::check();
        return ExitCode::SUCCESS;
    }
    match options(words.into_iter()).and_then(evaluate) {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            eprintln!("evaluation: {trouble}");
            ExitCode::from(2)
        }
    }
}
