//! Heartbeats: the library's own failure-detector machines decide which node is lost.
//!
//! Every agent has a [`Monitor`], the launcher the [`FailureDetector`]. Heartbeats are delayed and
//! lost, a few in a row; a node dies with or without an observer, or is cut off from launcher and
//! agents while its PEs still reach the memory of others: they continue in the last view published
//! to them until the lease of their agent is over.
//!
//! Checked at every declaration: an event at the node preceded it by at most 1.5 limits, or 2 in a
//! tree, and none of its processes is alive.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use raidshmem_core::detector::{
    DEGREE, DetectorAction, FailureDetector, Monitor, MonitorAction, News, Observation, Timing,
};
use raidshmem_core::ended::Ended;
use raidshmem_core::membership::MembershipEvent;
use raidshmem_core::message::{Beat, Party};
use raidshmem_core::mutant::Mutant;

use super::job::{Job, What};
use super::plan::{Broken, Plan};

/// Heartbeats in a row that may be lost each way: an answer arrives within nine periods, of twelve.
/// In a tree one may: it arrives within four of the six periods left when a node turns to the
/// launcher.
const LOSSES: u32 = 2;

/// An event of the detector.
#[derive(Debug)]
pub enum Heartbeat {
    /// A party checks the clock.
    Look(Party),
    News(u32, News),
    Observation(u32, Observation),
}

/// The machines, and the network's faults.
pub struct Detector {
    timing: Timing,
    watches: BTreeMap<u32, Monitor>,
    failures: FailureDetector,
    /// Nodes cut off from all other agents and from the launcher.
    parted: BTreeSet<u32>,
    lost: BTreeMap<(Party, Party), u32>,
    /// The most losses in a row.
    losses: u32,
    /// The arrival of the last order or report between the two: none is lost or overtakes another.
    streams: BTreeMap<(Party, Party), u64>,
    /// The time of the first event at a node.
    since: BTreeMap<u32, u64>,
}

fn time(ticks: u64) -> Duration {
    Duration::from_micros(ticks)
}

fn ticks(time: Duration) -> u64 {
    time.as_micros() as u64
}

impl Detector {
    /// Chooses a period so long that heartbeats are a small part of all messages, and a limit so
    /// long that nothing from a node silent for it is still in flight.
    pub fn new(plan: &Plan) -> Detector {
        let period = time((40 * plan.message).max(plan.stall) as u64);
        let timing = Timing { period, limit: 12 * period };
        let watch = |node| (node, Monitor::new(node, timing, Duration::ZERO));
        let degree = [DEGREE, 3, 2, 1][plan.seed as usize % 4];
        let losses = if degree < plan.nodes as usize { 1 } else { LOSSES };
        let failures = FailureDetector::new(0..plan.nodes, true, degree, timing, Duration::ZERO);
        Detector {
            timing,
            watches: (0..plan.nodes).map(watch).collect(),
            failures,
            parted: BTreeSet::new(),
            lost: BTreeMap::new(),
            losses,
            streams: BTreeMap::new(),
            since: BTreeMap::new(),
        }
    }
}

impl Job {
    /// Schedules the first clock checks.
    pub fn begin_heartbeats(&mut self) {
        let Some(detector) = &mut self.detector else { return };
        let nodes: Vec<u32> = detector.watches.keys().copied().collect();
        let first = detector.failures.begin();
        for party in nodes.into_iter().map(Party::Node).chain([Party::Launcher]) {
            self.at(0, What::Heartbeat(Heartbeat::Look(party)));
        }
        self.decided(first);
    }

    /// True if nothing passes between the node and the launcher.
    pub fn is_parted(&self, node: u32) -> bool {
        self.detector.as_ref().is_some_and(|detector| detector.parted.contains(&node))
    }

    /// Records an event that the detector must find: the node is cut off, or dead.
    pub fn befalls(&mut self, node: u32, parted: bool) {
        let (now, here) = (self.now, self.carried_on(node));
        let Some(detector) = &mut self.detector else { return };
        detector.since.entry(node).or_insert(now);
        if parted {
            detector.parted.insert(node);
            self.suspects.extend(here.into_iter().map(|pe| (pe, pe))); // they run on for a while
        } else if self.plan.chance.one_in(2) {
            // Its supervisor sees that all its processes have ended.
            let seen = now + self.plan.step as u64 + self.delay(self.plan.message);
            self.at(seen, What::Heartbeat(Heartbeat::Observation(node, Observation::Dead)));
        }
    }

    pub fn heartbeat(&mut self, heartbeat: Heartbeat) {
        let now = time(self.now);
        let Some(detector) = &mut self.detector else { return };
        match heartbeat {
            Heartbeat::Look(Party::Launcher) => {
                let decisions = detector.failures.tick(now);
                let next = detector.failures.deadline().map(|next| ticks(next).max(self.now + 1));
                self.decided(decisions);
                if let Some(next) = next {
                    self.at(next, What::Heartbeat(Heartbeat::Look(Party::Launcher)));
                }
            }
            Heartbeat::Look(Party::Node(node)) if self.nodes[node as usize].alive => {
                let Some(watch) = detector.watches.get_mut(&node) else { return };
                let acts = watch.tick(now);
                let next = ticks(watch.deadline()).max(self.now + 1);
                self.carry_out(node, acts);
                self.at(next, What::Heartbeat(Heartbeat::Look(Party::Node(node))));
            }
            Heartbeat::News(node, news) if self.nodes[node as usize].alive => {
                let Some(watch) = detector.watches.get_mut(&node) else { return };
                // As in the agent: one that checks its own lease too late receives nothing more.
                let mut acts = watch.tick(now);
                if !acts.contains(&MonitorAction::Die) {
                    acts.extend(watch.handle(now, news));
                }
                self.carry_out(node, acts);
            }
            Heartbeat::Look(_) | Heartbeat::News(..) => {}
            Heartbeat::Observation(node, observation) => {
                let decisions = detector.failures.handle(now, node, observation);
                self.decided(decisions);
            }
        }
    }

    fn carry_out(&mut self, node: u32, acts: Vec<MonitorAction>) {
        let me = Party::Node(node);
        for act in acts {
            let (about, observation) = match act {
                MonitorAction::Beat { to: Party::Node(to), beat } => {
                    self.beat(
                        me,
                        Party::Node(to),
                        Heartbeat::News(to, News::Beat { from: me, beat }),
                    );
                    continue;
                }
                MonitorAction::Die => return self.lease_is_over(node),
                MonitorAction::Beat { beat, .. } => (node, Observation::Beat { beat }),
                MonitorAction::Accuse { node: about } => (about, Observation::Accused { by: node }),
                MonitorAction::Withdraw { node: about } => {
                    (about, Observation::Withdrawn { by: node })
                }
                MonitorAction::GiveUp { node: about, term, silent } => {
                    (about, Observation::GivenUp { by: node, term, silent })
                }
                MonitorAction::Opinion { node: about, alive } => {
                    (about, Observation::Opinion { by: node, alive })
                }
            };
            self.beat(me, Party::Launcher, Heartbeat::Observation(about, observation));
        }
    }

    fn lease_is_over(&mut self, node: u32) {
        self.note(|| format!("node {node}: its lease is over"));
        let now = self.now;
        let detector = self.detector.as_mut().expect("it has a lease");
        if !detector.since.contains_key(&node) {
            let promise = format!("detector: node {node} ends itself though its heartbeats arrive");
            self.broken_promise.get_or_insert(promise);
        }
        self.nodes[node as usize].alive = false;
        if self.plan.broken == Broken::Rule(Mutant::LeaseWithoutEnd) {
            return;
        }
        for proc in 0..self.procs.len() {
            if self.procs[proc].alive && self.procs[proc].node == node {
                self.at(now, What::ProcessDies(proc as u32, Ended::Killed(9)));
            }
        }
        let gone = Heartbeat::Observation(node, Observation::Beat { beat: Beat::Gone });
        let later = now + 1; // after the processes have ended
        if !self.is_parted(node) {
            self.at(later, What::Heartbeat(gone));
        }
    }

    /// Sends a heartbeat, or a message on its path.
    fn beat(&mut self, from: Party, to: Party, heartbeat: Heartbeat) {
        let cut = |job: &Job, party| matches!(party, Party::Node(node) if job.is_parted(node));
        if cut(self, from) || cut(self, to) {
            return;
        }
        let chance = self.plan.chance.one_in(4);
        let mut time = self.now + self.delay(self.plan.message).min(20 * self.plan.message as u64);
        let detector = self.detector.as_mut().expect("who sends has it");
        let may_be_lost = matches!(
            heartbeat,
            Heartbeat::News(_, News::Beat { .. })
                | Heartbeat::Observation(_, Observation::Beat { .. })
        );
        if may_be_lost {
            let lost = detector.lost.entry((from, to)).or_default();
            if chance && *lost < detector.losses {
                *lost += 1;
                return;
            }
            *lost = 0;
        } else {
            let last = detector.streams.entry((from, to)).or_default();
            time = time.max(*last);
            *last = time;
        }
        self.at(time, What::Heartbeat(heartbeat));
    }

    fn decided(&mut self, decisions: Vec<DetectorAction>) {
        for decision in decisions {
            if let Some((node, news)) = decision.news() {
                self.beat(Party::Launcher, Party::Node(node), Heartbeat::News(node, news));
            }
            if let DetectorAction::Declare { node, .. } = decision {
                self.declared(node);
            }
        }
    }

    fn declared(&mut self, node: u32) {
        let detector = self.detector.as_ref().expect("it declares");
        // In a tree its parent may have died later, before it reported the loss.
        let halves = if detector.losses < LOSSES { 4 } else { 3 };
        let late = ticks(detector.timing.limit * halves / 2);
        let promise = match detector.since.get(&node) {
            None => Some("though nothing happened to it"),
            Some(&since) if self.now > since + late => Some("too late"),
            _ if self.procs.iter().any(|proc| proc.alive && proc.node == node) => {
                Some("though a process of it goes on")
            }
            Some(_) => None,
        };
        if let Some(how) = promise {
            let promise = format!("detector: node {node} is declared lost {how}");
            self.broken_promise.get_or_insert(promise);
        }
        self.ending.declared += 1;
        self.ending.late |=
            self.procs.iter().any(|proc| proc.alive && proc.number >= self.plan.last);
        for pe in self.carried_on(node) {
            self.suspects.remove(&pe);
            self.lost.insert(pe);
        }
        self.note(|| format!("launcher: node {node} is declared lost"));
        self.deliver(MembershipEvent::NodeLost { node });
    }
}
