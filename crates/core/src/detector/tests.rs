//! Property tests of the detector on a seeded network that delays, loses and partitions.

use std::collections::BTreeMap;

use super::*;
use crate::message::{Beat, Party};

const LIMIT: MachineTime = MachineTime::from_millis(1000);
const TIMING: Timing = Timing { period: MachineTime::from_millis(100), limit: LIMIT };
const SEEDS: u64 = 400;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn time(&mut self, most: MachineTime) -> MachineTime {
        MachineTime::from_nanos(self.below(most.as_nanos() as u64 + 1))
    }
}

#[derive(Debug, Clone)]
enum Message {
    Up(u32, Observation),
    Down(News),
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    /// The node ends at once, without notice.
    Dies(u32),
    /// From now on these are partitioned from the remaining ones; one bit each.
    Part(u64),
    Heal,
    /// Stops until then.
    Stops(Party, MachineTime),
}

struct Agent {
    monitor: Monitor,
    /// When it ended, by its own decision or by a fault.
    ended: Option<MachineTime>,
    stopped: MachineTime,
    inbox: Vec<News>,
}

struct World {
    random: Random,
    now: MachineTime,
    /// When the last reliable message of each pair arrives: none overtakes it.
    streams: BTreeMap<(u64, u64), MachineTime>,
    sent: BTreeMap<(MachineTime, u64), (Party, Message)>,
    count: u64,
    agents: BTreeMap<u32, Agent>,
    detector: FailureDetector,
    detector_stopped: MachineTime,
    detector_inbox: Vec<(u32, Observation)>,
    parted: u64,
    /// Longest delay of a message, and how many in a row may be lost.
    delay: MachineTime,
    losses: u32,
    lost: BTreeMap<(u64, u64), u32>,
    declared: BTreeMap<u32, MachineTime>,
    decisions: Vec<DetectorAction>,
}

fn bit(party: Party) -> u64 {
    match party {
        Party::Node(node) => 1 << node,
        Party::Launcher => 1 << 63,
    }
}

impl World {
    fn new(seed: u64, nodes: u32, degree: usize, delay: MachineTime, losses: u32) -> World {
        let start = MachineTime::from_secs(100);
        let agent = |node| {
            let monitor = Monitor::new(node, TIMING, start);
            (node, Agent { monitor, ended: None, stopped: start, inbox: Vec::new() })
        };
        let mut detector = FailureDetector::new(0..nodes, true, degree, TIMING, start);
        let first = detector.begin();
        let mut world = World {
            random: Random(seed),
            now: start,
            streams: BTreeMap::new(),
            sent: BTreeMap::new(),
            count: 0,
            agents: (0..nodes).map(agent).collect(),
            detector,
            detector_stopped: start,
            detector_inbox: Vec::new(),
            parted: 0,
            delay,
            losses,
            lost: BTreeMap::new(),
            declared: BTreeMap::new(),
            decisions: Vec::new(),
        };
        world.judge(first);
        world
    }

    /// Sends a message. Heartbeats may be lost, but only so many in a row between two parties.
    fn send(&mut self, from: Party, to: Party, message: Message, sure: bool) {
        let parted = self.parted & bit(from) != 0;
        if parted != (self.parted & bit(to) != 0) {
            return;
        }
        let lost = self.lost.entry((bit(from), bit(to))).or_default();
        if !sure && *lost < self.losses && self.random.below(3) == 0 {
            *lost += 1;
            return;
        }
        *lost = 0;
        self.count += 1;
        let mut at = self.now + self.random.time(self.delay);
        if sure {
            let last = self.streams.entry((bit(from), bit(to))).or_default();
            at = at.max(*last);
            *last = at;
        }
        self.sent.insert((at, self.count), (to, message));
    }

    fn act(&mut self, node: u32, acts: Vec<MonitorAction>) {
        let me = Party::Node(node);
        for act in acts {
            let up = |about, observation| Message::Up(about, observation);
            match act {
                MonitorAction::Beat { to: Party::Launcher, beat } => {
                    let message = up(node, Observation::Beat { beat });
                    self.send(me, Party::Launcher, message, false);
                }
                MonitorAction::Beat { to, beat } => {
                    self.send(me, to, Message::Down(News::Beat { from: me, beat }), false);
                }
                MonitorAction::Accuse { node: about } => {
                    let observation = Observation::Accused { by: node };
                    self.send(me, Party::Launcher, up(about, observation), true);
                }
                MonitorAction::Withdraw { node: about } => {
                    let observation = Observation::Withdrawn { by: node };
                    self.send(me, Party::Launcher, up(about, observation), true);
                }
                MonitorAction::GiveUp { node: about, term, silent } => {
                    let observation = Observation::GivenUp { by: node, term, silent };
                    self.send(me, Party::Launcher, up(about, observation), true);
                }
                MonitorAction::Opinion { node: about, alive } => {
                    let observation = Observation::Opinion { by: node, alive };
                    self.send(me, Party::Launcher, up(about, observation), true);
                }
                MonitorAction::Die => self.end(node),
            }
        }
    }

    fn end(&mut self, node: u32) {
        let now = self.now;
        if let Some(agent) = self.agents.get_mut(&node) {
            agent.ended.get_or_insert(now);
        }
    }

    fn judge(&mut self, decisions: Vec<DetectorAction>) {
        for decision in decisions {
            if let Some((node, news)) = decision.news() {
                let by_stream = !matches!(news, News::Beat { .. });
                self.send(Party::Launcher, Party::Node(node), Message::Down(news), by_stream);
            }
            match decision {
                DetectorAction::CutOff { node, .. } => self.end(node), // obeys the order to end
                DetectorAction::Declare { node, .. } => {
                    let agent = &self.agents[&node];
                    // The supervisor of a stopped agent shares its lease.
                    let over = agent.monitor.lease().is_over(self.now) || agent.ended.is_some();
                    assert!(over, "node {node} was declared lost while it might act");
                    self.declared.insert(node, self.now);
                }
                _ => {}
            }
            self.decisions.push(decision);
        }
    }

    fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Dies(node) => self.end(node),
            Fault::Part(parties) => self.parted = parties,
            Fault::Heal => self.parted = 0,
            Fault::Stops(Party::Launcher, until) => self.detector_stopped = until,
            Fault::Stops(Party::Node(node), until) => {
                if let Some(agent) = self.agents.get_mut(&node) {
                    agent.stopped = until;
                }
            }
        }
    }

    fn deliver(&mut self, to: Party, message: Message) {
        match (to, message) {
            (Party::Launcher, Message::Up(node, observation)) => {
                self.detector_inbox.push((node, observation));
            }
            (Party::Node(node), Message::Down(news)) => {
                if let Some(agent) = self.agents.get_mut(&node) {
                    agent.inbox.push(news);
                }
            }
            _ => unreachable!("each message has one kind of reader"),
        }
    }

    /// Lets every running party handle its messages and then its timeouts, as the callers do.
    fn look(&mut self) {
        if self.detector_stopped <= self.now {
            for (node, observation) in std::mem::take(&mut self.detector_inbox) {
                let decisions = self.detector.handle(self.now, node, observation);
                self.judge(decisions);
            }
            let decisions = self.detector.tick(self.now);
            self.judge(decisions);
        }
        let nodes: Vec<u32> = self.agents.keys().copied().collect();
        for node in nodes {
            let now = self.now;
            let agent = self.agents.get_mut(&node).expect("it is one of them");
            if agent.ended.is_some() || agent.stopped > now {
                continue;
            }
            let mut acts = agent.monitor.tick(now);
            if !acts.contains(&MonitorAction::Die) {
                for news in std::mem::take(&mut agent.inbox) {
                    acts.extend(agent.monitor.handle(now, news));
                }
            }
            self.act(node, acts);
        }
    }

    fn next(&self, faults: &[(MachineTime, Fault)]) -> MachineTime {
        let running = self.agents.values().filter(|agent| agent.ended.is_none());
        let agents = running.map(|agent| agent.monitor.deadline().max(agent.stopped));
        let detector = self.detector.deadline().map(|at| at.max(self.detector_stopped));
        let sent = self.sent.keys().next().map(|&(at, _)| at);
        let fault = faults.first().map(|&(at, _)| at);
        let all = agents.chain(detector).chain(sent).chain(fault);
        all.min().unwrap_or(MachineTime::MAX).max(self.now)
    }

    fn run(&mut self, mut faults: Vec<(MachineTime, Fault)>, until: MachineTime) {
        faults.sort_by_key(|&(at, _)| at);
        loop {
            let next = self.next(&faults);
            if next > until {
                return;
            }
            self.now = next;
            while faults.first().is_some_and(|&(at, _)| at <= next) {
                let (_, fault) = faults.remove(0);
                self.fault(fault);
            }
            while let Some(entry) = self.sent.first_entry().filter(|e| e.key().0 <= next) {
                let (to, message) = entry.remove();
                self.deliver(to, message);
            }
            self.look();
            if self.now == next && self.next(&faults) <= next {
                self.now = next + MachineTime::from_nanos(1); // a clock advances
            }
        }
    }

    fn ended(&self) -> Vec<u32> {
        let ended = self.agents.iter().filter(|(_, agent)| agent.ended.is_some());
        ended.map(|(&node, _)| node).collect()
    }
}

const START: MachineTime = MachineTime::from_secs(100);

/// A third of the worlds each: the launcher renews all leases, a tree, a chain.
fn degree(seed: u64) -> usize {
    [DEGREE, 2, 1][seed as usize % 3]
}

/// One loss in a row each way (at least every fourth ping is answered), two delays and a stop take
/// less than the limit: 4 * 100 + 2 * 200 + 100 ms. In a tree they take less than half of it,
/// 3 * 100 + 2 * 50 + 50 ms, after a node turned to the launcher.
#[test]
fn no_node_is_declared_lost_while_messages_arrive_in_time() {
    for seed in 0..SEEDS {
        let (nodes, degree) = (2 + (seed % 5) as u32, degree(seed));
        let flat = degree >= nodes as usize;
        let (delay, pause) = if flat { (LIMIT / 5, LIMIT / 10) } else { (LIMIT / 20, LIMIT / 20) };
        let mut world = World::new(seed, nodes, degree, delay, 1);
        let away = START + world.random.time(LIMIT * 10);
        let node = world.random.below(2) as u32;
        let stop = Fault::Stops(Party::Node(node), away + pause);
        world.run(vec![(away, stop)], START + LIMIT * 40);
        assert!(world.declared.is_empty() && world.ended().is_empty(), "seed {seed}");
        let cut = world.decisions.iter().any(|s| matches!(s, DetectorAction::CutOff { .. }));
        assert!(!cut, "seed {seed}");
    }
}

#[test]
fn every_death_is_declared_within_one_and_a_half_limits_and_nothing_else() {
    for seed in 0..SEEDS {
        let nodes = 2 + (seed % 5) as u32;
        let mut world = World::new(seed, nodes, degree(seed), LIMIT / 20, 1);
        let mut faults = BTreeMap::new();
        for _ in 0..=world.random.below(2) {
            let node = world.random.below(u64::from(nodes)) as u32;
            faults.entry(node).or_insert(START + LIMIT + world.random.time(LIMIT * 3));
        }
        let list = faults.iter().map(|(&node, &at)| (at, Fault::Dies(node))).collect();
        world.run(list, START + LIMIT * 10);
        let declared: Vec<u32> = world.declared.keys().copied().collect();
        let died: Vec<u32> = faults.keys().copied().collect();
        assert_eq!(declared, died, "seed {seed}");
        for (node, at) in faults {
            let took = world.declared[&node] - at;
            // Of two nodes that die at once, one below the other, it is unknown which died first.
            let alone = died.len() == 1 || degree(seed) >= nodes as usize;
            let most = if alone { LIMIT * 3 / 2 } else { LIMIT * 2 };
            assert!(took <= most, "seed {seed}: node {node} after {took:?}");
        }
    }
}

/// `World::judge` asserts meanwhile that no node is declared lost before its lease is over.
#[test]
fn after_a_partition_the_launcher_s_side_continues_and_the_other_has_ended() {
    for seed in 0..SEEDS {
        let nodes = 2 + (seed % 5) as u32;
        let mut world = World::new(seed, nodes, degree(seed), LIMIT / 20, 1);
        let parted = world.random.below((1 << nodes) - 1) + 1;
        let at = START + LIMIT + world.random.time(LIMIT);
        let heal = at + LIMIT * 2 + world.random.time(LIMIT);
        world.run(vec![(at, Fault::Part(parted)), (heal, Fault::Heal)], START + LIMIT * 12);
        let other: Vec<u32> = (0..nodes).filter(|node| parted >> node & 1 == 1).collect();
        assert_eq!(world.ended(), other, "seed {seed}");
        let declared: Vec<u32> = world.declared.keys().copied().collect();
        assert_eq!(declared, other, "seed {seed}");
        assert!(world.declared.values().all(|&when| when - at <= LIMIT * 3 / 2), "seed {seed}");
    }
}

#[test]
fn short_partitions_and_stops_are_harmless() {
    for seed in 0..SEEDS {
        let nodes = 2 + (seed % 5) as u32;
        let mut world = World::new(seed, nodes, degree(seed), LIMIT / 20, 0);
        let parted = world.random.below((1 << nodes) - 1) + 1;
        let at = START + LIMIT + world.random.time(LIMIT);
        let heal = at + LIMIT / 3;
        let stop = heal + LIMIT;
        let stopped = match world.random.below(u64::from(nodes) + 1) {
            0 => Party::Launcher,
            node => Party::Node(node as u32 - 1),
        };
        let faults = vec![
            (at, Fault::Part(parted)),
            (heal, Fault::Heal),
            (stop, Fault::Stops(stopped, stop + LIMIT / 3)),
        ];
        world.run(faults, START + LIMIT * 12);
        assert!(world.declared.is_empty() && world.ended().is_empty(), "seed {seed}: {stopped:?}");
    }
}

/// A launcher that was stopped declares no node lost for the time it was away; a node that ended
/// meanwhile ended by its own lease.
#[test]
fn a_long_stop_ends_only_its_own_side() {
    for seed in 0..SEEDS {
        let nodes = 2 + (seed % 5) as u32;
        let at = START + LIMIT * 2;
        let mut world = World::new(seed, nodes, degree(seed), LIMIT / 20, 1);
        let node = world.random.below(u64::from(nodes)) as u32;
        let stop = Fault::Stops(Party::Node(node), at + LIMIT * 3);
        world.run(vec![(at, stop)], START + LIMIT * 10);
        assert_eq!(world.declared.keys().copied().collect::<Vec<_>>(), [node], "seed {seed}");
        assert_eq!(world.ended(), [node], "seed {seed}: what continues sees that it is over");

        let mut world = World::new(seed, nodes, degree(seed), LIMIT / 20, 1);
        let stop = Fault::Stops(Party::Launcher, at + LIMIT * 3);
        world.run(vec![(at, stop)], START + LIMIT * 10);
        assert_eq!(world.ended().len() as u32, nodes, "seed {seed}");
    }
}

/// Its peers receive nothing from it, but the launcher does: it is ordered to end.
#[test]
fn a_node_that_only_the_launcher_reaches_is_cut_off() {
    let mut world = World::new(1, 4, DEGREE, LIMIT / 20, 0);
    let silent = |from: Party, to: Party| {
        let nodes = from != Party::Launcher && to != Party::Launcher;
        nodes && (from == Party::Node(2)) != (to == Party::Node(2))
    };
    let end = START + LIMIT * 4;
    while world.now < end && world.ended().is_empty() {
        world.sent.retain(|_, (to, message)| match message {
            Message::Down(News::Beat { from, .. }) => !silent(*from, *to),
            _ => true,
        });
        let until = world.next(&[]);
        world.run(Vec::new(), until);
    }
    assert_eq!(world.ended(), [2]);
    assert!(world.now - START <= LIMIT * 3 / 2);
    let cut = |s: &&DetectorAction| matches!(s, DetectorAction::CutOff { node: 2, .. });
    assert_eq!(world.decisions.iter().filter(cut).count(), 1);
    let now = world.now;
    world.detector.handle(now, 2, Observation::Dead);
    assert!(world.detector.handle(now, 2, Observation::Beat { beat: Beat::Ping(now) }).is_empty());
}

/// Two nodes that cannot hear each other, while all others hear both, are not a reason to end one.
#[test]
fn one_accusation_is_not_enough() {
    let now = START;
    let mut detector = FailureDetector::new(0..3, true, DEGREE, TIMING, now);
    let asked = detector.handle(now, 1, Observation::Accused { by: 0 });
    assert_eq!(asked, [DetectorAction::Ask { witness: 2, node: 1 }]);
    let said = detector.handle(now, 1, Observation::Opinion { by: 2, alive: true });
    assert_eq!(said, [DetectorAction::AsymmetricLink { node: 1, by: 0, witness: 2 }]);
    let mut two = FailureDetector::new(0..2, true, DEGREE, TIMING, now);
    assert!(two.handle(now, 1, Observation::Accused { by: 0 }).is_empty(), "nobody to ask");
}

/// If only the launcher's answers are lost, it hears the node's last message and need not wait.
#[test]
fn a_node_that_announces_its_end_is_believed() {
    let mut detector = FailureDetector::new(0..3, true, DEGREE, TIMING, START);
    let said = detector.handle(START, 1, Observation::Beat { beat: Beat::Gone });
    assert_eq!(said[0], DetectorAction::Declare { node: 1, silent: None, witness: None });
    assert_eq!(said[1..], [DetectorAction::Watch { node: 0, successor: Some(2) }]);
}
