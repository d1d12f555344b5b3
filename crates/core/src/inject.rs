//! Fault injection rules: which PE or node dies at which named step of which checkpoint.
//!
//! A test or a curious user sets `SHMEM_FT_INJECT` to a comma separated list of rules. The library
//! then kills itself exactly there, so that surviving a fault at any step of the checkpoint or the
//! recovery can be demonstrated repeatedly, without a race:
//!
//! ```text
//! rule   := target '@' CHECKPOINT [ ':' point ]
//! target := PE | 'node:' NODE | 'stop:' PE
//! ```
//!
//! `2@5` kills PE 2 when checkpoint 5 is agreed; `node:1@3:copy` kills all of node 1 in the middle
//! of its copy of checkpoint 3; `0@3:rebuild` kills PE 0 in the recovery that rolls back to 3;
//! `stop:0@3:rebuild` stops it there instead, so that it can be inspected or disturbed.
//!
//! Invariants: [`Point::ALL`] is the only table of steps (names, help and parser derive from it);
//! `parse(rule.to_string()) == rule` for every rule; nothing here reads the clock, the environment
//! or a process.
//!
//! Left out: the killing itself, and the record of rules that have fired. A substitute that reaches
//! the same step would match again, so the caller checks rules for first incarnations only.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::quantity::{CheckpointNumber, Pe};

/// A named step at which a fault can be injected, in a checkpoint, in the calls that make memory
/// read-only and writable, or in a recovery.
///
/// The checkpoint number of a rule is that of the checkpoint in progress, or of the next one after
/// the call; for a recovery step it is that of the one that the PEs roll back to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// Entry of the checkpoint call.
    Before,
    /// Outstanding transfers are done, the first barrier is not yet entered.
    Quiesce,
    /// Half of this PE's parity is written.
    Encode,
    /// This PE's parity is complete, barrier A is not yet entered.
    Encoded,
    /// Half of this PE's snapshot is written.
    Copy,
    /// This PE's snapshot is complete, barrier B is not yet entered.
    Copied,
    /// The checkpoint is agreed, the program is about to continue. The default of a rule.
    #[default]
    After,
    /// Every PE has the checkpoint after which a node is drained, and waits for the loss of it.
    Drain,
    /// `shmemx_ft_readonly`: the range is protected on this PE, others may still write.
    ReadOnly,
    /// Half of this PE's parity over the range is written.
    ReadOnlyEncode,
    /// The parity over the range is complete, the last barrier of the call is not yet entered.
    ReadOnlyEncoded,
    /// The checkpoint is agreed, the stored parity of ranges is still that of the previous one.
    ReadOnlyAgreed,
    /// `shmemx_ft_writable`: this PE has reported if it has memory for a copy.
    Writable,
    /// Half of this PE's copy of the range is written.
    WritableCopy,
    /// This PE's copy is valid, the last barrier of the call is not yet entered.
    WritableCopied,
    /// After a recovery that moved PEs: the restored checkpoint is about to be encoded again in
    /// new groups.
    Heal,
    /// Half of this PE's parity in the new groups is written.
    HealEncode,
    /// This PE's parity in the new groups is complete, the old groups still decide.
    HealEncoded,
    /// Half of this PE's snapshot is written again.
    HealCopy,
    /// This PE's snapshot is complete, the last barrier is not yet entered.
    HealCopied,
    /// The new groups are agreed, the program is about to continue.
    Healed,
    /// The death is known, the phases are not yet exchanged.
    Settle,
    /// The decision is written to this PE's header, no PE has acted on it.
    Decided,
    /// The surviving parts of this PE's snapshot and parity are about to be checked.
    Verify,
    /// Half of a lost snapshot is rebuilt.
    Rebuild,
    /// Half of the live memory is overwritten from the snapshot.
    Restore,
    /// Half of a lost parity is written again.
    Reencode,
    /// Memory is restored, the program is about to continue.
    Resume,
}

impl Point {
    /// Every point: steps of a checkpoint, of the two calls about read-only memory, of an encoding
    /// in new groups, and of a recovery, each in the order in which a PE passes them.
    pub const ALL: [Point; 28] = [
        Point::Before,
        Point::Quiesce,
        Point::Encode,
        Point::Encoded,
        Point::Copy,
        Point::Copied,
        Point::After,
        Point::Drain,
        Point::ReadOnly,
        Point::ReadOnlyEncode,
        Point::ReadOnlyEncoded,
        Point::ReadOnlyAgreed,
        Point::Writable,
        Point::WritableCopy,
        Point::WritableCopied,
        Point::Heal,
        Point::HealEncode,
        Point::HealEncoded,
        Point::HealCopy,
        Point::HealCopied,
        Point::Healed,
        Point::Settle,
        Point::Decided,
        Point::Verify,
        Point::Rebuild,
        Point::Restore,
        Point::Reencode,
        Point::Resume,
    ];

    /// Returns the name and the description of a point; both are written only here.
    const fn entry(self) -> (&'static str, &'static str) {
        match self {
            Point::Before => ("before", "entry of the checkpoint call"),
            Point::Quiesce => {
                ("quiesce", "outstanding transfers are done, before the first barrier")
            }
            Point::Encode => ("encode", "half of the own parity is written"),
            Point::Encoded => ("encoded", "the own parity is complete, before barrier A"),
            Point::Copy => ("copy", "half of the own snapshot is written"),
            Point::Copied => ("copied", "the own snapshot is complete, before barrier B"),
            Point::After => ("after", "the checkpoint is agreed, the program is about to go on"),
            Point::Drain => ("drain", "a node is drained: each PE waits in the call to lose it"),
            Point::ReadOnly => ("readonly", "shmemx_ft_readonly: the range is protected here"),
            Point::ReadOnlyEncode => {
                ("readonly-encode", "shmemx_ft_readonly: half of the own parity is written")
            }
            Point::ReadOnlyEncoded => {
                ("readonly-encoded", "shmemx_ft_readonly: the own parity is complete")
            }
            Point::ReadOnlyAgreed => {
                ("readonly-agreed", "the checkpoint after either call is agreed, nothing is freed")
            }
            Point::Writable => ("writable", "shmemx_ft_writable: nothing is copied"),
            Point::WritableCopy => {
                ("writable-copy", "shmemx_ft_writable: half of the own copy is written")
            }
            Point::WritableCopied => ("writable-copied", "shmemx_ft_writable: the own copy counts"),
            Point::Heal => ("heal", "after a move: new groups are chosen, nothing is encoded"),
            Point::HealEncode => ("heal-encode", "new groups: half of the own parity is written"),
            Point::HealEncoded => ("heal-encoded", "new groups: the own parity is complete"),
            Point::HealCopy => ("heal-copy", "new groups: half of the own snapshot is written"),
            Point::HealCopied => ("heal-copied", "new groups: the own snapshot is complete"),
            Point::Healed => ("healed", "new groups are agreed, the program is about to go on"),
            Point::Settle => ("settle", "recovery: the death is known, nothing is decided"),
            Point::Decided => ("decided", "recovery: the decision is written, not acted on"),
            Point::Verify => ("verify", "recovery: the own store is about to be checked"),
            Point::Rebuild => ("rebuild", "recovery: half of a lost snapshot is rebuilt"),
            Point::Restore => ("restore", "recovery: half of the live memory is rolled back"),
            Point::Reencode => ("reencode", "recovery: half of a lost parity is written again"),
            Point::Resume => ("resume", "recovery: all is whole, the program is about to go on"),
        }
    }

    /// Returns the name as a rule spells it, in lower case.
    pub const fn name(self) -> &'static str {
        self.entry().0
    }

    /// Returns a short description of the step, without a full stop.
    pub const fn doc(self) -> &'static str {
        self.entry().1
    }

    /// Returns true for a step of every checkpoint.
    pub const fn is_checkpoint(self) -> bool {
        self as u8 <= Point::After as u8
    }

    /// Returns true for a step of the recovery.
    pub const fn is_recovery(self) -> bool {
        self as u8 >= Point::Settle as u8
    }

    /// Returns the point of a step of a checkpoint while a recovery encodes a checkpoint again,
    /// which is no checkpoint for rules.
    pub const fn of_heal(self) -> Point {
        match self {
            Point::Before | Point::Quiesce => Point::Heal,
            Point::Encode => Point::HealEncode,
            Point::Encoded => Point::HealEncoded,
            Point::Copy => Point::HealCopy,
            Point::Copied => Point::HealCopied,
            Point::After => Point::Healed,
            other => other,
        }
    }

    /// Returns the point with exactly this name.
    pub fn parse(name: &str) -> Option<Point> {
        Point::ALL.into_iter().find(|p| p.name() == name)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The target that a rule kills or stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultTarget {
    /// The process that carries this PE number.
    Pe(Pe),
    /// The node with this index: its agent, its PEs and the memory it holds for them.
    Node(usize),
    /// The process that carries this PE number, which stops itself (SIGSTOP) each time it reaches
    /// the step, until it is continued from outside.
    Stop(Pe),
}

impl fmt::Display for FaultTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultTarget::Pe(pe) => write!(f, "{pe}"),
            FaultTarget::Node(node) => write!(f, "node:{node}"),
            FaultTarget::Stop(pe) => write!(f, "stop:{pe}"),
        }
    }
}

/// One fault: `target` dies at `point` of `checkpoint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InjectedFault {
    /// The target of the fault.
    pub target: FaultTarget,
    /// The checkpoint in progress or, outside of one, the next; for a recovery step the one rolled
    /// back to.
    pub checkpoint: CheckpointNumber,
    /// The step at which it dies.
    pub point: Point,
}

impl InjectedFault {
    /// Returns true if PE `pe` on node `node` must die (with its node, or alone) at this step.
    ///
    /// Every PE of a node matches a node rule; the caller chooses the one that fires it.
    pub fn matches(&self, pe: Pe, node: usize, checkpoint: CheckpointNumber, point: Point) -> bool {
        let hit = match self.target {
            FaultTarget::Pe(target) | FaultTarget::Stop(target) => target == pe,
            FaultTarget::Node(target) => target == node,
        };
        hit && self.checkpoint.0 == checkpoint.program() && self.point == point
    }
}

impl fmt::Display for InjectedFault {
    /// Writes the shortest spelling that parses to the same rule: the default point is omitted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.target, self.checkpoint)?;
        if self.point == Point::default() { Ok(()) } else { write!(f, ":{}", self.point) }
    }
}

/// An invalid rule; every message quotes the rule and lists what is allowed instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    /// No `@`, or nothing between two commas.
    #[error("rule `{rule}`: expected PE@CHECKPOINT[:point], node:K@.. or stop:PE@..")]
    Shape {
        /// The rule as written.
        rule: String,
    },
    /// The text before the `@` is neither a PE nor a node.
    #[error("rule `{rule}`: no PE or node `{target}`: expected a PE number, node:K or stop:PE")]
    Target {
        /// The rule as written.
        rule: String,
        /// The part that was not understood.
        target: String,
    },
    /// The text after the `@` is not a checkpoint number.
    #[error("rule `{rule}`: no checkpoint number `{checkpoint}`: expected 0, 1, 2 and so on")]
    Checkpoint {
        /// The rule as written.
        rule: String,
        /// The part that was not understood.
        checkpoint: String,
    },
    /// No step has this name.
    #[error("rule `{rule}`: no point `{point}`: expected {}", names())]
    Point {
        /// The rule as written.
        rule: String,
        /// The part that was not understood.
        point: String,
    },
}

impl FromStr for InjectedFault {
    type Err = RuleError;

    /// Parses one rule; spaces around it are dropped, spaces inside are errors.
    fn from_str(text: &str) -> Result<InjectedFault, RuleError> {
        let text = text.trim();
        let rule = || text.escape_debug().to_string();
        let (target, rest) =
            text.split_once('@').ok_or_else(|| RuleError::Shape { rule: rule() })?;
        let (number, point) = match rest.split_once(':') {
            Some((number, point)) => (number, Some(point)),
            None => (rest, None),
        };
        Ok(InjectedFault {
            target: parse_target(target).ok_or_else(|| RuleError::Target {
                rule: rule(),
                target: target.escape_debug().to_string(),
            })?,
            checkpoint: parse_number(number)
                .map(CheckpointNumber)
                .filter(|number| number.healed_times() == 0)
                .ok_or_else(|| RuleError::Checkpoint {
                    rule: rule(),
                    checkpoint: number.escape_debug().to_string(),
                })?,
            point: match point {
                None => Point::default(),
                Some(name) => Point::parse(name).ok_or_else(|| RuleError::Point {
                    rule: rule(),
                    point: name.escape_debug().to_string(),
                })?,
            },
        })
    }
}

/// Parses a comma separated list of rules; blank text is the empty list.
///
/// # Errors
/// The first rule that cannot be read.
pub fn parse(text: &str) -> Result<Vec<InjectedFault>, RuleError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    text.split(',').map(str::parse).collect()
}

/// Writes rules as [`parse`] reads them.
pub fn list(rules: &[InjectedFault]) -> String {
    rules.iter().map(InjectedFault::to_string).collect::<Vec<_>>().join(",")
}

/// Returns all point names, separated by commas.
fn names() -> String {
    Point::ALL.map(Point::name).join(", ")
}

fn parse_target(text: &str) -> Option<FaultTarget> {
    let pe = |digits: &str| u32::try_from(parse_number(digits)?).ok().map(Pe);
    match text.split_once(':') {
        Some(("node", node)) => parse_number(node)?.try_into().ok().map(FaultTarget::Node),
        Some(("stop", stopped)) => pe(stopped).map(FaultTarget::Stop),
        Some(_) => None,
        None => pe(text).map(FaultTarget::Pe),
    }
}

/// Parses plain digits: no sign, no spaces.
fn parse_number(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(target: FaultTarget, checkpoint: CheckpointNumber, point: Point) -> InjectedFault {
        InjectedFault { target, checkpoint, point }
    }

    #[test]
    fn grammar() {
        assert_eq!(
            parse("2@5"),
            Ok(vec![rule(FaultTarget::Pe(Pe(2)), CheckpointNumber(5), Point::After)])
        );
        assert_eq!(
            parse(" node:1@3:copy, 0@0:resume "),
            Ok(vec![
                rule(FaultTarget::Node(1), CheckpointNumber(3), Point::Copy),
                rule(FaultTarget::Pe(Pe(0)), CheckpointNumber(0), Point::Resume)
            ])
        );
        assert_eq!(parse("  "), Ok(vec![]));
    }

    #[test]
    fn display_round_trips_for_every_point() {
        let mut rules = Vec::new();
        for point in Point::ALL {
            assert_eq!(Point::parse(point.name()), Some(point));
            let targets = [
                FaultTarget::Pe(Pe(0)),
                FaultTarget::Pe(Pe(u32::MAX)),
                FaultTarget::Node(7),
                FaultTarget::Stop(Pe(2)),
            ];
            for target in targets {
                rules.push(rule(target, CheckpointNumber((1 << 40) - 1 - point as u64), point));
            }
        }
        assert_eq!(parse(&list(&rules)), Ok(rules));
    }

    #[test]
    fn steps_of_a_recovery_follow_those_of_calls_and_those_those_of_a_checkpoint() {
        assert!(Point::ALL.is_sorted());
        let count =
            |wanted: fn(Point) -> bool| Point::ALL.into_iter().filter(|&p| wanted(p)).count();
        assert_eq!([count(Point::is_checkpoint), count(Point::is_recovery)], [7, 7]);
        assert!(Point::After.is_checkpoint() && Point::Settle.is_recovery());
        assert!(!Point::ReadOnly.is_checkpoint() && !Point::WritableCopied.is_recovery());
        let mut names = Point::ALL.map(Point::name);
        names.sort();
        assert!(names.windows(2).all(|w| w[0] != w[1]));
    }

    #[test]
    fn errors_name_rule_and_allowed() {
        let text = |t: &str| parse(t).unwrap_err().to_string();
        assert!(text("7").contains("rule `7`: expected PE@CHECKPOINT[:point]"));
        assert!(text("1@2,").contains("rule ``"));
        assert!(text("-1@2").contains("no PE or node `-1`"));
        assert!(text("node:@2").contains("no PE or node `node:`"));
        assert!(text("+1@2").contains("no PE or node `+1`"));
        assert!(text("1@x").contains("no checkpoint number `x`"));
        assert!(text("1@99999999999999999999").contains("no checkpoint number"));
        let point = text("1@2:later");
        assert!(point.starts_with("rule `1@2:later`: no point `later`: expected before, quie"));
        assert!(point.contains("resume"));
        assert!(!text("1@2:a\nb").contains('\n'));
    }

    #[test]
    fn matching() {
        let r = rule(FaultTarget::Pe(Pe(2)), CheckpointNumber(5), Point::Encode);
        assert!(r.matches(Pe(2), 0, CheckpointNumber(5), Point::Encode));
        assert!(!r.matches(Pe(0), 2, CheckpointNumber(5), Point::Encode));
        assert!(!r.matches(Pe(2), 0, CheckpointNumber(6), Point::Encode));
        assert!(!r.matches(Pe(2), 0, CheckpointNumber(5), Point::Encoded));
        let n = rule(FaultTarget::Node(2), CheckpointNumber(5), Point::Encode);
        assert!(
            n.matches(Pe(9), 2, CheckpointNumber(5), Point::Encode)
                && !n.matches(Pe(2), 9, CheckpointNumber(5), Point::Encode)
        );
    }
}
