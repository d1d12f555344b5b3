//! Loss of two PEs before the next checkpoint, at once or one in the other's replay, or of a PE
//! with its node: each rolls back locally, or one line explains why all do.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::local_rollback::{ALL, LOCAL, PES, for_a_reason, rolled_back_locally, said};
use super::support::{Job, Outcome, program, sample_long};

/// Calls of an interval.
pub const CALLS: usize = 12;
/// Every pair of calls.
const PAIRS: usize = CALLS * CALLS;
/// Pairs per job.
const EACH: usize = 40;

/// The cases of a job: from, to, and the step.
pub type Cases = [usize; 3];

fn job(job: Job, how: &str, [a, b]: [usize; 2], cases: Cases) -> Job {
    let words = [a, b].into_iter().chain(cases).map(|number| number.to_string());
    let words: Vec<String> = [how.to_owned()].into_iter().chain(words).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    job.mode("raid5").program(&program("local_rollback_pairs"), &words).leaves("notes")
}

/// Returns the sum of a run without deaths and logs.
fn sum_without_a_loss(cases: Cases) -> String {
    static SUMS: Mutex<BTreeMap<usize, String>> = Mutex::new(BTreeMap::new());
    let intervals = (cases[1] - cases[0]).div_ceil(cases[2]).next_multiple_of(2);
    let mut sums = SUMS.lock().unwrap_or_else(PoisonError::into_inner);
    let sum = || {
        let outcome = job(Job::new(PES), "none", [0, 1], cases).run();
        outcome.status(0);
        said(&outcome, "sum")
    };
    sums.entry(intervals).or_insert_with(sum).clone()
}

#[track_caller]
fn run(how: &str, pair: [usize; 2], cases: Cases, nodes: usize) -> Outcome {
    run_over("shm", how, pair, cases, nodes)
}

/// Runs a job on nodes that a fabric connects.
#[track_caller]
pub fn run_over(fabric: &str, how: &str, pair: [usize; 2], cases: Cases, nodes: usize) -> Outcome {
    let nodes = nodes.to_string();
    let local = Job::new(PES).env("SHMEM_FT_ROLLBACK", "local");
    let local = local.env("SHMEM_FT_MAX_RESTARTS", "1000");
    let local = local.args(&["--verbose", "--nodes", &nodes, "--fabric", fabric]);
    let outcome = job(local, how, pair, cases).run();
    outcome.status(0);
    let sum = said(&outcome, "sum");
    outcome.check(sum == sum_without_a_loss(cases), "the sum of a run without a loss was expected");
    outcome
}

/// Divides all pairs into the parts for each job.
pub fn parts(step: usize) -> Vec<Cases> {
    let each = EACH * step;
    (0..PAIRS).step_by(each).map(|from| [from, (from + each).min(PAIRS), step]).collect()
}

/// Between calls there is no doubt: no other PE rolls back, whatever the two calls are.
#[test]
fn each_of_two_pes_dies_before_each_of_its_calls() {
    let all = [[1, 2], [2, 0]].map(|pair| parts(1).into_iter().map(move |cases| (pair, cases)));
    for (pair, cases) in sample_long(all.into_iter().flatten().collect(), 2, 8) {
        let outcome = run("each", pair, cases, 1);
        rolled_back_locally(&outcome, 2 * (cases[1] - cases[0]));
    }
}

/// Like the test above, but with PE 0, and each on its own node.
#[test]
fn pe_0_and_another_die_on_nodes_of_their_own() {
    for cases in parts(3) {
        let outcome = run("each", [0, 2], cases, PES);
        rolled_back_locally(&outcome, 2 * (cases[1] - cases[0]).div_ceil(cases[2]));
    }
}

/// Kills one of them at any moment.
fn at_any_moment(how: &str, pair: [usize; 2], cases: Cases) {
    let outcome = run(how, pair, cases, 1);
    for_a_reason(&outcome);
    outcome.check(outcome.count(LOCAL) > outcome.count(ALL), "most should be local");
}

#[test]
fn two_pes_die_at_once() {
    for (nth, cases) in sample_long(parts(1), 1, 3).into_iter().enumerate() {
        at_any_moment("both", [[1, 2], [0, 2]][nth % 2], cases);
    }
}

#[test]
fn a_pe_dies_in_the_replay_of_another() {
    for (nth, cases) in sample_long(parts(1), 1, 3).into_iter().enumerate() {
        at_any_moment("replay", [[1, 2], [2, 1], [0, 1]][nth % 3], cases);
    }
}

/// So both may have been waiting for each other when they died.
#[test]
fn a_substitute_dies_after_another_pe_died_in_its_replay() {
    for (nth, cases) in sample_long(parts(1), 1, 3).into_iter().enumerate() {
        at_any_moment("chain", [[1, 2], [0, 2], [2, 1]][nth % 3], cases);
    }
}

/// Returns the case in which a PE dies before call `i`, and another before call `j`.
pub fn case(i: usize, j: usize) -> Cases {
    let number = (i - 1) * CALLS + j - 1;
    [number, number + 1, 1]
}

/// The PE's log comes from another node, and its checkpoint from its group. After the first call, a
/// barrier, all have left the checkpoint.
#[test]
fn a_pe_is_lost_with_its_node_before_each_of_its_calls() {
    let all = (0..PES).flat_map(|pe| (2..=CALLS).map(move |call| (pe, call)));
    for (pe, call) in sample_long(all.collect(), 17, 34) {
        let outcome = run("node", [pe, (pe + 1) % PES], case(call, 1), PES);
        rolled_back_locally(&outcome, 1);
        outcome.says(&format!("was lost with PE {pe}")).says("rebuilt from PEs");
    }
}

/// The substitute of the process also writes to the replica of its log: nothing is missing there.
#[test]
fn a_pe_whose_process_has_died_is_lost_with_its_node() {
    let all = (0..PES).flat_map(|pe| [(2, 5), (3, 12), (6, 8), (8, 11)].map(|calls| (pe, calls)));
    let mut alone = 0;
    for (pe, (i, j)) in sample_long(all.collect(), 3, 12) {
        let outcome = run("twice", [pe, (pe + 1) % PES], case(i, j), PES);
        outcome.says(&format!("was lost with PE {pe}"));
        // On a busy machine the launcher may hear of the node first.
        let away = outcome.count("its node is lost while another PE rolls back");
        outcome.check(outcome.count(ALL) == away, "another reason");
        outcome.check(away == 1 || outcome.count(LOCAL) == 1, "it should roll back locally");
        alone += 1 - away;
    }
    assert!(alone > 0, "all PEs rolled back each time");
}

#[test]
fn a_pe_dies_in_the_replay_of_another_that_was_lost_with_its_node() {
    let all = (2..=CALLS).flat_map(|i| (1..=i).map(move |j| (i, j)));
    let mut alone = 0;
    for (i, j) in sample_long(all.collect(), 9, 18) {
        let outcome = run("then", [1, 2], case(i, j), PES);
        for_a_reason(&outcome);
        alone += outcome.count(LOCAL);
    }
    assert!(alone > 0, "{alone} rolled back locally");
}

/// The second PE rolls back locally too, unless the first is not reached yet, or the replica of a
/// log was on its node.
#[test]
fn a_second_node_takes_all_back_only_for_a_reason() {
    let mut alone = 0;
    for (i, j) in [(4, 1), (9, 3), (12, 5)] {
        let outcome = run("nodes", [1, 2], case(i, j), PES);
        let away = outcome.count("its node is lost while another PE rolls back");
        let without = outcome.count("its node is lost, and its logs with it");
        let all = outcome.count(ALL);
        outcome.check(all == (away + without).min(1), "all should roll back for a reason");
        outcome.check(all == 1 || outcome.count(LOCAL) == 2, "both should roll back");
        alone += usize::from(all == 0);
    }
    println!("note: {alone} of 3 second nodes took no other PE back");
}

/// More than half of the PEs are on one node, which does not store its own replica.
#[test]
fn without_another_node_for_the_replica_all_roll_back() {
    let outcome = run("node", [2, 0], case(5, 1), 2);
    outcome.says("its node is lost, and its logs with it");
    outcome.check(outcome.count(ALL) == 1 && outcome.count(LOCAL) == 0, "all should roll back");
}
