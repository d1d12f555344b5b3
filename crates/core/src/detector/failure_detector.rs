//! The launcher's part: which nodes it hears, which it asks, which it declares lost.

use std::collections::BTreeMap;

use super::timing::{MachineTime, Timing};
use crate::message::Beat;

/// What the launcher hears of a node.
#[derive(Debug, Clone, Copy)]
pub enum Observation {
    /// Its heartbeat.
    Beat { beat: Beat },
    /// Node `by` does not hear it.
    Accused { by: u32 },
    /// Node `by` hears it again.
    Withdrawn { by: u32 },
    /// What node `by`, which was asked, says of it.
    Opinion { by: u32, alive: bool },
    /// Its connection is over, but its processes may run.
    Disconnected,
    /// Its processes are known to have ended.
    Dead,
}

/// What the launcher must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DetectorAction {
    /// Answer a heartbeat.
    Beat { node: u32, beat: Beat },
    /// Ask `witness` whether it hears `node`.
    Ask { witness: u32, node: u32 },
    /// Two nodes do not hear it, though the launcher does: tell it to end.
    CutOff { node: u32, by: u32, witness: u32 },
    /// Node `by` does not hear it, but `witness` and the launcher do.
    AsymmetricLink { node: u32, by: u32, witness: u32 },
    /// It is lost, for good. `silent` for this long, if that is the reason; `witness` hears nothing
    /// either.
    Declare { node: u32, silent: Option<MachineTime>, witness: Option<u32> },
    /// The nodes that watch each other from now on.
    Ring { nodes: Vec<u32> },
}

#[derive(Debug)]
struct Node {
    /// When it was heard last.
    contact: MachineTime,
    accused_by: Option<u32>,
    asked: Option<u32>,
    opinion: Option<(u32, bool)>,
    /// It is not answered any more, so its lease runs out.
    cut_off: bool,
}

/// The machine.
#[derive(Debug)]
pub struct FailureDetector {
    timing: Timing,
    /// Living nodes.
    nodes: BTreeMap<u32, Node>,
    /// Whether nodes can reach each other: those of one machine need no second opinion.
    ring: bool,
    looked: MachineTime,
}

impl FailureDetector {
    /// Over `nodes`, all of which were heard just now. With `ring` they watch each other.
    pub fn new(
        nodes: impl Iterator<Item = u32>,
        ring: bool,
        timing: Timing,
        now: MachineTime,
    ) -> FailureDetector {
        let node = |number| {
            let node =
                Node { contact: now, accused_by: None, asked: None, opinion: None, cut_off: false };
            (number, node)
        };
        FailureDetector { timing, nodes: nodes.map(node).collect(), ring, looked: now }
    }

    /// The ring as it stands, for the start.
    pub fn ring(&self) -> Vec<DetectorAction> {
        let nodes = self.nodes.keys().copied().collect();
        if self.ring { vec![DetectorAction::Ring { nodes }] } else { Vec::new() }
    }

    /// When to look at the clock again: every period at least, or it would seem to be away.
    pub fn deadline(&self) -> Option<MachineTime> {
        let look = |node: &Node| {
            let doubt = node.contact + self.timing.doubt();
            let over = node.contact + self.timing.over();
            let last = node.contact + self.timing.last();
            let heard = matches!(node.opinion, Some((_, true)));
            match (node.asked.is_none() && self.ring && self.looked < doubt, heard) {
                (true, _) => doubt,
                (false, true) if !node.cut_off => last,
                _ => over,
            }
        };
        let look = self.nodes.values().map(look).min()?;
        Some(look.min(self.looked + self.timing.period))
    }

    /// Takes one observation of `node`.
    pub fn handle(
        &mut self,
        now: MachineTime,
        node: u32,
        observation: Observation,
    ) -> Vec<DetectorAction> {
        let Some(entry) = self.nodes.get_mut(&node) else { return Vec::new() };
        match observation {
            Observation::Beat { beat: Beat::Ping(stamp) } if !entry.cut_off => {
                entry.contact = now;
                if entry.accused_by.is_none() {
                    (entry.asked, entry.opinion) = (None, None);
                }
                vec![DetectorAction::Beat { node, beat: Beat::Pong(stamp) }]
            }
            Observation::Beat { beat: Beat::Gone } | Observation::Dead => {
                // A node that was silent beyond its lease died of that.
                let silence = now.saturating_sub(entry.contact);
                self.declare(node, Some(silence).filter(|silence| *silence >= self.timing.limit))
            }
            Observation::Beat { .. } => Vec::new(),
            Observation::Accused { by } => {
                entry.accused_by = Some(by);
                (entry.asked, entry.opinion) = (None, None);
                self.ask(now, node)
            }
            Observation::Withdrawn { by } => {
                if entry.accused_by == Some(by) {
                    entry.accused_by = None;
                }
                Vec::new()
            }
            Observation::Opinion { by, alive } if entry.asked == Some(by) => {
                entry.opinion = Some((by, alive));
                self.confront(node)
            }
            Observation::Opinion { .. } => Vec::new(),
            Observation::Disconnected => {
                entry.cut_off = true;
                Vec::new()
            }
        }
    }

    /// Looks at the clock. To be called after what has arrived was handled: it may be from before.
    pub fn tick(&mut self, now: MachineTime) -> Vec<DetectorAction> {
        let gap = now.saturating_sub(self.looked);
        self.looked = now;
        if gap > self.timing.away() {
            // Nothing was heard because nobody listened.
            self.nodes.values_mut().for_each(|node| node.contact = (node.contact + gap).min(now));
        }
        let mut decisions = Vec::new();
        let numbers: Vec<u32> = self.nodes.keys().copied().collect();
        for node in numbers {
            let Some(entry) = self.nodes.get(&node) else { continue };
            let silence = now.saturating_sub(entry.contact);
            let heard = matches!(entry.opinion, Some((_, true))) && !entry.cut_off;
            let limit = if heard { self.timing.last() } else { self.timing.over() };
            if silence >= limit {
                decisions.extend(self.declare(node, Some(silence)));
            } else if silence >= self.timing.doubt() && entry.asked.is_none() {
                decisions.extend(self.ask(now, node));
            }
        }
        decisions
    }

    /// Asks a node that is heard well and is not itself concerned.
    fn ask(&mut self, now: MachineTime, node: u32) -> Vec<DetectorAction> {
        let accuser = self.nodes.get(&node).and_then(|entry| entry.accused_by);
        let fit = |(&other, entry): (&u32, &Node)| {
            let heard = now.saturating_sub(entry.contact) < self.timing.doubt();
            let fit = other != node && Some(other) != accuser && heard && !entry.cut_off;
            fit.then_some(other)
        };
        let after = self.nodes.range(node..).filter_map(fit).next();
        let witness = after.or_else(|| self.nodes.iter().filter_map(fit).next());
        let Some(witness) = witness.filter(|_| self.ring) else { return Vec::new() };
        if let Some(entry) = self.nodes.get_mut(&node) {
            entry.asked = Some(witness);
        }
        vec![DetectorAction::Ask { witness, node }]
    }

    /// An accusation and a second opinion together.
    fn confront(&mut self, node: u32) -> Vec<DetectorAction> {
        let Some(entry) = self.nodes.get_mut(&node) else { return Vec::new() };
        match (entry.accused_by, entry.opinion) {
            (Some(by), Some((witness, false))) if !entry.cut_off => {
                entry.cut_off = true;
                vec![DetectorAction::CutOff { node, by, witness }]
            }
            (Some(by), Some((witness, true))) => {
                vec![DetectorAction::AsymmetricLink { node, by, witness }]
            }
            _ => Vec::new(),
        }
    }

    fn declare(&mut self, node: u32, silent: Option<MachineTime>) -> Vec<DetectorAction> {
        let Some(entry) = self.nodes.remove(&node) else { return Vec::new() };
        let witness = entry.opinion.filter(|(_, alive)| !alive).map(|(witness, _)| witness);
        for other in self.nodes.values_mut() {
            if other.accused_by == Some(node) {
                other.accused_by = None;
            }
            if other.asked == Some(node) && other.opinion.is_none() {
                other.asked = None; // somebody else is asked at the next look
            }
        }
        let mut decisions = vec![DetectorAction::Declare { node, silent, witness }];
        decisions.extend(self.ring());
        decisions
    }
}
