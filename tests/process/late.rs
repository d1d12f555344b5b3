//! Losses after the last checkpoint, and while others are in `shmem_finalize`: the job completes if
//! no PE needs the lost one and its substitute needs no other PE; otherwise it ends with an error
//! that names the cause. Never with a wrong result and status 0.

use rustix::process::Signal;

use super::support::{Job, Outcome, Sweep, processes, program};

/// Runs the example of the README, whose last checkpoint is its 21st, in each cell of these rows.
fn all_count(rows: &[&str]) {
    Sweep::of(rows).each(|cell| {
        counted(&cell.job().args(&["--verbose"]).program(&program("count"), &[]).run());
    });
}

/// Checks for the sum, once, from PE 0's last process.
#[track_caller]
fn counted(outcome: &Outcome) {
    let sums = outcome.status(0).out.lines().filter(|line| *line == "sum 760").count();
    outcome.check(sums == 1, "one sum was expected");
}

#[test]
fn a_loss_after_the_last_checkpoint_is_harmless() {
    for pe in 0..4 {
        let row = format!("--mode {{double|raid4|raid5|rs}} --verbose --kill {pe}@21");
        Sweep::of([row]).each(|cell| {
            let outcome = cell.job().program(&program("count"), &[]).run();
            counted(&outcome);
            outcome.says(&format!("PE {pe} continues alone from checkpoint 21"));
        });
    }
    all_count(&[
        "--mode raid5 --nodes 4 --kill-node {0|1|2|3}@21",
        "--mode rs --kill 1@21 --kill 3@21",
        "--mode rs --nodes 4 --kill-node 1@21 --kill-node 3@21",
    ]);
}

/// Some may have passed its last barrier, and some not.
#[test]
fn a_loss_in_the_last_checkpoint_is_harmless() {
    all_count(&[
        "--mode raid5 --kill 2@21:{before|encode|encoded|copy|copied}",
        "--mode raid5 --nodes 4 --kill-node 0@21:{before|encode|encoded|copy|copied}",
    ]);
}

/// Loss of a PE that serves the recovery from within `shmem_finalize`, and of one that rolls back.
#[test]
fn a_second_loss_in_that_recovery_is_survived_too() {
    all_count(&[
        "--mode rs --kill 2@21 --kill 1@21:{settle|decided|verify}",
        "--mode rs --nodes 4 --kill-node 2@21 --kill-node 1@21:{settle|decided|verify}",
        "--mode rs --nodes 4 --kill-node 2@21 --kill 2@21:{rebuild|restore|resume}",
    ]);
}

/// It stops when the others are already in `shmem_finalize`, and is lost much later.
#[test]
fn a_pe_that_is_stopped_at_the_end_is_replaced() {
    let program = program("count");
    let job = Job::new(4).mode("raid5").env("SHMEM_FT_INJECT", "stop:2@21");
    let outcome = job.env("SHMEM_FT_PE_TIMEOUT", "0.5").program(&program, &[]).run();
    counted(&outcome);
    outcome.says("PE 2 was killed by SIGKILL");
}

/// A node stops at the end: until its lease is over no PE knows whether it is lost.
#[test]
fn a_node_that_is_stopped_at_the_end_is_replaced() {
    let job = Job::new(4).mode("raid5").args(&["--verbose", "--nodes", "4"]);
    let job = job.env("SHMEM_FT_INJECT", "stop:2@21").env("SHMEM_FT_NODE_TIMEOUT", "1");
    let mut run = job.program(&program("count"), &[]).start();
    run.wait_until("PE 2 should be stopped", |found| {
        found.iter().any(|found| found.name == "count" && found.state == 'T')
    });
    let agent = run.agents()[2].pid;
    processes::signal(agent, Signal::STOP);
    run.wait_for("continues alone from checkpoint 21");
    let outcome = run.finish();
    counted(&outcome);
    outcome.says("node 2 was lost with PE 2");
}

fn late(how: &str) -> Outcome {
    Job::new(4).mode("raid5").program(&program("late"), &[how]).run()
}

#[test]
fn an_independent_substitute_finishes() {
    let outcome = late("silent");
    for line in ["0 ends with 100, 100", "2 ends with 102, 204", "3 ends with 103, 103"] {
        outcome.all_print(1, &format!("PE {line}"));
    }
}

#[test]
fn a_substitute_that_needs_others_ends_the_job_by_name() {
    for how in ["consume", "await", "produce"] {
        let outcome = late(how);
        outcome.status(3).says("unrecoverable: PE 2 was lost when PE ");
        outcome.says("had already entered shmem_finalize; checkpoint before it");
    }
}

#[test]
fn a_call_that_was_cut_short_ends_the_job_by_name() {
    for how in ["cut", "fetch"] {
        let outcome = late(how);
        outcome.status(3).says("entered shmem_finalize without rolling back to the checkpoint");
        outcome.says("though PE 2 was lost");
    }
}
