//! Every reason to roll all PEs back, in every phase of an earlier local rollback: all roll back
//! with one line, or no other PE does, and none hangs.

use super::local_rollback::{ALL, LOCAL, Subject, rolled_back_locally};

static APART: Subject = Subject::new("local_rollback_apart");

/// Phases in which the lost PE has not yet met the others in a checkpoint.
const APART_PHASES: [&str; 3] = ["away", "replay", "after"];

/// The reasons, and the PE that causes each; the last one involves all PEs.
const REASONS: [&str; 3] = ["overflow-0", "unlogged-0", "unlike-0"];

fn run(what: &str) -> super::support::Outcome {
    let job = APART.job(&["1", "0", what]).env("SHMEM_FT_LOG_LIMIT", "1M");
    let outcome = job.leaves("began").leaves("go").run();
    APART.right(&outcome);
    outcome
}

fn takes_all_back(what: &str) {
    let outcome = run(what);
    outcome.check(outcome.count(ALL) == 1, "one line should report that all roll back");
    outcome.check(outcome.count(LOCAL) == 0, "no PE should have rolled back locally");
}

#[test]
fn each_reason_rolls_all_back_in_each_phase() {
    for phase in APART_PHASES {
        REASONS.iter().for_each(|reason| takes_all_back(&format!("{phase}-{reason}")));
    }
}

#[test]
fn a_split_is_no_reason_in_any_phase() {
    for phase in APART_PHASES {
        rolled_back_locally(&run(&format!("{phase}-split-0")), 1);
    }
}

/// A PE that rolled back locally may itself be the cause, once it has caught up.
#[test]
fn a_substitute_that_has_caught_up_rolls_all_back() {
    ["after-overflow-1", "after-unlogged-1"].iter().for_each(|what| takes_all_back(what));
}

#[test]
fn after_the_next_checkpoint_no_pe_rolls_back_for_it() {
    for reason in REASONS.iter().chain(&["overflow-1"]) {
        let outcome = run(&format!("next-{reason}"));
        outcome.check(outcome.count(ALL) == 0, "no PE was lost since the checkpoint");
        outcome.check(outcome.count(LOCAL) == 1, "PE 1 should have rolled back locally");
    }
}
