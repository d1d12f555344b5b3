//! Checkpoints that save only changes: a loss at every step of one, in every mode, and a second
//! loss later, so that the rebuild uses parity that was kept, carried and updated over several
//! checkpoints. The program compares all of its memory after each restart.

use super::support::{Job, Outcome, has_ucx, program};
use super::{STEPS, right};

fn run(mode: &str, delta: &str, adopt: &str, words: &str) -> Outcome {
    of(4, mode, delta, adopt, words)
}

/// Runs such a job with a given number of PEs, in one group.
fn of(pes: usize, mode: &str, delta: &str, adopt: &str, words: &str) -> Outcome {
    let words: Vec<&str> = words.split_whitespace().collect();
    let job = Job::new(pes).mode(mode).env("SHMEM_SYMMETRIC_SIZE", "16M");
    let job = job.env("SHMEM_FT_DELTA", delta).env("SHMEM_FT_ADOPT", adopt).args(&words);
    job.program(&program("sparse"), &[]).run()
}

/// Loses a PE at every step and one later; with `SHMEM_FT_ADOPT=0` a dead process is rebuilt from
/// the parity.
fn a_loss_at_every_step_and_one_later(mode: &str) {
    for (index, step) in STEPS.into_iter().enumerate() {
        let [pe, later, last] = [0, 1, 2].map(|more| (index + more) % 4);
        for words in [
            format!("--kill {pe}@9:{step} --kill {later}@13"),
            format!("--kill {later}@4 --kill {pe}@8:{step} --kill {last}@12:copy"),
        ] {
            right(4, &run(mode, "on", "0", &words));
        }
    }
}

of_each_mode!(a_loss_at_every_step_and_one_later: raid4 raid5 rs);

fn memory_that_is_adopted_and_nodes(mode: &str) {
    if mode == "single" {
        return right(4, &run("single", "on", "1", "--kill 1@9 --kill 2@12:copy"));
    }
    for (index, step) in STEPS.into_iter().enumerate() {
        let (pe, later) = (index % 4, (index + 1) % 4);
        let words = format!("--kill {pe}@9:{step} --kill {later}@12:copy");
        right(4, &run(mode, "on", "1", &words));
        if mode != "double" {
            let words = format!("--nodes 4 --kill-node {pe}@9:{step}");
            right(4, &run(mode, "on", "1", &words));
        }
    }
    if mode == "double" {
        right(4, &run("double", "on", "1", "--nodes 4 --kill-node 1@13"));
    }
}

of_each_mode!(memory_that_is_adopted_and_nodes: single double raid4 raid5 rs);

#[test]
fn each_of_the_choices_is_right() {
    if !super::support::long() {
        return;
    }
    for delta in ["auto", "on", "off"] {
        for mode in ["double", "raid5", "rs"] {
            right(4, &run(mode, delta, "0", "--kill 3@11"));
            right(4, &run(mode, delta, "0", "--kill 2@5:copied --kill 0@14"));
        }
    }
}

/// If few of the many sources of a parity tile changed, the tile is updated.
fn parity_that_was_brought_up_to_date(mode: &str) {
    let pes = if mode == "rs" { 7 } else { 6 };
    for (index, step) in STEPS.into_iter().enumerate() {
        let (pe, later) = (index % pes, (index + 1) % pes);
        let words = format!("--kill {pe}@9:{step} --kill {later}@13");
        right(pes, &of(pes, mode, "on", "0", &words));
    }
}

of_each_mode!(parity_that_was_brought_up_to_date: raid4 raid5 rs);

/// The update when the old and new sources come over a network.
#[test]
fn parity_that_was_updated_remotely() {
    if !has_ucx() {
        return;
    }
    for step in ["encode", "encoded", "copied"] {
        let words = format!("--nodes 6 --fabric ucx --kill-node 2@9:{step} --kill-node 4@13");
        right(6, &of(6, "raid5", "on", "1", &words));
    }
}
