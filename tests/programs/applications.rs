//! The applications of `docs/applications.md`: SIGKILL from outside, at moments that no step of the
//! library determines, leaves their results as they are; and few of their lines serve survival.
//!
//! Each checks itself against an independent result at its end: `amr` against a uniform grid, `md`
//! by the conservation of energy and momentum, `bfs` by the rules of Graph500. A run counts only if
//! it ended with `name: ok`.

use std::path::Path;

use rustix::process::Signal;

use super::build::{C, CXX, Language, build_with};
use super::lines;
use super::support::{Job, Outcome, Running, processes};
use super::{ok, recovered_once};

/// The most lines that an application may have for its survival.
const MOST_LINES: usize = 15;
/// PEs of each job.
const PES: usize = 4;

/// An application, and options that make it last for more than `LAST` checkpoints.
struct Application {
    name: &'static str,
    language: Language,
    options: &'static [&'static str],
}

const APPLICATIONS: [Application; 3] = [
    Application { name: "md", language: CXX, options: &["-DROUNDS=24"] },
    Application { name: "bfs", language: C, options: &["-DSEARCHES=20"] },
    Application { name: "amr", language: C, options: &["-DPHASES=20"] },
];
/// The last checkpoint after which a PE is killed.
const LAST: u32 = 12;

fn job() -> Job {
    Job::new(PES).mode("raid5").args(&["--verbose"])
}

/// Returns the processes of the job that run its program.
fn of_program(run: &Running, program: &Path) -> Vec<u32> {
    let path = program.to_str().expect("test programs have plain names");
    let mut found = run.processes();
    found.retain(|found| found.words.starts_with(path) && !found.is_zombie());
    found.iter().map(|found| found.pid).collect()
}

/// Kills a process of the program once `checkpoint` is agreed: the program is somewhere in its
/// next step then.
fn kill_after(run: &mut Running, program: &Path, (nth, checkpoint): (usize, u32)) {
    run.wait_for(&format!("oshrun: checkpoint {checkpoint}: "));
    let mut pids = of_program(run, program);
    pids.sort_unstable();
    processes::signal(pids[nth % pids.len()], Signal::KILL);
}

/// Checks that PEs died by a signal from outside, and that all continued `times` times.
#[track_caller]
fn lost(outcome: &Outcome, times: usize) {
    let deaths = outcome.count(" was killed by SIGKILL");
    let recoveries = outcome.count("all PEs resume from checkpoint");
    outcome.check((deaths, recoveries) == (times, times), "as many recoveries as kills");
}

#[test]
fn applications_killed_from_outside_end_with_the_result_of_an_undisturbed_run() {
    for Application { name, language, options } in APPLICATIONS {
        let program = build_with(language, name, options);
        let undisturbed = job().program(&program, &[]).run();
        let right = ok(&undisturbed, name);
        for kills in [&[(1, 2)][..], &[(0, 5)], &[(3, LAST)], &[(2, 4), (1, 9)]] {
            let mut run = job().program(&program, &[]).start();
            for &kill in kills {
                kill_after(&mut run, &program, kill);
            }
            let outcome = run.finish();
            outcome.check(ok(&outcome, name) == right, &format!("without a loss: {right}"));
            lost(&outcome, kills.len());
        }
        let node = job().args(&["--nodes", "4", "--spares", "1"]).kill_node(&["3@7"]);
        let outcome = node.with_orphans().program(&program, &[]).run();
        outcome.check(recovered_once(&outcome, name) == right, "after the loss of a node");
    }
}

/// The files of the applications, in Python too.
const SOURCES: [&str; 4] =
    ["examples/c/amr.c", "examples/cxx/md.cc", "examples/c/bfs.c", "python/examples/train.py"];
/// Words of calls that serve survival: a line of code with one of them is marked.
const CALLS: [&str; 7] = [
    "saved()",
    "survive.h",
    "shmem_ft",
    "shmem_checkpoint",
    "shmem_query_fault",
    "ft::",
    "raidshmem",
];

fn source(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns lines of code, without comments over whole lines and the text at the top of a program.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let (mut comment, mut docstring) = (false, false);
    text.lines().filter(move |line| {
        let trimmed = line.trim_start();
        let begins = trimmed.starts_with("/*") && !trimmed.contains("*/");
        let quotes = trimmed.starts_with("\"\"\"");
        let inside = comment || docstring || begins || quotes || trimmed.starts_with("//");
        comment = (comment || begins) && !line.contains("*/");
        docstring ^= line.matches("\"\"\"").count() % 2 == 1;
        !inside
    })
}

#[test]
fn survival_takes_few_lines_and_all_of_them_are_marked() {
    lines::check();
    let header = source("examples/c/survive.h");
    for path in SOURCES {
        let text = source(path);
        let marked = lines::marked(&text);
        for line in code(&text).filter(|line| CALLS.iter().any(|call| line.contains(call))) {
            assert!(marked.contains(&line), "{path}: this line is not marked `survival`: {line}");
        }
        let count = lines::count(&text, &header);
        assert!((1..=MOST_LINES).contains(&count), "{path}: {count} lines serve survival");
        assert!(text.lines().count() <= 500, "{path} has more than 500 lines");
    }
}
