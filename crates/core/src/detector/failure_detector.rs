//! The launcher's half of the detector: tracks heartbeats, asks for second opinions, declares
//! losses.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::lease_tree::LeaseTree;
use super::monitor::News;
use super::timing::{MachineTime, Timing};
use crate::message::{Beat, Party};

/// An observation of a node, as the launcher receives it.
#[derive(Debug, Clone, Copy)]
pub enum Observation {
    /// A heartbeat of the node.
    Beat { beat: Beat },
    /// Node `by` gets no answers from it.
    Accused { by: u32 },
    /// Node `by` withdraws its accusation: the node answers again.
    Withdrawn { by: u32 },
    /// The second opinion of node `by`: true if the node answers it.
    Opinion { by: u32, alive: bool },
    /// Node `by` no longer renews its lease, after a silence of `silent`.
    GivenUp { by: u32, term: u64, silent: Duration },
    /// Its connection was lost, but its processes may still run.
    Disconnected,
    /// Its processes have ended.
    Dead,
}

/// An action that the launcher must take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DetectorAction {
    /// Answer a heartbeat.
    Beat { node: u32, beat: Beat },
    /// Ask `witness` for a second opinion on `node`.
    Ask { witness: u32, node: u32 },
    /// Order `node` to end: `by` and `witness` cannot hear it, although the launcher can.
    CutOff { node: u32, by: u32, witness: u32 },
    /// Report an asymmetric link: `by` does not hear the node, `witness` and the launcher do.
    AsymmetricLink { node: u32, by: u32, witness: u32 },
    /// Declare the node lost, for good. `silent` is set if it was declared for its silence;
    /// `witness` is a node that did not hear it either.
    Declare { node: u32, silent: Option<MachineTime>, witness: Option<u32> },
    /// Tell `node` which successor to watch from now on.
    Watch { node: u32, successor: Option<u32> },
    /// Tell `parent` to renew the lease of `node` from now on.
    Adopt { parent: u32, node: u32, term: u64 },
    /// Tell `parent` to stop renewing it, and to report when it has stopped.
    Release { parent: u32, node: u32, term: u64 },
    /// Tell `node` which party renews its lease: a parent, or the launcher if there is no parent.
    Parent { node: u32, parent: Option<u32> },
}

impl DetectorAction {
    /// Returns the message to send and the node it goes to; None if the action is an order to end
    /// or concerns only the launcher.
    pub fn news(&self) -> Option<(u32, News)> {
        Some(match *self {
            DetectorAction::Beat { node, beat } => {
                (node, News::Beat { from: Party::Launcher, beat })
            }
            DetectorAction::Ask { witness, node } => (witness, News::Ask { node }),
            DetectorAction::Watch { node, successor } => (node, News::Watch { successor }),
            DetectorAction::Adopt { parent, node, term } => (parent, News::Adopt { node, term }),
            DetectorAction::Release { parent, node, term } => {
                (parent, News::Release { node, term })
            }
            DetectorAction::Parent { node, parent } => {
                (node, News::Parent { parent: parent.map_or(Party::Launcher, Party::Node) })
            }
            DetectorAction::CutOff { .. }
            | DetectorAction::AsymmetricLink { .. }
            | DetectorAction::Declare { .. } => return None,
        })
    }
}

/// A node that may renew another node's lease. Each assignment has a new term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Renewer {
    node: u32,
    term: u64,
}

#[derive(Debug)]
struct Node {
    /// Last contact with the launcher or, until it gave the node up, with the renewer of the lease.
    contact: MachineTime,
    /// The node that may renew the lease besides the launcher, and may have had later contact.
    renewer: Option<Renewer>,
    /// The nodes whose leases this one renews.
    children: BTreeSet<u32>,
    /// The time at which a renewer last gave it up for its silence.
    given_up: Option<MachineTime>,
    accused_by: Option<u32>,
    asked: Option<u32>,
    opinion: Option<(u32, bool)>,
    /// It gets no more answers, so its lease will expire.
    cut_off: bool,
}

impl Node {
    /// Creates a node in contact with the launcher at `contact`.
    fn new(contact: MachineTime) -> Node {
        let (renewer, children, given_up) = (None, BTreeSet::new(), None);
        let (accused_by, asked, opinion, cut_off) = (None, None, None, false);
        Node { contact, renewer, children, given_up, accused_by, asked, opinion, cut_off }
    }
}

/// The failure detector, one per job, in the launcher.
#[derive(Debug)]
pub struct FailureDetector {
    timing: Timing,
    /// Living nodes.
    nodes: BTreeMap<u32, Node>,
    /// Living nodes without a renewer: only the launcher hears them.
    direct: BTreeSet<u32>,
    /// Nodes about which a second opinion was asked.
    doubted: BTreeSet<u32>,
    /// The intended renewer of each node.
    tree: LeaseTree,
    terms: u64,
    /// True if nodes can reach each other; nodes on one machine need no second opinion.
    ring: bool,
    looked: MachineTime,
}

impl FailureDetector {
    /// Creates a detector for `nodes`, all of them in contact now. With `ring`, nodes watch each
    /// other, and the launcher and each node renew the leases of at most `degree` others.
    pub fn new(
        nodes: impl Iterator<Item = u32>,
        ring: bool,
        degree: usize,
        timing: Timing,
        now: MachineTime,
    ) -> FailureDetector {
        let nodes: BTreeMap<u32, Node> = nodes.map(|node| (node, Node::new(now))).collect();
        let degree = if ring { degree } else { usize::MAX };
        FailureDetector {
            timing,
            direct: nodes.keys().copied().collect(),
            doubted: BTreeSet::new(),
            tree: LeaseTree::new(nodes.keys().copied(), degree),
            terms: 0,
            nodes,
            ring,
            looked: now,
        }
    }

    /// Tells each node which successor it watches and which party renews its lease.
    pub fn begin(&mut self) -> Vec<DetectorAction> {
        if !self.ring {
            return Vec::new();
        }
        let (nodes, now) = (self.direct.clone(), self.looked);
        let mut decisions: Vec<_> = nodes.iter().filter_map(|&node| self.watch(node)).collect();
        decisions.extend(nodes.into_iter().flat_map(|node| self.attach(now, node)));
        decisions
    }

    /// Adds a node that has joined, in contact at `now`.
    pub fn add(&mut self, now: MachineTime, node: u32) -> Vec<DetectorAction> {
        self.nodes.insert(node, Node::new(now));
        self.direct.insert(node);
        self.tree.add(node);
        let before = self.nodes.range(..node).next_back().or(self.nodes.iter().next_back());
        let before = before.map(|(&before, _)| before);
        let watched = before.into_iter().chain([node]).filter_map(|node| self.watch(node));
        let mut decisions: Vec<_> = watched.collect();
        decisions.extend(self.attach(now, node));
        decisions
    }

    /// Assigns `node` its successor: the next node in the ring.
    fn watch(&self, node: u32) -> Option<DetectorAction> {
        let mut after = self.nodes.range(node + 1..).chain(self.nodes.iter());
        let successor = after.next().map(|(&other, _)| other).filter(|&other| other != node);
        self.ring.then_some(DetectorAction::Watch { node, successor })
    }

    /// Returns the last contact with the node, or with a node above it in the tree. Its lease was
    /// renewed no later than that.
    fn last_contact(&self, node: u32) -> Option<MachineTime> {
        let up = |entry: &&Node| self.nodes.get(&entry.renewer?.node);
        let line = std::iter::successors(self.nodes.get(&node), up);
        line.map(|entry| entry.contact).max()
    }

    fn silence(&self, now: MachineTime, node: u32) -> MachineTime {
        self.last_contact(node).map_or(MachineTime::MAX, |contact| now.saturating_sub(contact))
    }

    /// Returns the nodes whose silence may matter, with their last contact. Skips the nodes below
    /// one with recent contact, which are usually most of them.
    fn visited(&self, now: MachineTime) -> Vec<(u32, MachineTime)> {
        let mut left: Vec<(u32, MachineTime)> =
            self.direct.iter().map(|&node| (node, MachineTime::ZERO)).collect();
        let mut visited = Vec::new();
        while let Some((number, above)) = left.pop() {
            let Some(entry) = self.nodes.get(&number) else { continue };
            let contact = entry.contact.max(above);
            visited.push((number, contact));
            if now.saturating_sub(contact) >= self.timing.doubt() {
                left.extend(entry.children.iter().map(|&child| (child, contact)));
            }
        }
        visited.sort();
        visited
    }

    /// Returns when to call `tick` next: at least once per period, or a gap would look like a
    /// pause.
    pub fn deadline(&self) -> Option<MachineTime> {
        let look = |(number, contact): (u32, MachineTime)| {
            let node = self.nodes.get(&number)?;
            let doubt = contact + self.timing.doubt();
            let over = contact + self.timing.over();
            let last = contact + self.timing.last();
            let confirmed = matches!(node.opinion, Some((_, true)));
            Some(match (node.asked.is_none() && self.ring && self.looked < doubt, confirmed) {
                (true, _) => doubt,
                (false, true) if !node.cut_off => last,
                _ => over,
            })
        };
        let look = self.visited(self.looked).into_iter().filter_map(look).min()?;
        Some(look.min(self.looked + self.timing.period))
    }

    /// Processes one observation of `node`.
    pub fn handle(
        &mut self,
        now: MachineTime,
        node: u32,
        observation: Observation,
    ) -> Vec<DetectorAction> {
        let silence = self.silence(now, node);
        let Some(entry) = self.nodes.get_mut(&node) else { return Vec::new() };
        match observation {
            Observation::Beat { beat: Beat::Ping(stamp) } if !entry.cut_off => {
                entry.contact = now;
                if entry.accused_by.is_none() {
                    (entry.asked, entry.opinion) = (None, None);
                }
                let pong = DetectorAction::Beat { node, beat: Beat::Pong(stamp) };
                [vec![pong], self.attach(now, node)].concat()
            }
            Observation::Beat { beat: Beat::Gone } | Observation::Dead => {
                // A node that was silent beyond its lease died of that.
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
            Observation::GivenUp { by, term, silent } => {
                self.given_up(now, node, Renewer { node: by, term }, silent)
            }
            Observation::Disconnected => {
                entry.cut_off = true;
                self.release(node).into_iter().collect()
            }
        }
    }

    /// Hands a node that is in contact to its parent in the tree, if that parent is healthy.
    fn attach(&mut self, now: MachineTime, node: u32) -> Vec<DetectorAction> {
        let (Some(entry), Some(parent)) = (self.nodes.get(&node), self.tree.parent(node)) else {
            return Vec::new();
        };
        // The link to the parent may have failed: do not retry at once.
        let waits = entry.given_up.is_some_and(|at| now.saturating_sub(at) < self.timing.doubt());
        if entry.renewer.is_some() || entry.cut_off || waits || !self.is_fit(now, parent, node) {
            return Vec::new();
        }
        self.terms += 1;
        let term = self.terms;
        if let Some(entry) = self.nodes.get_mut(&node) {
            (entry.renewer, entry.given_up) = (Some(Renewer { node: parent, term }), None);
        }
        if let Some(entry) = self.nodes.get_mut(&parent) {
            entry.children.insert(node);
        }
        self.direct.remove(&node);
        let adopt = DetectorAction::Adopt { parent, node, term };
        vec![adopt, DetectorAction::Parent { node, parent: Some(parent) }]
    }

    /// Returns true if `parent` can renew the lease of `node` and does not itself depend on `node`.
    fn is_fit(&self, now: MachineTime, parent: u32, node: u32) -> bool {
        let up = |at: &u32| Some(self.nodes.get(at)?.renewer?.node);
        let below = std::iter::successors(Some(parent), up).any(|at| at == node);
        let here = self.nodes.get(&parent).is_some_and(|entry| !entry.cut_off);
        here && !below && self.silence(now, parent) < self.timing.doubt()
    }

    /// Revokes the right to renew the lease of `node` from a renewer that should not have it.
    fn release(&self, node: u32) -> Option<DetectorAction> {
        let entry = self.nodes.get(&node)?;
        let Renewer { node: parent, term } = entry.renewer?;
        let stays = self.tree.parent(node) == Some(parent) && !entry.cut_off;
        (!stays).then_some(DetectorAction::Release { parent, node, term })
    }

    /// Records that `by` gave the node up: only the launcher renews its lease from now on.
    fn given_up(
        &mut self,
        now: MachineTime,
        node: u32,
        by: Renewer,
        silent: Duration,
    ) -> Vec<DetectorAction> {
        let Some(entry) = self.nodes.get_mut(&node) else { return Vec::new() };
        if entry.renewer != Some(by) {
            return Vec::new();
        }
        entry.renewer = None;
        entry.contact = entry.contact.max(now.saturating_sub(silent));
        entry.given_up = Some(now).filter(|_| silent >= self.timing.doubt());
        self.direct.insert(node);
        if let Some(entry) = self.nodes.get_mut(&by.node) {
            entry.children.remove(&node);
        }
        vec![DetectorAction::Parent { node, parent: None }]
    }

    /// Evaluates all timeouts. Call it after handling every message received, which may be older.
    pub fn tick(&mut self, now: MachineTime) -> Vec<DetectorAction> {
        let gap = now.saturating_sub(self.looked);
        self.looked = now;
        if gap > self.timing.away() {
            // The detector was not running, so it received nothing.
            self.nodes.values_mut().for_each(|node| node.contact = (node.contact + gap).min(now));
        }
        self.believe_again(now);
        let mut decisions = Vec::new();
        for (node, contact) in self.visited(now) {
            let Some(entry) = self.nodes.get(&node) else { continue };
            let silence = now.saturating_sub(contact);
            let confirmed = matches!(entry.opinion, Some((_, true))) && !entry.cut_off;
            let limit = if confirmed { self.timing.last() } else { self.timing.over() };
            if silence >= limit {
                decisions.extend(self.declare(node, Some(silence)));
            } else if silence >= self.timing.doubt() && entry.asked.is_none() {
                decisions.extend(self.ask(now, node));
            }
        }
        decisions
    }

    /// Discards second opinions on nodes that are in contact again, directly or through their
    /// parent.
    fn believe_again(&mut self, now: MachineTime) {
        for node in std::mem::take(&mut self.doubted) {
            let calm = self.silence(now, node) < self.timing.doubt();
            match self.nodes.get_mut(&node) {
                Some(entry) if calm && entry.accused_by.is_none() => {
                    (entry.asked, entry.opinion) = (None, None);
                }
                Some(_) => drop(self.doubted.insert(node)),
                None => {}
            }
        }
    }

    /// Asks a healthy node that is not itself involved for a second opinion.
    fn ask(&mut self, now: MachineTime, node: u32) -> Vec<DetectorAction> {
        self.doubted.insert(node);
        let accuser = self.nodes.get(&node).and_then(|entry| entry.accused_by);
        let fit = |(&other, entry): (&u32, &Node)| {
            let recent = self.silence(now, other) < self.timing.doubt();
            let fit = other != node && Some(other) != accuser && recent && !entry.cut_off;
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

    /// Combines an accusation with a second opinion.
    fn confront(&mut self, node: u32) -> Vec<DetectorAction> {
        let Some(entry) = self.nodes.get_mut(&node) else { return Vec::new() };
        match (entry.accused_by, entry.opinion) {
            (Some(by), Some((witness, false))) if !entry.cut_off => {
                entry.cut_off = true;
                let cut_off = DetectorAction::CutOff { node, by, witness };
                [cut_off].into_iter().chain(self.release(node)).collect()
            }
            (Some(by), Some((witness, true))) => {
                vec![DetectorAction::AsymmetricLink { node, by, witness }]
            }
            _ => Vec::new(),
        }
    }

    fn declare(&mut self, node: u32, silent: Option<MachineTime>) -> Vec<DetectorAction> {
        let contact = self.last_contact(node).unwrap_or_default();
        let Some(entry) = self.nodes.remove(&node) else { return Vec::new() };
        let witness = entry.opinion.filter(|(_, alive)| !alive).map(|(witness, _)| witness);
        for doubted in &self.doubted {
            let Some(other) = self.nodes.get_mut(doubted) else { continue };
            if other.accused_by == Some(node) {
                other.accused_by = None;
            }
            if other.asked == Some(node) && other.opinion.is_none() {
                other.asked = None; // another node is asked at the next tick
            }
        }
        let mut decisions = vec![DetectorAction::Declare { node, silent, witness }];
        let before = self.nodes.range(..node).next_back().or(self.nodes.iter().next_back());
        decisions.extend(before.and_then(|(&before, _)| self.watch(before)));
        self.direct.remove(&node);
        if let Some(parent) = entry.renewer.and_then(|renewer| self.nodes.get_mut(&renewer.node)) {
            parent.children.remove(&node);
        }
        for child in entry.children {
            let Some(entry) = self.nodes.get_mut(&child) else { continue };
            // The lost node may have renewed its children's leases until its own expired.
            (entry.renewer, entry.contact) = (None, entry.contact.max(contact));
            self.direct.insert(child);
            decisions.push(DetectorAction::Parent { node: child, parent: None });
        }
        let moved = self.tree.remove(node);
        decisions.extend(moved.and_then(|moved| self.release(moved)));
        decisions
    }
}
