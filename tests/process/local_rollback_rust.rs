//! Local rollback of a program in safe Rust: transfers, signals, waits with closures, atomic
//! operations, locks, collectives of all PEs and of a team, and events, in `ft::run`.

use super::local_rollback::{PES, for_a_reason, rolled_back_locally, said};
use super::support::{Job, Outcome, example, networks, sample_long};

/// Calls of a PE in the whole program.
const CALLS: u32 = 162;

fn run(places: &[&str], victim: u32, call: u32, rollback: &str) -> Outcome {
    let words = [victim.to_string(), call.to_string()];
    let job = Job::new(PES).mode("raid5").env("SHMEM_FT_ROLLBACK", rollback);
    let job = job.args(&["--verbose"]).args(places);
    let outcome = job.program(&example("local_rollback"), &[&words[0], &words[1]]).run();
    outcome.status(0);
    outcome
}

/// Kills a PE before calls, all of which it has completed up to then.
fn dies_before_calls(places: &[&str], most: usize) {
    let sum = said(&run(places, 1, 0, "global"), "sum");
    let logged = run(places, 1, 0, "local");
    logged.check(said(&logged, "sum") == sum, "logs should change nothing");
    logged.check(said(&logged, "calls") == CALLS.to_string(), "another number of calls");
    let all = (0..PES as u32).flat_map(|pe| (1..=CALLS).map(move |call| (pe, call)));
    for (pe, call) in sample_long(all.collect(), most, 3 * most) {
        let outcome = run(places, pe, call, "local");
        outcome.check(said(&outcome, "sum") == sum, "the sum of a run without a loss");
        rolled_back_locally(&outcome, 1);
    }
}

#[test]
fn a_pe_of_a_rust_program_dies_before_each_of_its_calls() {
    dies_before_calls(&[], 8);
    dies_before_calls(&["--nodes", "3"], 4);
}

#[test]
fn a_pe_of_a_rust_program_dies_between_hosts() {
    for fabric in networks() {
        dies_before_calls(&["--nodes", "3", "--fabric", fabric], 3);
        dies_before_calls(&["--nodes", "2", "--fabric", fabric], 2);
    }
}

/// All roll back if another call is made in the middle of a checkpoint.
#[test]
fn a_pe_of_a_rust_program_dies_at_a_checkpoint() {
    let sum = said(&run(&[], 1, 0, "global"), "sum");
    for point in ["2@4:before", "2@4:copied", "2@4:after"] {
        let outcome = run(&["--kill", point], 1, 0, "local");
        outcome.check(said(&outcome, "sum") == sum, "the sum of a run without a loss");
        for_a_reason(&outcome);
    }
}
