//! Planned losses: the PEs of a node move to other places after a checkpoint, and nothing is
//! computed twice, unless an unplanned loss comes in between.

use std::process::{Command, Output};

use rustix::process::Signal;

use super::support::jacobi;
use super::support::processes::signal;
use super::support::stall::{let_end, let_on};
use super::support::{Job, Outcome, Running, program, sample, sample_long};

/// The line once the PEs of a node have moved.
pub(super) const MOVED: &str = "; nothing was computed again";
/// The steps of a move at which a loss may come.
pub(super) const MOVE: [&str; 8] =
    ["after", "drain", "settle", "decided", "verify", "rebuild", "restore", "resume"];
/// The steps of the program with one pause.
pub(super) const STEPS: usize = 6;
/// The checkpoint after which a node is drained that was asked for in the first pause.
pub(super) const AT: u32 = 4;

pub(super) fn ask(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oshrun")).args(words).output().expect("oshrun runs")
}

fn drain(run: &Running, node: u32) -> Output {
    ask(&["--drain", &node.to_string(), &run.launcher().to_string()])
}

/// Asks for a drain, which the job accepts.
#[track_caller]
fn accepted(run: &Running, node: u32) {
    accepted_for(run, node, "after the next checkpoint");
}

#[track_caller]
fn accepted_for(run: &Running, node: u32, when: &str) {
    let asked = drain(run, node);
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(asked.status.success(), "{asked:?}");
    assert_eq!(text, format!("node {node} is drained {when}\n"));
}

/// Asks for a drain, which the job refuses with one line that contains `why`.
#[track_caller]
fn refused(run: &Running, node: u32, why: &str) {
    refused_by(run, ["--drain", &node.to_string()], why);
}

/// Makes a request to a job, which refuses it with one line that contains `why`.
#[track_caller]
pub(super) fn refused_by(run: &Running, request: [&str; 2], why: &str) {
    let [option, value] = request;
    let asked = ask(&[option, value, &run.launcher().to_string()]);
    let err = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert_eq!(asked.status.code(), Some(2), "{err}");
    let begin = format!("oshrun: {option} {}: ", run.launcher());
    assert!(err.starts_with(&begin) && err.contains(why) && err.lines().count() == 1, "{err}");
}

/// Checks that a command line is refused with a line that begins so.
#[track_caller]
pub(super) fn misused(words: &[&str], line: &str) {
    let asked = ask(words);
    let err = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(asked.status.code() == Some(2) && err.starts_with(line), "{words:?}: {err}");
}

pub(super) fn job(words: &[&str]) -> Job {
    Job::new(4).mode("raid5").args(&["--nodes", "4"]).args(words)
}

pub(super) fn with_program(job: Job, pauses: &str) -> Job {
    job.program(&program("drain"), &[pauses]).leaves("go")
}

fn paused(words: &[&str]) -> Running {
    with_program(job(words), "1").until("ready")
}

/// Returns the line with the sum of a job without losses.
pub(super) fn sum_of_a_whole_job(pauses: &str) -> String {
    let mut run = with_program(job(&[]), pauses).until("ready");
    for _ in 1..pauses.parse().expect("a number") {
        let_on(&run);
        run.wait_for_nth("ready", 2);
    }
    sum(&let_end(run))
}

#[track_caller]
pub(super) fn sum(outcome: &Outcome) -> String {
    outcome.status(0);
    let line = outcome.out.lines().find(|line| line.starts_with("sum "));
    outcome.check(line.is_some(), "a sum was expected");
    line.unwrap_or_default().to_owned()
}

/// Checks that each PE has computed each step as often as `may` allows.
#[track_caller]
fn computes(outcome: &Outcome, steps: usize, may: impl Fn(usize) -> bool) {
    for pe in 0..4 {
        for step in 1..=steps {
            let line = format!("PE {pe} computes step {step}\n");
            let times = outcome.out.matches(&line).count();
            outcome.check(may(times), &format!("`{}` {times} times", line.trim()));
        }
    }
}

/// Checks that each PE has computed each step once.
#[track_caller]
pub(super) fn repeats_nothing(outcome: &Outcome, steps: usize) {
    computes(outcome, steps, |times| times == 1);
}

#[track_caller]
fn drained(outcome: &Outcome, node: u32, to: Option<u32>) {
    let line = format!("node {node} is drained: PE {node} moved to node ");
    let found = outcome.lines("oshrun: ").find(|found| found.contains(&line));
    let right = found.is_some_and(|found| match to {
        Some(to) => found.ends_with(&format!("{line}{to}{MOVED}")),
        None => found.ends_with(MOVED),
    });
    outcome.check(right, &format!("`{line}..` was expected"));
}

/// With a spare, which takes the PE over, and without one.
#[test]
fn each_node_can_be_drained_and_nothing_is_computed_again() {
    let right = sum_of_a_whole_job("1");
    for node in 0..4 {
        for spares in ["1", "0"] {
            let run = paused(&["--spares", spares]);
            accepted(&run, node);
            let outcome = let_end(run);
            assert_eq!(sum(&outcome), right, "{outcome}");
            repeats_nothing(&outcome, STEPS);
            drained(&outcome, node, (spares == "1").then_some(4));
            outcome
                .says(&format!("node {node} leaves the job after checkpoint {AT}, and PE {node}"));
            outcome.says("oshrun: drained 1 node: 0.0 ms of repeated work");
        }
    }
}

/// The other PEs tell its PE of the drain, which waits in the checkpoint as they do.
#[test]
fn a_node_that_learns_of_a_drain_too_late_waits_too() {
    let right = sum_of_a_whole_job("1");
    for spares in ["1", "0"] {
        let mut run = paused(&["--spares", spares]);
        let late = run.agents()[2].pid;
        signal(late, Signal::STOP);
        accepted(&run, 1);
        let_on(&run);
        run.wait_for(&format!("node 1 leaves the job after checkpoint {AT}"));
        signal(late, Signal::CONT);
        let outcome = run.finish();
        assert_eq!(sum(&outcome), right, "{outcome}");
        repeats_nothing(&outcome, STEPS);
    }
}

/// A checkpoint comes whenever one is due, here in the middle of a computation.
#[test]
fn a_program_that_knows_of_no_drain_has_the_right_sum() {
    const LONG: &[&str] = &["--bytes", "1M", "--sweeps", "2048", "--halo", "32"];
    for node in sample(vec![0, 1, 2, 3], 1) {
        let run = jacobi::job(job(&["--verbose", "--spares", "1"]), LONG).until("checkpoint 3: ");
        accepted(&run, node);
        let outcome = run.finish();
        outcome.right_sum(LONG);
        drained(&outcome, node, Some(4));
    }
}

/// The second node is the one that the first moved to, so that a spare is left for it.
#[test]
fn nodes_are_drained_one_after_another() {
    let right = sum_of_a_whole_job("2");
    for spares in ["2", "0"] {
        let mut run = with_program(job(&["--spares", spares]), "2").until("ready");
        accepted(&run, 1);
        let shown = ask(&["--status", &run.launcher().to_string()]).stdout;
        let shown = String::from_utf8_lossy(&shown).into_owned();
        assert!(shown.matches(", being drained\n").count() == 1, "{shown}");
        refused(&run, 2, "node 1 is being drained: wait until its PEs have moved");
        let_on(&run);
        run.wait_for(MOVED);
        run.wait_for_nth("ready", 2);
        accepted(&run, 3);
        let outcome = let_end(run);
        assert_eq!(sum(&outcome), right, "{outcome}");
        repeats_nothing(&outcome, 10);
        outcome.check(outcome.count(MOVED) == 2, "two drains were expected");
    }
}

/// The event of a node that leaves on request differs from that of a node that is lost.
#[test]
fn events_tell_a_drain_from_a_loss() {
    let run = paused(&["-q", "--events", "-"]);
    accepted(&run, 1);
    let outcome = let_end(run);
    let lost = |line: &&str| line.contains(r#""event":"lost""#);
    let lost: Vec<&str> = outcome.out.lines().filter(lost).collect();
    let [line] = lost[..] else { return outcome.check(false, "one event was expected") };
    for words in [r#""cause":"left node 1, which is drained""#, r#""drained":true"#] {
        outcome.check(line.contains(words), &format!("`{words}` was expected in {line}"));
    }
}

#[test]
fn a_node_without_pes_leaves_at_once() {
    let mut run = paused(&["--spares", "1"]);
    accepted_for(&run, 4, "now, since it carries no PE");
    run.wait_for("node 4 is drained; it carried no PE");
    refused(&run, 4, "node 4 is not in the job: expected one of 0,1,2,3");
    repeats_nothing(&let_end(run), STEPS);
}

/// The survivors see no loss at all.
#[test]
fn with_local_rollback_only_the_pes_that_move_restart() {
    let right = sum_of_a_whole_job("1");
    for node in sample(vec![0, 1, 2, 3], 2) {
        let job = job(&["--spares", "1"]).env("SHMEM_FT_ROLLBACK", "local");
        let run = with_program(job, "1").until("ready");
        accepted(&run, node);
        let outcome = let_end(run);
        assert_eq!(sum(&outcome), right, "{outcome}");
        repeats_nothing(&outcome, STEPS);
        drained(&outcome, node, Some(4));
        let local = format!("PE {node} rolled back locally to checkpoint {AT}");
        let others = outcome.count("all PEs roll back") + outcome.count("all PEs resume from");
        outcome.says(&local).check(others == 0, "no other PE should roll back");
    }
}

/// A call that comes too early for a checkpoint makes one all the same.
#[test]
fn a_drain_waits_for_no_interval() {
    let job = job(&[]).env("SHMEM_FT_INTERVAL", "1000");
    let run = job.program(&program("steps"), &[]).leaves("stop").until("ready");
    accepted(&run, 2);
    let mut run = run;
    run.wait_for(MOVED);
    std::fs::write(run.folder().join("stop"), "").expect("a file");
    run.finish().status(0);
}

#[test]
fn a_request_that_cannot_be_met_is_refused_with_one_line() {
    let each = [
        (job(&[]), 7, "node 7 is not in the job: expected one of 0,1,2,3"),
        (Job::new(4).args(&["--nodes", "4"]), 1, "SHMEM_FT_BACKUP_MODE=none keeps no checkpoint"),
        (job(&[]).env("SHMEM_FT_SUBSTITUTE", "spare"), 1, "no place is left for PE 1"),
        (
            Job::new(4).mode("raid5").args(&["--nodes", "2", "--group", "4"]),
            1,
            "the job does not survive the loss of node 1 now; `oshrun --status` prints what it",
        ),
        (
            job(&[]).env("SHMEM_FT_ROLLBACK", "none").env("SHMEM_FT_SUBSTITUTE", "shrink"),
            1,
            "SHMEM_FT_ROLLBACK=none gives no PE another place",
        ),
    ];
    for (job, node, why) in each {
        let run = with_program(job, "1").until("ready");
        refused(&run, node, why);
        repeats_nothing(&let_end(run), STEPS);
    }
    for (words, line) in [
        (&["--drain", "x"][..], "oshrun: --drain `x`: expected the number of a node"),
        (&["--drain", "1", "7", "8"], "oshrun: --drain `8`: expected the number of a node"),
        (&["--drain", "1", "4000000000"], "oshrun: --drain 4000000000: no such job; "),
        (&["--drain"], "oshrun: --drain: expected --drain NODE"),
        (&["--drain", "1", "--stop"], "oshrun: --stop and --drain: expected one of the two"),
    ] {
        misused(words, line);
    }
}

/// Each rule kills a PE, of the node that is drained or of another one, at a step of the move.
#[test]
fn a_pe_that_dies_during_the_move_is_restored_too() {
    let right = sum_of_a_whole_job("1");
    let cells: Vec<(u32, &str)> = (0..4).flat_map(|pe| MOVE.map(|step| (pe, step))).collect();
    for (pe, step) in sample_long(cells, 6, 32) {
        let rule = format!("{pe}@{AT}:{step}");
        let run = with_program(job(&["--spares", "1", "--kill", &rule]), "1").until("ready");
        accepted(&run, 1);
        let outcome = let_end(run);
        assert_eq!(sum(&outcome), right, "{outcome}");
        computes(&outcome, STEPS, |times| times < 2); // a killed process loses lines
    }
}

/// With two parities, since the other node may die while the first one leaves.
#[test]
fn a_node_that_dies_during_the_move_is_an_ordinary_loss() {
    let right = sum_of_a_whole_job("1");
    let cells: Vec<(u32, &str)> = [1, 2].into_iter().flat_map(|n| MOVE.map(|at| (n, at))).collect();
    for (node, step) in sample_long(cells, 5, 16) {
        let rule = format!("{node}@{AT}:{step}");
        let job = Job::new(4).mode("rs").args(&["--nodes", "4", "--parity", "2"]);
        let job = job.args(&["--spares", "1", "--kill-node", &rule]);
        let run = with_program(job, "1").until("ready");
        accepted(&run, 1);
        let outcome = let_end(run);
        assert_eq!(sum(&outcome), right, "{outcome}");
    }
}

/// The agent of the node is killed between the request and the checkpoint: all roll back to the
/// checkpoint before, and the request is over.
#[test]
fn a_node_that_dies_before_the_checkpoint_ends_the_request() {
    let mut run = with_program(job(&["--spares", "1"]).with_orphans(), "1").until("ready");
    accepted(&run, 1);
    let agent = run.agents()[1].pid;
    signal(agent, Signal::KILL);
    run.wait_for("node 1 was lost with PE 1");
    let_on(&run);
    run.wait_for_nth("ready", 2); // all are back in the pause
    refused(&run, 1, "node 1 is not in the job: expected one of 0,2,3,4");
    let outcome = let_end(run);
    sum(&outcome);
    outcome.check(outcome.count(" is drained: ") == 0, "the request was over");
}
