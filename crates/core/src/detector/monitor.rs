//! The agent's half of the detector: its own lease, its children's leases, its successor in the
//! ring, and its answers when asked for a second opinion.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::timing::{Lease, MachineTime, Timing};
use crate::message::{Beat, Party};
use crate::mutant::{Mutant, breaks};

/// A message or report that an agent receives.
#[derive(Debug, Clone)]
pub enum News {
    /// A heartbeat.
    Beat { from: Party, beat: Beat },
    /// Sets the node to watch, if any.
    Watch { successor: Option<u32> },
    /// The launcher asks whether `node` answers this one.
    Ask { node: u32 },
    /// Sets the party that renews this node's lease.
    Parent { parent: Party },
    /// This node renews the lease of `node` from now on.
    Adopt { node: u32, term: u64 },
    /// This node stops renewing it.
    Release { node: u32, term: u64 },
}

/// An action that an agent must take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MonitorAction {
    /// Send a heartbeat.
    Beat { to: Party, beat: Beat },
    /// Report to the launcher that the successor is silent.
    Accuse { node: u32 },
    /// Report to the launcher that the successor answers again.
    Withdraw { node: u32 },
    /// Report to the launcher whether `node` answers.
    Opinion { node: u32, alive: bool },
    /// Report to the launcher that this node no longer renews the lease of `node`, after a silence
    /// of `silent`.
    GiveUp { node: u32, term: u64, silent: Duration },
    /// The lease is over: end every PE and this agent.
    Die,
}

/// A node whose lease this one renews.
#[derive(Debug)]
struct Child {
    term: u64,
    contact: MachineTime,
    /// The stamp of its last ping, and when it arrived.
    ping: Option<(MachineTime, MachineTime)>,
}

/// The monitor, one per agent.
#[derive(Debug)]
pub struct Monitor {
    me: u32,
    timing: Timing,
    lease: Lease,
    /// The party that renews the lease.
    parent: Party,
    /// When the parent last answered, even with a short lease.
    answered: MachineTime,
    /// When to ping the launcher again, if the parent does not help.
    next_direct: MachineTime,
    children: BTreeMap<u32, Child>,
    /// The end of the lease that was last passed on to the children.
    passed_on: MachineTime,
    successor: Option<u32>,
    /// Last contact with the successor.
    contact: MachineTime,
    /// When the successor was last accused of its present silence.
    accused: Option<MachineTime>,
    /// Nodes to give an opinion on, each with the time at which a missing answer counts as silence.
    asked: BTreeMap<u32, MachineTime>,
    next_ping: MachineTime,
    looked: MachineTime,
}

impl Monitor {
    /// Creates the monitor of node `me`; its lease begins now.
    pub fn new(me: u32, timing: Timing, now: MachineTime) -> Monitor {
        let lease = Lease::new(now, timing.limit);
        Monitor {
            me,
            timing,
            lease,
            parent: Party::Launcher,
            answered: now,
            next_direct: now,
            children: BTreeMap::new(),
            passed_on: lease.end(),
            successor: None,
            contact: now,
            accused: None,
            asked: BTreeMap::new(),
            next_ping: now,
            looked: now,
        }
    }

    /// Returns the node that this one watches.
    pub fn successor(&self) -> Option<u32> {
        self.successor
    }

    /// Returns the current lease.
    pub fn lease(&self) -> Lease {
        self.lease
    }

    /// Returns when to call `tick` next.
    pub fn deadline(&self) -> MachineTime {
        let asked = self.asked.values().copied();
        let direct = self.orphaned_at().map(|at| at.max(self.next_direct));
        let all = asked.chain(direct).chain([self.next_ping, self.lease.end()]);
        all.min().unwrap_or(self.next_ping)
    }

    /// Returns when this node turns to the launcher: its parent is silent or its lease has become
    /// old.
    fn orphaned_at(&self) -> Option<MachineTime> {
        let silent = self.answered + self.timing.orphaned();
        let old = self.lease.contact() + self.timing.doubt();
        (self.parent != Party::Launcher).then_some(silent.min(old))
    }

    /// Processes one message. Call it only while the lease holds: see `tick`.
    pub fn handle(&mut self, now: MachineTime, news: News) -> Vec<MonitorAction> {
        match news {
            News::Beat { from, beat: Beat::Ping(stamp) } => vec![self.pinged(now, from, stamp)],
            News::Beat { from: Party::Launcher, beat: Beat::Pong(stamp) } => {
                self.lease.renew(stamp);
                self.pass_on()
            }
            News::Beat { from: Party::Node(node), beat: Beat::Pong(_) } => {
                self.note_contact(now, node)
            }
            News::Beat { from: Party::Node(node), beat: Beat::Lease(stamp, left) } => {
                if self.parent == Party::Node(node) {
                    self.answered = now;
                }
                self.lease.renew_for(stamp, left);
                [self.note_contact(now, node), self.pass_on()].concat()
            }
            // Handled by the launcher or the caller.
            News::Beat { .. } => Vec::new(),
            News::Watch { successor } => {
                let successor = successor.filter(|&node| node != self.me);
                if successor != self.successor {
                    (self.successor, self.contact, self.accused) = (successor, now, None);
                }
                Vec::new()
            }
            News::Ask { node } => {
                self.asked.insert(node, now + self.timing.opinion());
                vec![MonitorAction::Beat { to: Party::Node(node), beat: Beat::Ping(now) }]
            }
            News::Parent { parent } => {
                (self.parent, self.answered, self.next_ping) = (parent, now, now);
                Vec::new()
            }
            News::Adopt { node, term } => {
                self.children.insert(node, Child { term, contact: now, ping: None });
                Vec::new()
            }
            News::Release { node, term } => {
                let own = self.children.get(&node).is_some_and(|child| child.term == term);
                own.then(|| self.give_up(now, node)).flatten().into_iter().collect()
            }
        }
    }

    /// Answers a ping; a child gets as much of this node's own lease as is left.
    fn pinged(&mut self, now: MachineTime, from: Party, stamp: MachineTime) -> MonitorAction {
        let child = match from {
            Party::Node(node) => self.children.get_mut(&node),
            Party::Launcher => None,
        };
        let lease = child.and_then(|child| {
            (child.contact, child.ping) = (now, Some((stamp, now)));
            lease_of(child, self.lease, self.timing.limit)
        });
        MonitorAction::Beat { to: from, beat: lease.unwrap_or(Beat::Pong(stamp)) }
    }

    /// Passes a renewal of this node's lease on to its children, or each level would add a
    /// heartbeat period to the age of a lease. Skips renewals that gain less than half a period.
    fn pass_on(&mut self) -> Vec<MonitorAction> {
        if self.lease.end() < self.passed_on + self.timing.period / 2 {
            return Vec::new();
        }
        self.passed_on = self.lease.end();
        let lease = |(&node, child): (&u32, &Child)| {
            let beat = lease_of(child, self.lease, self.timing.limit)?;
            Some(MonitorAction::Beat { to: Party::Node(node), beat })
        };
        self.children.iter().filter_map(lease).collect()
    }

    fn give_up(&mut self, now: MachineTime, node: u32) -> Option<MonitorAction> {
        let Child { term, contact, .. } = self.children.remove(&node)?;
        Some(MonitorAction::GiveUp { node, term, silent: now.saturating_sub(contact) })
    }

    fn note_contact(&mut self, now: MachineTime, node: u32) -> Vec<MonitorAction> {
        let mut acts = Vec::new();
        if self.asked.remove(&node).is_some() {
            acts.push(MonitorAction::Opinion { node, alive: true });
        }
        if self.successor == Some(node) {
            self.contact = now;
            if self.accused.take().is_some() {
                acts.push(MonitorAction::Withdraw { node });
            }
        }
        acts
    }

    /// Evaluates all timeouts. Call it before handling any message received: once the lease is
    /// over, no message revives it.
    pub fn tick(&mut self, now: MachineTime) -> Vec<MonitorAction> {
        if self.lease.is_over(now) {
            return vec![MonitorAction::Die];
        }
        let gap = now.saturating_sub(self.looked);
        self.looked = now;
        if gap > self.timing.away() {
            self.contact += gap;
            self.asked.values_mut().for_each(|until| *until += gap);
        }
        let mut acts = self.pings(now);
        if let Some(node) = self.successor
            && now.saturating_sub(self.contact) >= self.timing.limit
            && self.accused.is_none_or(|at| now.saturating_sub(at) >= self.timing.limit)
        {
            self.accused = Some(now);
            acts.push(MonitorAction::Accuse { node });
        }
        let silent: Vec<u32> =
            self.asked.iter().filter(|(_, until)| now >= **until).map(|(&node, _)| node).collect();
        for node in silent {
            self.asked.remove(&node);
            acts.push(MonitorAction::Opinion { node, alive: false });
        }
        acts.extend(self.give_up_silent(now, gap));
        acts
    }

    /// Gives up silent children. After a pause their messages may still be queued, so the limit is
    /// then longer; but it applies, or a node that is always this slow would delay the detection of
    /// losses.
    fn give_up_silent(&mut self, now: MachineTime, gap: Duration) -> Vec<MonitorAction> {
        let away = gap > self.timing.away();
        let limit = if away { self.timing.limit } else { self.timing.doubt() };
        let silent = |child: &Child| now.saturating_sub(child.contact) >= limit;
        let silent = self.children.iter().filter(|(_, child)| silent(child));
        let silent: Vec<u32> = silent.map(|(&node, _)| node).collect();
        silent.into_iter().filter_map(|node| self.give_up(now, node)).collect()
    }

    /// Returns the pings that are due: to the parent, the successor and the nodes asked about, and
    /// to the launcher if the parent does not help.
    fn pings(&mut self, now: MachineTime) -> Vec<MonitorAction> {
        let mut to: BTreeSet<Party> = BTreeSet::new();
        if now >= self.next_ping {
            self.next_ping = now + self.timing.period;
            to.extend(self.asked.keys().copied().chain(self.successor).map(Party::Node));
            to.insert(self.parent);
        }
        if now >= self.next_direct && self.orphaned_at().is_some_and(|at| now >= at) {
            self.next_direct = now + self.timing.period;
            to.insert(Party::Launcher);
        }
        let ping = |to| MonitorAction::Beat { to, beat: Beat::Ping(now) };
        to.into_iter().map(ping).collect()
    }
}

/// Returns the answer to the last ping of `child`: it may run as long as its parent, and no longer
/// than `limit` from that ping. None without a ping or without time left to grant.
fn lease_of(child: &Child, own: Lease, limit: Duration) -> Option<Beat> {
    let (stamp, came) = child.ping?;
    let left = own.end().checked_sub(came).filter(|left| !left.is_zero())?.min(limit);
    let left = if breaks(Mutant::LeaseOutlivesParent) { limit } else { left };
    Some(Beat::Lease(stamp, left))
}
