//! Several threads of a PE in checkpoints and recoveries: their number, and the same bytes as with
//! one thread, whatever is lost at any step. The program compares all of its memory after each
//! restart.

use super::support::{Job, Outcome, has_ucx, program};
use super::{RECOVERY, STEPS, right};

fn run(mode: &str, threads: usize, words: &str) -> Outcome {
    let words: Vec<&str> = words.split_whitespace().collect();
    let job = Job::new(4).mode(mode).env("SHMEM_SYMMETRIC_SIZE", "16M");
    let job = job.env("SHMEM_FT_THREADS", &threads.to_string()).args(&words);
    job.program(&program("sparse"), &[]).run()
}

#[test]
fn a_loss_at_every_step_of_a_checkpoint() {
    if !super::support::long() {
        return;
    }
    for (index, step) in STEPS.into_iter().enumerate() {
        let (pe, threads) = (index % 4, 2 + index % 3);
        for mode in ["raid4", "raid5", "rs"] {
            let words = format!("--nodes 4 --kill-node {pe}@9:{step}");
            right(4, &run(mode, threads, &words));
        }
        for mode in ["double", "raid5"] {
            right(4, &run(mode, threads, &format!("--kill {pe}@9:{step}")));
        }
    }
    right(4, &run("single", 3, "--kill 1@9 --kill 2@12:copy"));
}

#[test]
fn a_second_loss_at_every_step_of_a_recovery() {
    if !super::support::long() {
        return;
    }
    for (index, step) in RECOVERY.into_iter().enumerate() {
        let (pe, threads) = (index % 4, 2 + index % 3);
        let words = format!("--nodes 4 --kill-node 1@5 --kill-node {pe}@5:{step}");
        right(4, &run("rs", threads, &words));
        right(4, &run("raid5", threads, &format!("--kill 1@5 --kill {pe}@5:{step}")));
    }
}

/// One more thread fetches the data of remote PEs, and batches of it are divided among the threads.
#[test]
fn tiles_of_remote_pes() {
    if !has_ucx() {
        return;
    }
    for (index, step) in ["encode", "copied", "rebuild", "reencode"].into_iter().enumerate() {
        let (pe, threads) = (index % 4, 2 + index % 3);
        let words = "--fabric ucx --nodes 4 --kill-node 2@9";
        right(4, &run("rs", threads, &format!("{words} --kill-node {pe}@9:{step}")));
    }
}

/// Returns the number of helper threads, and of usable processors, of each PE.
fn helpers(pes: usize, threads: &str, words: &[&str]) -> Vec<(usize, usize)> {
    let job = Job::new(pes).mode("raid5").env("SHMEM_FT_THREADS", threads).args(words);
    let outcome = job.program(&program("pool"), &[]).run();
    outcome.status(0);
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        outcome.check(words.len() == 6 && words[0] == "pool", line);
        [words[3], words[5]].map(|word| word.parse().expect("a number"))
    };
    let lines: Vec<[usize; 2]> = outcome.out.lines().map(line).collect();
    outcome.check(lines.len() == pes, "a line for each PE");
    lines.into_iter().map(|[threads, cpus]| (threads, cpus)).collect()
}

/// The program itself fails if a helper takes signals, or if a fork in between does harm.
#[test]
fn there_are_as_many_threads_as_were_asked_for() {
    for (asked, others) in [("1", 0), ("2", 1), ("5", 4)] {
        assert!(helpers(2, asked, &[]).into_iter().all(|(threads, _)| threads == others));
    }
}

/// Bound PEs have their processors to themselves, others share those of the machine.
#[test]
fn of_themselves_pes_use_what_they_need_not_share() {
    for pes in [2, 3, 64] {
        for (threads, cpus) in helpers(pes, "auto", &["--bind", "none"]) {
            assert_eq!(threads + 1, (cpus / pes).clamp(1, 8), "{pes} PEs, {cpus} processors");
        }
    }
    for (threads, cpus) in helpers(2, "auto", &["--bind", "auto"]) {
        assert_eq!(threads + 1, cpus.clamp(1, 8), "{cpus} processors");
    }
}
