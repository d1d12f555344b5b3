//! Local rollback of a lost PE: no other PE sees a fault, and the bytes are those of a run without
//! a loss. If it is impossible, all roll back, and one line gives the reason.

use std::sync::OnceLock;

use super::support::jacobi::{self, SMALL, TINY};
use super::support::{Job, Outcome, program, sample_long};

pub const PES: usize = 3;
/// The message for a PE that rolled back locally.
pub const LOCAL: &str = "rolled back locally to checkpoint";
/// The message when all PEs roll back.
pub const ALL: &str = "all PEs roll back: ";
const RESUMED: &str = "all PEs resume from checkpoint";

/// Returns the rest of the program's line that begins with a word.
pub fn said(outcome: &Outcome, word: &str) -> String {
    let line = outcome.out.lines().find_map(|line| line.strip_prefix(word));
    outcome.check(line.is_some(), &format!("a line `{word}..` was expected"));
    line.unwrap_or_default().trim().to_owned()
}

/// A program of `tests/c/local_rollback.h`.
pub struct Subject {
    name: &'static str,
    /// The number of nodes whose PEs do not map each other, and the fabric between them; None: all
    /// map each other.
    apart: Option<(&'static str, &'static str)>,
    /// The number of PEs; four are on two nodes, and none maps another.
    pes: usize,
    /// The sum of a run without deaths and logs, and the number of calls of a PE.
    without_a_loss: OnceLock<(String, u32)>,
}

static PLAIN: Subject = Subject::new("local_rollback");

impl Subject {
    /// Returns the program of that name.
    pub const fn new(name: &'static str) -> Subject {
        Subject::of(name, None, PES)
    }

    /// Returns the program of that name, on nodes that only a fabric connects.
    pub const fn apart(name: &'static str, nodes: &'static str, fabric: &'static str) -> Subject {
        Subject::of(name, Some((nodes, fabric)), PES)
    }

    /// Returns the program of that name, with four PEs on two nodes, of which none maps another.
    pub const fn unmapped(name: &'static str, fabric: &'static str) -> Subject {
        Subject::of(name, Some(("2", fabric)), 4)
    }

    const fn of(
        name: &'static str,
        apart: Option<(&'static str, &'static str)>,
        pes: usize,
    ) -> Subject {
        Subject { name, apart, pes, without_a_loss: OnceLock::new() }
    }

    fn with_logs(&self) -> Job {
        let job = Job::new(self.pes).mode("raid5").env("SHMEM_FT_ROLLBACK", "local");
        match self.pes {
            PES => job.args(&["--verbose"]),
            _ => job.env("SHMEM_FT_MAP", "0").args(&["--verbose", "--group", "2"]),
        }
    }

    /// Returns a job with logs on several nodes.
    pub fn on_nodes(&self, nodes: &str, what: &[&str]) -> Job {
        self.with_logs().args(&["--nodes", nodes]).program(&program(self.name), what)
    }

    /// Returns a job with logs.
    pub fn job(&self, what: &[&str]) -> Job {
        let job = match self.apart {
            Some((nodes, fabric)) => self.with_logs().args(&["--nodes", nodes, "--fabric", fabric]),
            None => self.with_logs(),
        };
        job.program(&program(self.name), what)
    }

    /// Like [`Subject::job`], with `membarrier` refused to the processes that `who` names.
    pub fn without_barrier(&self, who: &str, what: &[&str]) -> Job {
        let path = program(self.name);
        let words = ["membarrier", who, path.to_str().expect("a plain name")];
        self.with_logs().program(&program("denied"), &words).args(what)
    }

    pub fn run(&self, what: &[&str]) -> Outcome {
        self.job(what).run()
    }

    fn without_a_loss(&self) -> &(String, u32) {
        self.without_a_loss.get_or_init(|| {
            let job = Job::new(self.pes).mode("raid5").program(&program(self.name), &["1", "0"]);
            let outcome = job.run();
            outcome.status(0);
            (said(&outcome, "sum"), said(&outcome, "calls").parse().expect("a number"))
        })
    }

    /// Returns the number of calls of a PE.
    pub fn calls(&self) -> u32 {
        self.without_a_loss().1
    }

    #[track_caller]
    pub fn right(&self, outcome: &Outcome) {
        outcome.status(0);
        let sum = said(outcome, "sum");
        outcome
            .check(sum == self.without_a_loss().0, "the sum of a run without a loss was expected");
    }

    pub fn is_right_without_a_loss(&self) {
        let outcome = self.run(&["1", "0"]);
        self.right(&outcome);
        outcome.check(outcome.count(LOCAL) + outcome.count(ALL) == 0, "nothing was lost");
        let logs = outcome.count("records of its log between two checkpoints");
        outcome.check(logs == self.pes, "each PE should report the length of its log");
    }

    /// Kills a PE before every `each`-th of its calls, at most `most` of them: it has completed all
    /// earlier calls by then.
    pub fn dies_before_calls(&self, victim: usize, each: usize, most: usize) {
        let calls: Vec<u32> = (1..=self.calls()).step_by(each).collect();
        for call in sample_long(calls, most, 2 * most) {
            let outcome = self.run(&[&victim.to_string(), &call.to_string()]);
            self.right(&outcome);
            rolled_back_locally(&outcome, 1);
        }
    }

    /// Like [`Subject::dies_before_calls`], with the node of the PE: no PE of another node rolls
    /// back, except in a checkpoint.
    pub fn is_lost_before_calls(&self, victim: usize, each: usize, most: usize) {
        // All may roll back right after a checkpoint, and the last call is behind the last one.
        let calls: Vec<u32> = (1..self.calls()).step_by(each).collect();
        let (mut alone, lost) = (0, if self.pes == PES { 1 } else { 2 });
        for call in sample_long(calls, most, 2 * most) {
            let outcome = self.run(&[&victim.to_string(), &call.to_string(), "node"]);
            self.right(&outcome);
            outcome.says("was lost with PE");
            for_a_reason(&outcome);
            alone += outcome.count(LOCAL);
            outcome.check(outcome.count(LOCAL) == lost || outcome.count(ALL) == 1, "of the node");
        }
        assert!(2 * alone > lost * most, "{alone} of at least {most} rolled back locally");
    }

    /// Kills a substitute in its replay, halfway and `more` calls later.
    pub fn dies_again(&self, more: u32) {
        let half = self.calls() / 2;
        for call in [half, half + more] {
            let outcome = self.job(&["1", &call.to_string(), "again"]).leaves("mark").run();
            self.right(&outcome);
            outcome.check(outcome.count("was killed by SIGKILL") == 2, "two losses were expected");
            rolled_back_locally(&outcome, 1);
        }
    }
}

#[track_caller]
pub fn rolled_back_locally(outcome: &Outcome, losses: usize) {
    outcome.check(outcome.count(LOCAL) == losses, "it should have rolled back locally");
    outcome.check(outcome.count(ALL) + outcome.count(RESUMED) == 0, "no other PE should have");
}

/// All roll back only in the midst of an operation that may not repeat, or of a checkpoint.
#[track_caller]
pub fn for_a_reason(outcome: &Outcome) {
    let doubt = outcome.count("in the midst of an atomic operation");
    let checkpoint = outcome.count("a checkpoint was being made")
        + outcome.count("its log does not begin at the last checkpoint");
    outcome.check(outcome.count(ALL) == doubt + checkpoint, "another reason");
}

#[track_caller]
pub fn all_went(outcome: &Outcome, why: &str) {
    outcome.check(outcome.count(ALL) == 1, "one line should report that all roll back");
    outcome.says(why);
    outcome.check(outcome.count(RESUMED) == 1, "all should have rolled back");
    outcome.check(outcome.count(LOCAL) == 0, "no PE should have rolled back locally");
}

#[test]
fn without_a_loss_logs_change_nothing() {
    PLAIN.is_right_without_a_loss();
}

#[test]
fn a_pe_dies_before_each_of_its_calls() {
    PLAIN.dies_before_calls(1, 1, 12);
}

#[test]
fn pe_0_dies_before_its_calls() {
    PLAIN.dies_before_calls(0, 1, 4);
}

#[test]
fn the_jacobi_iteration_continues_while_a_pe_rolls_back() {
    for at in ["1@3", "2@5:before", "0@4"] {
        let job = Job::new(4).mode("raid5").env("SHMEM_FT_ROLLBACK", "local").kill(&[at]);
        let outcome = jacobi::job(job.args(&["--verbose"]), SMALL).run();
        outcome.right_sum(SMALL);
    }
}

#[test]
fn a_substitute_that_dies_in_its_replay_is_replaced_locally() {
    PLAIN.dies_again(7);
}

/// Checkpoint calls that save nothing are in the log, too.
#[test]
fn a_pe_rolls_back_past_calls_that_were_too_early_to_save() {
    let per_round = PLAIN.calls() / 9;
    for call in [per_round * 4 + 3, per_round * 7 + 11] {
        let job = PLAIN.job(&["1", &call.to_string()]).env("SHMEM_FT_INTERVAL", "3600");
        let outcome = job.run();
        PLAIN.right(&outcome);
        rolled_back_locally(&outcome, 1);
    }
}

#[test]
fn other_pes_may_need_a_pe_before_the_barrier_that_it_died_in() {
    let outcome = PLAIN.run(&["1", "0", "needed"]);
    PLAIN.right(&outcome);
    rolled_back_locally(&outcome, 1);
}

#[test]
fn after_a_call_that_is_not_logged_all_roll_back() {
    // Round 5 is in the second interval; its last call is the unlogged one.
    let per_round = PLAIN.calls() / 9;
    let late = (per_round * 6 + 1).to_string();
    let outcome = PLAIN.run(&["1", &late, "unlogged"]);
    outcome.status(0);
    all_went(&outcome, "shmemx_ft_failed, which is not logged");
    // In the interval after it the PE rolls back locally again.
    let later = (per_round * 7 + 8).to_string();
    let outcome = PLAIN.run(&["1", &later, "unlogged"]);
    outcome.status(0);
    rolled_back_locally(&outcome, 1);
}

#[test]
fn when_the_log_is_full_all_roll_back_and_its_bytes_are_reported() {
    let per_round = PLAIN.calls() / 9;
    let late = (per_round * 6 + 3).to_string();
    let outcome = PLAIN.job(&["1", &late, "large"]).env("SHMEM_FT_LOG_LIMIT", "1M").run();
    outcome.status(0);
    all_went(&outcome, "its log needs");
    let outcome = PLAIN.job(&["1", "0", "large"]).env("SHMEM_FT_LOG_LIMIT", "1M").run();
    outcome.status(0).says("more than SHMEM_FT_LOG_LIMIT=1048576");
    outcome
        .check(outcome.count("the log of PE 0 is full: it needs ") == 1, "once, when it is full");
    let outcome = PLAIN.job(&["1", &late, "large"]).env("SHMEM_FT_LOG_LIMIT", "8M").run();
    outcome.status(0);
    rolled_back_locally(&outcome, 1);
}

#[test]
fn a_replay_that_differs_rolls_all_back() {
    let per_round = PLAIN.calls() / 9;
    let call = (per_round * 5 + 8).to_string();
    let outcome = PLAIN.run(&["1", &call, "varied"]);
    outcome.check(outcome.count(ALL) == 1, "all should roll back");
    outcome.says("its replay makes another call than before");
}

#[test]
fn impossible_settings_are_refused_with_one_line() {
    let refused = |env: &[(&str, &str)], line: &str| {
        let job = Job::new(2).env("SHMEM_FT_ROLLBACK", "local");
        let job = env.iter().fold(job, |job, (name, value)| job.env(name, value));
        let outcome = jacobi::job(job, TINY).run();
        outcome.status(2).says(line);
        outcome.check(outcome.err.trim().lines().count() == 1, "one line was expected");
    };
    for mode in ["none", "single", "double"] {
        let line = format!("local with SHMEM_FT_BACKUP_MODE={mode}: expected the mode raid4");
        refused(&[("SHMEM_FT_BACKUP_MODE", mode)], &line);
    }
    let shrink = [("SHMEM_FT_BACKUP_MODE", "raid5"), ("SHMEM_FT_SUBSTITUTE", "shrink")];
    refused(&shrink, "SHMEM_FT_ROLLBACK=local with SHMEM_FT_SUBSTITUTE=shrink");
    let small = [("SHMEM_FT_BACKUP_MODE", "raid5"), ("SHMEM_FT_LOG_LIMIT", "1000K")];
    refused(&small, "SHMEM_FT_LOG_LIMIT=1000K: expected");
}
