//! A model checker for the protocol: every interleaving, every death, on the table that the driver
//! uses.
//!
//! [`model`] is a small version of the driver's environment. Memory is "void" or "sealed as
//! checkpoint n, and good or mixed"; views reach each PE with any delay. A death (of a process, or
//! of a node with everything on it) may come between any two steps, and long steps (encode, copy,
//! rebuild, re-encode) have a middle in which the bytes are void. In [`groups`], a move of a PE
//! changes the parity groups. The search is exhaustive over the
//! reachable states; [`reduce`] omits states that cannot give a different answer, [`state`] keeps
//! 64 bits of each.
//!
//! Checked in every state:
//! - agreement: no two PEs of a view resume from different checkpoints;
//! - no mix: restored data has a single checkpoint number and comes from good sources;
//! - durability: with at most m losses since redundancy was whole, no PE is unrecoverable;
//! - verdict: when no step is possible, either all PEs have finished or all living PEs are
//!   unrecoverable, with the same error;
//! - no deadlock: a state in which no step is possible is one of those two;
//! - steps: the meetings that a PE publishes ascend as described in `segment::words`;
//! - own work: a PE in `shmem_finalize` keeps its computation since the last checkpoint, and a PE
//!   that rolls back then needs no other PE any more.
//!
//! Left out: corrupt bytes, message loss, more than two checkpoints.

mod acts;
mod broken;
mod deaths;
mod groups;
mod healing;
mod model;
mod parts;
mod reduce;
mod regroup;
mod state;

use std::collections::BTreeSet;
use std::time::Instant;

use crate::mutant::Mutant;
use crate::mutant::in_thread::with_broken;
use crate::settings::Rollback;
use groups::{GroupTable, Relocation};
use model::{Broken, End, Model};
use state::{JobState, Seen, full};

/// The part of the state space that a search omits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Search {
    /// No states.
    Full,
    /// Symmetric states.
    Symmetric,
    /// Symmetric states, and steps that commute with all others.
    Reduced,
}

/// The result of a search.
#[derive(Debug, Default)]
struct SearchResult {
    states: usize,
    unrecoverable: usize,
    cut_short: usize,
    finished: usize,
    /// Finished jobs whose last checkpoint is in other groups than the first, and those of them in
    /// which a recovery has encoded a checkpoint again.
    regrouped: usize,
    healed: usize,
    /// The largest number of times that the checkpoint of a finished job was encoded again.
    most_healed: u64,
    /// The places of the PEs of finished jobs, if groups change.
    places: BTreeSet<[usize; 4]>,
    /// The states in which no step is possible.
    ends: BTreeSet<u64>,
}

/// Searches all states, depth first. The error has the broken promise and the steps that led there.
fn search(model: &Model, how: Search) -> Result<SearchResult, String> {
    let rule = match model.broken {
        Broken::Rule(rule) => Some(rule as usize),
        _ => None,
    };
    with_broken(rule, || search_all(model, how))
}

fn search_all(model: &Model, how: Search) -> Result<SearchResult, String> {
    let symmetries = model.symmetries();
    let first = model.first();
    let print = |state: &JobState, how: Search| match how {
        Search::Full => state.fingerprint(model.pes, &[]),
        Search::Symmetric | Search::Reduced => state.fingerprint(model.pes, &symmetries),
    };
    let mut seen = Seen::default();
    seen.insert(print(&first, how));
    let (mut stack, mut path, mut next) = (vec![(first, 0)], Vec::new(), Vec::new());
    let mut found = SearchResult::default();
    while let Some((state, depth)) = stack.pop() {
        found.states += 1;
        path.truncate(depth);
        path.push(state);
        model.successors(&state, &mut next).map_err(|error| way(model, &path, &error))?;
        if next.is_empty() {
            match model.ended(&state).map_err(|error| way(model, &path, &error))? {
                End::Unrecoverable => found.unrecoverable += 1,
                End::CutShort => found.cut_short += 1,
                End::Finished => {
                    found.finished += 1;
                    found.regrouped += usize::from(state.pes[0].is_regrouped());
                    let healed = full(state.pes[0].agreed).healed_times();
                    found.healed += usize::from(healed > 0);
                    found.most_healed = found.most_healed.max(healed);
                    found.places.insert(state.nodes_in(state.current).all());
                }
            }
            let end = model.answer(&state);
            found.ends.insert(print(&end, Search::Reduced));
        }
        for mut state in next.drain(..) {
            if how == Search::Reduced {
                model.take_local_steps(&mut state);
                model.forget(&mut state);
            }
            if seen.insert(print(&state, how)) {
                stack.push((state, depth + 1));
            }
        }
    }
    Ok(found)
}

/// Formats the broken promise, the steps that led there, and the last state.
fn way(model: &Model, path: &[JobState], error: &str) -> String {
    let steps = path.windows(2).map(|pair| pair[0].step_to(&pair[1], model.pes));
    let steps: Vec<String> = steps.collect();
    let last = path.last().map(|state| model.pes(state));
    format!("{error}\n{model}\n{}\n{last:#?}", steps.join("\n"))
}

fn model(pes: usize, parity: usize, deaths: u8, last: u8) -> Model {
    Model::new(pes, parity, deaths, last, Broken::Nothing)
}

fn holds(model: &Model) -> SearchResult {
    let begun = Instant::now();
    let found = search(model, Search::Reduced).unwrap_or_else(|error| panic!("{error}"));
    let SearchResult { states, unrecoverable, cut_short, finished, .. } = &found;
    println!(
        "{model}: {states} states searched in {:.1} s; ends: {finished} finished, {unrecoverable} \
         unrecoverable, {cut_short} cut short",
        begun.elapsed().as_secs_f64()
    );
    assert!(*states > 1000 && *finished > 0);
    let takes_many = model.all_at_once || model.groups.is_by_node();
    assert!(
        *cut_short == 0 || model.deaths > 2 || takes_many && model.deaths > 1,
        "all PEs say it where no third is lost"
    );
    found
}

/// The full and the reduced search must end in the same states.
#[test]
fn the_reductions_change_no_answer() {
    for (pes, parity, deaths, last) in [(2, 1, 2, 2), (2, 1, 1, 3), (3, 1, 1, 2)] {
        let model = model(pes, parity, deaths, last);
        let each = Model { lazy: false, ..self::model(pes, parity, deaths, last) };
        let full = search(&each, Search::Full).unwrap_or_else(|error| panic!("{error}"));
        let reduced = holds(&model);
        println!("{model}: {} states in the full search", full.states);
        assert!(full.states > 3 * reduced.states);
        assert_eq!(full.ends, reduced.ends);
    }
}

#[test]
fn deaths_anywhere() {
    assert_eq!(holds(&model(4, 1, 1, 2)).unrecoverable, 0);
    assert_eq!(holds(&model(3, 2, 2, 2)).unrecoverable, 0);
    let found = holds(&model(2, 1, 2, 3));
    assert!(found.unrecoverable > 0, "both at once are more than one parity bears");
}

/// A program that calls the checkpoint from two places must continue after every loss.
#[test]
fn deaths_anywhere_in_a_program_with_two_places() {
    let two = |pes, parity, deaths, last| Model { two: true, ..model(pes, parity, deaths, last) };
    for (pes, parity, deaths, last) in [(2, 1, 1, 3), (3, 1, 1, 3), (2, 1, 2, 2)] {
        let found = holds(&two(pes, parity, deaths, last));
        assert!(usize::from(deaths) > parity || found.unrecoverable == 0);
    }
    let each = Model { lazy: false, ..two(2, 1, 1, 2) };
    let full = search(&each, Search::Full).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(full.ends, holds(&two(2, 1, 1, 2)).ends);
    let today = Model { two: true, ..Model::new(3, 1, 1, 3, Broken::Rule(Mutant::EveryCallMeets)) };
    let error = search(&today, Search::Reduced).expect_err("it is caught");
    println!("{today}: every call meets: {}", error.lines().next().unwrap_or(""));
}

/// All processes die at once, at any step, and another loss precedes or follows.
#[test]
fn all_processes_at_once() {
    let at_once = |model: Model| Model { all_at_once: true, ..model };
    for (pes, parity, deaths, last) in [(2, 1, 1, 3), (3, 1, 1, 2), (2, 1, 2, 2)] {
        let found = holds(&at_once(model(pes, parity, deaths, last)));
        assert!(deaths > 1 || found.unrecoverable == 0);
    }
    for broken in [Broken::Rule(Mutant::DeadVoteIgnored), Broken::LiveNotRescued] {
        let model = at_once(Model::new(2, 1, 1, 3, broken));
        let error = search(&model, Search::Reduced).expect_err(&format!("{broken:?} is caught"));
        println!("{model}: {broken:?}: {}", error.lines().next().unwrap_or(""));
    }
}

/// The checkpoint's parity is computed while the program runs on.
#[test]
fn background_parity() {
    assert_eq!(holds_in_parts(&in_parts(2, 1, 1, 3, Broken::Nothing)).unrecoverable, 0);
    assert_eq!(holds_in_parts(&in_parts(3, 1, 1, 2, Broken::Nothing)).unrecoverable, 0);
    holds_in_parts(&in_parts(2, 1, 2, 2, Broken::Nothing));
    let at_once = Model { all_at_once: true, ..in_parts(2, 1, 1, 3, Broken::Nothing) };
    assert_eq!(holds_in_parts(&at_once).unrecoverable, 0);
    for (pes, last, rule) in [
        (2, 3, Mutant::CopiesNotMet),
        (2, 3, Mutant::LiveProtected),
        (2, 3, Mutant::CopiedAgain),
        (3, 2, Mutant::NoBarrierA),
        (3, 2, Mutant::ForwardTooEarly),
        (3, 2, Mutant::SlotReused),
        (3, 2, Mutant::ViewNotChecked),
    ] {
        let model = in_parts(pes, 1, 1, last, Broken::Rule(rule));
        let error = search(&model, Search::Symmetric).expect_err(&format!("{rule:?} is caught"));
        println!("{model}: {rule:?}: {}", error.lines().next().unwrap_or(""));
    }
}

/// Larger searches that `make test` adds.
#[test]
fn background_parity_of_larger_jobs() {
    if !asked_for("RAIDSHMEM_ALL", "all") {
        return;
    }
    for (pes, parity, deaths, last) in [(3, 1, 1, 3), (4, 1, 1, 2)] {
        let model = in_parts(pes, parity, deaths, last, Broken::Nothing);
        assert_eq!(holds_in_parts(&model).unrecoverable, 0);
    }
    holds_in_parts(&in_parts(2, 1, 2, 3, Broken::Nothing));
}

fn in_parts(pes: usize, parity: usize, deaths: u8, last: u8, broken: Broken) -> Model {
    Model { parts: true, ..Model::new(pes, parity, deaths, last, broken) }
}

fn holds_in_parts(model: &Model) -> SearchResult {
    let begun = Instant::now();
    let found = search(model, Search::Symmetric).unwrap_or_else(|error| panic!("{error}"));
    let (states, took) = (found.states, begun.elapsed().as_secs_f64());
    println!("{model}, parity in the background: {states} states searched in {took:.1} s");
    assert!(states > 1000 && found.finished > 0);
    found
}

/// Recoveries encode the checkpoint again in other groups, or the next checkpoint is in other
/// groups; a loss at any step finds it under the groups that decode it.
#[test]
fn deaths_anywhere_while_groups_change() {
    for rollback in [Rollback::Global, Rollback::Local] {
        let found = holds(&changing(rollback, 1, Broken::Nothing));
        assert_eq!((found.unrecoverable, found.healed > 0), (0, rollback == Rollback::Global));
        assert!(found.regrouped > 0);
    }
    for broken in BROKEN_CHANGING {
        let model = changing(Rollback::Global, 1, broken);
        let error = search(&model, Search::Reduced).expect_err(&format!("{broken:?} is caught"));
        println!("{model}: {broken:?}: {}", error.lines().next().unwrap_or(""));
    }
}

/// Broken rules that one death while groups change exposes.
const BROKEN_CHANGING: [Broken; 6] = [
    Broken::Rule(Mutant::NewestGroupsTaken),
    Broken::Rule(Mutant::SlotReused),
    Broken::Rule(Mutant::NoBarrierA),
    Broken::Rule(Mutant::ForwardTooEarly),
    Broken::Rule(Mutant::ViewNotChecked),
    Broken::Rule(Mutant::WipedTooEarly),
];

/// Four PEs whose groups are about to change, as the settings of this rollback have it.
fn changing(rollback: Rollback, deaths: u8, broken: Broken) -> Model {
    let groups = GroupTable::changing(rollback, Relocation::Alternates);
    Model { groups, ..Model::new(4, 1, deaths, 2, broken) }
}

/// Four PEs on four nodes, with groups that change.
fn healing(relocation: Relocation, deaths: u8, last: u8, broken: Broken) -> Model {
    let groups = GroupTable::changing(Rollback::Global, relocation);
    Model { groups, ..Model::new(4, 1, deaths, last, broken) }
}

/// A node is lost with a PE that moves, or has been lost so, and another loss precedes the
/// encoding in new groups, comes at any step of it, or follows.
#[test]
fn deaths_anywhere_while_a_recovery_heals() {
    let found = holds(&begins_lost(healing(Relocation::Best, 1, 1, Broken::Nothing)));
    assert!(found.unrecoverable > 0, "two of a group are lost before its parity is whole again");
    assert!(found.places.contains(&[0, 0, 3, 3]), "node 1 is lost with two PEs of the old group");
    let found = holds(&healing(Relocation::Worst, 1, 1, Broken::Nothing));
    assert_eq!(found.most_healed, 2, "the groups change for each loss");
    for rule in [
        Mutant::GroupsKept,
        Mutant::HealedLater,
        Mutant::NewestGroupsTaken,
        Mutant::SwitchedEarly,
        Mutant::HealedInPlace,
    ] {
        let model = healing(Relocation::Best, 1, 1, Broken::Rule(rule));
        let error = search(&model, Search::Reduced).expect_err(&format!("{rule:?} is caught"));
        println!("{model}: {rule:?}: {}", error.lines().next().unwrap_or(""));
    }
}

fn begins_lost(model: Model) -> Model {
    Model { begins_lost: true, ..model }
}

/// The same, in a program that makes another checkpoint afterwards.
#[test]
fn deaths_anywhere_after_a_recovery_heals() {
    if !asked_for("RAIDSHMEM_ALL", "all") {
        return;
    }
    for relocation in [Relocation::Best, Relocation::Worst] {
        let found = holds(&begins_lost(healing(relocation, 1, 2, Broken::Nothing)));
        let all = relocation == Relocation::Worst || found.healed == found.finished;
        assert!(all && found.healed > 0, "the groups change whatever is lost");
    }
}

/// Two more losses, of which the second may come while the groups change for the first.
#[test]
fn two_deaths_anywhere_while_recoveries_heal() {
    if !asked_for("RAIDSHMEM_SOAK", "soak") {
        return;
    }
    for relocation in [Relocation::Best, Relocation::Worst] {
        let found = holds(&healing(relocation, 2, 1, Broken::Nothing));
        assert!(found.most_healed >= 2, "the groups change for a second loss");
    }
}

/// Searches that `make test` adds to a quick `cargo test`.
#[test]
fn two_deaths_and_four_pes() {
    if !asked_for("RAIDSHMEM_ALL", "all") {
        return;
    }
    assert_eq!(holds(&model(4, 1, 1, 3)).unrecoverable, 0);
    let at_once = |model| Model { all_at_once: true, ..model };
    assert_eq!(holds(&at_once(model(4, 1, 1, 2))).unrecoverable, 0);
    assert_eq!(holds(&model(4, 2, 2, 2)).unrecoverable, 0);
    assert!(holds(&model(4, 1, 2, 2)).unrecoverable > 0);
    let two = Model { two: true, ..model(3, 2, 2, 2) };
    assert_eq!(holds(&two).unrecoverable, 0);
}

/// Runs the searches that are too long for every day.
#[test]
fn larger_jobs_when_soaking() {
    if !asked_for("RAIDSHMEM_SOAK", "soak") {
        return;
    }
    let two_a_node = Model { per_node: 2, ..model(4, 2, 1, 2) };
    assert_eq!(holds(&two_a_node).unrecoverable, 0);
    assert!(holds(&changing(Rollback::Global, 2, Broken::Nothing)).regrouped > 0);
    for (pes, parity, deaths, last) in LARGE {
        let found = holds(&model(pes, parity, deaths, last));
        assert!(usize::from(deaths) > parity || found.unrecoverable == 0);
    }
}

/// PEs, parity, deaths and last checkpoint of the searches when soaking.
const LARGE: [(usize, usize, u8, u8); 6] =
    [(2, 1, 3, 2), (3, 1, 2, 3), (3, 1, 3, 2), (4, 1, 2, 3), (4, 2, 2, 3), (4, 2, 3, 2)];

pub fn asked_for(name: &str, need: &str) -> bool {
    let asked = std::env::var_os(name).is_some();
    if !asked {
        // Bypasses the harness, which hides the output of passing tests; `.ci/sums` reads it.
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        let line = format!("SKIPPED: {test}: {need}: {name} is not set\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }
    asked
}

#[test]
fn broken_rules_are_caught() {
    for (pes, parity, deaths, broken) in BROKEN {
        let model = Model::new(pes, parity, deaths, 3, broken);
        let error = search(&model, Search::Reduced).expect_err(&format!("{broken:?} is caught"));
        println!("{model}: {broken:?}: {}", error.lines().next().unwrap_or(""));
    }
}

/// PEs, parity and deaths that expose a broken rule.
const BROKEN: [(usize, usize, u8, Broken); 19] = [
    (2, 1, 2, Broken::Rule(Mutant::DecisionNotWritten)),
    (2, 1, 1, Broken::Rule(Mutant::NoBarrierB)),
    (3, 1, 1, Broken::Rule(Mutant::NoBarrierA)),
    (3, 1, 1, Broken::Rule(Mutant::SlotReused)),
    (3, 1, 1, Broken::Rule(Mutant::ForwardTooEarly)),
    (3, 1, 1, Broken::Rule(Mutant::ViewNotChecked)),
    (3, 1, 1, Broken::Rule(Mutant::WipedTooEarly)),
    (3, 1, 1, Broken::NoSettleBeforeReport),
    (3, 1, 1, Broken::AdoptedUnseen),
    (3, 1, 2, Broken::Rule(Mutant::ParityNotRecomputed)),
    (2, 1, 2, Broken::Rule(Mutant::PlanTooHopeful)),
    (3, 2, 2, Broken::Rule(Mutant::SlotReused)),
    (3, 2, 2, Broken::Rule(Mutant::ForwardTooEarly)),
    (3, 2, 2, Broken::Rule(Mutant::ViewNotChecked)),
    (3, 2, 2, Broken::Rule(Mutant::WipedTooEarly)),
    (3, 2, 2, Broken::AdoptedUnseen),
    (3, 1, 1, Broken::EndIgnoresLosses),
    (3, 1, 1, Broken::Rule(Mutant::EndRollsBack)),
    (3, 2, 2, Broken::Rule(Mutant::ParityOfTheEnd)),
];
