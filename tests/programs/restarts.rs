//! The forms of `tests/c/restarts.c`, run with a loss at every checkpoint: those whose restarts
//! resume alike end with the same sums, and each of the others goes wrong at some loss.
//! `tests/advise/restarts.rs` tests the reports of `oshadvise` about them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::{Job, Outcome};

const PES: usize = 3;
const STEPS: [&str; 4] = ["after", "encode", "copied", "before"];
const RIGHT: std::ops::RangeInclusive<u32> = 1..=7;
const WRONG: std::ops::RangeInclusive<u32> = 20..=27;

/// Builds a form of the program of that name in `tests/c`.
pub(super) fn built(name: &str, form: u32) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{form}"));
    let output = Command::new(env!("CARGO_BIN_EXE_oshcc"))
        .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror"])
        .arg(format!("-DFORM={form}"))
        .arg("-o")
        .args([&program, &source])
        .output()
        .expect("oshcc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn job(program: &Path) -> Job {
    let job = Job::new(PES).mode("raid5").args(&["--verbose"]).env("SHMEM_FT_STALL", "3");
    job.program(program, &[])
}

fn killed(program: &Path, rule: &str) -> Job {
    let job = Job::new(PES).mode("raid5").env("SHMEM_FT_STALL", "3");
    job.kill(&[rule]).program(program, &[])
}

/// True if the job prints something else, or its PEs hang.
fn goes_wrong(job: Job, undisturbed: &Outcome) -> bool {
    let mut run = job.start();
    let waits = run.line_or_end("; no PE computes").is_some();
    if waits {
        run.signal(rustix::process::Signal::TERM);
    }
    let outcome = run.finish();
    waits || printed(&outcome) != printed(undisturbed)
}

pub(super) fn printed(outcome: &Outcome) -> Vec<&str> {
    let mut lines: Vec<&str> = outcome.out.lines().collect();
    lines.sort_unstable();
    lines
}

/// Returns a PE and a step for each checkpoint; a loss before the first is agreed ends any job.
fn rules(undisturbed: &Outcome) -> Vec<String> {
    let line = undisturbed.err.lines().find(|line| line.contains(" checkpoints took "));
    let count = line.and_then(|line| line.strip_prefix("oshrun: ")?.split(' ').next());
    let last: usize = count.and_then(|count| count.parse().ok()).expect("it says how many");
    let rule = |number: usize, step: usize| format!("1@{number}:{}", STEPS[step]);
    let others = (2..=last).flat_map(|number| (0..STEPS.len()).map(move |at| rule(number, at)));
    std::iter::once(rule(1, 0)).chain(others).collect()
}

#[test]
fn a_program_whose_restarts_resume_alike_ends_with_equal_sums() {
    for form in RIGHT {
        let program = built("restarts", form);
        let undisturbed = job(&program).run();
        undisturbed.status(0);
        for rule in rules(&undisturbed) {
            let outcome = killed(&program, &rule).run();
            outcome.status(0);
            let same = printed(&outcome) == printed(&undisturbed);
            outcome.check(same, &format!("form {form}, {rule}: {:?}", printed(&undisturbed)));
        }
    }
}

#[test]
fn a_program_whose_restart_resumes_elsewhere_fails_at_some_loss() {
    for form in WRONG {
        let program = built("restarts", form);
        let undisturbed = job(&program).run();
        undisturbed.status(0);
        let mut all = rules(&undisturbed).into_iter();
        let wrong = all.any(|rule| goes_wrong(killed(&program, &rule), &undisturbed));
        assert!(wrong, "form {form} is right whatever is lost");
    }
}
