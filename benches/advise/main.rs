//! The evaluation of Bari et al., repeated: the live bytes at each safe point of three programs,
//! and the cost of checkpoints with and without a plan.
//!
//! `cargo bench --bench advise` measures and writes a record and its plots; `-- --plot RECORD`
//! redraws the plots of a record. Figures 5, 6 and 7 of the paper are `transpose`, `cannon` and
//! `mandelbrot`. Runs with and without the plan alternate, so that other load affects both.
//!
//! Left out: losses, which the tests cover (`tests/programs/plan.rs`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime};

use serde_json::{Value, json};

mod plot;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// PEs of the paper's runs, used for computed bytes and for timed runs.
const PES: usize = 16;
/// Number of runs with the plan, and of runs without.
const RUNS: usize = 5;

/// The programs: name, extra options, and the paper's figure.
const PROGRAMS: &[(&str, &[&str], u32)] = &[
    ("transpose", &[], 5),
    ("cannon", &["-DSTRIDE=64"], 6),
    ("mandelbrot", &["-DROUNDS=4", "-DDEEPEST=20"], 7),
];
/// Programs whose checkpoints are timed, too: a long one, and two in which the plan finds nothing.
const ALSO_TIMED: &[(&str, &[&str])] = &[
    ("benches/advise/plasma.c", &[]),
    ("examples/porting/heat_ft.c", &[]),
    ("examples/c/cg.c", &[]),
];
/// A long program, and examples of this repository.
const EXAMPLES: &[&str] = &[
    "benches/advise/plasma.c",
    "examples/c/isort.c",
    "examples/c/matmul.c",
    "examples/c/transpose.c",
    "examples/c/mandelbrot.c",
    "examples/c/cg.c",
    "examples/c/bfs.c",
    "examples/jacobi.c",
    "examples/porting/heat_ft.c",
];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--plot") {
        let record = fs::read_to_string(&args[at + 1]).expect("a record");
        return plots(&serde_json::from_str(&record).expect("a record"));
    }
    let record = measure();
    let name = format!("benches/record/advise-{}.json", today());
    fs::write(Path::new(ROOT).join(&name), format!("{record:#}\n")).expect("a place for records");
    plots(&record);
    println!("{name}");
}

fn run(command: &mut Command, statuses: &[i32]) -> String {
    let output = command.current_dir(ROOT).output().expect("the program is there");
    let said = String::from_utf8_lossy(&output.stderr);
    let status = output.status.code().unwrap_or(-1);
    assert!(statuses.contains(&status), "{command:?}: status {status}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned() + &said
}

fn today() -> String {
    run(Command::new("date").arg("+%Y-%m-%d"), &[0]).trim().to_owned()
}

fn measure() -> Value {
    let programs: Vec<Value> = PROGRAMS.iter().map(program).collect();
    let examples: Vec<Value> = EXAMPLES.iter().map(|source| example(source)).collect();
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    json!({
        "what": "oshadvise",
        "seconds since 1970": SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs()),
        "processor": model.map_or("", |found| found.1),
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "build": if cfg!(debug_assertions) { "development" } else { "release" },
        "pes": PES,
        "programs": programs,
        "examples": examples,
    })
}

/// Returns the adviser's report on a source.
fn report(source: &str, options: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oshadvise"));
    let text = run(command.args(["--json", "-", source]).args(options), &[0, 1]);
    serde_json::from_str(&text[..text.rfind('}').map_or(0, |end| end + 1)]).expect("JSON")
}

/// Returns the bytes of a list, and its number of items of unknown size.
fn bytes(items: &Value) -> (u64, usize) {
    let all = items.as_array().expect("a list");
    let known = all.iter().filter_map(|item| item["bytes"].as_u64()).sum();
    (known, all.iter().filter(|item| item["bytes"].is_null()).count())
}

fn program((name, options, figure): &(&str, &[&str], u32)) -> Value {
    let source = format!("benches/advise/{name}.c");
    let begun = Instant::now();
    let (whole, within) = (report(&source, &[]), report(&source, &["--within"]));
    let seconds = begun.elapsed().as_secs_f64() / 2.0;
    let points = whole["points"].as_array().expect("points");
    let alone = within["points"].as_array().expect("points");
    let row = |(point, alone): (&Value, &Value)| {
        let (live, dead) = (bytes(&point["live"]), bytes(&point["dead"]));
        let within = (bytes(&alone["live"]), bytes(&alone["dead"]));
        assert_eq!(point["place"], alone["place"]);
        // Existing memory: an object seen only within one function may look as if it were not yet
        // created.
        let all = (live.0 + dead.0).max(within.0.0 + within.1.0);
        json!({
            "line": point["place"]["line"],
            "routine": point["routine"],
            "function": point["function"],
            "all": all,
            "within": within.0.0.min(all),
            "live": live.0,
        })
    };
    let points: Vec<Value> = points.iter().zip(alone).map(row).collect();
    json!({
        "name": name,
        "figure": figure,
        "seconds": seconds,
        "points": points,
        "run": timed(&source, options),
    })
}

fn example(source: &str) -> Value {
    let report = report(source, &["-Iexamples/c"]);
    let points = report["points"].as_array().expect("points");
    let place = points.iter().find(|point| point["checkpoint"] == true).expect("a checkpoint");
    let (live, dead) = (bytes(&place["live"]), bytes(&place["dead"]));
    let also = ALSO_TIMED.iter().find(|timed| timed.0 == source);
    json!({
        "source": source,
        "run": also.map(|(source, options)| timed(source, options)),
        "safe points": points.len(),
        "live": live.0,
        "dead": dead.0,
        "without a known size": live.1 + dead.1,
    })
}

/// Returns the folder in which programs are built.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("advise-bench");
    fs::create_dir_all(&folder).expect("a folder below target");
    folder
}

/// Times checkpoints with and without a plan.
fn timed(source: &str, options: &[&str]) -> Value {
    let name = source.replace(['/', '.'], "-");
    let (program, plan) = (folder().join(&name), folder().join(format!("{name}.toml")));
    let pes = format!("-DPES={PES}");
    let options: Vec<&str> = options.iter().copied().chain(["-DSAVE", &pes]).collect();
    let mut compile = Command::new(env!("CARGO_BIN_EXE_oshcc"));
    let flags = ["-g", "-O2", "-fno-ipa-icf", "-o"];
    let compile = compile.args(flags).args([&program, Path::new(source)]);
    run(compile.args(&options).arg("-lm"), &[0]);
    let mut adviser = Command::new(env!("CARGO_BIN_EXE_oshadvise"));
    adviser.args(["--brief", "-o"]).arg(&plan).arg("--program").arg(&program);
    run(adviser.arg(source).args(&options), &[0, 1]);
    let once = |planned: bool| {
        let mut job = Command::new(env!("CARGO_BIN_EXE_oshrun"));
        job.args(["-n", &PES.to_string(), "--verbose"]).arg(&program);
        job.env("SHMEM_SYMMETRIC_SIZE", "64M").env("SHMEM_FT_BACKUP_MODE", "raid5");
        job.env("SHMEM_FT_DELTA", "off").env_remove("LD_LIBRARY_PATH");
        if planned {
            job.env("SHMEM_FT_PLAN", &plan);
        }
        kept(&run(&mut job, &[0]))
    };
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        without.push(once(false));
        with.push(once(true));
    }
    let cost = |runs: &mut Vec<(f64, f64)>| {
        runs.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (kib, ms) = runs[RUNS / 2];
        json!({ "KiB a PE": kib, "ms a checkpoint": ms })
    };
    let (all, plan) = (cost(&mut without), cost(&mut with));
    json!({ "mode": "raid5", "pes": PES, "runs": RUNS, "all": all, "plan": plan })
}

/// Returns KiB of data per PE, and the median time of checkpoints in milliseconds, without the
/// first, which touches the memory of the store.
fn kept(said: &str) -> (f64, f64) {
    let mut found = Vec::new();
    for line in said.lines().filter(|line| line.contains(" a PE protected by ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let at = words.iter().position(|word| *word == "a").expect("a size stands before");
        let size: f64 = words[at - 2].parse().expect("a size");
        let unit = if words[at - 1] == "MiB" { 1024.0 } else { 1.0 };
        let at = words.iter().rposition(|word| *word == "in").expect("a time follows");
        let time: f64 = words[at + 1].parse().expect("a time");
        let unit_of_time = if words[at + 2].starts_with('s') { 1000.0 } else { 1.0 };
        found.push((size * unit, time * unit_of_time));
    }
    assert!(found.len() > 2, "checkpoints: {said}");
    let size = found[0].0;
    let mut times: Vec<f64> = found[1..].iter().map(|found| found.1).collect();
    times.sort_by(f64::total_cmp);
    (size, times[times.len() / 2])
}

/// Draws each program like the paper's figures.
fn plots(record: &Value) {
    for program in record["programs"].as_array().expect("programs") {
        let name = program["name"].as_str().expect("a name");
        let path = Path::new(ROOT).join(format!("benches/advise/{name}.svg"));
        fs::write(path, plot::plot(program)).expect("a place for plots");
    }
}
