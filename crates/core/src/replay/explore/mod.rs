//! A model checker for local rollback: every interleaving of small programs, every death.
//!
//! The code under test is that of the sibling modules, unchanged, over a port of the model
//! ([`port`], [`views`]). [`calls`] has the programs' calls and steps, [`loss`] the losses and the
//! start of a substitute, and [`random`] generates programs from a seed. A search covers all
//! reachable states.
//!
//! Checked:
//! - every final state has the memory and the registers of some run without a loss. Registers hold
//!   all values that a PE has read, so this covers the reads of survivors, lost and repeated
//!   operations, and the reads of a substitute, which equal those of its predecessor;
//! - no deadlock: in a state without successors, all PEs have made all their calls;
//! - PEs that make a checkpoint are members of one view, and roll back in the agreement on it only
//!   if a PE is lost;
//! - a substitute makes the calls of its predecessor, and reads no word of unknown value;
//! - all PEs roll back only if a PE is lost after another has ended its records, an operation is in
//!   doubt, no replica of a log is left, a node is
//!   lost while a PE rolls back or another one changes a word there, or a PE is lost in a
//!   checkpoint.
//!
//! Left out: engines, locks, the heap, meetings of teams, and the order of a processor's stores,
//! which [`CallPort::order`](super::port::CallPort::order) makes that of the calls.

mod broken;
mod calls;
mod loss;
mod model;
mod port;
mod program;
mod random;
mod script;
mod views;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use broken::Broken;
use model::{JobState, Nodes, ReplayModel, Words};
use program::Program;

use crate::mutant::Mutant;
use crate::protocol::explore::asked_for;

/// Memory and registers in a final state.
type End = Vec<(Words, [u64; 2])>;

/// The result of a search.
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

/// Searches all states; every final state must be in `allowed`, if given.
fn search(model: &ReplayModel, allowed: Option<&BTreeSet<End>>) -> Result<ReplayResult, String> {
    let first = model.first();
    let mut seen = BTreeSet::from([fingerprint(&first)]);
    let (mut stack, mut next, mut found) = (vec![first], Vec::new(), ReplayResult::default());
    while let Some(state) = stack.pop() {
        found.states += 1;
        if let Some(wrong) = state.wrong {
            return Err(format!("{model}: {wrong}\n{state:?}"));
        }
        if state.global.is_some() {
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

/// The kind and number of losses.
#[derive(Debug, Clone, Copy)]
enum Losses {
    /// Of processes, all on one node.
    Together(u8),
    /// Of processes, each on its own node.
    Processes(u8),
    /// Losses of processes and nodes.
    Nodes(u8),
}

fn explore(program: &Program, losses: Losses, broken: Broken) -> Result<ReplayResult, String> {
    let (nodes, deaths) = match losses {
        Losses::Together(deaths) => (Nodes::One, deaths),
        Losses::Processes(deaths) => (Nodes::Each, deaths),
        Losses::Nodes(deaths) => (Nodes::Lost, deaths),
    };
    let model = |deaths, broken| ReplayModel { program: program.clone(), deaths, nodes, broken };
    let whole = search(&model(0, Broken::Nothing), None)?;
    search(&model(deaths, broken), Some(&whole.ends))
}

fn holds(program: &Program, losses: Losses) {
    let found = explore(program, losses, Broken::Nothing).unwrap_or_else(|error| panic!("{error}"));
    let ReplayResult { states, global, replayed, ends } = &found;
    let (name, ends) = (program.name, ends.len());
    println!(
        "{name}, {losses:?}: {states} states, {replayed} ends after a replay, {ends} different \
         ones, {global} losses are global"
    );
    assert!(*replayed > 0, "{name}");
}

#[test]
fn a_lost_pe_rolls_back_locally_wherever_it_dies() {
    program::all().iter().for_each(|program| holds(program, Losses::Processes(1)));
}

#[test]
fn a_lost_pe_of_the_same_node_rolls_back_locally() {
    program::all().iter().for_each(|program| holds(program, Losses::Together(1)));
}

#[test]
fn a_pe_lost_with_its_node_rolls_back_locally_wherever_it_is() {
    program::all().iter().for_each(|program| holds(program, Losses::Nodes(1)));
}

/// The second loss, of a process or of a node, may come before the log is restored, in the replay,
/// or while the lost replicas are not yet restored.
#[test]
fn a_node_and_another_loss_anywhere() {
    if !asked_for("RAIDSHMEM_ALL", "all") {
        return;
    }
    let programs = [program::checkpointed(), program::used_up(), program::sum_overwritten()];
    programs.iter().for_each(|program| holds(program, Losses::Nodes(2)));
}

/// The second loss may come in the replay after the first, of the same PE or of another.
#[test]
fn two_losses_anywhere() {
    if !asked_for("RAIDSHMEM_ALL", "all") {
        return;
    }
    few().iter().for_each(|program| holds(program, Losses::Together(2)));
}

/// Like the test above, but nodes show the losses one after the other.
#[test]
fn two_losses_shown_by_and_by() {
    if !asked_for("RAIDSHMEM_ALL", "all") {
        return;
    }
    few().iter().for_each(|program| holds(program, Losses::Processes(2)));
}

/// Returns the programs of two PEs; all programs in `make soak`.
fn few() -> Vec<Program> {
    let is_small = |program: &Program| program.pes.len() == 2;
    let all = std::env::var_os("RAIDSHMEM_SOAK").is_some();
    program::all().into_iter().filter(|program| all || is_small(program)).collect()
}

/// Explores randomly generated programs.
#[test]
fn programs_by_a_seed() {
    by_seeds(0..4);
}

/// Explores more random programs, only on request.
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
        let found = explore(&program, Losses::Processes(1), Broken::Nothing);
        let found = found.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{program:#?}"));
        (states, replayed) = (states + found.states, replayed + found.replayed);
        global += found.global;
    }
    println!("{states} states, {replayed} ends after a replay, {global} losses are global");
    assert!(replayed > 1000 && global > 0);
}

/// Returns each broken rule, with the program and the losses that expose it.
fn caught() -> Vec<(Broken, Program, Losses)> {
    use Losses::{Nodes, Processes};
    use Mutant as M;
    use program as p;
    let rules = vec![
        (M::LoggedAfter, p::used_up(), Processes(1)),
        (M::DoneBefore, p::used_up(), Processes(1)),
        (M::NotUnderway, p::flag(), Processes(1)),
        (M::FlightNotShown, p::flag(), Processes(1)),
        (M::FoundNotApplied, p::found_then_more(), Processes(1)),
        (M::NotSkipped, p::used_up(), Processes(1)),
        (M::BegunSkipped, p::signalled(), Processes(1)),
        (M::OwnSkipped, p::own_memory(), Processes(1)),
        (M::DoubtDoneAgain, p::flag(), Processes(1)),
        (M::AnswerNotAwaited, p::swaps(), Processes(1)),
        (M::MergedByOrigin, p::two_origins_then_more(), Processes(1)),
        (M::PendingIgnored, p::adds_and_swaps(), Processes(1)),
        (M::FailedSwapApplied, p::failed_swap(), Processes(1)),
        (M::ClockIgnored, p::two_origins_apart(), Processes(1)),
        (M::MeetingTimesIgnored, p::met_between(), Processes(1)),
        (M::ReadAgain, p::read_once(), Processes(1)),
        (M::MeetingBringsNothing, p::used_up(), Processes(1)),
        (M::LastMeetingTrusted, p::exchange(), Processes(1)),
        (M::NoSecondLook, p::two_origins(), Processes(1)),
        (M::TakenTwice, p::flag(), Processes(2)),
        (M::TakenNotNoted, p::swaps(), Processes(2)),
        (M::ReleasedEarly, p::stale(), Processes(1)),
        (M::FoundInWiped, p::swaps(), Nodes(1)),
        (M::ReadInWiped, p::read_late(), Nodes(1)),
        (M::LogsNotChecked, p::sum_overwritten(), Nodes(1)),
        (M::NotLookedAgain, p::sum_overwritten(), Nodes(1)),
        (M::QuietNotAwaited, p::flag(), Processes(1)),
        (M::BeginningsNotAwaited, p::checkpointed(), Processes(1)),
        (M::BeginningsNotAwaited, p::used_up(), Nodes(2)),
        (M::OldLogReplayed, p::checkpointed(), Processes(1)),
        (M::OtherViewsIgnored, p::checkpointed(), Processes(1)),
        (M::AgreementRepeated, p::checkpointed(), Processes(1)),
        (M::MembersNotAwaited, p::checkpointed(), Processes(1)),
        (M::AwayNotAwaited, p::unlogged(), Processes(1)),
        (M::ReasonsReadLate, p::unlogged(), Processes(1)),
        (M::ViewNotShared, p::unlogged(), Processes(1)),
        (M::WordsKept, p::unlogged_twice(), Processes(1)),
    ];
    let more = vec![
        (Broken::EventsLost, p::tested(), Processes(1)),
        (Broken::SourceReadAgain, p::sum_overwritten(), Processes(1)),
        (Broken::WritesOthers, p::broadcast_kept(), Processes(1)),
        (Broken::ChosenEarly, p::stale(), Processes(1)),
        (Broken::WipedEarly, p::sum_overwritten(), Nodes(1)),
        (Broken::NodeLostThenIgnored, p::used_up(), Nodes(2)),
        (Broken::NoReplicaNeeded, p::used_up(), Nodes(2)),
    ];
    let rules =
        rules.into_iter().map(|(rule, program, losses)| (Broken::Rule(rule), program, losses));
    rules.chain(more).collect()
}

#[test]
fn broken_rules_are_caught() {
    let mut left = Vec::new();
    for (broken, program, losses) in caught() {
        match explore(&program, losses, broken) {
            Err(error) => println!("{}", error.lines().next().unwrap_or("")),
            Ok(found) => left.push((broken, program.name, found.states)),
        }
    }
    assert!(left.is_empty(), "{left:?}");
}
