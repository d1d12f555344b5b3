//! Hosts that join a running job: PEs move there after a checkpoint, and nothing is computed twice.

use std::process::Output;

use super::drain::{
    AT, MOVE, MOVED, STEPS, ask, job, misused, refused_by, repeats_nothing, sum,
    sum_of_a_whole_job, with_program,
};
use super::falls::kill_nodes;
use super::support::stall::{let_end, let_on};
use super::support::{Job, Outcome, Running, sample_long};

/// PE 2 has moved to node 1, so node 1 carries two PEs.
const LOST: &str = "2@2";
/// The checkpoint after which the PE moves, where all PEs roll back after the loss.
const FILLED: u32 = AT + 1;
/// The line on the move back to a node of its own.
const BACK: &str = "PE 2 moved to node 4; nothing was computed again";

fn add(run: &Running, host: &str) -> Output {
    ask(&["--add", host, &run.launcher().to_string()])
}

/// Asks that a host joins, which the job accepts.
#[track_caller]
fn accepted(run: &mut Running, node: u32) {
    let asked = add(run, "localhost");
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(asked.status.success(), "{asked:?}");
    assert_eq!(text, format!("localhost is joining as node {node}\n"));
    run.wait_for(&format!("node {node} has joined, "));
}

#[track_caller]
fn refused(run: &Running, host: &str, why: &str) {
    refused_by(run, ["--add", host], why);
}

fn paused(words: &[&str]) -> Running {
    with_program(job(words), "1").until("ready")
}

/// Each step after the loss of node 2 was computed once.
#[track_caller]
fn repeats_nothing_later(outcome: &Outcome) {
    for pe in 0..4 {
        for step in 3..=STEPS {
            let line = format!("PE {pe} computes step {step}\n");
            outcome.check(outcome.out.matches(&line).count() == 1, line.trim());
        }
    }
}

/// Everything is as at the start: four nodes with a PE each, any one of which may be lost.
#[test]
fn a_pe_that_shares_a_node_moves_to_the_host_that_joins() {
    let right = sum_of_a_whole_job("1");
    let mut run = paused(&["--kill-node", LOST]);
    accepted(&mut run, 4);
    run.wait_for("node 4 has joined, and PE 2 moves there after the next checkpoint");
    let outcome = let_end(run);
    assert_eq!(sum(&outcome), right, "{outcome}");
    repeats_nothing_later(&outcome);
    outcome.says("PE 2 moves to node 4 after checkpoint ").says(BACK);
    outcome.says("parity groups change from checkpoint 5 on: 1 group of 4, parity 1");
}

/// The node that has joined is lost, or that of another PE.
#[test]
fn the_job_survives_the_next_loss_after_that() {
    let right = sum_of_a_whole_job("2");
    // Agents are counted without that of node 2, which is lost.
    for (nth, node, pe) in sample_long(vec![(1, 1, 1), (2, 3, 3), (3, 4, 2)], 2, 3) {
        let mut run = with_program(job(&["--kill-node", LOST]), "2").until("ready");
        accepted(&mut run, 4);
        let_on(&run);
        run.wait_for(MOVED);
        run.wait_for_nth("ready", 2);
        kill_nodes(&run, &[nth]);
        run.wait_for(&format!("node {node} was lost with PE {pe}"));
        let_on(&run);
        run.wait_for_nth("ready", 3); // it rolls back to the checkpoint before the pause
        let outcome = let_end(run);
        assert_eq!(sum(&outcome), right, "{outcome}");
        outcome.says(BACK);
    }
}

/// Every node carries one PE, so all stay: the host takes one after a loss.
#[test]
fn a_host_that_joins_a_balanced_job_takes_the_next_lost_pe() {
    let right = sum_of_a_whole_job("2");
    let mut run = with_program(job(&["--kill-node", "1@5"]), "2").until("ready");
    accepted(&mut run, 4);
    run.wait_for("node 4 has joined, and may take PEs after a loss");
    let_on(&run);
    run.wait_for_nth("ready", 2);
    let outcome = let_end(run);
    assert_eq!(sum(&outcome), right, "{outcome}");
    outcome.says("node 1 was lost with PE 1");
    outcome.check(outcome.count(MOVED) == 0, "none has moved");
}

/// With local rollback only PE 2 restarts, from the checkpoint after which it moves.
#[test]
fn with_local_rollback_only_the_pe_that_moves_restarts() {
    let right = sum_of_a_whole_job("1");
    let job = job(&["--kill-node", LOST]).env("SHMEM_FT_ROLLBACK", "local");
    let mut run = with_program(job, "1").until("ready");
    accepted(&mut run, 4);
    let outcome = let_end(run);
    assert_eq!(sum(&outcome), right, "{outcome}");
    outcome.says(&format!("PE 2 rolled back locally to checkpoint {AT}")).says(BACK);
    let others = outcome.count("all PEs roll back") + outcome.count("all PEs resume from");
    outcome.check(others == 0, "no other PE should roll back");
    repeats_nothing_later(&outcome);
}

/// Where only spares replace PEs, the host has spares.
#[test]
fn a_host_that_joins_brings_spares() {
    let job = job(&["--kill-node", "1@5"]).env("SHMEM_FT_SUBSTITUTE", "spare");
    let mut run = with_program(job, "1").until("ready");
    accepted(&mut run, 4);
    run.wait_for("node 4 has joined, spares there: 1");
    let outcome = let_end(run);
    outcome.status(0).says("node 1 was lost with PE 1");
}

#[test]
fn a_request_that_cannot_be_met_is_refused_with_one_line() {
    let run = paused(&[]);
    refused(&run, "elsewhere", "elsewhere: the nodes of this job are on this machine");
    repeats_nothing(&let_end(run), STEPS);
    let shrinks = job(&[]).env("SHMEM_FT_ROLLBACK", "none").env("SHMEM_FT_SUBSTITUTE", "shrink");
    for (job, why) in [
        (Job::new(4).args(&["--nodes", "4"]), "SHMEM_FT_BACKUP_MODE=none keeps no checkpoint"),
        (shrinks, "SHMEM_FT_ROLLBACK=none gives no PE another place"),
    ] {
        let run = with_program(job, "1").until("ready");
        refused(&run, "localhost", why);
        repeats_nothing(&let_end(run), STEPS);
    }
    for (words, line) in [
        (&["--add", "a,b"][..], "oshrun: --add `a,b`: expected a host as --hosts names it"),
        (&["--add", "a", "7", "8"], "oshrun: --add `8`: expected a host"),
        (&["--add", "a", "4000000000"], "oshrun: --add 4000000000: no such job; "),
        (&["--add", "a", "--stop"], "oshrun: --stop and --add: expected one of the two"),
    ] {
        misused(words, line);
    }
}

/// Each rule kills a PE at a step of the move; a node dies there, with two parities.
#[test]
fn a_loss_during_the_move_is_survived() {
    let right = sum_of_a_whole_job("1");
    let all = (0..4).flat_map(|pe| MOVE.map(|step| ("--kill", pe, step)));
    let nodes = [0, 1, 3].into_iter().flat_map(|node| MOVE.map(|step| ("--kill-node", node, step)));
    for (what, number, step) in sample_long(all.chain(nodes).collect(), 6, 24) {
        let rule = format!("{number}@{FILLED}:{step}");
        let words = ["--mode", "rs", "--kill-node", LOST, what, &rule];
        let job = Job::new(4).args(&["--nodes", "4"]).args(&words).env("SHMEM_FT_PARITY", "2");
        let mut run = with_program(job, "1").until("ready");
        accepted(&mut run, 4);
        let outcome = let_end(run);
        assert_eq!(sum(&outcome), right, "{outcome}");
    }
}
