//! New parity groups with local rollback: the next checkpoint has them, and the PEs that roll back
//! to it locally find them.

use super::heal::{ANEW, SURVIVES};
use super::local_rollback::{ALL, LOCAL, rolled_back_locally};
use super::support::jacobi::{self, SMALL};
use super::support::{Cell, Job, Outcome, STEPS, Sweep};

/// PE 2 moves to node 1, which holds a member of its group.
const MOVES: &str = "2@4:before";

fn job(pes: usize) -> Job {
    let nodes = pes.to_string();
    let job = Job::new(pes).mode("raid5").args(&["--verbose", "--nodes", &nodes]);
    job.env("SHMEM_FT_ROLLBACK", "local")
}

fn run(pes: usize, losses: &[&str]) -> Outcome {
    jacobi::job(job(pes).kill_node(losses), SMALL).run()
}

/// Runs a job in which PE 2 moves, and more is lost; its bytes are right, and each loss rolls back
/// only the lost PEs, or all of them, with one line.
fn right(cell: &Cell) -> Outcome {
    let job = cell.job().args(&["--verbose", "--nodes", "4"]).env("SHMEM_FT_ROLLBACK", "local");
    let outcome = jacobi::job(job, SMALL).run();
    outcome.right_sum(SMALL);
    let resumed = outcome.count("all PEs resume from checkpoint ");
    outcome.check(outcome.count(ALL) <= 1 && resumed <= outcome.count(ALL), "one line");
    outcome
}

/// Both PEs of the node that is lost next were in one group.
#[test]
fn the_next_checkpoint_survives_the_node_that_took_a_pe_of_the_group() {
    for next in ["1@5:before", "1@7:before"] {
        let outcome = run(4, &[MOVES, next]);
        outcome.right_sum(SMALL).says(&format!("{ANEW}4 on: 2 groups of 2, parity 1"));
        outcome.says(SURVIVES).says("PE 1: ").says("PE 2: ");
        outcome.check(outcome.count(" rebuilt from PE 3 in ") == 1, "PE 1 by its new group");
        outcome.check(outcome.count(" rebuilt from PE 0 in ") == 1, "PE 2 by its new group");
        rolled_back_locally(&outcome, 3);
    }
}

/// Until then the groups are the old ones.
#[test]
fn before_the_next_checkpoint_the_old_groups_stand() {
    let outcome = run(4, &[MOVES, "1@4:quiesce"]);
    assert_eq!(outcome.same_verdict(), "unrecoverable: group 0 lost PEs 1,2, parity 1");
    outcome.check(outcome.count(ANEW) == 0, "no checkpoint has new groups");
}

/// A PE that dies later knows none of the groups, and adopts memory with their parity.
#[test]
fn processes_that_die_later_find_the_new_groups() {
    Sweep::of([format!("--mode raid5 --kill-node {MOVES} --kill {{0|1|2|3}}@{{5|6}}:before")])
        .each(|cell| rolled_back_locally(&right(cell), 2));
    // The groups that they found serve the loss of a node.
    let row = format!("--mode raid5 --kill-node {MOVES} --kill {{0,3|1,2}} --kill-node 1@8:before");
    let row = row.replace("0,3", "0@5:before --kill 3@6:before");
    let row = row.replace("1,2", "1@5:before --kill 2@6:before");
    Sweep::of([row]).each(|cell| {
        let outcome = right(cell);
        outcome.check(outcome.count(" rebuilt from PE ") == 2, "both PEs of node 1");
        rolled_back_locally(&outcome, 5);
    });
}

/// A process dies at each step of the checkpoint that has new groups.
#[test]
fn a_process_dies_in_the_checkpoint_with_new_groups() {
    let steps = STEPS.join("|");
    Sweep::of([format!("--mode raid5 --kill-node {MOVES} --kill {{0|1|3}}@4:{{{steps}}}")])
        .sample(7)
        .each(|cell| _ = right(cell).says(ANEW).says(SURVIVES));
}

/// A node is lost at each step of it. The one that carries two PEs of a group is lost too early as
/// long as any PE may not have encoded the checkpoint.
#[test]
fn a_node_is_lost_in_the_checkpoint_with_new_groups() {
    // The first step comes together with the first loss.
    for (nth, step) in STEPS.into_iter().enumerate().skip(1) {
        let both = run(4, &[MOVES, &format!("1@4:{step}")]);
        if nth == 1 {
            let words = "unrecoverable: group 0 lost PEs 1,2, parity 1";
            assert_eq!(both.same_verdict(), words, "{step}\n{both}");
        } else if nth > 3 {
            both.right_sum(SMALL).says(ANEW);
            // After the last step the logs have begun.
            let all = both.count(ALL);
            let is_right = all == 1 || step == "after" && all == 0;
            both.check(is_right, "all roll back from the midst of a checkpoint");
        }
        let one = run(4, &[MOVES, &format!("{}@4:{step}", 3 * (nth % 2))]);
        one.right_sum(SMALL).says(ANEW);
    }
}

/// All roll back to a checkpoint with new groups: it is decoded with them.
#[test]
fn all_roll_back_to_a_checkpoint_with_new_groups() {
    for (step, at) in [("encode", 6), ("copied", 6), ("after", 7)] {
        let outcome = run(4, &[MOVES, &format!("1@{at}:{step}")]);
        outcome.right_sum(SMALL).says(&format!("{ANEW}4 on"));
        let all = outcome.count(ALL);
        outcome.check(all == 1 || step == "after" && all == 0, "one line, and where it must");
        outcome.says(" rebuilt from PE 3 in ").says(" rebuilt from PE 0 in ");
    }
}

/// Each loss hits the node that the last PE moved to.
#[test]
fn eight_nodes_lose_five_one_after_the_other() {
    let losses = ["4@2", "3@4", "2@6", "1@8", "0@10"].map(|at| format!("{at}:before"));
    let losses: Vec<&str> = losses.iter().map(String::as_str).collect();
    let outcome = run(8, &losses);
    outcome.right_sum(SMALL).says(SURVIVES);
    outcome.check(outcome.count("was lost with PE") == 5, "five losses");
    outcome.check(outcome.count(LOCAL) > 4, "most roll back locally");
}

/// Without memory for new groups the old ones stay, and a loss rolls back locally.
#[test]
fn groups_stay_where_memory_for_others_is_short() {
    let job = job(4).kill_node(&[MOVES]).kill(&["3@6:before"]);
    let job = job.env("SHMEM_FT_LOG_LIMIT", "1100K").env("SHMEM_FT_MEMORY_LIMIT", "13M");
    let outcome = jacobi::job(job, SMALL).run();
    outcome.right_sum(SMALL).says("parity groups stay as they are: ");
    outcome.check(outcome.count(ANEW) == 0, "they stay");
    outcome.check(outcome.count(LOCAL) == 2, "both losses");
}

/// New groups are taken only if there is memory for the checkpoints after the first one, too: for
/// both slots, and for the replica of the log of a PE that has moved.
#[test]
fn new_groups_that_are_taken_leave_memory_for_later_checkpoints() {
    let mut stayed = 0;
    let limits = (13_500..=16_500).step_by(500);
    for limit in limits.clone() {
        let job = job(4).kill_node(&[MOVES]).env("SHMEM_FT_LOG_LIMIT", "1100K");
        let job = job.env("SHMEM_FT_MEMORY_LIMIT", &format!("{limit}K"));
        let outcome = jacobi::job(job, SMALL).run();
        outcome.right_sum(SMALL);
        outcome.check(outcome.count("checkpoint refused") == 0, "memory was counted before");
        let stays = outcome.count("parity groups stay as they are: ");
        outcome.check(stays + outcome.count(ANEW) == 1, "they change, or a line says why not");
        stayed += stays;
    }
    assert!(stayed > 0 && stayed < limits.count(), "both happen");
}
