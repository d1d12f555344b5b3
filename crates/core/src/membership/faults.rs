//! The rules that inject faults, and those that have fired.
//!
//! Part of the machine in [`super`].

use std::collections::BTreeSet;

use super::decisions::Decisions;
use super::event::Action;
use super::processes::Processes;
use crate::inject::{FaultTarget, InjectedFault};
use crate::message::{Down, ProcId};

/// The rules of a job.
#[derive(Debug, Clone)]
pub(super) struct FaultRules {
    rules: Vec<InjectedFault>,
    fired: BTreeSet<u32>,
}

impl FaultRules {
    /// Creates rules that have not fired yet.
    pub fn new(rules: Vec<InjectedFault>) -> FaultRules {
        FaultRules { rules, fired: BTreeSet::new() }
    }

    /// Returns the rules that have not fired.
    pub fn left(&self) -> impl Iterator<Item = &InjectedFault> {
        let numbered = (0..).zip(&self.rules);
        numbered.filter(|(rule, _)| !self.fired.contains(rule)).map(|(_, rule)| rule)
    }

    /// Returns the rules that must not fire again in a substitute.
    pub fn over(&self) -> Vec<u32> {
        self.fired.iter().copied().filter(|&rule| !self.stops(rule)).collect()
    }

    /// Returns true for a rule that fires each time.
    fn stops(&self, rule: u32) -> bool {
        let rule = self.rules.get(rule as usize);
        rule.is_some_and(|rule| matches!(rule.target, FaultTarget::Stop(_)))
    }

    /// Carries out a rule whose point a process has reached: kills the rule's target, once. A
    /// process that stops itself needs nothing more.
    pub fn fire(&mut self, proc: ProcId, rule: u32, procs: &Processes, out: &mut Decisions) {
        let Some(target) = self.rules.get(rule as usize).map(|rule| rule.target) else { return };
        if !self.fired.insert(rule) {
            return;
        }
        match target {
            FaultTarget::Stop(_) => {}
            FaultTarget::Pe(_) => {
                let here = procs.get(proc).map(|proc| proc.node);
                here.into_iter().for_each(|node| out.send(node, Down::Kill { proc }));
            }
            FaultTarget::Node(node) => out.push(Action::KillNode { node: node as u32 }),
        }
    }
}
