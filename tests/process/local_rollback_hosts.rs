//! Local rollback of PEs on nodes that do not map each other, over each network between them: the
//! programs of the other tests. A process that dies rolls back locally, and a PE that is lost with
//! its node, if it is alone there.

use super::local_rollback::{
    ALL, LOCAL, PES, Subject, all_went, for_a_reason, rolled_back_locally,
};
use super::local_rollback_pairs::{CALLS, case, parts, run_over};
use super::support::{Job, networks, program, sample_long};

/// The programs over one network: each with a node for each PE, and with two of three PEs on one.
struct Hosts {
    fabric: &'static str,
    plain: [Subject; 2],
    words: [Subject; 2],
    teams: [Subject; 2],
    apart: Subject,
    /// Two PEs on each node, which do not map each other.
    unmapped: [Subject; 3],
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
            unmapped: [
                Subject::unmapped("local_rollback", fabric),
                Subject::unmapped("local_rollback_words", fabric),
                Subject::unmapped("local_rollback_teams", fabric),
            ],
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
        for (step, subject) in sample_long(all.collect(), 9 / share, 16 / share) {
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
        for cases in sample_long(parts(9), 1, 2 / share) {
            let outcome = run_over(fabric, "each", [1, 2], cases, PES);
            rolled_back_locally(&outcome, 2 * (cases[1] - cases[0]).div_ceil(cases[2]));
        }
        for how in ["both", "replay", "chain"].into_iter().take(3 / share) {
            let outcome = run_over(fabric, how, [1, 2], parts(9)[0], PES);
            for_a_reason(&outcome);
            outcome.check(outcome.count(LOCAL) > outcome.count(ALL), "most should be local");
        }
    }
}

/// After the first call, a barrier, all have left the checkpoint.
#[test]
fn a_pe_is_lost_with_its_host_before_each_of_its_calls() {
    for Hosts { fabric, share, .. } in hosts() {
        let all = (0..PES).flat_map(|pe| (2..=CALLS).map(move |call| (pe, call)));
        for (pe, call) in sample_long(all.collect(), 8 / share, 16 / share) {
            let outcome = run_over(fabric, "node", [pe, (pe + 1) % PES], case(call, 1), PES);
            rolled_back_locally(&outcome, 1);
            outcome.says(&format!("was lost with PE {pe}")).says("rebuilt from PEs");
        }
    }
}

#[test]
fn words_and_teams_on_a_host_that_is_lost() {
    for Hosts { plain, words, teams, share, .. } in hosts() {
        plain[0].is_lost_before_calls(1, 7, 2 / share);
        words[0].is_lost_before_calls(1, 11, 2 / share);
        words[0].is_lost_before_calls(0, 11, 2 / share);
        teams[0].is_lost_before_calls(2, 5, 2 / share);
    }
}

/// In the midst of an operation, too: another PE knows of it only if the replica does.
#[test]
fn a_host_is_lost_anywhere_in_a_call() {
    for Hosts { words, teams, share, .. } in hosts() {
        let all = (1..=60).flat_map(|step| [&words[0], &teams[0]].map(|on| (step, on)));
        lost_anywhere(all.collect(), (6 / share, 20 / share));
    }
}

/// Loses the node of PE 1 at one moment after another: `few` of these cases, or `many` if all tests
/// were requested.
fn lost_anywhere(all: Vec<(u32, &Subject)>, (few, many): (usize, usize)) {
    let mut alone = 0;
    for (step, subject) in sample_long(all, few, many) {
        let outcome = subject.run(&["1", &format!("-{}", 300 + 350 * step), "node"]);
        subject.right(&outcome);
        // The checkpoint may not have a replica yet.
        let without = outcome.count("its node is lost, and its logs with it");
        let checkpoint = outcome.count("a checkpoint was being made")
            + outcome.count("its log does not begin at the last checkpoint");
        outcome.check(outcome.count(ALL) == without + checkpoint, "another reason");
        alone += outcome.count(LOCAL);
    }
    assert!(alone > 0, "all PEs rolled back each time");
}

/// The substitute of the process keeps the replica of its log complete.
#[test]
fn a_pe_whose_process_has_died_is_lost_with_its_host() {
    for Hosts { fabric, .. } in hosts() {
        let outcome = run_over(fabric, "twice", [1, 2], case(4, 9), PES);
        let away = outcome.count("its node is lost while another PE rolls back");
        outcome.says("was lost with PE 1");
        outcome.check(outcome.count(ALL) == away, "another reason");
    }
}

#[test]
fn a_process_dies_while_a_pe_comes_back_on_another_host() {
    for Hosts { fabric, share, .. } in hosts() {
        let all = [(6, 2), (9, 9), (12, 5), (4, 3)];
        for &(i, j) in all.iter().take(4 / share) {
            let outcome = run_over(fabric, "then", [1, 2], case(i, j), PES);
            for_a_reason(&outcome);
        }
    }
}

/// Each of them has to send its records to the other again.
#[test]
fn the_pes_of_a_host_come_back_together_if_they_do_not_map_each_other() {
    for Hosts { unmapped, share, .. } in hosts() {
        let [plain, words, teams] = unmapped;
        plain.is_right_without_a_loss();
        plain.is_lost_before_calls(2, 11, 2 / share);
        words.is_lost_before_calls(1, 5, 4 / share);
        teams.is_lost_before_calls(1, 3, 4 / share);
        words.dies_before_calls(1, 13, 2 / share);
    }
}

#[test]
fn a_host_with_several_pes_is_lost_anywhere_in_a_call() {
    for Hosts { unmapped, share, .. } in hosts() {
        let all = (1..=60).flat_map(|step| [&unmapped[1], &unmapped[2]].map(|on| (step, on)));
        lost_anywhere(all.collect(), (4 / share, 12 / share));
    }
}

/// Two PEs that map each other are lost at once.
#[test]
fn a_host_with_two_pes_takes_all_back() {
    for Hosts { fabric, .. } in hosts() {
        let job = Job::new(4).mode("raid5").env("SHMEM_FT_ROLLBACK", "local");
        let job = job.args(&["--verbose", "--nodes", "2", "--fabric", fabric]);
        let job = job.args(&["--group", "2"]);
        let outcome = job.program(&program("local_rollback_teams"), &["1", "20", "node"]).run();
        outcome.status(0);
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
