//! Local rollback of a PE that uses teams and active sets: their collectives, splits and contexts
//! are logged like those of all PEs.

use super::local_rollback::{PES, Subject, for_a_reason, rolled_back_locally};
use super::support::{Job, program, sample_long};

static TEAMS: Subject = Subject::new("local_rollback_teams");

#[test]
fn without_a_loss_logs_change_nothing_for_teams() {
    TEAMS.is_right_without_a_loss();
}

#[test]
fn a_member_of_teams_dies_before_each_of_its_calls() {
    TEAMS.dies_before_calls(1, 1, 24);
    TEAMS.dies_before_calls(0, 1, 12);
    TEAMS.dies_before_calls(2, 1, 12);
}

#[test]
fn a_member_of_teams_dies_anywhere_in_a_call() {
    for delay in sample_long((1..=60).map(|step| step * 40).collect(), 12, 24) {
        let outcome = TEAMS.run(&["1", &(-delay).to_string()]);
        TEAMS.right(&outcome);
        for_a_reason(&outcome);
    }
}

/// All roll back, and calls on the team that was not made do nothing until then.
#[test]
fn a_pe_dies_before_a_team_is_made() {
    for call in 1..=3 {
        let job = Job::new(PES).mode("raid5");
        let outcome =
            job.program(&program("local_rollback_teams"), &["1", &call.to_string()]).run();
        TEAMS.right(&outcome);
    }
}

#[test]
fn a_substitute_in_a_team_is_lost_in_its_replay() {
    TEAMS.dies_again(2);
}

#[test]
fn the_node_of_a_member_of_teams_is_lost() {
    let late = TEAMS.calls() / 9 * 5;
    for call in sample_long((late..late + TEAMS.calls() / 9).collect(), 6, 12) {
        let outcome = TEAMS.on_nodes("3", &["1", &call.to_string(), "node"]).run();
        TEAMS.right(&outcome);
        rolled_back_locally(&outcome, 1);
    }
}
