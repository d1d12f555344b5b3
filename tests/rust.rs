//! Programs in safe Rust, whatever dies. Jacobi: the same bytes as plain loops and as the C
//! version. Teams: rows, columns, rings, locks and teams of one step, each checked by every PE.

#[path = "support/mod.rs"]
mod support;

use support::jacobi::SMALL;
use support::{Job, Outcome, example};

fn job(pes: usize) -> Job {
    Job::new(pes).mode("raid5")
}

#[test]
fn any_number_of_pes_gives_the_bytes_of_plain_loops() {
    for pes in [1, 2, 3, 5] {
        Job::new(pes).program(&example("jacobi"), SMALL).run().right_sum(SMALL);
    }
}

#[test]
fn a_process_lost_at_every_step_of_a_checkpoint() {
    for point in ["before", "quiesce", "encode", "encoded", "copy", "copied", "after"] {
        let rules = [format!("1@3:{point}"), format!("0@6:{point}")];
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        job(4).kill(&rules).program(&example("jacobi"), SMALL).run().right_sum(SMALL);
    }
}

#[test]
fn a_node_lost_during_a_recovery_and_a_process_in_its_last_step() {
    let nodes = job(4).args(&["--nodes", "4", "--spares", "1"]);
    nodes.kill_node(&["2@4"]).program(&example("jacobi"), SMALL).run().right_sum(SMALL);
    job(4).kill(&["3@10:after"]).program(&example("jacobi"), SMALL).run().right_sum(SMALL);
}

/// Returns the digest that `teams` prints when all PEs found what they expected.
#[track_caller]
fn digest(outcome: &Outcome) -> String {
    outcome.status(0);
    let line = outcome.out.strip_prefix("teams: ok digest=");
    outcome.check(line.is_some(), "a digest was expected");
    line.unwrap_or_default().to_owned()
}

#[test]
fn teams_of_any_number_of_pes() {
    for pes in [1, 2, 3, 4, 5] {
        digest(&Job::new(pes).program(&example("teams"), &[]).run());
    }
}

#[test]
fn teams_are_there_again_after_a_loss() {
    let undisturbed = digest(&job(4).program(&example("teams"), &[]).run());
    let nodes = ["--nodes", "4", "--spares", "1"];
    for lost in [
        job(4).kill(&["1@3:encode"]),
        job(4).kill(&["0@5:copied"]),
        job(4).kill(&["3@2:after"]),
        job(4).kill(&["2@1:after", "2@7:before"]),
        job(4).args(&nodes).kill_node(&["2@6:after"]).with_orphans(),
    ] {
        let outcome = lost.args(&["--verbose"]).program(&example("teams"), &[]).run();
        outcome.check(digest(&outcome) == undisturbed, "the digest of the undisturbed run");
        outcome.says("all PEs resume from checkpoint");
    }
}

#[test]
fn the_calls_for_continuing_with_fewer_pes() {
    for nodes in [&[][..], &["--nodes", "2"]] {
        let job = job(4).env("SHMEM_FT_SUBSTITUTE", "shrink").env("SHMEM_FT_ROLLBACK", "none");
        let outcome = job.args(nodes).program(&example("fewer"), &[]).run();
        outcome.status(0).says("PE 1 was lost, and the remaining PEs finished");
        outcome.check(outcome.out == "fewer: ok\n", "it ends");
    }
}

/// In safe Rust: the amplitudes of coupled cluster, where each iteration needs the previous one.
#[test]
fn a_contraction_loses_the_tasks_that_were_begun() {
    let mut digests = Vec::new();
    for (losses, left) in
        [(&[][..], 8), (&["0@2"], 7), (&["1@1", "4@2", "6@3"], 5), (&["1@1", "4@1", "6@1"], 5)]
    {
        let words = [&["24", "6"], losses].concat();
        let job = Job::new(8).env("SHMEM_FT_SUBSTITUTE", "shrink").env("SHMEM_FT_ROLLBACK", "none");
        let outcome = job.program(&example("contract"), &words).run();
        let end = format!("0 wrong, {left} PEs at the end");
        outcome.loses_what_was_begun(24 * 6, &end);
        let digest = outcome.out.split("digest ").nth(1).map(|rest| rest[..16].to_owned());
        digests.push(digest.expect("a digest"));
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}

/// The library would only panic again and again, so the job ends at once, with a line that names
/// the panic. A panic of the program is a death like any other.
#[test]
fn a_panic_of_the_library_ends_the_job_and_one_of_the_program_is_a_death() {
    let run = |what: &str| job(3).args(&["--verbose"]).program(&example("panics"), &[what]).run();
    let outcome = run("library");
    let place = "crates/runtime/src/pgas/world/";
    outcome.status(3).says(&format!("raidshmem: PE 1: a library bug at {place}"));
    outcome.says("index out of bounds: the len is 3 but the index is 9999");
    outcome.check(outcome.count("a substitute") == 0, "no PE gets there again");
    let outcome = run("own");
    outcome.says("a panic of the program").says("resume from checkpoint");
    outcome.check(outcome.count("a library bug") == 0, "it is not the library's");
    let outcome = run("api");
    outcome.status(0);
    outcome.check(outcome.out.contains("the API told of a wrong range: true"), "it may catch it");
}
