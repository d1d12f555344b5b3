//! Local rollback on hosts with their own network and memory: the programs that run on one machine
//! (`tests/process/local_rollback*.rs`).

use super::net::Net;
use super::support::{Job, Outcome, program};

const LOCAL: &str = "rolled back locally to checkpoint";
const ALL: &str = "all PEs roll back: ";

/// Returns the program's line that begins with a word.
#[track_caller]
fn said(outcome: &Outcome, word: &str) -> String {
    let line = outcome.out.lines().find(|line| line.starts_with(word));
    outcome.check(line.is_some(), &format!("a line `{word}..` was expected"));
    line.unwrap_or_default().to_owned()
}

fn job(net: &Net, pes: &[usize], name: &str, words: &[&str]) -> Job {
    with_kills(net, pes, &[], (name, words))
}

fn with_kills(net: &Net, pes: &[usize], kills: &[&str], (name, words): (&str, &[&str])) -> Job {
    let job = net.job(pes).args(&["--fabric", "ucx", "--mode", "raid5", "--verbose"]).kill(kills);
    job.env("SHMEM_SYMMETRIC_SIZE", "8M").program(&program(name), words)
}

/// Kills processes on four hosts: no other PE computes again, and the sum is that of a run without
/// a loss and without logs.
#[test]
fn processes_of_four_hosts_roll_back_locally() {
    needs!(has_ucx);
    let net = Net::new(4);
    for (name, pes) in [
        ("local_rollback", [1; 4]),
        ("local_rollback_words", [1; 4]),
        ("local_rollback_teams", [1; 4]),
        ("local_rollback", [2; 4]),
        ("local_rollback_words", [2; 4]),
    ] {
        let whole = job(&net, &pes, name, &["1", "0"]).run();
        whole.status(0);
        let calls = said(&whole, "calls").split(' ').nth(1).map(str::parse);
        let calls: usize = calls.and_then(Result::ok).expect("a number of calls");
        for (victim, call) in [("1", calls / 2), ("3", calls / 3 + 1), ("0", calls * 4 / 5)] {
            let job = job(&net, &pes, name, &[victim, &call.to_string()]);
            let outcome = job.env("SHMEM_FT_ROLLBACK", "local").run();
            outcome.status(0);
            let sum = said(&outcome, "sum");
            outcome.check(sum == said(&whole, "sum"), "the sum of a run without a loss");
            outcome.check(outcome.count(LOCAL) == 1, "it should have rolled back locally");
            outcome.check(outcome.count(ALL) == 0, "no other PE should have");
        }
    }
}

/// A host is lost with its PE, and later a process: neither takes another PE back.
#[test]
fn a_host_is_lost_and_later_a_process() {
    needs!(has_ucx);
    let net = Net::new(4);
    let whole = job(&net, &[1; 4], "local_rollback_teams", &["1", "0"]).run();
    let calls = said(&whole, "calls").split(' ').nth(1).map(str::parse);
    let calls: usize = calls.and_then(Result::ok).expect("a number of calls");
    let late = (calls / 9 * 5).to_string();
    let of = ("local_rollback_teams", &["1", &*late, "node"][..]);
    let job = with_kills(&net, &[1; 4], &["3@3"], of);
    let job = job.env("SHMEM_FT_ROLLBACK", "local").with_orphans();
    let outcome = job.run();
    outcome.status(0).says("was lost with PE 1");
    outcome.check(outcome.count(ALL) == 0, "no other PE should have rolled back");
    outcome.check(outcome.count(LOCAL) == 2, "both should have rolled back locally");
    outcome.check(said(&outcome, "sum") == said(&whole, "sum"), "the sum of a run without a loss");
}
