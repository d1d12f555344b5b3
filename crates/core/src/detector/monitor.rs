//! The agent's part: its lease and those of its children, its successor in the ring, and what it
//! thinks of others when asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::timing::{Lease, MachineTime, Timing};
use crate::message::{Beat, Party};
use crate::mutant::{Mutant, breaks};

/// What an agent hears.
#[derive(Debug, Clone)]
pub enum News {
    /// A heartbeat.
    Beat { from: Party, beat: Beat },
    /// The node that this one watches, if any.
    Watch { successor: Option<u32> },
    /// The launcher wants to know whether this node hears that one.
    Ask { node: u32 },
    /// Who renews the lease of this node.
    Parent { parent: Party },
    /// This node renews the lease of that one from now on.
    Adopt { node: u32, term: u64 },
    /// It does not any more.
    Release { node: u32, term: u64 },
}

/// What an agent must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MonitorAction {
    /// Send a heartbeat.
    Beat { to: Party, beat: Beat },
    /// Tell the launcher that the successor is silent.
    Accuse { node: u32 },
    /// Tell the launcher that it is not any more.
    Withdraw { node: u32 },
    /// Tell the launcher whether that node answers.
    Opinion { node: u32, alive: bool },
    /// Tell the launcher that this node does not renew the lease of that one any more, which it
    /// has not heard for so long.
    GiveUp { node: u32, term: u64, silent: Duration },
    /// The lease is over: end every PE and this agent.
    Die,
}

/// A node whose lease this one renews.
#[derive(Debug)]
struct Child {
    term: u64,
    heard: MachineTime,
    /// The stamp of its last ping, and when that came.
    ping: Option<(MachineTime, MachineTime)>,
}

/// The machine.
#[derive(Debug)]
pub struct Monitor {
    me: u32,
    timing: Timing,
    lease: Lease,
    /// Who renews it.
    parent: Party,
    /// When the parent did last, however little.
    answered: MachineTime,
    /// When to turn to the launcher again, if the parent does not help.
    next_direct: MachineTime,
    children: BTreeMap<u32, Child>,
    /// The end of the lease that the children were told last.
    passed_on: MachineTime,
    successor: Option<u32>,
    /// When the successor was heard last.
    heard: MachineTime,
    /// When it was last accused of its present silence.
    accused: Option<MachineTime>,
    /// Nodes that the launcher asked about, and until when they may answer.
    asked: BTreeMap<u32, MachineTime>,
    next_ping: MachineTime,
    looked: MachineTime,
}

impl Monitor {
    /// The monitor of node `me`; its lease begins now.
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
            heard: now,
            accused: None,
            asked: BTreeMap::new(),
            next_ping: now,
            looked: now,
        }
    }

    /// The node that this one watches.
    pub fn successor(&self) -> Option<u32> {
        self.successor
    }

    /// The lease as it stands.
    pub fn lease(&self) -> Lease {
        self.lease
    }

    /// When to look at the clock again.
    pub fn deadline(&self) -> MachineTime {
        let asked = self.asked.values().copied();
        let direct = self.orphaned_at().map(|at| at.max(self.next_direct));
        let all = asked.chain(direct).chain([self.next_ping, self.lease.end()]);
        all.min().unwrap_or(self.next_ping)
    }

    /// When this node turns to the launcher, because its parent says nothing or knows nothing new.
    fn orphaned_at(&self) -> Option<MachineTime> {
        let silent = self.answered + self.timing.orphaned();
        let old = self.lease.contact() + self.timing.doubt();
        (self.parent != Party::Launcher).then_some(silent.min(old))
    }

    /// Takes one piece of news. To be called only while the lease holds: see `tick`.
    pub fn handle(&mut self, now: MachineTime, news: News) -> Vec<MonitorAction> {
        match news {
            News::Beat { from, beat: Beat::Ping(stamp) } => vec![self.pinged(now, from, stamp)],
            News::Beat { from: Party::Launcher, beat: Beat::Pong(stamp) } => {
                self.lease.renew(stamp);
                self.pass_on()
            }
            News::Beat { from: Party::Node(node), beat: Beat::Pong(_) } => self.heard(now, node),
            News::Beat { from: Party::Node(node), beat: Beat::Lease(stamp, left) } => {
                if self.parent == Party::Node(node) {
                    self.answered = now;
                }
                self.lease.renew_for(stamp, left);
                [self.heard(now, node), self.pass_on()].concat()
            }
            // The launcher's business, and that of the shell.
            News::Beat { .. } => Vec::new(),
            News::Watch { successor } => {
                let successor = successor.filter(|&node| node != self.me);
                if successor != self.successor {
                    (self.successor, self.heard, self.accused) = (successor, now, None);
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
                self.children.insert(node, Child { term, heard: now, ping: None });
                Vec::new()
            }
            News::Release { node, term } => {
                let own = self.children.get(&node).is_some_and(|child| child.term == term);
                own.then(|| self.give_up(now, node)).flatten().into_iter().collect()
            }
        }
    }

    /// Answers a ping: that of a child with as much of the own lease as there is.
    fn pinged(&mut self, now: MachineTime, from: Party, stamp: MachineTime) -> MonitorAction {
        let child = match from {
            Party::Node(node) => self.children.get_mut(&node),
            Party::Launcher => None,
        };
        let lease = child.and_then(|child| {
            (child.heard, child.ping) = (now, Some((stamp, now)));
            lease_of(child, self.lease, self.timing.limit)
        });
        MonitorAction::Beat { to: from, beat: lease.unwrap_or(Beat::Pong(stamp)) }
    }

    /// The own lease was renewed: those of the children are too, or each level would add the time
    /// between two heartbeats to the age of a lease. Not for an answer that brings next to nothing.
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
        let Child { term, heard, .. } = self.children.remove(&node)?;
        Some(MonitorAction::GiveUp { node, term, silent: now.saturating_sub(heard) })
    }

    fn heard(&mut self, now: MachineTime, node: u32) -> Vec<MonitorAction> {
        let mut acts = Vec::new();
        if self.asked.remove(&node).is_some() {
            acts.push(MonitorAction::Opinion { node, alive: true });
        }
        if self.successor == Some(node) {
            self.heard = now;
            if self.accused.take().is_some() {
                acts.push(MonitorAction::Withdraw { node });
            }
        }
        acts
    }

    /// Looks at the clock. To be called before anything that was received is looked at: if the
    /// lease is over, nothing that arrived makes it whole again.
    pub fn tick(&mut self, now: MachineTime) -> Vec<MonitorAction> {
        if self.lease.is_over(now) {
            return vec![MonitorAction::Die];
        }
        let gap = now.saturating_sub(self.looked);
        self.looked = now;
        if gap > self.timing.away() {
            self.heard += gap;
            self.asked.values_mut().for_each(|until| *until += gap);
        }
        let mut acts = self.pings(now);
        if let Some(node) = self.successor
            && now.saturating_sub(self.heard) >= self.timing.limit
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

    /// Gives up children that are silent. After a time away what they sent is still to be heard,
    /// but who is always so slow must not hold up their loss.
    fn give_up_silent(&mut self, now: MachineTime, gap: Duration) -> Vec<MonitorAction> {
        let away = gap > self.timing.away();
        let limit = if away { self.timing.limit } else { self.timing.doubt() };
        let silent = |child: &Child| now.saturating_sub(child.heard) >= limit;
        let silent = self.children.iter().filter(|(_, child)| silent(child));
        let silent: Vec<u32> = silent.map(|(&node, _)| node).collect();
        silent.into_iter().filter_map(|node| self.give_up(now, node)).collect()
    }

    /// The heartbeats that are due: to the parent and the successor, to whom was asked about, and
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

/// What the last ping of `child` is answered with: it may go on for as long as its parent may, and
/// no longer than the limit from that ping. None if there was none, or nothing to give.
fn lease_of(child: &Child, own: Lease, limit: Duration) -> Option<Beat> {
    let (stamp, came) = child.ping?;
    let left = own.end().checked_sub(came).filter(|left| !left.is_zero())?.min(limit);
    let left = if breaks(Mutant::LeaseOutlivesParent) { limit } else { left };
    Some(Beat::Lease(stamp, left))
}
