//! A second loss at every step of the recovery from a first one.
//!
//! The first takes PE 1 at the end of checkpoint 3. The second takes a survivor, or the substitute,
//! at a step. With one parity the second is survived if the first is already repaired, or if either
//! leaves its memory behind; with two parities always.

use super::RECOVERY;
use super::support::jacobi::{self, SMALL};
use super::support::{Job, Outcome};

fn run(mode: &str, words: &str, adopt: &str) -> Outcome {
    let words: Vec<&str> = words.split_whitespace().collect();
    let job = Job::new(4).mode(mode).args(&["--verbose"]).args(&words);
    jacobi::job(job.env("SHMEM_FT_ADOPT", adopt), SMALL).run()
}

#[track_caller]
fn goes_on(outcome: &Outcome) {
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

/// Returns the checkpoint that a rule for the substitute must name: while it agrees (`settle`) it
/// has no agreed checkpoint.
fn of_substitute(step: &str) -> u32 {
    if step == "settle" { 0 } else { 3 }
}

/// Snapshots of dead processes are whole, except in `single`, which has none: there the dead
/// process' copies are.
fn a_process_dies_and_memory_is_adopted(mode: &str) {
    for step in RECOVERY {
        for pe in [0, 1, 2] {
            let at = if pe == 1 { of_substitute(step) } else { 3 };
            goes_on(&run(mode, &format!("--kill 1@3 --kill {pe}@{at}:{step}"), "1"));
        }
    }
}

of_each_mode!(a_process_dies_and_memory_is_adopted: single double raid4 raid5 rs);

/// With its memory discarded, losing a process is like losing it with its node.
#[test]
fn a_process_dies_and_memory_is_rebuilt() {
    for step in RECOVERY {
        for pe in [0, 2, 3] {
            let words = format!("--kill 1@3 --kill {pe}@3:{step}");
            survivor(step, &run("raid5", &words, "0"));
            goes_on(&run("rs", &words, "0"));
        }
        let at = of_substitute(step);
        goes_on(&run("raid5", &format!("--kill 1@3 --kill 1@{at}:{step}"), "0"));
    }
}

#[test]
fn a_node_is_lost() {
    for step in RECOVERY {
        let words = format!("--nodes 4 --kill-node 1@3 --kill-node 2@3:{step}");
        survivor(step, &run("raid5", &words, "1"));
        goes_on(&run("rs", &words, "1"));
        // The substitute is on the spares' node.
        let at = of_substitute(step);
        let words = format!("--nodes 4 --spares 1 --kill-node 1@3 --kill-node 4@{at}:{step}");
        goes_on(&run("raid5", &words, "1"));
        goes_on(&run("double", &words, "1"));
    }
}

/// Checks one parity, and a survivor lost with its memory: at `reencode` the parity of PE 1 may be
/// whole or not; before it is not, after it is.
#[track_caller]
fn survivor(step: &str, outcome: &Outcome) {
    match step {
        "resume" => goes_on(outcome),
        "reencode" if outcome.status == 0 => goes_on(outcome),
        _ => ends(outcome),
    }
}

/// A decision stands: the second loss changes the voters, not the result. At `settle` a rule names
/// the checkpoint agreed so far.
#[test]
fn a_decision_stands_against_a_second_loss() {
    if !super::support::long() {
        return;
    }
    for (first, number) in [("1@3:quiesce", 2), ("1@3:copy", 3), ("1@3:copied", 3)] {
        for (step, at) in [("settle", 2), ("decided", number), ("verify", number)] {
            for pe in [0, 2] {
                for mode in ["raid5", "rs"] {
                    let words = format!("--kill {first} --kill {pe}@{at}:{step}");
                    let outcome = run(mode, &words, "1");
                    outcome.right_sum(SMALL);
                    outcome.says(&format!("all PEs resume from checkpoint {number} "));
                }
            }
        }
    }
}

/// A third loss, and each in another step.
#[test]
fn a_third_loss_in_the_recovery_from_the_second() {
    for words in [
        "--kill 1@3 --kill 2@3:rebuild --kill 3@3:restore",
        "--kill 1@3 --kill 1@3:verify --kill 1@3:reencode",
        "--kill 1@3:copy --kill 0@3:decided --kill 1@3:rebuild",
        "--kill 2@3 --kill 0@3:restore --kill 0@3:resume",
    ] {
        for mode in ["raid5", "rs"] {
            let outcome = run(mode, words, "1");
            outcome.right_sum(SMALL);
            outcome.check(outcome.count("was killed by SIGKILL") == 3, "three were expected");
        }
    }
}
