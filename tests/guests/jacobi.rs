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
fn a_process_and_a_node_are_lost_in_one_guest() {
    let (payload, program) = payload();
    let switch = Switch::new();
    let mut guest = Plan::new(1).with(&payload).boot(&switch);
    guest.ready();
    let args = jacobi::TINY;
    for faults in ["", "--kill 2@3", "--kill-node 1@3"] {
        let words = format!("-n 4 --nodes 4 --fabric verbs {faults}");
        let command = oshrun(&words, &program, args);
        let outcome = guest.run(&format!("SHMEM_FT_BACKUP_MODE=raid5 {command}"));
        println!("{faults}: {outcome}");
        right_sum(&outcome, args);
    }
}
