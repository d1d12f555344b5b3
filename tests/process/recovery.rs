//! A second loss at every step of the recovery from a first one.
//!
//! The first takes PE 1 at the end of checkpoint 3. The second takes a survivor, or the substitute,
//! at a step. With one parity the second is survived if the first is already repaired, or if either
//! leaves its memory behind; with two parities always.

use super::support::jacobi::{self, SMALL};
use super::support::{Outcome, RECOVERY, Sweep};

/// Runs each cell of these rows, and checks its end by `check`, which gets the number of its step.
fn each<T: AsRef<str>>(rows: impl IntoIterator<Item = T>, check: impl Fn(usize, &Outcome)) {
    Sweep::of(rows).each(|cell| {
        check(cell.nth, &jacobi::job(cell.job().args(&["--verbose"]), SMALL).run());
    });
}

#[track_caller]
fn goes_on(_: usize, outcome: &Outcome) {
    outcome.right_sum(SMALL);
    let lost = outcome.count("was killed by SIGKILL") + outcome.count("was lost with PE");
    outcome.check(lost == 2, "two losses were expected");
    let resumed = outcome.count("all PEs resume from checkpoint 3 ");
    // At `resume` the first recovery may be over before the second loss is seen.
    outcome.check(resumed == 1 || resumed == 2, "all should have rolled back to 3");
}

#[track_caller]
fn ends(outcome: &Outcome) {
    let words = outcome.same_verdict();
    outcome.check(words.contains("group 0 lost "), "the group should be named");
}

/// Rules for the substitute of PE 1 at each step: while it agrees (`settle`) it has no agreed
/// checkpoint.
const SUBSTITUTE: &str = "{0,3,3,3,3,3,3}:{recovery}";

/// Snapshots of dead processes are whole, except in `single`, which has none: there the dead
/// process' copies are.
fn a_process_dies_and_memory_is_adopted(mode: &str) {
    let second = format!("--mode {mode} --kill 1@3 --kill");
    each([format!("{second} {{0|2}}@3:{{recovery}}"), format!("{second} 1@{SUBSTITUTE}")], goes_on);
}

of_each_mode!(a_process_dies_and_memory_is_adopted: single double raid4 raid5 rs);

/// With its memory discarded, losing a process is like losing it with its node.
#[test]
fn a_process_dies_and_memory_is_rebuilt() {
    let rebuilt = |mode: &str| format!("--mode {mode} SHMEM_FT_ADOPT=0 --kill 1@3 --kill");
    let second = "{0|2|3}@3:{recovery}";
    each([format!("{} {second}", rebuilt("raid5"))], survivor);
    each([format!("{} {second}", rebuilt("rs"))], goes_on);
    each([format!("{} 1@{SUBSTITUTE}", rebuilt("raid5"))], goes_on);
}

#[test]
fn a_node_is_lost() {
    each(["--mode raid5 --nodes 4 --kill-node 1@3 --kill-node 2@3:{recovery}"], survivor);
    each(["--mode rs --nodes 4 --kill-node 1@3 --kill-node 2@3:{recovery}"], goes_on);
    // The substitute is on the spares' node.
    let spare = "--nodes 4 --spares 1 --kill-node 1@3 --kill-node 4";
    each([format!("--mode {{raid5|double}} {spare}@{SUBSTITUTE}")], goes_on);
}

/// Checks one parity, and a survivor lost with its memory: at `reencode` the parity of PE 1 may be
/// whole or not; before it is not, after it is.
#[track_caller]
fn survivor(step: usize, outcome: &Outcome) {
    match RECOVERY[step] {
        "resume" => goes_on(step, outcome),
        "reencode" if outcome.status == 0 => goes_on(step, outcome),
        _ => ends(outcome),
    }
}

/// A decision stands: the second loss changes the voters, not the result. At `settle` a rule names
/// the checkpoint agreed so far.
#[test]
fn a_decision_stands_against_a_second_loss() {
    needs!(long);
    for (first, number) in [("quiesce", 2), ("copy", 3), ("copied", 3)] {
        let row = format!("--mode {{raid5|rs}} --kill 1@3:{first} --kill {{0|2}}");
        let steps = ["@2:settle".to_owned(), format!("@{number}:{{decided|verify}}")];
        each(steps.map(|step| row.clone() + &step), |_, outcome| {
            outcome.right_sum(SMALL);
            outcome.says(&format!("all PEs resume from checkpoint {number} "));
        });
    }
}

/// A third loss, and each in another step.
#[test]
fn a_third_loss_in_the_recovery_from_the_second() {
    let rows = [
        "--mode {raid5|rs} --kill 1@3 --kill 2@3:rebuild --kill 3@3:restore",
        "--mode {raid5|rs} --kill 1@3 --kill 1@3:verify --kill 1@3:reencode",
        "--mode {raid5|rs} --kill 1@3:copy --kill 0@3:decided --kill 1@3:rebuild",
        "--mode {raid5|rs} --kill 2@3 --kill 0@3:restore --kill 0@3:resume",
    ];
    each(rows, |_, outcome| {
        outcome.right_sum(SMALL);
        outcome.check(outcome.count("was killed by SIGKILL") == 3, "three were expected");
    });
}
