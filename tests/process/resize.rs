//! A checkpoint on disk that a job of another number of PEs reads: the result is that of a job
//! which was never interrupted.

use std::fs;

use rustix::process::Signal;

use super::disk::Store;
use super::support::processes::signal;
use super::support::{Job, Outcome, program};

/// Some 100 checkpoints, the first two of them before the first sweep.
const WORDS: [&str; 2] = ["60000", "1600"];

/// Runs a job of 4 PEs until it has written two sets, and kills all of it.
fn fill(store: &Store, layout: &str) {
    let job = store.job("raid5", &["--nodes", "4"]).env("SHMEM_FT_STORE_LAYOUT", layout);
    let job = job.env("SHMEM_FT_STORE_EVERY", "10");
    let mut run = job.program(&program("resize"), &WORDS).with_orphans().start();
    run.wait_for("is on disk");
    run.wait_for_nth("is on disk", 2);
    run.processes().iter().for_each(|found| signal(found.pid, Signal::KILL));
    run.finish().status(137);
}

fn sum(outcome: &Outcome) -> String {
    outcome.status(0);
    let lines: Vec<&str> =
        outcome.out.lines().filter(|line| line.starts_with("resize checksum=")).collect();
    outcome.check(lines.len() == 1, "one line with a sum was expected");
    lines[0].to_owned()
}

/// Returns the sum of a job that was never interrupted.
fn whole() -> String {
    sum(&Job::new(6).mode("raid5").program(&program("resize"), &WORDS).run())
}

/// Fails unless a job of 6 PEs continues from the store, to the right sum.
#[track_caller]
fn continues(store: &Store, words: &[&str], whole: &str) {
    let given = [WORDS[0], WORDS[1], store.text()];
    let job = Job::new(6).mode("raid5").args(words).program(&program("resize"), &given);
    let outcome = job.run();
    outcome.says("resize: continues after ").says(" sweeps of 4 PEs");
    outcome.check(!outcome.err.contains("continues after 0 "), "it had done some");
    assert_eq!(sum(&outcome), whole);
}

#[test]
fn six_pes_continue_where_four_were_with_the_right_sum() {
    let whole = whole();
    for layout in ["shared", "local"] {
        let store = Store::new();
        fill(&store, layout);
        continues(&store, &["--kill", "2@4"], &whole);
        if layout == "local" {
            fs::remove_dir_all(store.0.join("node-1")).expect("its disk is wiped");
            continues(&store, &[], &whole);
        }
    }
}

#[test]
fn a_set_that_is_not_there_ends_the_program_with_one_line() {
    let store = Store::new();
    let given = [WORDS[0], WORDS[1], store.text()];
    let outcome = Job::new(2).mode("raid5").program(&program("resize"), &given).run();
    let line = format!(": {}: there is no complete checkpoint", store.text());
    outcome.status(1).says(&line);
}

#[test]
fn objects_are_listed_and_written_for_numpy_and_nothing_is_overwritten() {
    let store = Store::new();
    fill(&store, "local");
    fs::remove_dir_all(store.0.join("node-3")).expect("its disk is wiped");
    let oshinfo = |words: &[&str]| store.oshinfo_of(store.text(), words);
    let (status, listed, _) = oshinfo(&["--objects"]);
    assert_eq!(status, Some(0), "{listed}");
    for object in ["static:swept  8 bytes", "heap:row[0]  120024 bytes", "heap:row[1]"] {
        assert!(listed.contains(object), "{listed}");
    }
    let (status, said, _) = oshinfo(&["--extract", "row[0]"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.ends_with("row-0-.npy: row[0] of 4 PEs, 120024 bytes each\n"), "{said}");
    let path = store.0.join("row-0-.npy");
    let bytes = fs::read(&path).expect("a file");
    assert_eq!(bytes.len(), 128 + 4 * 120_024);
    fs::write(&path, "kept").expect("written");
    let (status, _, error) = oshinfo(&["--extract", "row[0]"]);
    assert_eq!((status, error.lines().count()), (Some(2), 1), "{error}");
    assert_eq!(fs::read(&path).expect("a file"), b"kept");
    let (status, _, error) = oshinfo(&["--extract", "grid"]);
    assert!(status == Some(2) && error.contains("has no object grid"), "{error}");
}
