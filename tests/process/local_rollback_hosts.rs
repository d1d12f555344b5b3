//! Local rollback of PEs on nodes that do not map each other, over each network between them: the
//! programs of the other tests. A process that dies rolls back locally; the loss of a node takes
//! all back.

use super::local_rollback::{
    ALL, LOCAL, PES, Subject, all_went, for_a_reason, rolled_back_locally,
};
use super::local_rollback_pairs::{case, parts, run_over};
use super::support::{networks, sample_long};

/// The programs over one network: each with a node for each PE, and with two of three PEs on one.
struct Hosts {
    fabric: &'static str,
    plain: [Subject; 2],
    words: [Subject; 2],
    teams: [Subject; 2],
    apart: Subject,
    /// The divisor of the numbers of cases: the second network repeats only some.
    share: usize,
}

impl Hosts {
    const fn new(fabric: &'static str, share: usize) -> Hosts {
        Hosts {
            fabric,
            plain: both("local_rollback", fabric),
            words: both("local_rollback_words", fabric),
            teams: both("local_rollback_teams", fabric),
            apart: Subject::apart("local_rollback_apart", "3", fabric),
            share,
        }
    }
}

const fn both(name: &'static str, fabric: &'static str) -> [Subject; 2] {
    [Subject::apart(name, "3", fabric), Subject::apart(name, "2", fabric)]
}

static ALL_HOSTS: [Hosts; 2] = [Hosts::new("ucx", 1), Hosts::new("ofi", 2)];

/// Returns the networks that this machine supports.
fn hosts() -> impl Iterator<Item = &'static Hosts> {
    let here = networks();
    ALL_HOSTS.iter().filter(move |hosts| here.contains(&hosts.fabric))
}

#[test]
fn without_a_loss_logs_change_nothing_between_hosts() {
    for Hosts { plain, words, teams, .. } in hosts() {
        for subject in plain.iter().chain(words).chain(teams) {
            subject.is_right_without_a_loss();
        }
    }
}

#[test]
fn a_pe_dies_before_each_of_its_calls_between_hosts() {
    for Hosts { plain, teams, share, .. } in hosts() {
        plain[0].dies_before_calls(1, 1, 8 / share);
        plain[1].dies_before_calls(0, 1, 4 / share);
        plain[1].dies_before_calls(2, 1, 4 / share);
        teams[0].dies_before_calls(1, 1, 6 / share);
        teams[1].dies_before_calls(2, 1, 6 / share);
    }
}

#[test]
fn the_home_of_words_dies_before_each_of_its_calls_between_hosts() {
    for Hosts { words, share, .. } in hosts() {
        words[0].dies_before_calls(1, 5, 8 / share);
        words[1].dies_before_calls(2, 5, 4 / share);
        words[1].dies_before_calls(0, 5, 4 / share);
    }
}

#[test]
fn a_substitute_is_lost_in_its_replay_between_hosts() {
    for Hosts { plain, words, teams, .. } in hosts() {
        plain[0].dies_again(5);
        words[1].dies_again(11);
        teams[0].dies_again(2);
    }
}

/// At any moment: all roll back if it is in the midst of an operation or a checkpoint.
#[test]
fn a_pe_dies_anywhere_in_a_call_between_hosts() {
    for Hosts { words, teams, share, .. } in hosts() {
        let mut alone = 0;
        let all = (1..=60).flat_map(|step| [&words[0], &words[1], &teams[1]].map(|on| (step, on)));
        for (step, subject) in sample_long(all.collect(), 9 / share, 30 / share) {
            let outcome = subject.run(&["1", &format!("-{}", 300 + 350 * step)]);
            if outcome.count("PE 1 was killed by SIGKILL after shmem_finalize") == 0 {
                subject.right(&outcome);
            }
            for_a_reason(&outcome);
            alone += outcome.count(LOCAL);
        }
        assert!(alone > 0, "all PEs rolled back each time");
    }
}

#[test]
fn two_pes_die_before_any_of_their_calls_between_hosts() {
    for Hosts { fabric, share, .. } in hosts() {
        for cases in sample_long(parts(9), 1, 4 / share) {
            let outcome = run_over(fabric, "each", [1, 2], cases, PES);
            rolled_back_locally(&outcome, 2 * (cases[1] - cases[0]).div_ceil(cases[2]));
        }
        for how in ["both", "replay", "chain"] {
            let outcome = run_over(fabric, how, [1, 2], parts(9)[0], PES);
            for_a_reason(&outcome);
            outcome.check(outcome.count(LOCAL) > outcome.count(ALL), "most should be local");
        }
    }
}

#[test]
fn the_loss_of_a_host_takes_all_back() {
    for Hosts { fabric, .. } in hosts() {
        let outcome = run_over(fabric, "node", [1, 2], case(6, 1), PES);
        all_went(&outcome, "its node is lost, and its logs with it");
    }
}

/// Bytes that a PE has received since the checkpoint count for its log.
#[test]
fn a_pe_that_has_received_too_much_takes_all_back() {
    for Hosts { apart, .. } in hosts() {
        let job = apart.job(&["1", "0", "after-overflow-twice-1"]);
        let outcome = job.env("SHMEM_FT_LOG_LIMIT", "1M").leaves("go").run();
        outcome.status(0).says("the log of PE 2 is full: it needs ").says("PE 2: its log needs");
        outcome.check(outcome.count(ALL) == 1, "one line should report that all roll back");
    }
}
