//! The agent's part: its lease, its successor in the ring, and what it thinks of others when asked.

use std::collections::BTreeMap;

use super::timing::{Lease, MachineTime, Timing};
use crate::message::{Beat, Party};

/// What an agent hears.
#[derive(Debug, Clone)]
pub enum News {
    /// A heartbeat.
    Beat { from: Party, beat: Beat },
    /// The nodes that watch each other, in order, this one among them.
    Ring { nodes: Vec<u32> },
    /// The launcher wants to know whether this node hears that one.
    Ask { node: u32 },
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
    /// The lease is over: end every PE and this agent.
    Die,
}

/// The machine.
#[derive(Debug)]
pub struct Monitor {
    me: u32,
    timing: Timing,
    lease: Lease,
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
        Monitor {
            me,
            timing,
            lease: Lease::new(now, timing.limit),
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
        asked.chain([self.next_ping, self.lease.end()]).min().unwrap_or(self.next_ping)
    }

    /// Takes one piece of news. To be called only while the lease holds: see `tick`.
    pub fn handle(&mut self, now: MachineTime, news: News) -> Vec<MonitorAction> {
        match news {
            News::Beat { from, beat: Beat::Ping(stamp) } => {
                vec![MonitorAction::Beat { to: from, beat: Beat::Pong(stamp) }]
            }
            News::Beat { from: Party::Launcher, beat: Beat::Pong(stamp) } => {
                self.lease.renew(stamp);
                Vec::new()
            }
            News::Beat { from: Party::Node(node), beat: Beat::Pong(_) } => self.heard(now, node),
            // The launcher's business, and that of the shell.
            News::Beat { beat: Beat::Gone | Beat::Reader(_) | Beat::Counter(_), .. } => Vec::new(),
            News::Ring { nodes } => {
                self.enter(now, &nodes);
                Vec::new()
            }
            News::Ask { node } => {
                self.asked.insert(node, now + self.timing.opinion());
                vec![MonitorAction::Beat { to: Party::Node(node), beat: Beat::Ping(now) }]
            }
        }
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

    fn enter(&mut self, now: MachineTime, nodes: &[u32]) {
        let others = || nodes.iter().copied().filter(|&node| node != self.me);
        let successor = others().filter(|&node| node > self.me).min().or(others().min());
        if successor != self.successor {
            (self.successor, self.heard, self.accused) = (successor, now, None);
        }
        self.asked.retain(|node, _| nodes.contains(node));
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
        let mut acts = Vec::new();
        if now >= self.next_ping {
            self.next_ping = now + self.timing.period;
            let nodes = self.asked.keys().copied().chain(self.successor).map(Party::Node);
            let ping = |to| MonitorAction::Beat { to, beat: Beat::Ping(now) };
            acts.extend(nodes.chain([Party::Launcher]).map(ping));
        }
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
        acts
    }
}
