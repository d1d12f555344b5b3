//! Parity that is computed while the program runs (`SHMEM_FT_BACKGROUND=on`): a loss at every step
//! of a checkpoint, also of the part that no call waits for, and of the recovery from one.
//!
//! The program compares all of its memory after each restart.

use super::sparse;
use super::support::stall::at_its_stop;
use super::support::{Job, Sweep, program};

const ON: &str = "SHMEM_FT_SNAPSHOTS=2 SHMEM_FT_BACKGROUND=on";

/// A second loss some checkpoints later makes the rebuild use what the background wrote.
fn a_loss_at_every_step_and_one_later(mode: &str) {
    sparse(
        &format!("--mode {mode} {ON} SHMEM_FT_DELTA={{off,auto}}"),
        &[
            "SHMEM_FT_ADOPT=1 --kill {0,1,2,3}@9:{checkpoint} --kill {1,2,3,0}@13",
            "SHMEM_FT_ADOPT=0 --kill {0,1,2,3}@8:{checkpoint} --kill {1,2,3,0}@12:copy",
            "SHMEM_FT_ADOPT=0 --nodes 4 --kill-node {0,1,2,3}@9:{checkpoint} --kill {1,2,3,0}@13",
        ],
    );
}

of_each_mode!(a_loss_at_every_step_and_one_later: raid4 raid5 rs);

#[test]
fn a_second_loss_at_every_step_of_a_recovery() {
    sparse(
        ON,
        &[
            "--mode rs SHMEM_FT_DELTA=on --nodes 4 --kill-node 1@5:encode \
             --kill-node {0,1,2,3}@4:{recovery}",
            "--mode raid5 SHMEM_FT_DELTA=auto --kill 1@5:encoded --kill {0,1,2,3}@4:{recovery}",
        ],
    );
}

/// Snapshots of PEs on other nodes are read over a network.
#[test]
fn remote_pes() {
    needs!(has_ucx);
    let four = "--mode raid5 --nodes 4 SHMEM_FT_DELTA={off,auto}";
    let six = "-n 6 --mode rs --nodes 3 SHMEM_FT_DELTA=on";
    let row = |of: &str| format!("{ON} --fabric ucx --kill-node {of}:{{checkpoint}}");
    sparse(four, &[&row("{0,1,2,3}@9")]);
    sparse(six, &[&row("{0,1,2}@8")]);
}

/// Each action comes while parity is being computed, and a PE dies then, or at the next checkpoint.
fn actions(begin: &str) {
    let actions =
        ["none", "put", "flush", "protect", "readonly", "exclude", "free", "resize", "fork"];
    let steps = "--kill {0,1,2,3}@{3,4,6}:{encode,encoded,after,quiesce}";
    for action in actions {
        Sweep::of([format!("{begin} {ON} {steps}")]).long(3, 16).each(|cell| {
            let outcome = Job::line(&cell.line).program(&program("behind"), &[action]).run();
            outcome.says("was killed").status(0).prints("behind ok");
        });
    }
}

#[test]
fn what_a_program_does_meanwhile_is_right_after_a_loss() {
    actions("--mode raid5 SHMEM_FT_ADOPT={0,1}");
}

/// A program that waits until its last checkpoint protects survives a loss meanwhile, and one after
/// that, when the others may be at their end.
#[test]
fn a_loss_at_the_end_is_survived() {
    for (action, points) in [("end", &["encode", "encoded", "after"][..]), ("put", &["after"])] {
        for point in points {
            let job = Job::line(&format!("--mode raid5 {ON} --kill 1@7:{point}"));
            let outcome = job.program(&program("behind"), &[action]).run();
            outcome.says("was killed").status(0).prints("behind ok");
        }
    }
}

/// PE 1 is stopped while it computes parity. The others get past the call, and the checkpoint does
/// not protect until PE 1 continues.
#[test]
fn a_call_returns_before_the_parity_is_computed() {
    let line = format!("--mode raid5 {ON} SHMEM_FT_INJECT=stop:1@4:encode");
    let mut run = Job::line(&line).program(&program("behind"), &["ahead"]).start();
    run.wait_for("PE 0 is ahead, protected 0");
    at_its_stop(&mut run, || ());
    run.finish().status(0).prints("behind ok");
}
