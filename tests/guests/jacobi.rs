//! The example program in guests: the same bytes as plain loops, whatever dies.

use std::path::{Path, PathBuf};

use crate::machine::Plan;
use crate::support::{jacobi, program};
use crate::switch::Switch;
use crate::{image, machine};

/// The archive with `oshrun`, and `jacobi`.
fn payload() -> (PathBuf, PathBuf) {
    let program = program("jacobi");
    let oshrun = Path::new(env!("CARGO_BIN_EXE_oshrun"));
    (image::add("jacobi", &[oshrun, &program]), program)
}

/// A command line in a guest.
fn oshrun(words: &str, program: &Path, args: &[&str]) -> String {
    let oshrun = env!("CARGO_BIN_EXE_oshrun");
    format!("{oshrun} {words} {} {}", program.display(), args.join(" "))
}

#[track_caller]
fn right_sum(outcome: &machine::Outcome, args: &[&str]) {
    assert!(outcome.status == 0, "{outcome}");
    let serial = jacobi::serial(args);
    assert!(jacobi::sum(&outcome.text) == Some(&serial), "the sum {serial} expected: {outcome}");
}

#[test]
fn a_guest_runs_a_job_by_shared_memory() {
    let (payload, program) = payload();
    let switch = Switch::new();
    let mut guest = Plan::new(1).with(&payload).boot(&switch);
    guest.ready();
    let command = oshrun("-n 4 --nodes 4 --kill-node 1@3", &program, jacobi::TINY);
    let mut running = guest.start(&format!("SHMEM_FT_BACKUP_MODE=raid5 {command}"));
    running.wait_for("node 1 was lost");
    right_sum(&running.outcome(), jacobi::TINY);
}
