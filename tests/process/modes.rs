//! One loss at every step of a checkpoint, in every mode: [`TABLE`] has the expected results.
//!
//! Four PEs on four nodes, so that a node loss takes one PE and its memory. Every PE is lost in
//! turn, at checkpoint 3. A rule's step is before the barrier that ends it, so all others are known
//! to be in the same part of the checkpoint, but before barrier A not how far they are in it. Where
//! that matters, both ends are allowed ([`Then::Either`]), and nothing else.

use super::support::jacobi::{self, SMALL};
use super::support::{Outcome, STEPS, Sweep};

/// The expected result of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The right sum, after rolling back to checkpoint 2.
    Back,
    /// The right sum, after rolling forward to checkpoint 3, the one being made.
    Forward,
    /// The right sum, from either checkpoint.
    Some,
    /// The agreed error, with status 3.
    Error,
    /// The right sum or the agreed error.
    Either,
    /// The end of the job with status 137 and a line: nothing is kept.
    Ends,
}

use Then::{Back, Either, Ends, Error, Forward, Some};

const PROCESS: &str = "--kill";
const NODE: &str = "--kill-node";

/// The modes with two parity slots survive one loss at every moment: slot and snapshot of 2 are
/// untouched until all have the parity of 3 (barrier A), and that suffices from there on.
///
/// `double` has one slot. It is overwritten in `encode`: a lost node's data then exists only there,
/// half old and half new, unless the PE that holds it had finished, and all others too. A lost
/// process leaves its snapshot, so the slot is not needed.
///
/// `single` has one slot and no snapshot: every PE needs the copy that its neighbour keeps, and a
/// lost node takes one with it. A lost process leaves it, but not in `encode`: its slot is then
/// half old, half new. At `encoded` it is whole, and so are the others' if they had finished.
///
/// `none` keeps nothing.
const TABLE: [(&str, &str, [Then; STEPS.len()]); 12] = [
    //                             before   quiesce  encode   encoded  copy     copied   after
    ("none", PROCESS, [Ends, Ends, Ends, Ends, Ends, Ends, Ends]),
    ("none", NODE, [Ends, Ends, Ends, Ends, Ends, Ends, Ends]),
    ("single", PROCESS, [Back, Back, Error, Either, Forward, Forward, Forward]),
    ("single", NODE, [Error, Error, Error, Error, Error, Error, Error]),
    ("double", PROCESS, [Back, Back, Some, Some, Forward, Forward, Forward]),
    ("double", NODE, [Back, Back, Either, Either, Forward, Forward, Forward]),
    ("raid4", PROCESS, [Back, Back, Some, Some, Forward, Forward, Forward]),
    ("raid4", NODE, [Back, Back, Some, Some, Forward, Forward, Forward]),
    ("raid5", PROCESS, [Back, Back, Some, Some, Forward, Forward, Forward]),
    ("raid5", NODE, [Back, Back, Some, Some, Forward, Forward, Forward]),
    ("rs", PROCESS, [Back, Back, Some, Some, Forward, Forward, Forward]),
    ("rs", NODE, [Back, Back, Some, Some, Forward, Forward, Forward]),
];

/// The table has exactly the library's steps.
#[test]
fn the_table_has_every_step_of_a_checkpoint() {
    use raidshmem_core::inject::Point;
    let points = Point::ALL.into_iter().filter(|point| point.is_checkpoint());
    assert!(points.map(Point::name).eq(STEPS));
}

#[test]
fn none_keeps_nothing() {
    every_step_of("none");
}

#[test]
fn single() {
    needs!(long);
    every_step_of("single");
}

#[test]
fn double() {
    needs!(long);
    every_step_of("double");
}

#[test]
fn raid4() {
    needs!(long);
    every_step_of("raid4");
}

#[test]
fn raid5() {
    every_step_of("raid5");
}

#[test]
fn rs() {
    needs!(long);
    every_step_of("rs");
}

fn every_step_of(mode: &str) {
    for (_, loss, then) in TABLE.iter().filter(|(of, ..)| *of == mode) {
        for pe in 0..4 {
            let row = format!("--mode {mode} --nodes 4 --verbose {loss} {pe}@3:{{checkpoint}}");
            Sweep::of([row]).each(|cell| {
                let outcome = jacobi::job(cell.job(), SMALL).run();
                ends(&outcome, *loss == NODE, then[cell.nth], pe);
            });
        }
    }
}

fn ends(outcome: &Outcome, with_node: bool, then: Then, pe: usize) {
    let loss = match with_node {
        false => format!("oshrun: PE {pe} was killed by SIGKILL"),
        true => format!("oshrun: node {pe} was lost with PE {pe}"),
    };
    outcome.says(&loss);
    match then {
        Ends => {
            outcome.status(137);
            let line = format!(
                "oshrun: PE {pe} was killed by SIGKILL; SHMEM_FT_BACKUP_MODE=none keeps no \
                 checkpoint, so the job ends"
            );
            outcome.check(outcome.count(&line) == 1, &format!("one `{line}` was expected"));
        }
        Error => error(outcome, pe),
        Either if outcome.status == 3 => error(outcome, pe),
        Back | Forward | Some | Either => goes_on(outcome, then, pe),
    }
}

fn goes_on(outcome: &Outcome, then: Then, pe: usize) {
    outcome.right_sum(SMALL);
    let line = format!("jacobi: a substitute takes over PE {pe}");
    outcome.check(outcome.count(&line) == 1, &format!("one `{line}` was expected"));
    let from = |number: u64| outcome.count(&format!("resume from checkpoint {number} ")) == 1;
    outcome.check(outcome.count("resume from checkpoint") == 1, "one recovery was expected");
    outcome.check(!matches!(then, Back) || from(2), "it should have rolled back to 2");
    outcome.check(!matches!(then, Forward) || from(3), "it should have gone forward to 3");
    outcome.check(from(2) || from(3), "it should have gone to 2 or 3");
}

fn error(outcome: &Outcome, pe: usize) {
    let words = outcome.same_verdict();
    // Lost, or with an unusable store; in `single` the copy of another PE's data may be missing.
    let lists = words.split("PE").skip(1).map(|list| list.trim_start_matches('s').trim_start());
    // A number, or a range such as 0-3.
    let range = |part: &str| {
        let text = part.split([' ', ';']).next()?;
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Option::Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    };
    let mut named = lists.flat_map(|list| list.split(',').map_while(range));
    outcome.check(named.any(|range| range.contains(&pe)), &format!("PE {pe} should be named"));
}
