//! Losses by schedule: every pair of a loss and a second one in the recovery from it, and random
//! ones for as long as requested. Each job must end with the right bytes or with the one error that
//! its schedule allows; one that hangs is recorded with the progress of each PE.
//!
//! `cargo test --test soak` runs a seeded sample of pairs, some random schedules, and every file of
//! `tests/seeds`. `make soak` sets `SOAK_MINUTES`: all pairs, then random schedules until the time
//! is over. A failing schedule is written to `tests/seeds`, to stay there.

mod schedule;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use schedule::{Allowed, PES, Schedule};
use support::jacobi::{self, SMALL};
use support::random::Random;
use support::{Job, Outcome};

/// Pairs and random schedules of a run without `SOAK_MINUTES`.
const SAMPLE: (usize, usize) = (150, 50);

fn seeds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds")
}

/// The totals of all runs.
#[derive(Debug, Default)]
struct Sums {
    runs: usize,
    right: usize,
    /// Runs with two losses or more.
    several: usize,
    failed: Vec<String>,
}

fn run(schedule: &Schedule) -> Outcome {
    let Schedule { mode, adopt, nodes, spares, rules } = schedule;
    let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
    let (adopt, rules) = (u8::from(*adopt), rules.join(","));
    let settings = format!("SHMEM_FT_ADOPT={adopt} SHMEM_FT_INJECT={rules}");
    let line = format!("--mode {mode} --verbose --nodes {nodes} --spares {spares} {settings}");
    jacobi::job(Job::line(&line).env("SHMEM_FT_MAX_RESTARTS", "100"), SMALL).run()
}

/// Fails unless the job ended as its schedule allows.
fn judge(schedule: &Schedule, outcome: &Outcome) {
    let reasons = outcome.lines("oshrun: ").filter(|line| line.starts_with("unrecoverable: "));
    let reasons = reasons.count();
    match (outcome.status, schedule.allowed()) {
        (0, _) => drop(outcome.right_sum(SMALL)),
        (3, Allowed::Verdict) => drop(outcome.same_verdict()),
        (3, Allowed::AnyReason) => {
            outcome.check(reasons == 1, "one reason was expected");
            outcome.check(jacobi::sum(&outcome.out).is_none(), "no sum was expected");
        }
        (_, allowed) => {
            outcome.check(false, &format!("the right sum was expected, or {allowed:?}"))
        }
    }
}

/// Runs one schedule and records its failure, if any.
fn one(schedule: &Schedule, sums: &Mutex<Sums>) {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let outcome = run(schedule);
        judge(schedule, &outcome);
        outcome
    }));
    let mut sums = sums.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    sums.runs += 1;
    match ran {
        Ok(outcome) => {
            let lost = outcome.count("was killed by SIGKILL") + outcome.count("was lost with PE");
            sums.right += usize::from(outcome.status == 0);
            sums.several += usize::from(lost >= 2);
        }
        Err(_) => {
            let line = schedule.to_string();
            let name = format!("{:08x}", crc32fast::hash(line.as_bytes()));
            fs::create_dir_all(seeds()).expect("a folder for seeds");
            fs::write(seeds().join(name), format!("{line}\n")).expect("a file for the seed");
            sums.failed.push(line);
        }
    }
    if sums.runs.is_multiple_of(500) {
        support::note(&format!("soak: {} runs, {} failed", sums.runs, sums.failed.len()));
    }
}

/// Runs the schedules from `next`, on every processor, until there are no more.
fn drive(next: impl FnMut() -> Option<Schedule> + Send) -> Sums {
    let (sums, next) = (Mutex::new(Sums::default()), Mutex::new(next));
    let take = || next.lock().unwrap_or_else(std::sync::PoisonError::into_inner)();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(schedule) = take() {
                    one(&schedule, &sums);
                }
            });
        }
    });
    let sums = sums.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    assert!(sums.failed.is_empty(), "failed, now in tests/seeds:\n{}", sums.failed.join("\n"));
    sums
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// Shuffles in place (Fisher and Yates).
fn shuffle<T>(all: &mut [T], random: &mut Random) {
    for at in (1..all.len()).rev() {
        all.swap(at, random.below(at + 1));
    }
}

#[test]
fn pairs_and_random_schedules() {
    let seed = number("SOAK_SEED").unwrap_or(1);
    let mut random = Random::new(seed);
    let mut pairs = Schedule::all();
    shuffle(&mut pairs, &mut random);
    let minutes = number("SOAK_MINUTES");
    let end = Instant::now() + Duration::from_secs(60 * minutes.unwrap_or(0));
    let (sample, rest) = if minutes.is_some() { (pairs.len(), 0) } else { SAMPLE };
    let mut pairs = pairs.into_iter().take(sample);
    let mut left = rest;
    let mut all = false;
    let sums = drive(|| match (minutes, pairs.next()) {
        (Some(_), _) if Instant::now() >= end => None,
        (_, Some(pair)) => Some(pair),
        (Some(_), None) => {
            if !std::mem::replace(&mut all, true) {
                support::note(&format!("soak: all {sample} pairs are taken, now random ones"));
            }
            Some(Schedule::random(&mut random))
        }
        (None, None) => {
            left = left.checked_sub(1)?;
            Some(Schedule::random(&mut random))
        }
    });
    let Sums { runs, right, several, .. } = sums;
    support::note(&format!(
        "soak: seed {seed}: {runs} runs, {several} with several losses, {right} with the right \
         bytes, {} with the one error",
        runs - right
    ));
    assert!(several * 3 > runs && right * 3 > runs, "the losses do not come about");
}

/// Schedules that failed once.
#[test]
fn seeds_of_the_past() {
    let files = fs::read_dir(seeds()).into_iter().flatten().flatten();
    let files = files.map(|file| file.path()).filter(|path| path.extension().is_none());
    let read = |path: PathBuf| fs::read_to_string(path).expect("a seed can be read");
    let lines: Vec<String> = files.map(read).flat_map(|text| lines(&text)).collect();
    let schedules = lines.iter().map(|line| line.parse().expect("a schedule"));
    let mut schedules = schedules.collect::<Vec<Schedule>>().into_iter();
    drive(move || schedules.next());
}

fn lines(text: &str) -> Vec<String> {
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn a_schedule_survives_a_round_trip_through_its_line() {
    let mut random = Random::new(3);
    let random = std::iter::repeat_with(|| Schedule::random(&mut random)).take(1000);
    for schedule in Schedule::all().into_iter().chain(random) {
        assert_eq!(schedule.to_string().parse(), Ok(schedule));
    }
}

/// Every PE at every step of a checkpoint, and a second loss, of every PE, at every step of a
/// recovery: in two modes, with memory adopted, rebuilt, and lost with its node.
#[test]
fn all_pairs_are_all() {
    use raidshmem_core::inject::Point;
    let count =
        |wanted: fn(&Point) -> bool| Point::ALL.iter().filter(|&point| wanted(point)).count();
    let recovery = count(|point| point.is_recovery());
    let first = count(|point| point.is_checkpoint()) * PES;
    assert_eq!(Schedule::all().len(), 2 * 3 * first * (1 + recovery * PES));
}

/// The rules about allowed results, by example.
#[test]
fn required_survivals_are_not_excused() {
    for (line, allowed) in [
        ("rs adopt=0 nodes=4 spares=0 node:1@3 node:2@3:verify", Allowed::Nothing),
        ("raid5 adopt=1 nodes=1 spares=0 1@3 2@3:verify", Allowed::Nothing),
        ("raid5 adopt=0 nodes=1 spares=0 1@3 1@3:verify", Allowed::Nothing),
        ("raid5 adopt=0 nodes=1 spares=0 1@3 2@3:verify", Allowed::Verdict),
        ("raid5 adopt=0 nodes=1 spares=0 1@3 2@3:resume", Allowed::Nothing),
        ("raid5 adopt=1 nodes=4 spares=0 node:1@3 node:2@3:verify", Allowed::Verdict),
        ("raid5 adopt=1 nodes=1 spares=0 1@3:encoded 2@3:decided", Allowed::Verdict),
        ("rs adopt=1 nodes=1 spares=0 1@3 2@3 3@3", Allowed::AnyReason),
        ("raid5 adopt=1 nodes=2 spares=0 node:1@3", Allowed::Verdict),
        ("rs adopt=1 nodes=2 spares=0 node:1@3", Allowed::Nothing),
        ("raid4 adopt=1 nodes=2 spares=0 node:0@6 node:1@5:verify", Allowed::AnyReason),
    ] {
        assert_eq!(line.parse::<Schedule>().map(|s| s.allowed()), Ok(allowed), "{line}");
    }
}
