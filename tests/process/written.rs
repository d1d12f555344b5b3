//! Checkpoints that get the written pages from the kernel: in every way that a program can write
//! them, with losses of processes and nodes. The program compares all of its memory after each
//! restart; a seed decides which blocks change, how, and what is lost when, `SEED=n` for a single
//! one.
//!
//! If the kernel cannot track pages, digests replace them in the same runs, with a notice.

use raidshmem_sys::huge::HugeFiles;
use raidshmem_sys::written::Watch;

use super::right;
use super::support::random::Random;
use super::support::{Job, Outcome, STEPS, note, partly, program, program_with};

/// A heap with small pages, and one with huge pages if available.
const SIZES: [&str; 2] = ["16M", "64M"];
/// Checkpoints of the program without losses.
const LAST: usize = 17;

fn job(mode: &str, track: &str) -> Job {
    let job = Job::new(4).mode(mode).env("SHMEM_SYMMETRIC_SIZE", "16M").args(&["--verbose"]);
    job.env("SHMEM_FT_DELTA", "on").env("SHMEM_FT_TRACK", track)
}

fn run(job: Job, words: &str, seed: u64) -> Outcome {
    let path = program_with("written", &["-pthread"]);
    let outcome = job.words(words).program(&path, &[&seed.to_string()]).run();
    right(4, &outcome);
    outcome
}

/// Checks that at least `least` checkpoints used page tracking, if the kernel has it.
#[track_caller]
fn by_pages(outcome: &Outcome, least: usize) {
    match Watch::new(true) {
        Ok(_) => {
            let by = outcome.count(", by pages");
            outcome.check(by >= least, &format!("{least} checkpoints by pages, there were {by}"));
        }
        Err(error) => partly("page-watch", &format!("no pages are watched: {error}")),
    }
}

fn seeds(all: std::ops::Range<u64>) -> Vec<u64> {
    match std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => all.collect(),
    }
}

#[test]
fn every_way_of_writing_is_seen_whatever_is_lost() {
    needs!(long);
    for seed in seeds(1..13) {
        let mut random = Random::new(seed);
        let mode = random.one(&["raid5", "raid5", "rs", "double", "raid4"]);
        let track = random.one(&["pages", "pages", "auto"]);
        let adopt = random.one(&["0", "0", "1"]);
        let heap = random.one(&SIZES);
        let (mut words, mut at) = (String::new(), 4);
        let nodes = *mode != "double" && random.below(2) == 1;
        // `double` has one slot: while that is written, it is the only copy of memory that is not
        // adopted.
        let one_slot = *mode == "double" && *adopt == "0";
        let steps: &[&str] =
            if one_slot { &["before", "quiesce", "copy", "copied", "after"] } else { &STEPS };
        while at < LAST && words.len() < 60 {
            let (pe, step) = (random.below(4), random.one(steps));
            let what = if nodes && words.is_empty() { "--nodes 4 --kill-node" } else { "--kill" };
            words += &format!(" {what} {pe}@{at}:{step}");
            at += 2 + random.below(5);
        }
        note(&format!("seed {seed}: {mode}, {track}, adopt {adopt}, {heap}{words}"));
        let job = job(mode, track).env("SHMEM_FT_ADOPT", adopt);
        run(job.env("SHMEM_SYMMETRIC_SIZE", heap), &words, seed);
    }
}

/// Tracking is on, continues from one checkpoint to the next, and restarts after a recovery.
#[test]
fn checkpoints_go_by_pages() {
    for seed in [21, 22] {
        let quiet = run(job("raid5", "pages"), "", seed);
        by_pages(&quiet, 10);
        let outcome = run(job("raid5", "pages"), "--kill 2@9", seed);
        by_pages(&outcome, 6);
        let outcome = run(job("raid5", "digests"), "", seed);
        outcome.check(outcome.count(", by pages") == 0, "none by pages");
        outcome.check(outcome.count(", by digests") >= 10, "all by digests");
    }
}

/// All writable mappings are tracked, or none is; and the library reads huge pages that were not
/// split, through mappings that are not writable.
#[test]
fn no_mapping_is_left_out() {
    needs!(long);
    for (heap, losses) in
        [("16M", ""), ("64M", ""), ("64M", "--kill 1@6 --nodes 4 --kill-node 3@11")]
    {
        let job = job("raid5", "pages").env("SHMEM_SYMMETRIC_SIZE", heap);
        let path = program_with("written", &["-pthread"]);
        let outcome = job.words(losses).program(&path, &["51", "maps"]).run();
        right(4, &outcome);
        by_pages(&outcome, 4);
        let seen = outcome.out.lines().filter_map(|line| line.strip_prefix("maps: watched after "));
        let seen: Vec<[u64; 2]> = seen
            .map(|line| {
                let mut numbers = line.split_whitespace().filter_map(|word| word.parse().ok());
                [(); 2].map(|()| numbers.next().expect("two numbers"))
            })
            .collect();
        outcome.check(seen.len() == 4, "a line of each PE");
        let watches = Watch::new(true).is_ok();
        let huge = HugeFiles::new().is_ok();
        for [checkpoints, kib] in seen {
            outcome.check(!watches || checkpoints >= 4, "a watch");
            let apart = heap == "64M" && watches;
            outcome.check(!huge || (kib > 0) == apart, "huge pages are read as such");
        }
    }
}

/// Rules of containers often refuse the system call, here to all PEs, or to one.
#[test]
fn a_kernel_that_refuses_is_as_good() {
    let path = program_with("written", &["-pthread"]);
    let path = path.to_str().expect("a plain name");
    for (who, seed) in [("all", 31), ("first", 32)] {
        let job = job("raid5", "pages").env("SHMEM_FT_ADOPT", "0").args(&["--kill", "1@11:copy"]);
        let job = if who == "all" { job } else { job.leaves(who) };
        let words = ["userfaultfd", who, path, &seed.to_string()];
        let outcome = job.program(&program("denied"), &words).run();
        right(4, &outcome);
        // The PE that is refused learns so in the first checkpoint, and the others in the next.
        outcome.check(outcome.count(", by pages") == 0, "none by pages");
        outcome.check(outcome.count(", by digests") >= 10, "by digests");
    }
}

/// Page tables of the library do not show a child's writes: after the first fork they are no longer
/// used.
#[test]
fn writes_of_children_are_found_by_digests() {
    let path = program_with("written", &["-pthread"]);
    for seed in [41, 42] {
        let job = job("raid5", "pages").env("SHMEM_FT_ADOPT", "0").args(&["--kill", "3@12:copied"]);
        let outcome = job.program(&path, &[&seed.to_string(), "fork"]).run();
        right(4, &outcome);
        outcome.check(outcome.count(", by digests") >= 8, "by digests");
    }
}
