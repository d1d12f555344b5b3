//! Losses that a job survives in its current state: reported once when they change, and to programs
//! on request.

use super::support::{Job, Outcome, program};

fn run(pes: usize, words: &[&str]) -> Outcome {
    let nodes = pes.to_string();
    let job = Job::new(pes).mode("raid5").args(&["--nodes", &nodes]).args(words);
    job.program(&program("survives"), &[]).run()
}

/// The beginning of `oshrun`'s line about the losses that it survives from now on.
const NOW: &str = "the job now ";

/// Three PEs always form one group.
#[test]
fn a_substitute_on_a_node_of_its_group_makes_that_node_a_fatal_loss() {
    let outcome = run(3, &["--kill-node", "2@3"]);
    outcome.status(0).says("at first: nodes 000--, PEs 000--, kinds -1 -1");
    outcome.says("step 0: nodes 111--, PEs 111--, kinds -1 -1");
    outcome.says("step 3: nodes 101--, PEs 111--, kinds -1 -1");
    let risk = "does not survive the loss of node1 (2 members of group 0 are in node1)";
    outcome.says(&format!("{NOW}{risk}; to survive it, spread each group over 3 nodes, or"));
    outcome.check(outcome.count(NOW) == 1, "told once");
}

/// Four PEs form two groups from the next checkpoint on; the two PEs on node 1 are in different
/// groups.
#[test]
fn the_next_checkpoint_is_by_groups_that_survive_it() {
    let outcome = run(4, &["--kill-node", "2@3"]);
    outcome.status(0).says("step 0: nodes 1111-, PEs 1111-, kinds -1 -1");
    outcome.says("step 3: nodes 1111-, PEs 1111-, kinds -1 -1");
    outcome.says(&format!("{NOW}does not survive the loss of node1 (2 members"));
    outcome.says(&format!("{NOW}survives the loss of any one node or domain"));
    outcome.check(outcome.count(NOW) == 2, "told once each");
}

#[test]
fn a_spare_that_takes_the_pe_changes_nothing() {
    let outcome = run(4, &["--kill-node", "2@3", "--spares", "1"]);
    outcome.status(0).says("step 3: nodes 1111");
    outcome.check(outcome.count(NOW) == 0, "nothing has changed");
}
