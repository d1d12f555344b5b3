//! Several threads of a PE in checkpoints and recoveries: their number, and the same bytes as with
//! one thread, whatever is lost at any step. The program compares all of its memory after each
//! restart.

use super::sparse;
use super::support::{Job, program};

/// Two, three and four threads.
const THREADS: &str = "SHMEM_FT_THREADS={2,3,4}";

#[test]
fn a_loss_at_every_step_of_a_checkpoint() {
    needs!(long);
    sparse(
        THREADS,
        &[
            "--mode {raid4|raid5|rs} --nodes 4 --kill-node {0,1,2,3}@9:{checkpoint}",
            "--mode {double|raid5} --kill {0,1,2,3}@9:{checkpoint}",
        ],
    );
    sparse("SHMEM_FT_THREADS=3", &["--mode single --kill 1@9 --kill 2@12:copy"]);
}

#[test]
fn a_second_loss_at_every_step_of_a_recovery() {
    needs!(long);
    sparse(
        THREADS,
        &[
            "--mode rs --nodes 4 --kill-node 1@5 --kill-node {0,1,2,3}@5:{recovery}",
            "--mode raid5 --kill 1@5 --kill {0,1,2,3}@5:{recovery}",
        ],
    );
}

/// One more thread fetches the data of remote PEs, and batches of it are divided among the threads.
#[test]
fn tiles_of_remote_pes() {
    needs!(has_ucx);
    let second = "--kill-node {0,1,2,3}@9:{encode|copied|rebuild|reencode}";
    sparse(THREADS, &[&format!("--mode rs --fabric ucx --nodes 4 --kill-node 2@9 {second}")]);
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
