//! Parity groups are chosen anew after PEs have moved, so that the next loss is survived, too.

use super::support::jacobi::{self, SMALL};
use super::support::{Job, Outcome};
use super::{RECOVERY, STEPS};

/// The line on what is survived, once new groups have been made.
const SURVIVES: &str = "the job now survives the loss of any one node or domain";
/// The line of a job that does not survive the loss of some node.
const RISK: &str = "the job now does not survive the loss of node";
/// Of PEs 1 and 2, which node 1 carried, each comes back from the other of its new group.
const FROM_PAIRS: &str = "(PE 1 rebuilt from PE 3; PE 2 rebuilt from PE 0)";
/// The line on new groups.
const ANEW: &str = "parity groups are others from checkpoint ";

fn job(pes: usize, losses: &[&str]) -> Job {
    let nodes = pes.to_string();
    Job::new(pes).mode("raid5").args(&["--verbose", "--nodes", &nodes]).kill_node(losses)
}

fn run(pes: usize, losses: &[&str]) -> Outcome {
    jacobi::job(job(pes, losses), SMALL).run()
}

/// PE 2 goes to node 1, which holds a member of its group: the loss of that node is the next one.
#[test]
fn the_node_that_took_a_member_of_its_own_group_is_lost_next() {
    let outcome = run(4, &["2@3", "1@5"]);
    outcome.right_sum(SMALL).says(&format!("{RISK}1 (2 members of group 0 are in node1)"));
    outcome.says(&format!("{ANEW}4 on: 2 groups of 2, parity 1")).says(SURVIVES);
    outcome.says(FROM_PAIRS);
}

/// Each time the node is lost to which the last PE went, and the lines say before that it may be.
#[test]
fn eight_nodes_lose_five_one_after_the_other() {
    let outcome = run(8, &["4@2", "3@4", "2@6", "1@8", "0@10"]);
    outcome.right_sum(SMALL);
    outcome.check(outcome.count("was lost with PE") == 5, "five losses");
    let said = |line: &&str| line.contains("the job now ");
    let lines: Vec<&str> = outcome.err.lines().filter(said).collect();
    let last_word = lines.last().is_some_and(|line| line.contains(SURVIVES));
    outcome.check(last_word, "it survives the next loss");
    let pairs = lines.chunks(2).all(|pair| pair[0].contains(RISK) && pair[1].contains(SURVIVES));
    outcome.check(pairs, "each risk is over before the next one");
}

/// The first checkpoint after the loss of node 2, the fourth, is by other groups. Whatever is lost
/// in it, the groups of the checkpoint that stands decide: those of the third until all have
/// encoded the fourth. While they encode, it is a matter of time whether those that live have.
#[test]
fn a_loss_at_each_step_of_the_change_is_borne_by_the_groups_of_the_checkpoint_that_stands() {
    for (nth, step) in STEPS.into_iter().enumerate() {
        let both = run(4, &["2@3", &format!("1@4:{step}")]);
        if nth < 2 {
            let words = "unrecoverable: group 0 lost PEs 1,2, parity 1";
            assert_eq!(both.same_verdict(), words, "{step}\n{both}");
        } else if nth > 3 {
            both.right_sum(SMALL).says("all PEs resume from checkpoint 4 ");
        }
        // Before it there is the recovery of node 2.
        let one = (nth > 0).then(|| run(4, &["2@3", &format!("{}@4:{step}", 3 * (nth % 2))]));
        one.iter().for_each(|one| _ = one.right_sum(SMALL).says(ANEW));
    }
}

/// The new groups are found again by processes that have seen none of it: in the records of what
/// the dead left, and by the moves that the launcher tells.
#[test]
fn new_groups_are_known_though_all_processes_die() {
    for (nth, step) in STEPS.into_iter().enumerate() {
        let number = 4 + nth % 2;
        let rules: Vec<String> = (0..4).map(|pe| format!("{pe}@{number}:{step}")).collect();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let job = job(4, &["2@3", "1@7"]).kill(&rules);
        let outcome = jacobi::job(job, SMALL).run();
        outcome.right_sum(SMALL).says(FROM_PAIRS);
    }
}

/// A second loss in the recovery from one, which is by the new groups.
#[test]
fn a_loss_in_a_recovery_by_new_groups_is_one_more() {
    for step in RECOVERY {
        for pe in [0, 3] {
            let job = job(4, &["2@3", "1@5"]).kill(&[&format!("{pe}@5:{step}")]);
            jacobi::job(job, SMALL).run().right_sum(SMALL);
        }
    }
}

/// In every mode with a group, with groups of a size that was asked for, and between nodes that do
/// not share memory.
#[test]
fn groups_change_in_every_mode() {
    for (mode, name, value) in [
        ("double", "SHMEM_FT_GROUP_SIZE", "4"),
        ("raid4", "SHMEM_FT_DELTA", "on"),
        ("raid5", "SHMEM_FT_GROUP_SIZE", "4"),
        ("raid5", "SHMEM_FT_SNAPSHOTS", "2"),
        ("raid5", "SHMEM_FT_DELTA", "on"),
        ("rs", "SHMEM_FT_PARITY", "1"),
    ] {
        let job = job(4, &["2@3", "1@5"]).mode(mode).env(name, value);
        jacobi::job(job, SMALL).run().right_sum(SMALL).says(SURVIVES);
    }
}

/// Groups of two take more memory than one of four. Where that is not there, the last ones stay.
#[test]
fn groups_stay_where_memory_for_others_is_short() {
    let limited = |losses: &[&str]| {
        let job = job(4, losses).env("SHMEM_FT_MEMORY_LIMIT", "5M");
        jacobi::job(job, SMALL).run()
    };
    let outcome = limited(&["2@3"]);
    outcome.right_sum(SMALL).says("parity groups stay as they are: ");
    outcome.check(outcome.count("parity groups stay") == 1, "said once");
    outcome.check(outcome.count(ANEW) + outcome.count(SURVIVES) == 0, "they stay");
    let words = "unrecoverable: group 0 lost PEs 1,2, parity 1";
    assert_eq!(limited(&["2@3", "1@5"]).same_verdict(), words);
}
