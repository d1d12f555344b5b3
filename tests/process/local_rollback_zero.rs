//! Collectives that move no data, which are logged like all others: a PE that rolls back locally
//! replays them.

use super::local_rollback::{Subject, rolled_back_locally};

static ZERO: Subject = Subject::new("local_rollback_zero");

/// Returns the number of the last call of an interval: all calls before it come from the log.
fn late() -> String {
    (ZERO.calls() / 9 * 6 - 1).to_string()
}

#[test]
fn a_replay_passes_each_collective_of_zero_elements() {
    ZERO.is_right_without_a_loss();
    let outcome = ZERO.run(&["1", &late()]);
    ZERO.right(&outcome);
    rolled_back_locally(&outcome, 1);
}

#[test]
fn so_it_passes_those_of_active_sets() {
    let outcome = ZERO.run(&["1", &late(), "sets"]);
    ZERO.right(&outcome);
    rolled_back_locally(&outcome, 1);
}
