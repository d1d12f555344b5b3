//! Losses that a job survives in its current state: reported once when they change, and to programs
//! on request.

use super::support::{Job, Outcome, program};

fn run(words: &[&str]) -> Outcome {
    let job = Job::new(4).mode("raid5").args(&["--nodes", "4"]).args(words);
    job.program(&program("survives"), &[]).run()
}

/// The beginning of `oshrun`'s line about the losses that it survives from now on.
const NOW: &str = "the job now ";

#[test]
fn a_substitute_on_a_node_of_its_group_makes_that_node_one_too_many() {
    let outcome = run(&["--kill-node", "2@3"]);
    outcome.status(0).says("at first: nodes 0000-, PEs 0000-, kinds -1 -1");
    outcome.says("step 0: nodes 1111-, PEs 1111-, kinds -1 -1");
    outcome.says("step 3: nodes 1011-, PEs 1111-, kinds -1 -1");
    let risk = "does not survive the loss of node1 (2 members of group 0 are in node1)";
    outcome.says(&format!("{NOW}{risk}; would survive it: 4 nodes for each group, or"));
    outcome.check(outcome.count(NOW) == 1, "told once");
}

#[test]
fn a_spare_that_takes_the_pe_changes_nothing() {
    let outcome = run(&["--kill-node", "2@3", "--spares", "1"]);
    outcome.status(0).says("step 3: nodes 1111");
    outcome.check(outcome.count(NOW) == 0, "nothing has changed");
}
