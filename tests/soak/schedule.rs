//! Schedules of PE and node deaths: one line of text, its source, and the required result.
//!
//! ```text
//! rs adopt=0 nodes=4 spares=0 1@3:copy node:2@3:rebuild
//! ```

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::str::FromStr;

use raidshmem_core::inject::{FaultTarget, InjectedFault, Point};
use raidshmem_core::quantity::{CheckpointNumber, Pe};

use super::support::random::Random;

/// PEs of every job here.
pub const PES: usize = 4;
/// The checkpoint that contains the first loss of a pair.
const FIRST: u64 = 3;

/// A job and its losses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    pub mode: String,
    /// True if a dead process' memory may be adopted.
    pub adopt: bool,
    pub nodes: usize,
    pub spares: usize,
    pub rules: Vec<InjectedFault>,
}

/// The results that a schedule allows in addition to the right bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// Nothing: the losses must be survived.
    Nothing,
    /// An identical error on every PE.
    Verdict,
    /// Like [`Allowed::Verdict`], or another line of the launcher that names the reason.
    AnyReason,
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Schedule { mode, adopt, nodes, spares, rules } = self;
        write!(f, "{mode} adopt={} nodes={nodes} spares={spares}", u8::from(*adopt))?;
        rules.iter().try_for_each(|rule| write!(f, " {rule}"))
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Schedule, String> {
        let mut words = text.split_whitespace();
        let mut next = || words.next().ok_or(format!("cut short: {text}"));
        let mode = next()?.to_owned();
        let mut number = |name: &str| -> Result<usize, String> {
            let value = next()?.strip_prefix(name).and_then(|value| value.parse().ok());
            value.ok_or(format!("{name} is missing: {text}"))
        };
        let (adopt, nodes, spares) =
            (number("adopt=")? != 0, number("nodes=")?, number("spares=")?);
        let rules = words.map(|word| word.parse().map_err(|error| format!("{error}")));
        let rules = rules.collect::<Result<_, String>>()?;
        Ok(Schedule { mode, adopt, nodes, spares, rules })
    }
}

impl Schedule {
    fn parity(&self) -> usize {
        if self.mode == "rs" { 2 } else { 1 }
    }

    /// Returns the PEs that a rule kills, by their initial placement.
    fn taken(&self, rule: &InjectedFault) -> BTreeSet<usize> {
        match rule.target {
            FaultTarget::Pe(pe) => BTreeSet::from([pe.at()]),
            FaultTarget::Stop(_) => BTreeSet::new(),
            FaultTarget::Node(node) => {
                (0..PES).filter(|pe| pe * self.nodes / PES == node).collect()
            }
        }
    }

    /// Decides by the overlap of a pair's losses. If as many PEs are affected as there are parities
    /// the losses must be survived (a PE that moved to a node that is then lost is affected
    /// already). A process lost at `resume` finds everything whole. A process that leaves its
    /// memory costs nothing, if that is whole: it is not if the other PEs still had to copy the
    /// decided data, that is, after a loss in `encode` or `encoded`.
    pub fn allowed(&self) -> Allowed {
        let with_node = |rule: &InjectedFault| matches!(rule.target, FaultTarget::Node(_));
        let concerned: BTreeSet<usize> = self.rules.iter().flat_map(|r| self.taken(r)).collect();
        let (first, others) = self.rules.split_first().expect("one loss at least");
        let nodes = self.rules.iter().filter(|rule| with_node(rule)).map(|rule| rule.target);
        let every_node = nodes.collect::<HashSet<_>>().len() == self.nodes;
        let pair = others.iter().all(|rule| rule.point.is_recovery()) && others.len() <= 2;
        let first_is_borne = self.taken(first).len() <= self.parity();
        let later = others.iter().all(|rule| rule.point == Point::Resume && !with_node(rule));
        let leaves = self.adopt
            && !self.rules.iter().any(with_node)
            && !matches!(first.point, Point::Encode | Point::Encoded);
        match pair {
            _ if concerned.len() <= self.parity() => Allowed::Nothing,
            // No PE may be left to report the error.
            _ if every_node => Allowed::AnyReason,
            true if first_is_borne && (later || leaves) => Allowed::Nothing,
            true => Allowed::Verdict,
            false => Allowed::AnyReason,
        }
    }

    /// Returns one loss at each step, then each pair: a second loss at each step of the recovery
    /// from the first, of each PE or node.
    pub fn all() -> Vec<Schedule> {
        let kinds = [(true, false), (false, false), (true, true)];
        let mut all = Vec::new();
        for mode in ["raid5", "rs"] {
            for (adopt, with_node) in kinds {
                let target = |at: usize| {
                    if with_node { FaultTarget::Node(at) } else { FaultTarget::Pe(Pe::of(at)) }
                };
                for (point, at) in steps(Point::is_checkpoint) {
                    let first = InjectedFault {
                        target: target(at),
                        checkpoint: CheckpointNumber(FIRST),
                        point,
                    };
                    let nodes = if with_node { PES } else { 1 };
                    let mode = mode.to_owned();
                    let one = Schedule { mode, adopt, nodes, spares: 0, rules: vec![first] };
                    let second = |(point, at)| {
                        // The recovery may roll back to the previous checkpoint: one of the two
                        // rules triggers.
                        let rule =
                            |checkpoint| InjectedFault { target: target(at), checkpoint, point };
                        let rules = vec![
                            first,
                            rule(CheckpointNumber(FIRST - 1)),
                            rule(CheckpointNumber(FIRST)),
                        ];
                        Schedule { rules, ..one.clone() }
                    };
                    let pairs: Vec<Schedule> = steps(Point::is_recovery).map(second).collect();
                    all.push(one);
                    all.extend(pairs);
                }
            }
        }
        all
    }

    /// Draws a schedule: one to five losses anywhere.
    pub fn random(random: &mut Random) -> Schedule {
        let nodes = *random.one(&[1, 2, PES]);
        let spares = random.below(3);
        let count = 1 + random.below(5);
        let is_passed = |point: &Point| point.is_checkpoint() || point.is_recovery();
        let points: Vec<Point> = Point::ALL.into_iter().filter(is_passed).collect();
        let rules = (0..count).map(|_| {
            let node = nodes > 1 && random.below(3) == 0;
            let target = match node {
                true => FaultTarget::Node(random.below(nodes)),
                false => FaultTarget::Pe(Pe::of(random.below(PES))),
            };
            let point = *random.one(&points);
            InjectedFault {
                target,
                checkpoint: CheckpointNumber(2 + random.below(7) as u64),
                point,
            }
        });
        let rules = rules.collect();
        let mode = (*random.one(&["raid4", "raid5", "rs"])).to_owned();
        Schedule { mode, adopt: random.below(2) == 0, nodes, spares, rules }
    }
}

/// Returns each PE at each of the steps.
fn steps(wanted: impl Fn(Point) -> bool) -> impl Iterator<Item = (Point, usize)> {
    let points: Vec<Point> = Point::ALL.into_iter().filter(|&point| wanted(point)).collect();
    points.into_iter().flat_map(|point| (0..PES).map(move |at| (point, at)))
}
