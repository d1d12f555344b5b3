//! Calls before the first checkpoint call, which a substitute repeats: each routine of the tables
//! returns what it returned before, into variables that no checkpoint holds.

use super::disk::Store;
use super::right;
use super::support::prelude::table;
use super::support::{Job, program};

/// The memory of a process still exists, that of a node does not; PEs of other nodes are not mapped
/// when the program of a substitute starts.
#[test]
fn every_routine_gives_a_substitute_what_it_gave_before() {
    for words in ["--kill 1@2", "--nodes 4 --kill 2@3", "--nodes 4 --kill-node 0@2 --kill 0@4"] {
        let job = Job::line(words).mode("raid5").args(&["--verbose"]);
        let outcome = job.program(&table(), &["table"]).run();
        right(4, &outcome);
        outcome.says("all PEs resume from checkpoint");
    }
}

/// No PE is mapped there, and none has a record: calls return, and give zeros.
#[test]
fn every_routine_returns_in_a_job_that_begins_from_disk() {
    let store = Store::new();
    let nodes = ["--nodes", "4"];
    let job = store.job("raid5", &nodes).env("STEPS", "100000").with_orphans();
    let run = job.program(&table(), &["unheard"]).until("set-1,");
    run.kill();
    let outcome = store.resume(&nodes).program(&table(), &["unheard"]).run();
    outcome.says("oshrun: begins from set ");
    right(4, &outcome);
}

/// A call that is left out does not matter. A call whose result is unknown ends the job.
#[test]
fn a_call_that_is_not_made_again_as_it_was_is_left_out_or_named() {
    let run = |form: &str| {
        Job::new(3).mode("raid5").kill(&["1@2"]).program(&program("prelude"), &[form]).run()
    };
    right(3, &run("less"));
    for (form, call, why) in [
        ("more", "long_g", "its result is unknown: the lost PE did not make this call"),
        ("partly", "long_sum_reduce", "the lost PE made it more often"),
        ("large", "getmem", "its result is no longer known: at most 4194304 bytes"),
    ] {
        let outcome = run(form);
        let before = "in a substitute before its first checkpoint call";
        outcome.status(3).says(&format!("unrecoverable: PE 1: shmem_{call} {before}: {why}"));
        outcome.check(outcome.count("unrecoverable") == 1, "one line was expected");
    }
}
