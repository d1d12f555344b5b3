//! A model checker for local rollback: every interleaving of small programs, every death.
//!
//! [`model`] has the steps of nodes, [`calls`] those of PEs, [`substitute`] those of a substitute;
//! the decisions are those of the modules beside this one. A search is exhaustive over the states
//! that can be reached. [`random`] makes programs by a seed.
//!
//! Checked:
//! - every end has the memory and the registers of some run without a loss. Registers hold all that
//!   a PE has seen, so this covers what survivors saw, that nothing is lost or done twice, and that
//!   what a substitute reads is what its predecessor read;
//! - no wait for ever: where nothing moves any more, all have made their calls;
//! - a substitute makes the same calls as before, and looks at no word whose value is not known;
//! - a loss is global only if an operation is in doubt.
//!
//! Left out: lost nodes, engines, locks, the heap.

mod broken;
mod calls;
mod model;
mod program;
mod random;
mod substitute;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use broken::Broken;
use model::{JobState, Model, Words};
use program::Program;

use crate::protocol::explore::asked_for;

/// Memory and registers at an end.
type End = Vec<(Words, [u64; 2])>;

/// What a search found.
#[derive(Debug, Default)]
struct ReplayResult {
    states: usize,
    global: usize,
    replayed: usize,
    ends: BTreeSet<End>,
}

fn fingerprint(state: &JobState) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

fn end(state: &JobState) -> End {
    let last = |pe: &model::PeState| (*pe.memories.last().expect("the first"), pe.registers);
    state.pes.iter().map(last).collect()
}

/// Searches all states; every end must be one of `allowed`, if some are given.
fn search(model: &Model, allowed: Option<&BTreeSet<End>>) -> Result<ReplayResult, String> {
    let first = model.first();
    let mut seen = BTreeSet::from([fingerprint(&first)]);
    let (mut stack, mut next, mut found) = (vec![first], Vec::new(), ReplayResult::default());
    while let Some(state) = stack.pop() {
        found.states += 1;
        if state.global {
            found.global += 1;
            continue;
        }
        let wrong = |error: String| format!("{model}: {error}\n{state:?}");
        let moves = model.successors(&state, &mut next).map_err(wrong)?;
        if moves == 0 {
            if !state.is_over(&model.program) {
                return Err(wrong("a wait without end".to_owned()));
            }
            let end = end(&state);
            if allowed.is_some_and(|allowed| !allowed.contains(&end)) {
                return Err(wrong(format!("no run without a loss ends so: {end:?}")));
            }
            found.replayed += usize::from(state.deaths < model.deaths);
            found.ends.insert(end);
        }
        stack.extend(next.drain(..).filter(|state| seen.insert(fingerprint(state))));
    }
    Ok(found)
}

fn explore(program: &Program, deaths: u8, broken: Broken) -> Result<ReplayResult, String> {
    let model = |deaths, broken| Model { program: program.clone(), deaths, broken };
    let whole = search(&model(0, Broken::Nothing), None)?;
    search(&model(deaths, broken), Some(&whole.ends))
}

fn holds(program: &Program, deaths: u8) {
    let found = explore(program, deaths, Broken::Nothing).unwrap_or_else(|error| panic!("{error}"));
    let ReplayResult { states, global, replayed, ends } = &found;
    let (name, ends) = (program.name, ends.len());
    println!(
        "{name}, {deaths} deaths: {states} states, {replayed} ends after a replay, {ends} \
              different ones, {global} losses are global"
    );
    assert!(*replayed > 0, "{name}");
}

#[test]
fn a_lost_pe_goes_back_alone_wherever_it_dies() {
    program::all().iter().for_each(|program| holds(program, 1));
}

/// The second loss may come in the replay of the first, of the same PE or of another.
#[test]
fn two_losses_anywhere() {
    program::all().iter().for_each(|program| holds(program, 2));
}

/// Programs that nobody thought of.
#[test]
fn programs_by_a_seed() {
    by_seeds(0..4);
}

/// The same, as many as there is time for.
#[test]
fn more_programs_by_a_seed() {
    if asked_for("RAIDSHMEM_ALL", "all") {
        by_seeds(4..20);
    }
}

fn by_seeds(seeds: Range<u64>) {
    let (mut states, mut replayed, mut global) = (0, 0, 0);
    for seed in seeds {
        let program = random::program(seed);
        let found = explore(&program, 1, Broken::Nothing);
        let found = found.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{program:#?}"));
        (states, replayed) = (states + found.states, replayed + found.replayed);
        global += found.global;
    }
    println!("{states} states, {replayed} ends after a replay, {global} losses are global");
    assert!(replayed > 1000 && global > 0);
}

/// Each broken rule, and the program and the deaths with which it shows.
fn caught() -> Vec<(Broken, Program, u8)> {
    use program as p;
    vec![
        (Broken::LoggedAfter, p::adds_and_swaps(), 1),
        (Broken::DoneBefore, p::used_up(), 1),
        (Broken::NotUnderway, p::flag(), 1),
        (Broken::FoundAlone, p::found(), 1),
        (Broken::NotSkipped, p::used_up(), 1),
        (Broken::BegunSkipped, p::signalled(), 1),
        (Broken::OwnSkipped, p::own_memory(), 1),
        (Broken::DoubtDoneAgain, p::flag(), 1),
        (Broken::DoubtSkipped, p::flag(), 1),
        (Broken::ByOrigin, p::two_origins_then_more(), 1),
        (Broken::PendingIgnored, p::adds_and_swaps(), 1),
        (Broken::FailedApplied, p::failed_swap(), 1),
        (Broken::TimeBeforeLook, p::signalled(), 1),
        (Broken::ClockIgnored, p::two_origins_apart(), 1),
        (Broken::MeetingTimesIgnored, p::met_between(), 1),
        (Broken::ReadAgain, p::read_once(), 1),
        (Broken::EventsLost, p::tested(), 1),
        (Broken::MeetingBringsNothing, p::used_up(), 1),
        (Broken::LastMeetingTrusted, p::used_up(), 1),
        (Broken::SourceReadAgain, p::sum_overwritten(), 1),
        (Broken::WritesOthers, p::broadcast_kept(), 1),
        (Broken::InPlace, p::flag(), 1),
        (Broken::NoSecondLook, p::two_origins(), 1),
        (Broken::HandedOverEarly, p::two_origins(), 1),
        (Broken::NotMarked, p::swaps(), 2),
        (Broken::MarkIgnored, p::flag(), 2),
        (Broken::ReleasedEarly, p::stale(), 1),
        (Broken::DroppedEarly, p::checkpointed(), 1),
    ]
}

#[test]
fn broken_rules_are_caught() {
    for (broken, program, deaths) in caught() {
        match explore(&program, deaths, broken) {
            Err(error) => println!("{}", error.lines().next().unwrap_or("")),
            Ok(found) => panic!("{broken:?} in {}: {} states", program.name, found.states),
        }
    }
}
