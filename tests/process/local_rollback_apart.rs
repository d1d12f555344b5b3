//! Every reason to keep no log any more, in every phase of an earlier local rollback: no other PE
//! rolls back for that loss, but all do for a later one.

use super::local_rollback::{ALL, LOCAL, Subject, rolled_back_locally};
use super::support::{Job, Outcome};

static APART: Subject = Subject::new("local_rollback_apart");

/// Phases in which the lost PE has not yet met the others in a checkpoint.
const APART_PHASES: [&str; 3] = ["away", "replay", "after"];

/// The reasons, and the PE that causes each.
const REASONS: [&str; 2] = ["overflow-0", "unlogged-0"];
/// PEs meet in different calls: they are not where others take them to be.
const UNLIKE: &str = "unlike-0";

fn run_as(job: Job) -> Outcome {
    let outcome = job.env("SHMEM_FT_LOG_LIMIT", "1M").leaves("began").leaves("go").run();
    APART.right(&outcome);
    outcome
}

fn run(what: &str) -> Outcome {
    run_as(APART.job(&["1", "0", what]))
}

fn takes_none_back(outcome: &Outcome) {
    rolled_back_locally(outcome, 1);
    outcome.check(!outcome.out.contains("again"), "no other PE should repeat a round");
}

#[test]
fn no_reason_in_any_phase_takes_other_pes_back() {
    for phase in APART_PHASES {
        REASONS.iter().for_each(|reason| takes_none_back(&run(&format!("{phase}-{reason}"))));
    }
}

#[test]
fn unlike_calls_take_all_back_in_each_phase() {
    for phase in APART_PHASES {
        let outcome = run(&format!("{phase}-{UNLIKE}"));
        outcome.check(outcome.count(ALL) == 1, "one line should report that all roll back");
        outcome.check(outcome.count(LOCAL) == 0, "no PE should have rolled back locally");
    }
}

#[test]
fn a_split_is_no_reason_in_any_phase() {
    for phase in APART_PHASES {
        takes_none_back(&run(&format!("{phase}-split-0")));
    }
}

/// A PE that rolled back locally may itself be the cause, once it has caught up.
#[test]
fn a_substitute_that_has_caught_up_takes_no_pe_back() {
    ["after-overflow-1", "after-unlogged-1"].iter().for_each(|what| takes_none_back(&run(what)));
}

/// The substitute is on another node then.
#[test]
fn no_reason_takes_other_pes_back_after_the_loss_of_a_node() {
    for what in ["away-unlogged-node-0", "after-overflow-node-0", "after-unlogged-node-2"] {
        takes_none_back(&run_as(APART.on_nodes("3", &["1", "0", what])));
    }
}

#[test]
fn a_later_loss_takes_all_back() {
    for (what, why) in [
        ("after-overflow-twice-0", "PE 0: its log needs"),
        ("after-unlogged-twice-0", "PE 0: it called shmemx_ft_failed, which is not logged"),
        ("away-unlogged-twice-0", "PE 0: it called shmemx_ft_failed, which is not logged"),
        ("after-unlogged-twice-1", "PE 1: it called shmemx_ft_failed, which is not logged"),
    ] {
        let outcome = run(what);
        outcome.says(why);
        outcome.check(outcome.count(LOCAL) == 1, "PE 1 should have rolled back locally");
        outcome.check(outcome.count(ALL) == 1, "one line should report that all roll back");
    }
}

#[test]
fn after_the_next_checkpoint_no_pe_rolls_back_for_it() {
    for reason in REASONS.iter().chain(&["overflow-1", UNLIKE]) {
        takes_none_back(&run(&format!("next-{reason}")));
    }
}
