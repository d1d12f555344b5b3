//! Checkpoints on disk written by another build of the program: the new build restarts from them if
//! it has all saved variables, and if no saved memory can hold an address within the program.

use std::path::{Path, PathBuf};

use super::disk::{Store, refused};
use super::support::{Job, Outcome, program_with, sample};

/// Returns the build of `rebuilt` with this form.
fn build(store: &Store, form: u32) -> PathBuf {
    let built = program_with("rebuilt", &[&format!("-DFORM={form}")]);
    let folder = store.0.join(format!("form-{form}"));
    let own = folder.join("rebuilt");
    if !own.exists() {
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::copy(built, &own).expect("copied");
    }
    own
}

/// Writes sets with that build, in that layout.
fn written(form: u32, layout: &str) -> Store {
    let store = Store::new();
    let job = store.job("raid5", &["--nodes", "4"]).env("SHMEM_FT_STORE_LAYOUT", layout);
    let run = job.program(&build(&store, form), &[]).with_orphans().until("set-2,");
    run.kill();
    store
}

fn resume(store: &Store, program: &Path, layout: &str, words: &[&str]) -> Outcome {
    let job = Job::new(4).mode("raid5").args(&["--nodes", "4", "--resume", store.text()]);
    job.args(words).env("SHMEM_FT_STORE_LAYOUT", layout).program(program, &[]).run()
}

#[track_caller]
fn is_right(outcome: &Outcome) {
    outcome.status(0);
    let right = outcome.out.matches("the sum is right").count();
    outcome.check(right == 4 && outcome.err.contains("begins from set "), "it was to go on");
}

#[test]
fn another_build_continues_with_what_it_knows_by_name() {
    for layout in sample(vec!["shared", "local"], 1) {
        let store = written(0, layout);
        is_right(&resume(&store, &build(&store, 1), layout, &[]));
        is_right(&resume(&store, &build(&store, 0), layout, &[]));
    }
}

#[test]
fn variables_missing_in_another_build_are_refused() {
    let store = written(0, "shared");
    let by = |form| resume(&store, &build(&store, form), "shared", &["--resume-rebuilt"]);
    let why = " was written by another build of the program: ";
    refused(&by(2), &format!("{why}variable extra is not there"));
    refused(&by(3), &format!("{why}variable sums has 1024 bytes, expected 512"));
    let other = store.0.join("renamed");
    std::fs::copy(build(&store, 1), &other).expect("copied");
    let named = resume(&store, &other, "shared", &[]);
    refused(&named, &format!("{why}that of rebuilt, expected renamed"));
    let stripped = store.0.join("form-1/stripped");
    std::fs::copy(build(&store, 1), &stripped).expect("copied");
    let strip = std::process::Command::new("strip").arg(&stripped).status();
    assert!(strip.is_ok_and(|status| status.success()), "strip runs");
    std::fs::rename(&stripped, build(&store, 1)).expect("it takes the place");
    refused(&by(1), " is not there");
}

#[test]
fn possible_addresses_are_refused_unless_allowed() {
    needs!(long);
    let store = written(4, "shared");
    let by = |words: &[&str]| resume(&store, &build(&store, 5), "shared", words);
    refused(&by(&[]), "variable function may hold an address in it, at byte 0; --resume-rebuilt");
    is_right(&by(&["--resume-rebuilt"])); // the function is at its old address
    let store = written(6, "shared");
    let outcome = resume(&store, &build(&store, 0), "shared", &[]);
    refused(&outcome, " may hold an address in it, at byte ");
    outcome.says(": the heap from byte ");
}

/// Parity is of no use to it: it covers memory at other addresses.
#[test]
fn another_build_does_not_make_up_for_lost_files() {
    needs!(long);
    let store = written(0, "local");
    std::fs::remove_dir_all(store.0.join("node-2")).expect("its disk is wiped");
    is_right(&resume(&store, &build(&store, 0), "local", &[]));
    let outcome = resume(&store, &build(&store, 1), "local", &[]);
    outcome.status(3).says("unrecoverable: group 0 lost PE 2, parity 1");
}
