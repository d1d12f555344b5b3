//! Long waits: a line reports which PEs wait for which, and a wait that can never end ends the job.

use super::support::stall::{goes_on, let_end, let_on, lines, never_ends, tells_of_a_stopped_pe};
use super::support::{Job, program};

/// `SHMEM_FT_STALL` of these jobs.
const LIMIT: &str = "1";

fn job(words: &str, how: &[&str]) -> Job {
    Job::line(words).mode("raid5").env("SHMEM_FT_STALL", LIMIT).program(&program("stall"), how)
}

#[test]
fn a_collective_that_one_pe_does_not_reach_is_reported() {
    let computes = " s; PE 3 does not (it computes)";
    for nodes in ["1", "2"] {
        let job = |how| job(&format!("--nodes {nodes}"), &[how]);
        goes_on(job("barrier"), "PEs 0-2 wait in shmem_barrier_all for ", computes);
        for mode in ["none", "raid5"] {
            let begin = "PEs 0-2 wait in shmem_checkpoint_all for ";
            goes_on(job("checkpoint").mode(mode), begin, computes);
        }
    }
}

/// PEs outside the team are in `shmem_finalize`, which is not a stall.
#[test]
fn a_team_and_an_active_set_concern_their_members_only() {
    let computes = " s; PE 2 does not (it computes)";
    goes_on(job("", &["team"]), "PE 0 waits in shmem_team_sync of PEs 0,2 for ", computes);
    goes_on(job("", &["set"]), "PE 0 waits in shmem_barrier of PEs 0,2 for ", computes);
}

/// A put may still arrive. PEs in `shmem_finalize` are served meanwhile.
#[test]
fn a_wait_for_a_word_gets_a_line_and_continues() {
    let rest = " s; PE 3 does not (it computes), PEs 1,2 do not (they are in shmem_finalize)";
    for (how, call) in [
        ("until", "shmem_long_wait_until"),
        ("signal", "shmem_signal_wait_until"),
        ("lock", "shmem_set_lock"),
    ] {
        goes_on(job("", &[how]), &format!("PE 0 waits in {call} for "), rest);
    }
}

#[test]
fn a_pe_that_never_calls_shmem_init_is_reported() {
    let script = "mkdir first 2>/dev/null && { echo ready; read line < go; }; exec \"$0\" barrier";
    let stall = program("stall");
    let stall = stall.to_str().expect("a plain name");
    let job = Job::new(4).env("SHMEM_FT_STALL", LIMIT).args(&["sh", "-c", script, stall]);
    let mut run = job
        .after("mkfifo go")
        .leaves("go")
        .leaves("first")
        .until(" (it has not called shmem_init)");
    let_on(&run);
    run.wait_for("wait in shmem_barrier_all for ");
    let outcome = let_end(run);
    outcome.status(0).check(lines(&outcome).len() == 2, "two lines were expected");
    outcome.check(outcome.count(" wait in shmem_init for ") == 1, "one of them is about the start");
}

#[test]
fn a_stopped_pe_is_reported_as_stopped() {
    tells_of_a_stopped_pe(job("", &["barrier"]));
}

#[test]
fn a_checkpoint_that_some_pes_never_call_ends_the_job() {
    needs!(long);
    for nodes in ["1", "4"] {
        for mode in ["none", "raid5"] {
            never_ends(
                &job(&format!("--nodes {nodes}"), &["some"]).mode(mode).run(),
                "PEs 0-2 wait in shmem_checkpoint_all for .. s, and PE 3, for which they wait, is \
                 in shmem_finalize",
            );
        }
    }
    never_ends(
        &job("", &["early"]).run(),
        "PE 0 waits in shmem_barrier_all for .. s, and PEs 1-3, for which it waits, are in \
         shmem_finalize",
    );
    // With a report every PE meets the others in `shmem_finalize` once more.
    job("", &["early"]).env("SHMEM_FT_REPORT", "1").run().status(3).says(", are in shmem_finalize");
}

/// The survivors continue with their counters, and the substitute starts from zero: they reach the
/// end while it is in the middle.
#[test]
fn a_loop_by_a_counter_that_no_checkpoint_holds_ends_with_its_reason() {
    let outcome = job("--kill 3@3", &["loop"]).run();
    never_ends(
        &outcome,
        "PE 3 waits in shmem_checkpoint_all after checkpoint 3 for .. s, and PEs 0-2, for which it \
         waits, are in shmem_finalize",
    );
}

#[test]
fn stall_reports_can_be_disabled() {
    let job = |limit: &str| job("", &["busy", "1000"]).env("SHMEM_FT_STALL", limit).run();
    job("0.2").status(0).says("PEs 0-2 wait in shmem_barrier_all for ");
    let outcome = job("0");
    outcome.status(0).check(lines(&outcome).is_empty(), "nothing was expected");
}
