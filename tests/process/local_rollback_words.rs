//! Local rollback of PEs that change words atomically, signal, test, wait for several words, hold
//! locks and use contexts, in a program that draws its own random numbers.

use super::local_rollback::{ALL, LOCAL, Subject, for_a_reason, rolled_back_locally};
use super::support::sample_long;

static WORDS: Subject = Subject::new("local_rollback_words");
static EVENTS: Subject = Subject::new("local_rollback_event");

#[test]
fn without_a_loss_logs_change_nothing() {
    WORDS.is_right_without_a_loss();
}

/// The home of the contended words dies before a sample of its calls. Rounds are alike, so the
/// calls between those are covered in other rounds.
#[test]
fn the_home_of_words_dies_before_each_of_its_calls() {
    WORDS.dies_before_calls(1, 5, 14);
}

#[test]
fn another_pe_dies_before_its_calls() {
    WORDS.dies_before_calls(0, 17, 6);
    WORDS.dies_before_calls(2, 17, 6);
}

#[test]
fn a_substitute_that_dies_in_its_replay_rolls_back_locally() {
    WORDS.dies_again(11);
}

/// A PE delayed in the midst of an operation finds the dead PE's data, not the data that the
/// substitute starts with.
#[test]
fn a_substitute_begins_when_no_pe_changes_its_memory() {
    for _ in 0..8 {
        let job = WORDS.job(&["1", "0", "held"]).env("SHMEM_FT_LOG_LIMIT", "64M");
        let outcome = job.env("SHMEM_SYMMETRIC_SIZE", "128M").run();
        outcome.status(0);
        rolled_back_locally(&outcome, 1);
    }
}

/// If the kernel refuses membarrier to all PEs, or to one, those use full fences. If it refuses it
/// only to a substitute, that cannot know what its peers are about to do.
#[test]
fn without_membarrier_fences_are_full() {
    let half = (WORDS.calls() / 2).to_string();
    for job in [
        WORDS.without_barrier("all", &["1", &half]),
        WORDS.without_barrier("first", &["1", &half]).leaves("first"),
    ] {
        let outcome = job.run();
        WORDS.right(&outcome);
        rolled_back_locally(&outcome, 1);
    }
    let outcome = WORDS.without_barrier("+mark", &["1", &half, "again"]).leaves("mark").run();
    WORDS.right(&outcome);
    outcome.says("it may not call membarrier, as others may");
    outcome.check(outcome.count(ALL) == 1 && outcome.count(LOCAL) == 0, "all should roll back");
}

/// At any moment: all roll back if it is in the midst of an operation or a checkpoint. No ticket is
/// lost, or drawn twice.
#[test]
fn whatever_a_pe_does_when_it_is_killed_words_are_right() {
    let (mut alone, mut all) = (0, 0);
    for at in sample_long((0..40).map(|nth| 200 + 450 * nth).collect(), 8, 16) {
        let outcome = WORDS.run(&["1", &format!("-{at}"), "tickets"]);
        // PE 1 may have ended; or it was in the last checkpoint, and the others had ended.
        let over = outcome.count("PE 1 was killed by SIGKILL after shmem_finalize") == 1;
        let late = outcome.count("had already entered shmem_finalize; checkpoint before it") == 1;
        outcome.status(if over { 137 } else { 3 * i32::from(late) });
        for_a_reason(&outcome);
        outcome.check(!outcome.err.contains("its log does not begin"), "no node was lost");
        alone += outcome.count(LOCAL);
        all += outcome.count(ALL);
    }
    assert!(alone > 0, "{alone} rolled back locally, and {all} with all");
}

#[test]
fn random_draws_are_kept_for_the_lost_pe() {
    for call in sample_long((1..=EVENTS.calls()).collect(), 4, 12) {
        let outcome = EVENTS.run(&["1", &call.to_string()]);
        outcome.status(0);
        rolled_back_locally(&outcome, 1);
    }
    // Rounds without the call have one call less; this is in the midst of an interval.
    let outcome = EVENTS.run(&["1", "18", "unkept"]);
    outcome.status(0).says("its replay makes another call than before");
    outcome.check(outcome.count(ALL) == 1, "all should roll back");
}
