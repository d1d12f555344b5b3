//! A lost PE goes back alone where PEs change words atomically, signal, test, wait for several
//! words, hold locks, use contexts, and where the program draws numbers by itself.

use std::sync::OnceLock;

use super::alone::{ALL, ALONE, PES, said, went_alone};
use super::support::{Job, Outcome, program, sample};

fn job(name: &str, what: &[&str]) -> Job {
    let job = Job::new(PES).mode("raid5").env("SHMEM_FT_ROLLBACK", "local").args(&["--verbose"]);
    job.program(&program(name), what)
}

/// The sum of a run in which nobody dies, without logs, and how many calls a PE makes.
fn without_a_loss() -> &'static (String, u32) {
    static SUM: OnceLock<(String, u32)> = OnceLock::new();
    SUM.get_or_init(|| {
        let job = Job::new(PES).mode("raid5").program(&program("alone_words"), &["1", "0"]);
        let outcome = job.run();
        outcome.status(0);
        (said(&outcome, "sum"), said(&outcome, "calls").parse().expect("a number"))
    })
}

#[track_caller]
fn right(outcome: &Outcome) {
    outcome.status(0);
    let sum = said(outcome, "sum");
    outcome.check(sum == without_a_loss().0, "the sum of a run without a loss was expected");
}

#[test]
fn without_a_loss_logs_change_nothing() {
    let outcome = job("alone_words", &["1", "0"]).run();
    right(&outcome);
    outcome.check(outcome.count(ALONE) + outcome.count(ALL) == 0, "nothing was lost");
}

/// One call of a PE in so many, and each PE: the home of the words that all change, and of none. A
/// call is one of several rounds, so that those between are met in other rounds.
fn before_calls(victim: usize, each: usize, most: usize) {
    let calls: Vec<u32> = (1..=without_a_loss().1).step_by(each).collect();
    for call in sample(calls, most) {
        let outcome = job("alone_words", &[&victim.to_string(), &call.to_string()]).run();
        right(&outcome);
        went_alone(&outcome, 1);
    }
}

#[test]
fn the_home_of_words_dies_before_each_of_its_calls() {
    before_calls(1, 5, 14);
}

#[test]
fn another_pe_dies_before_its_calls() {
    before_calls(0, 17, 6);
    before_calls(2, 17, 6);
}

#[test]
fn a_substitute_that_dies_in_its_replay_goes_back_alone() {
    let half = without_a_loss().1 / 2;
    for call in [half, half + 11] {
        let outcome = job("alone_words", &["1", &call.to_string(), "again"]).leaves("mark").run();
        right(&outcome);
        outcome.check(outcome.count("was killed by SIGKILL") == 2, "two losses were expected");
        went_alone(&outcome, 1);
    }
}

/// At any moment: where that is in the midst of an operation all go back. No ticket is lost, or
/// drawn twice.
#[test]
fn whatever_a_pe_does_when_it_is_killed_words_are_right() {
    let (mut alone, mut all) = (0, 0);
    for at in sample((0..40).map(|nth| 200 + 450 * nth).collect(), 8) {
        let outcome = job("alone_words", &["1", &format!("-{at}"), "tickets"]).run();
        outcome.status(0);
        alone += outcome.count(ALONE);
        all += outcome.count(ALL);
        let doubt = outcome.count("in the midst of an atomic operation");
        let checkpoint = outcome.count("a checkpoint was being made");
        outcome.check(outcome.count(ALL) == doubt + checkpoint, "another reason");
    }
    assert!(alone > 0, "{alone} went back alone, and {all} with all");
}

#[test]
fn what_a_program_draws_by_itself_is_kept_for_the_lost_pe() {
    let calls = {
        let outcome = job("alone_event", &["1", "0"]).run();
        outcome.status(0);
        said(&outcome, "calls").parse::<u32>().expect("a number")
    };
    for call in sample((1..=calls).collect(), 4) {
        let outcome = job("alone_event", &["1", &call.to_string()]).run();
        outcome.status(0);
        went_alone(&outcome, 1);
    }
    // Rounds without the call have one less; this is in the midst of an interval.
    let outcome = job("alone_event", &["1", "18", "unkept"]).run();
    outcome.status(0).says("its replay makes another call than before");
    outcome.check(outcome.count(ALL) == 1, "all should go back");
}
