//! Deterministic simulation: up to 10,000 PEs, one seed, no clock, no thread, no process.
//!
//! The seed drives time, the delay of every message and step, stalls, deaths of PEs and nodes at
//! any time or at any step, and flipped bits, over the library's own pure machines: membership, the
//! protocol table, the decision, the plan, groups and stripes, the codec, the stamps and the delta
//! path, on snapshots of a few tiles. In some jobs nodes are drained, and nodes join. A job within
//! the parity must complete, with every restored byte compared; one beyond it must end with the
//! same words on every PE that reports.
//!
//! A failing seed prints its trace; `SEED=n` runs that seed alone. `RAIDSHMEM_ALL=1` runs all seeds
//! instead of a tenth, `RAIDSHMEM_SOAK=1` new ones for `SECONDS_OF_SIM`.
//!
//! Left out: the program's own communication, and races of two PEs on one word: a step of a PE is
//! atomic here, as it is in the model checker, which tries all orders of small jobs.

mod agents;
mod bytes;
mod delta;
mod drain;
mod groups;
mod growth;
mod harm;
mod heartbeats;
mod inherit;
mod job;
mod local;
mod mailbox;
mod memory;
mod pe;
mod places;
mod plan;
mod port;
mod runtime;
#[path = "../support/skip.rs"]
mod skip;
mod watch;

use std::time::{Duration, Instant};

use raidshmem_core::mutant::Mutant;
use rayon::prelude::*;

use job::{Ending, Job};
use plan::{Broken, Mode, Plan};

/// Runs a seed. The error is the broken guarantee, and the trace that led to it.
fn run(seed: u64, mode: Mode, broken: Broken) -> Result<Ending, String> {
    let attempt = |traced: bool| {
        let mut job = Job::new(Plan::new(seed, mode, broken), traced);
        let promise = job.run().and_then(|()| promised(&job));
        (promise, job)
    };
    match attempt(false) {
        (Ok(()), job) => Ok(job.ending),
        (Err(promise), _) => {
            let (again, job) = attempt(true);
            assert_eq!(again.as_ref().err(), Some(&promise), "a seed must replay exactly");
            let plan = &job.plan;
            Err(format!("{promise}\n{plan}\n{}\n{promise}\n{plan}", job.trace()))
        }
    }
}

/// Checks that a job ended as it had to.
fn promised(job: &Job) -> Result<(), String> {
    let Ending { status, words, losses, overlaps, .. } = &job.ending;
    let said = words.as_deref().unwrap_or("");
    if job.verdicts.len() > 1 {
        return Err(format!("verdict: not the same words: {:?}", job.verdicts));
    }
    match job.plan.mode {
        Mode::Within if *status == 0 => Ok(()),
        Mode::Within if *overlaps && said.starts_with("unrecoverable") => Ok(()),
        Mode::Within => Err(format!("durability: the job ended with {status}: {said}")),
        Mode::Beyond if *losses == 0 && *status == 0 => Ok(()),
        Mode::Beyond if *status == 3 && said.starts_with("unrecoverable") => Ok(()),
        Mode::Beyond => Err(format!("verdict: the job ended with {status}: {said}")),
    }
}

/// The totals of many seeds.
#[derive(Debug, Default)]
struct Sum {
    jobs: u32,
    losses: u32,
    recoveries: u32,
    flips: u32,
    regrouped: u32,
    healed: u32,
    corrupt: u32,
    found: u32,
    rotten: u32,
    spared: u32,
    updated: u32,
    along: u64,
    behind: u32,
    by_pages: u32,
    declared: u32,
    at_once: u32,
    suspected: u32,
    accusers: u32,
    unrecoverable: u32,
    late: u32,
    alone: u32,
    events: u64,
    compared: u64,
    passed: u32,
    drained: u32,
    joined: u32,
    overlaps: u32,
}

impl Sum {
    fn add(&mut self, ending: &Ending) {
        self.jobs += 1;
        self.losses += ending.losses;
        self.recoveries += ending.recoveries;
        self.flips += ending.flips;
        self.regrouped += ending.regrouped;
        self.healed += ending.healed;
        self.corrupt += ending.corrupt;
        self.found += ending.found;
        self.rotten += ending.rotten;
        self.spared += ending.spared;
        self.updated += ending.updated;
        self.along += ending.along;
        self.behind += ending.behind;
        self.by_pages += ending.by_pages;
        self.declared += ending.declared;
        self.at_once += ending.at_once;
        self.suspected += ending.suspected;
        self.accusers += ending.accusers;
        self.unrecoverable += u32::from(ending.status != 0);
        self.late += u32::from(ending.late);
        self.alone += ending.alone;
        self.events += ending.events;
        self.compared += ending.compared;
        self.passed += ending.passed;
        self.drained += ending.drained;
        self.joined += ending.joined;
        self.overlaps += u32::from(ending.overlaps);
    }
}

/// Runs `seeds` on all processors, until the limit is over; reports the lowest that fails.
fn many(seeds: std::ops::Range<u64>, mode: Mode, limit: Duration) -> Sum {
    const AT_ONCE: u64 = 256;
    let begun = Instant::now();
    let mut sum = Sum::default();
    let mut next = seeds.start;
    while next < seeds.end && begun.elapsed() < limit {
        let end = seeds.end.min(next.saturating_add(AT_ONCE));
        let endings: Vec<_> = (next..end)
            .into_par_iter()
            .map(|seed| run(seed, mode, Broken::Nothing).map_err(|error| (seed, error)))
            .collect();
        for ending in endings {
            match ending {
                Ok(ending) => sum.add(&ending),
                Err((seed, error)) => {
                    panic!("{error}\nagain: SEED={seed} cargo test --test sim")
                }
            }
        }
        next = end;
    }
    let rate = f64::from(sum.jobs) / begun.elapsed().as_secs_f64() * 60.0;
    println!("{mode:?}: {sum:?}, {rate:.0} seeds a minute");
    sum
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns the requested seed, or `count` seeds; a tenth of them unless all were requested.
fn seeds(count: u64) -> std::ops::Range<u64> {
    match from_environment("SEED") {
        Some(seed) => seed..seed + 1,
        None if skip::all_asked_for() => 0..count,
        None => {
            skip::partly(
                "all",
                &format!("{} of {count} seeds; make test-all takes all", count / 10),
            );
            0..count / 10
        }
    }
}

#[test]
fn at_most_the_parity_is_lost_and_the_job_continues_with_the_right_bytes() {
    let sum = many(seeds(4000), Mode::Within, Duration::MAX);
    let few = sum.jobs < 4000; // coverage is only required of a full run
    assert!(few || sum.recoveries > 3000 && sum.flips > 1000, "{sum:?}");
    let Sum { corrupt, declared, suspected, accusers, rotten, spared, by_pages, .. } = sum;
    assert!(few || corrupt > 100 && declared > 100 && suspected > 100, "{sum:?}");
    assert!(few || accusers > 10 && rotten > 100 && spared > 10_000, "{sum:?}");
    assert!(few || by_pages > 10_000 && sum.updated > 1000, "{sum:?}");
    assert!(few || sum.at_once > 100, "{sum:?}");
    assert!(few || sum.late > 100 && sum.alone > 100, "{sum:?}");
    assert!(few || sum.along > 100_000 && sum.found > 100, "{sum:?}");
    assert!(few || sum.behind > 1000, "{sum:?}");
    assert!(few || sum.passed > 100 && sum.regrouped > 50 && sum.healed > 10, "{sum:?}");
    assert!(few || sum.drained > 100 && sum.joined > 50 && sum.overlaps < 20, "{sum:?}");
}

#[test]
fn one_loss_too_many_is_reported_by_every_pe() {
    let sum = many(seeds(2000), Mode::Beyond, Duration::MAX);
    assert!(sum.jobs < 2000 || sum.unrecoverable > 1000, "{sum:?}");
}

#[test]
fn broken_rules_are_caught() {
    use Broken::*;
    if !skip::long() {
        return;
    }
    [
        (Rule(Mutant::MemoryOfTheJob), 0),
        (PeersForgotten, 23),
        (Rule(Mutant::DoubtsIgnored), 778),
        (WatchedTooLate, 685),
        (Rule(Mutant::SlotReused), 0),
        (Rule(Mutant::SnapshotReused), 0),
        (SnapshotBelieved, 10),
        (Rule(Mutant::ForwardTooEarly), 0),
        (Rule(Mutant::DeadVoteIgnored), 28),
        (LiveNotRescued, 13),
        (Rule(Mutant::ViewNotChecked), 64),
        (ShownTooEarly, 244),
        (ChecksumsIgnored, 0),
        (Rule(Mutant::ParityNotRecomputed), 26),
        (UnreadBelieved, 442),
        (StepBeforeWords, 21),
        (WordsNotTagged, 1293),
        (Rule(Mutant::LeaseWithoutEnd), 33),
        (CarriedUnchecked, 5459),
        (UpdatedUnchecked, 2956),
        (StampedAnew, 177),
        (RestoredUnchecked, 0),
        (Rule(Mutant::KeptThoughChanged), 20),
        (SilenceIsNoChange, 0),
        (EndIgnoresLosses, 6),
        (Rule(Mutant::DecisionNotWritten), 90),
        (Rule(Mutant::NoBarrierA), 13),
        (Rule(Mutant::NoBarrierB), 321),
        (Rule(Mutant::LiveProtected), 10),
        (Rule(Mutant::CopiedAgain), 10),
        (Rule(Mutant::ParityOfTheEnd), 112),
        (Rule(Mutant::EndRollsBack), 6),
    ]
    .into_par_iter()
    .for_each(|(broken, seed)| caught(broken, seed, |seed| run(seed, Mode::Within, broken)));
}

/// Checks that a job shows that a rule is broken: that of a seed known to do so, or, where changes
/// have made another job of it, one of the first 20,000.
fn caught<T, R: std::fmt::Debug>(rule: R, known: u64, run: impl Fn(u64) -> Result<T, String>) {
    let caught =
        std::iter::once(known).chain(0..20_000).find_map(|seed| Some((seed, run(seed).err()?)));
    let (seed, error) = caught.unwrap_or_else(|| panic!("{rule:?} must be caught"));
    println!("{rule:?}: seed {seed}: {}", error.lines().next().unwrap_or(""));
}

/// Runs from `SEED` on until the time is over: a different job every time.
#[test]
fn endless_when_soaking() {
    if std::env::var_os("RAIDSHMEM_SOAK").is_none() {
        return skip::skip("soak", "RAIDSHMEM_SOAK is not set");
    }
    let seconds = from_environment("SECONDS_OF_SIM").unwrap_or(60);
    let first = from_environment("SEED").unwrap_or(0) << 32;
    let limit = Duration::from_secs(seconds.div_ceil(2));
    many(first..u64::MAX, Mode::Within, limit);
    many(first..u64::MAX, Mode::Beyond, limit);
}
