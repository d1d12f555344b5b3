//! Jobs with local rollback: random programs, random schedules, and losses of processes and nodes.
//!
//! The calls, the agreement on a view, the look of a substitute and the launcher are those of the
//! library; memory, logs and messages are modelled. Every seed is a job, which must end with the
//! bytes of a run without a loss, whether PEs roll back locally or all together; all roll back only
//! for a reason that the library's rules give.
//!
//! In half of the jobs on several nodes, PEs map only those of their own node, or none, clocks
//! differ, and messages of a process that dies may be lost (`far.rs`).
//!
//! Left out: threads, and logs that get full. The parity always restores a snapshot.

mod calls;
mod far;
mod job;
mod port;
mod program;
mod renewal;
mod state;
mod views;

use std::time::{Duration, Instant};

use raidshmem_core::mutant::Mutant;
use rayon::prelude::*;

use super::memory::Chance;
use super::{caught, from_environment, seeds, skip};
use job::{Ending, Job, Loss};
use program::Program;

/// The rules of PEs that do not map each other.
const FAR: [Mutant; 8] = [
    Mutant::FarTakenTwice,
    Mutant::FarNotHeld,
    Mutant::FarEarlyDropped,
    Mutant::FarNotSentAgain,
    Mutant::FarLeftEarly,
    Mutant::FarOrderForgotten,
    Mutant::FarNotAwaited,
    Mutant::FarEarlierDropped,
];

/// A job of a seed, with the schedule of a number.
struct Plan {
    program: Program,
    node_of: Vec<u32>,
    nodes: u32,
    /// True if PEs of different nodes do not map each other, and if those of one node do.
    is_far: bool,
    maps: bool,
    seed: u64,
    broken: Option<Mutant>,
}

impl Plan {
    fn new(seed: u64, broken: Option<Mutant>) -> Plan {
        let mut chance = Chance::new(seed);
        let n_pes = match chance.below(40) {
            0 => 33 + chance.below(64),
            1..4 => 13 + chance.below(20),
            _ => 2 + chance.below(7),
        };
        let nodes = 1 + chance.below(n_pes.min(8));
        let mut node_of: Vec<u32> = (0..n_pes).map(|pe| (pe * nodes / n_pes) as u32).collect();
        if chance.one_in(2) {
            node_of = (0..n_pes).map(|pe| (pe % nodes) as u32).collect();
        }
        let phases = 2 + chance.below(8) as u64;
        let program = program::program(&mut chance, n_pes, phases);
        // A broken rule concerns jobs of one kind.
        let is_far = match broken {
            Some(rule) => nodes > 1 && FAR.contains(&rule),
            None => nodes > 1 && chance.one_in(2),
        };
        let maps = !is_far || chance.one_in(2);
        Plan { program, node_of, nodes: nodes as u32, is_far, maps, seed, broken }
    }

    fn job(&self, schedule: u64, losses: &[Loss], traced: bool) -> Job {
        let nodes = (self.node_of.clone(), self.nodes);
        let chance = Chance::new(self.seed << 8 | schedule);
        let program = (self.program.clone(), nodes, (self.is_far, self.maps));
        Job::new(program, losses, (chance, self.broken), traced)
    }

    /// Draws the losses of the job, which takes that long without one.
    fn losses(&self, time: u64) -> Vec<Loss> {
        let mut chance = Chance::new(!self.seed);
        let times = 1 + chance.below(4);
        let mut at = 0;
        let mut draw = |_| {
            // Some follow the one before closely.
            let soon = at > 0 && chance.one_in(2);
            at = if soon { at + chance.below(900) } else { 200 + chance.below(time as usize) };
            let pe = chance.below(self.node_of.len());
            Loss { time: at as u64, pe, with_node: chance.one_in(3) }
        };
        (0..times).map(&mut draw).collect()
    }
}

/// Runs the job of a seed. The error is the broken promise, and the trace that led to it.
fn run(seed: u64, broken: Option<Mutant>) -> Result<Ending, String> {
    let plan = Plan::new(seed, broken);
    let whole = plan.job(0, &[], false).run()?;
    let losses = plan.losses(whole.time);
    let attempt = |traced: bool| {
        let mut job = plan.job(1, &losses, traced);
        let ending = job.run().and_then(|ending| match ending.words == whole.words {
            true => Ok(ending),
            false => Err(format!("not the bytes of a run without a loss: {:?}", ending.words)),
        });
        (ending, job)
    };
    let (ending, _) = attempt(false);
    ending.map_err(|error| {
        let (_, job) = attempt(true);
        format!(
            "{error}\n{}\n{losses:?}\n{:?} on {:?}",
            job.trace(),
            plan.program.pes,
            plan.node_of
        )
    })
}

/// The totals of many seeds.
#[derive(Debug, Default)]
struct Sum {
    jobs: u32,
    pes: usize,
    most: usize,
    losses: u32,
    nodes_lost: u32,
    replayed: u32,
    global: u32,
    events: u64,
}

/// Runs `seeds` on all processors, until the limit is over; reports the lowest that fails.
fn many(seeds: std::ops::Range<u64>, limit: Duration) -> Sum {
    const AT_ONCE: u64 = 64;
    let begun = Instant::now();
    let (mut sum, mut next) = (Sum::default(), seeds.start);
    while next < seeds.end && begun.elapsed() < limit {
        let end = seeds.end.min(next.saturating_add(AT_ONCE));
        let all: Vec<_> = (next..end).into_par_iter().map(|seed| (seed, run(seed, None))).collect();
        for (seed, ending) in all {
            let again = "cargo test --test sim local::";
            let ending =
                ending.unwrap_or_else(|error| panic!("{error}\nagain: SEED={seed} {again}"));
            sum.jobs += 1;
            sum.pes += ending.words.len();
            sum.most = sum.most.max(ending.words.len());
            sum.losses += ending.losses;
            sum.nodes_lost += ending.nodes_lost;
            sum.replayed += ending.replayed;
            sum.global += ending.global;
            sum.events += ending.events;
        }
        next = end;
    }
    let rate = f64::from(sum.jobs) / begun.elapsed().as_secs_f64() * 60.0;
    println!("local rollback: {sum:?}, {rate:.0} seeds a minute");
    sum
}

#[test]
fn lost_pes_roll_back_locally_and_the_bytes_are_right() {
    let sum = many(seeds(4000), Duration::MAX);
    let few = sum.jobs < 4000; // coverage is only required of a full run
    assert!(few || sum.replayed > 4000 && sum.most > 90 && sum.nodes_lost > 1000, "{sum:?}");
    assert!(few || sum.global > 400 && sum.global < sum.replayed, "{sum:?}");
}

#[test]
fn broken_rules_of_local_rollback_are_caught() {
    use Mutant::*;
    if !skip::long() {
        return;
    }
    let all = [
        (FarLeftEarly, 645),
        (FarOrderForgotten, 34),
        (FarNotAwaited, 736),
        (FarEarlierDropped, 2050),
    ];
    all.into_par_iter().for_each(|(rule, seed)| caught(rule, seed, |seed| run(seed, Some(rule))));
}

/// Runs from `SEED` on until the time is over: a different job every time.
#[test]
fn endless_local_rollback_when_soaking() {
    if std::env::var_os("RAIDSHMEM_SOAK").is_none() {
        return skip::skip("soak", "RAIDSHMEM_SOAK is not set");
    }
    let seconds = from_environment("SECONDS_OF_SIM").unwrap_or(60);
    let first = from_environment("SEED").unwrap_or(0) << 32;
    many(first..u64::MAX, Duration::from_secs(seconds.div_ceil(2)));
}
