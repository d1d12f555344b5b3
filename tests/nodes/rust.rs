//! Programs in safe Rust on different hosts: handles, atomics, collectives, signals, locks, batches
//! and contexts over UCX, and the loop that hides the fault-tolerance calls, whatever is killed.

use super::net::Net;
use super::support::jacobi::SMALL;
use super::support::{Job, Outcome, example};

fn over_ucx(net: &Net) -> Job {
    net.job(&[1, 1, 1, 1]).args(&["--fabric", "ucx", "--verbose"]).mode("raid5")
}

/// Returns the digest that `teams` prints when all PEs found what they expected.
#[track_caller]
fn digest(outcome: &Outcome) -> String {
    outcome.status(0);
    let line = outcome.out.lines().find_map(|line| line.strip_prefix("teams: ok digest="));
    outcome.check(line.is_some(), "a digest was expected");
    line.unwrap_or_default().to_owned()
}

#[test]
fn every_part_of_the_api_gives_equal_digests_between_hosts_whatever_is_killed() {
    needs!(has_ucx);
    let teams = |job: Job| job.program(&example("teams"), &[]).run();
    let expected = digest(&teams(Job::new(4).mode("raid5")));
    let net = Net::new(4);
    assert_eq!(digest(&teams(over_ucx(&net))), expected, "nobody is killed");
    for lost in [
        over_ucx(&net).kill(&["1@3:encode"]),
        over_ucx(&net).kill(&["0@5:copied", "3@8:after"]),
        over_ucx(&net).kill_node(&["2@6:after"]).with_orphans(),
        over_ucx(&net).kill_node(&["1@4:before"]).with_orphans(),
    ] {
        let outcome = teams(lost);
        outcome.says("all PEs resume from checkpoint");
        outcome.check(digest(&outcome) == expected, "the digest of the undisturbed run");
    }
}

#[test]
fn the_calls_for_continuing_with_fewer_pes() {
    needs!(has_ucx);
    let net = Net::new(4);
    let job = over_ucx(&net).env("SHMEM_FT_SUBSTITUTE", "shrink");
    let outcome = job.env("SHMEM_FT_ROLLBACK", "none").program(&example("fewer"), &[]).run();
    outcome.status(0).check(outcome.out == "fewer: ok\n", "it ends");
}

#[test]
fn the_checkpointed_loop_survives_a_lost_host() {
    needs!(has_ucx);
    let net = Net::new(4);
    let job = over_ucx(&net).kill_node(&["2@4"]).with_orphans();
    job.program(&example("jacobi"), SMALL).run().right_sum(SMALL).says("node 2 was lost");
}
