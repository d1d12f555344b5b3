//! The scaling study: the cost of checkpoint and rebuild against bytes, PEs, group size and parity.
//!
//! `make scaling` runs `benches/checkpoint.c` over the grids below, writes every point to
//! `target/scaling.csv`, fits the model of [`model`] to them, and draws both as SVG in the same
//! folder. The last lines are the model's coefficients, its error on the measured points, and its
//! prediction for 100,000 PEs. `make scaling RECORD=1` keeps everything under `benches/record`,
//! with a file about the machine and the time.
//!
//! `make scaling START=1` measures instead the time of jobs of 64 to 1,024 PEs that only start and
//! end, compared with Open MPI's ([`start`]), and writes `target/scaling-start.csv`.
//!
//! One parameter varies at a time, around a base point: 64 MiB per PE, 4 PEs, one group, one
//! parity. `--quick` omits the large ends. Points for which the machine lacks memory are omitted,
//! with a message.

#[path = "../scorecard/figure.rs"]
#[allow(dead_code)]
mod figure;
mod model;
#[path = "../scorecard/peer.rs"]
mod peer;
mod plot;
#[path = "../scorecard/programs.rs"]
#[allow(dead_code)]
mod programs;
#[path = "../scorecard/record.rs"]
#[allow(dead_code)]
mod record;
mod start;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use model::{Fit, Point};
use programs::{Bench, Trouble, value};

const MIDDLE: Point = Point { mib: 64.0, pes: 4, group: 4, parity: 1, save: 0.0, rebuild: 0.0 };

/// Losses at each point; the median counts.
const LOSSES: usize = 3;

/// Returns the points to measure, one parameter at a time.
fn grid(quick: bool) -> Vec<(&'static str, Point)> {
    let (most_mib, most_pes, most_group) = if quick { (256, 8, 8) } else { (2048, 32, 16) };
    let powers = |from: usize, to: usize| {
        std::iter::successors(Some(from), |n| Some(n * 2)).take_while(move |&n| n <= to)
    };
    let mut points = Vec::new();
    points.extend(powers(1, most_mib).map(|mib| ("bytes", Point { mib: mib as f64, ..MIDDLE })));
    for pes in powers(2, most_pes) {
        points.push(("pes", Point { pes, group: pes.min(4), mib: 16.0, ..MIDDLE }));
    }
    for group in [3, 4, 6, 8, 12, 16].into_iter().filter(|&group| group <= most_group) {
        points.push(("group", Point { pes: group, group, mib: 16.0, ..MIDDLE }));
    }
    for parity in 1..=4 {
        points.push(("parity", Point { pes: 8, group: 8, mib: 16.0, parity, ..MIDDLE }));
    }
    points
}

struct Study {
    bench: Bench,
    program: PathBuf,
    rounds: usize,
}

impl Study {
    fn job(&self, point: &Point, what: [&str; 2], launch: &[&str]) -> Result<String, Trouble> {
        let (group, parity) = (point.group.to_string(), point.parity.to_string());
        let size = format!("{}M", point.mib as usize + 16);
        let settings = [
            ("SHMEM_FT_BACKUP_MODE", if point.parity == 1 { "raid5" } else { "rs" }),
            ("SHMEM_FT_GROUP_SIZE", &group),
            ("SHMEM_FT_PARITY", &parity),
            ("SHMEM_SYMMETRIC_SIZE", &size),
            ("SHMEM_FT_REPORT", "1"),
        ];
        let mib = point.mib.to_string();
        let words = [what[0], &mib, what[1]];
        self.bench.job(point.pes, &settings, launch, &self.program, &words)
    }

    /// Measures the milliseconds of a checkpoint of changed data, and of the rebuild of one lost
    /// PE.
    fn measure(&self, point: Point) -> Result<Point, Trouble> {
        let saved = self.job(&point, ["save", &self.rounds.to_string()], &[])?;
        let nodes = point.pes.to_string();
        let launch = ["--nodes", &nodes, "--kill-node", "1@2"];
        let mut rebuilds = Vec::new();
        for _ in 0..LOSSES {
            let lost = self.job(&point, ["lose", "node"], &launch)?;
            let rebuild = lost.lines().find_map(programs::millis_of_rebuild);
            let none = || Trouble::new(format!("nothing was rebuilt: {lost}"));
            rebuilds.push(rebuild.ok_or_else(none)?);
        }
        let (save, rebuild) = (value(&saved, "checkpoint_ms")?, figure::median(&rebuilds));
        Ok(Point { save, rebuild, ..point })
    }
}

/// Returns true if the machine has the memory for data, its copy, snapshot and parity.
fn fits(point: &Point) -> bool {
    let available = raidshmem_sys::memory::available().unwrap_or(0) as f64 / f64::from(1 << 20);
    4.5 * point.mib * (point.pes as f64) < 0.8 * available
}

fn run(quick: bool, keep: bool) -> Result<(), Trouble> {
    let (bench, load) = (Bench::new(quick)?, record::load());
    let program = bench.compile("benches/checkpoint.c")?;
    let study = Study { rounds: bench.rounds(), bench, program };
    let mut measured = Vec::new();
    let mut csv = String::from("varied,mib_per_pe,pes,group,parity,checkpoint_ms,rebuild_ms\n");
    for (varied, point) in grid(quick) {
        if !fits(&point) {
            println!("left out, for want of memory: {point}");
            continue;
        }
        let point = study.measure(point)?;
        println!("{varied:<7} {point}: {:.2} ms, rebuild {:.2} ms", point.save, point.rebuild);
        let Point { mib, pes, group, parity, save, rebuild } = point;
        let _ = writeln!(csv, "{varied},{mib},{pes},{group},{parity},{save},{rebuild}");
        measured.push((varied, point));
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let fit = Fit::of(&measured.iter().map(|(_, point)| *point).collect::<Vec<_>>(), processors);
    print!("{fit}");
    let target = study.bench.target();
    write(&target.join("scaling.csv"), &csv)?;
    write(&target.join("scaling.txt"), &fit.to_string())?;
    for varied in ["bytes", "pes", "group", "parity"] {
        let of = |(name, point): &(&str, Point)| (*name == varied).then_some(*point);
        let points: Vec<Point> = measured.iter().filter_map(of).collect();
        let path = target.join(format!("scaling-{varied}.svg"));
        plot::draw(&path, varied, &points, &fit).map_err(Trouble::new)?;
        println!("{}", path.display());
    }
    if keep { record(&study.bench, record::Context::new(quick, load)) } else { Ok(()) }
}

/// Measures the time of jobs that only start and end.
fn run_start(quick: bool, keep: bool) -> Result<(), Trouble> {
    let (bench, load) = (Bench::new(quick)?, record::load());
    let csv = start::curve(&bench)?;
    write(&bench.target().join("scaling-start.csv"), &csv)?;
    if !keep {
        return Ok(());
    }
    let context = record::Context::new(quick, load);
    let (folder, date) = record::place(&bench, &context);
    let folder = folder.join(format!("start-{date}"));
    record::save(&folder, "start.csv", &csv)?;
    let text = serde_json::to_string_pretty(&context).map_err(Trouble::new)?;
    record::save(&folder, "context.json", &(text + "\n"))
}

/// Keeps the files written to the target folder under `benches/record`.
fn record(bench: &Bench, context: record::Context) -> Result<(), Trouble> {
    let (folder, date) = record::place(bench, &context);
    let folder = folder.join(format!("scaling-{date}"));
    let plots = ["bytes", "pes", "group", "parity"].map(|varied| format!("scaling-{varied}.svg"));
    for name in ["scaling.csv", "scaling.txt"].into_iter().chain(plots.iter().map(String::as_str)) {
        let text = std::fs::read_to_string(bench.target().join(name)).map_err(Trouble::new)?;
        record::save(&folder, name, &text)?;
    }
    let text = serde_json::to_string_pretty(&context).map_err(Trouble::new)?;
    record::save(&folder, "context.json", &(text + "\n"))
}

fn write(path: &Path, text: &str) -> Result<(), Trouble> {
    println!("{}", path.display());
    std::fs::write(path, text).map_err(|e| Trouble::new(format!("{}: {e}", path.display())))
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if !words.iter().any(|word| word == "--bench") {
        model::check();
        start::check();
        return ExitCode::SUCCESS;
    }
    let asked = |word: &str| words.iter().any(|other| other == word);
    let run = if asked("--start") { run_start } else { run };
    match run(asked("--quick"), asked("--record")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            eprintln!("scaling: {trouble}");
            ExitCode::from(2)
        }
    }
}
