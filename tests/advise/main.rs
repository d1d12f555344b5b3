//! The claims of `oshadvise`, checked against programs whose answer is known.

use std::collections::BTreeSet;

use raidshmem::advise::routines;
use raidshmem_advise::advise::advise;
use raidshmem_advise::objects::Routines;
use raidshmem_advise::read::module;
use raidshmem_advise::report::{Item, Report};
use raidshmem_advise::routines::Routine;

#[macro_use]
#[path = "../support/skip.rs"]
mod support;

mod allocations;
mod clang;
mod forms;
mod machine;
mod pointers;
mod print;
mod program;
mod restarts;

use machine::{Name, Seen, Told, run};
use print::{name, text};
use program::{GLOBALS, Random, drawn};

/// Programs of a short run, and of a full one.
const SAMPLE: u64 = 150;
const WHOLE: u64 = 2_000;
/// Runs of each program, with different orders of the PEs.
const RUNS: u64 = 6;

fn named(item: &Item) -> Name {
    match (0..GLOBALS).find(|global| item.name == name(*global) && item.storage == "static") {
        Some(global) => Name::Global(global),
        None => Name::Block(item.place.line),
    }
}

/// Returns the live and the dead memory by line.
fn told(report: &Report) -> (Told, Told) {
    let (mut live, mut dead) = (Told::new(), Told::new());
    for point in &report.points {
        live.entry(point.place.line).or_default().extend(point.live.iter().map(named));
        dead.entry(point.place.line).or_default().extend(point.dead.iter().map(named));
    }
    (live, dead)
}

/// Returns the claims about a program that its run contradicts, and the number of claims checked.
fn contradicted(live: &Told, dead: &Told, seen: &Seen) -> (Vec<(u32, Name)>, usize) {
    let says = |told: &Told, line: u32, name: Name| {
        told.get(&line).is_some_and(|names| names.contains(&name))
    };
    let wrong = seen.read.iter().copied().filter(|(line, name)| {
        let at = live.contains_key(line);
        at && (says(dead, *line, *name) || !says(live, *line, *name))
    });
    let claims = seen.passed.iter().filter_map(|line| dead.get(line)).map(BTreeSet::len).sum();
    (wrong.collect(), claims)
}

/// The result of checking programs.
#[derive(Default)]
struct Found {
    claims: usize,
    reads: usize,
    /// The first claim that a run contradicts.
    wrong: Option<String>,
}

/// Checks the claims that follow from `routines` for this many programs, until one is wrong.
fn look(programs: u64, routines: &Routines) -> Found {
    let mut found = Found::default();
    for seed in 0..programs {
        let program = drawn(&mut Random(seed));
        let text = text(&program);
        let module = module(&text).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        let report = advise(vec![module], routines).expect("it has a main");
        let (live, dead) = told(&report);
        for order in 0..RUNS {
            let seen = run(&program, &mut Random(seed * 1_000 + order));
            let (wrong, looked_at) = contradicted(&live, &dead, &seen);
            if !wrong.is_empty() {
                found.wrong = Some(format!("seed {seed}, order {order}: {wrong:?}\n{text}"));
                return found;
            }
            found.claims += looked_at;
            found.reads += seen.read.len();
        }
    }
    found
}

#[test]
fn dead_memory_is_not_read_by_running_programs() {
    let all = std::env::var_os("RAIDSHMEM_ALL").is_some();
    let Found { claims, reads, wrong } = look(if all { WHOLE } else { SAMPLE }, &routines());
    assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    println!("{claims} claims, {reads} reads");
    assert!(claims > 1_000 && reads > 1_000, "{claims} claims, {reads} reads");
}

/// With a wrong table of routines the same programs read memory that was reported dead.
#[test]
fn a_rule_that_is_broken_is_noticed() {
    let broken = |change: fn(&mut Routine)| {
        let mut routines = routines();
        routines.values_mut().for_each(change);
        look(WHOLE, &routines).wrong.is_some()
    };
    assert!(broken(|of| of.nonblocking = false), "what is read until a quiet");
    assert!(
        broken(|of| of.args.iter_mut().for_each(|a| a.reads_remote = false)),
        "what peers read"
    );
    assert!(broken(|of| of.args.iter_mut().for_each(|a| a.reads = false)), "what is read here");
}
