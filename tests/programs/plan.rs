//! Programs under the plan that `oshadvise` makes for them: whatever is killed at whatever
//! checkpoint, they reach the same result, although memory that the plan leaves out was overwritten
//! (`SHMEM_FT_AUDIT=1`).
//!
//! Needs clang 19 or newer, and is skipped without it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::support::{Job, Outcome, all_asked_for, partly};

const PES: usize = 4;
/// Steps of a checkpoint at which a PE dies, in turn.
const STEPS: [&str; 4] = ["after", "encode", "copied", "before"];

/// A program: its source, and compiler options.
struct Planned {
    source: &'static str,
    options: &'static [&'static str],
    /// True if its plan leaves out something large.
    saves: bool,
}

const fn planned(source: &'static str) -> Planned {
    Planned { source, options: &[], saves: false }
}

const SMALL: &[&str] = &["-DSAVE", "-DPES=4", "-DEDGE=64"];

/// Every example with a checkpoint, the programs on which the adviser is measured, and forms of C
/// that are easily missed.
const PROGRAMS: &[Planned] = &[
    Planned { source: "benches/advise/mandelbrot.c", options: SMALL, saves: true },
    Planned { source: "benches/advise/cannon.c", options: SMALL, saves: true },
    Planned { source: "benches/advise/transpose.c", options: SMALL, saves: false },
    // A program of 1,100 lines.
    Planned { source: "benches/advise/plasma.c", options: &["-DSTEPS=6"], saves: true },
    // Ways to read memory without naming it.
    Planned { source: "tests/c/forms.c", options: &[], saves: true },
    planned("examples/count.c"),
    planned("examples/porting/heat_ft.c"),
    planned("examples/cxx/raii.cc"),
    planned("examples/c/isort.c"),
    planned("examples/c/matmul.c"),
    planned("examples/c/transpose.c"),
    planned("examples/c/mandelbrot.c"),
    planned("examples/c/cg.c"),
    planned("examples/c/bfs.c"),
];

/// Returns a program and its plan, made once.
fn prepare(of: &Planned) -> (PathBuf, PathBuf) {
    static MADE: Mutex<BTreeMap<&str, (PathBuf, PathBuf)>> = Mutex::new(BTreeMap::new());
    // Held during a build, so that no test runs a partial program.
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.entry(of.source).or_insert_with(|| make(of)).clone()
}

fn make(of: &Planned) -> (PathBuf, PathBuf) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = root.join(of.source);
    let name = of.source.replace(['/', '.'], "-");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("planned");
    std::fs::create_dir_all(&folder).expect("a folder for programs");
    let (program, plan) = (folder.join(&name), folder.join(format!("{name}.toml")));
    let compiler = match of.source.ends_with(".cc") {
        true => env!("CARGO_BIN_EXE_oshcxx"),
        false => env!("CARGO_BIN_EXE_oshcc"),
    };
    let run = |command: &mut Command, statuses: &[i32]| {
        let output = command.output().expect("it is there");
        let status = output.status.code().unwrap_or(-1);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(statuses.contains(&status), "{}: {said}", of.source);
    };
    run(
        Command::new(compiler)
            .args(["-g", "-O1", "-o"])
            .args([&program, &source])
            .args(of.options)
            .args(["-lm"]),
        &[0],
    );
    let mut adviser = Command::new(env!("CARGO_BIN_EXE_oshadvise"));
    adviser.args(of.options).args(["--brief", "-o"]).arg(&plan).arg("--program").arg(&program);
    run(adviser.arg(&source), &[0, 1]);
    (program, plan)
}

fn job(program: &Path) -> Job {
    Job::new(PES).mode("raid5").args(&["--verbose"]).program(program, &[])
}

fn under(plan: &Path, job: Job) -> Job {
    job.env_os("SHMEM_FT_PLAN", plan.as_os_str()).env("SHMEM_FT_AUDIT", "1")
}

/// Returns the program's output lines, sorted.
fn printed(outcome: &Outcome) -> Vec<String> {
    let lines = outcome.out.lines().filter(|line| !line.starts_with("a substitute takes over "));
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Returns the number of checkpoints that it made.
fn checkpoints(outcome: &Outcome) -> usize {
    let line = outcome.err.lines().find(|line| line.contains(" checkpoints took "));
    let count =
        line.and_then(|line| line.strip_prefix("oshrun: ")?.split(' ').next()?.parse().ok());
    count.unwrap_or_else(|| panic!("no line says how many checkpoints: {}", outcome.err))
}

/// Returns KiB of data that a PE saves.
fn saved(outcome: &Outcome) -> String {
    let line = outcome.err.lines().find(|line| line.contains("each PE needed "));
    let (_, rest) = line.expect("a line says so").split_once(" protect ").expect("it does");
    rest.split(" of data").next().unwrap_or_default().to_owned()
}

#[test]
fn results_under_a_plan_are_equal_whatever_is_killed() {
    needs!(has_clang);
    let all = all_asked_for();
    if !all {
        partly("all", "two checkpoints of each program; make test-all kills at each");
    }
    for of in PROGRAMS {
        let (program, plan) = prepare(of);
        let undisturbed = job(&program).run();
        undisturbed.status(0);
        let planned = under(&plan, job(&program)).run();
        planned.status(0);
        planned.check(printed(&planned) == printed(&undisturbed), "the same without a loss");
        let (before, after) = (saved(&undisturbed), saved(&planned));
        planned.check(!of.saves || before != after, "a checkpoint that holds less");
        let text = std::fs::read_to_string(&plan).expect("a plan");
        let empty = !text.contains("[[object]]");
        planned.check(!empty || before == after, "what leaves nothing out costs nothing");
        let last = checkpoints(&undisturbed);
        let kills: Vec<usize> = match all {
            // A loss before the first is agreed ends a job.
            true => (2..=last).collect(),
            false => vec![2.min(last), last / 2 + 1],
        };
        for number in kills {
            let (pe, step) = (number % PES, STEPS[number % STEPS.len()]);
            let rule = format!("{pe}@{number}:{step}");
            let words = Job::new(PES).mode("raid5").args(&["--verbose"]).kill(&[&rule]);
            let outcome = under(&plan, words.program(&program, &[])).run();
            outcome.status(0);
            let same = printed(&outcome) == printed(&undisturbed);
            outcome.check(same, &format!("{}: {:?}", of.source, printed(&undisturbed)));
        }
    }
}

/// Live memory that a plan leaves out is restored with different bytes.
#[test]
fn a_wrong_plan_is_noticed_by_an_audit() {
    needs!(has_clang);
    let (program, plan) = prepare(&PROGRAMS[1]);
    let text = std::fs::read_to_string(&plan).expect("a plan");
    let code = text.lines().find(|line| line.starts_with("code = ")).expect("blocks");
    let wrong = plan.with_extension("wrong.toml");
    // All blocks of the heap, not those of one line.
    std::fs::write(&wrong, text.replacen(code, "code = [[0, 1000000]]", 1)).expect("a file");
    let undisturbed = job(&program).run();
    let killed = Job::new(PES).mode("raid5").kill(&["1@3:after"]).program(&program, &[]);
    let outcome = under(&wrong, killed).run();
    let same =
        outcome.count("exited with status") == 0 && printed(&outcome) == printed(&undisturbed);
    outcome.check(!same, "another result");
}

#[test]
fn a_plan_of_another_program_is_one_line() {
    needs!(has_clang);
    let (program, _) = prepare(&PROGRAMS[5]);
    let (_, other) = prepare(&PROGRAMS[0]);
    let damaged = other.with_extension("damaged.toml");
    std::fs::write(&damaged, "build = 7\n").expect("a file");
    let none = Path::new("nowhere.toml");
    for (plan, expected) in [
        (other.as_path(), ": it is for build "),
        (damaged.as_path(), ": line 1: build is not what it should be: expected a plan"),
        (none, "SHMEM_FT_PLAN=nowhere.toml: No such file"),
    ] {
        let outcome = under(plan, Job::new(1).program(&program, &[])).run();
        outcome.status(2);
        outcome.check(outcome.count(expected) == 1, &format!("one line with `{expected}`"));
    }
}
