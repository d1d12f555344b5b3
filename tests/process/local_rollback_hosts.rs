//! Local rollback of PEs on nodes that do not map each other, over UCX: the programs of the other
//! tests. A process that dies rolls back locally; the loss of a node takes all back.

use super::local_rollback::{
    ALL, LOCAL, PES, Subject, all_went, for_a_reason, rolled_back_locally,
};
use super::local_rollback_pairs::{case, parts, run_over};
use super::support::{Job, jacobi, sample_long};

/// On a node each, and two of three PEs on one node.
static PLAIN: [Subject; 2] =
    [Subject::apart("local_rollback", "3"), Subject::apart("local_rollback", "2")];
static WORDS: [Subject; 2] =
    [Subject::apart("local_rollback_words", "3"), Subject::apart("local_rollback_words", "2")];
static TEAMS: [Subject; 2] =
    [Subject::apart("local_rollback_teams", "3"), Subject::apart("local_rollback_teams", "2")];

static APART: Subject = Subject::apart("local_rollback_apart", "3");

#[test]
fn without_a_loss_logs_change_nothing_between_hosts() {
    needs!(has_ucx);
    for subject in PLAIN.iter().chain(&WORDS).chain(&TEAMS) {
        subject.is_right_without_a_loss();
    }
}

#[test]
fn a_pe_dies_before_each_of_its_calls_between_hosts() {
    needs!(has_ucx);
    PLAIN[0].dies_before_calls(1, 1, 8);
    PLAIN[1].dies_before_calls(0, 1, 4);
    PLAIN[1].dies_before_calls(2, 1, 4);
    TEAMS[0].dies_before_calls(1, 1, 6);
    TEAMS[1].dies_before_calls(2, 1, 6);
}

#[test]
fn the_home_of_words_dies_before_each_of_its_calls_between_hosts() {
    needs!(has_ucx);
    WORDS[0].dies_before_calls(1, 5, 8);
    WORDS[1].dies_before_calls(2, 5, 4);
    WORDS[1].dies_before_calls(0, 5, 4);
}

#[test]
fn a_substitute_is_lost_in_its_replay_between_hosts() {
    needs!(has_ucx);
    PLAIN[0].dies_again(5);
    WORDS[1].dies_again(11);
    TEAMS[0].dies_again(2);
}

/// At any moment: all roll back if it is in the midst of an operation or a checkpoint.
#[test]
fn a_pe_dies_anywhere_in_a_call_between_hosts() {
    needs!(has_ucx);
    let mut alone = 0;
    let all = (1..=60).flat_map(|step| [&WORDS[0], &WORDS[1], &TEAMS[1]].map(|on| (step, on)));
    for (step, subject) in sample_long(all.collect(), 9, 30) {
        let outcome = subject.run(&["1", &format!("-{}", 300 + 350 * step)]);
        if outcome.count("PE 1 was killed by SIGKILL after shmem_finalize") == 0 {
            subject.right(&outcome);
        }
        for_a_reason(&outcome);
        alone += outcome.count(LOCAL);
    }
    assert!(alone > 0, "all PEs rolled back each time");
}

#[test]
fn two_pes_die_before_any_of_their_calls_between_hosts() {
    needs!(has_ucx);
    for cases in sample_long(parts(9), 1, 4) {
        let outcome = run_over("ucx", "each", [1, 2], cases, PES);
        rolled_back_locally(&outcome, 2 * (cases[1] - cases[0]).div_ceil(cases[2]));
    }
    for how in ["both", "replay", "chain"] {
        let outcome = run_over("ucx", how, [1, 2], parts(9)[0], PES);
        for_a_reason(&outcome);
        outcome.check(outcome.count(LOCAL) > outcome.count(ALL), "most should be local");
    }
}

#[test]
fn the_loss_of_a_host_takes_all_back() {
    needs!(has_ucx);
    let outcome = run_over("ucx", "node", [1, 2], case(6, 1), PES);
    all_went(&outcome, "its node is lost, and its logs with it");
}

/// The log of a PE also counts the bytes that it has received since the checkpoint.
#[test]
fn a_pe_that_has_received_too_much_takes_all_back() {
    needs!(has_ucx);
    let job = APART.job(&["1", "0", "after-overflow-twice-1"]);
    let outcome = job.env("SHMEM_FT_LOG_LIMIT", "1M").leaves("go").run();
    outcome.status(0).says("the log of PE 2 is full: it needs ").says("PE 2: its log needs");
    outcome.check(outcome.count(LOCAL) == 1, "PE 1 should have rolled back locally");
    outcome.check(outcome.count(ALL) == 1, "one line should report that all roll back");
}

/// Some transports carry no messages for logs: all PEs roll back, for that reason.
#[test]
fn other_transports_take_all_back() {
    needs!(has_ofi);
    let job = Job::new(2).mode("raid5").env("SHMEM_FT_ROLLBACK", "local");
    let job = job.args(&["--nodes", "2", "--fabric", "ofi", "--kill", "1@2"]);
    let outcome = jacobi::job(job, jacobi::SMALL).run();
    all_went(&outcome, "others do not map its memory");
}
