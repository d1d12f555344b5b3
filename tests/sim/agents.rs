//! Agents in a tree: the launcher's heartbeats per period do not grow with their number, and the
//! detector's guarantees hold for thousands of them.
//!
//! The library's own machines ([`Monitor`], [`FailureDetector`]) over a network that delays and
//! loses datagrams. Orders and reports arrive in order and without loss, as over TCP. Left out: the
//! jobs of the agents, which `heartbeats.rs` covers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use raidshmem_core::detector::{
    DEGREE, DetectorAction, FailureDetector, Monitor, MonitorAction, News, Observation, Timing,
};
use raidshmem_core::message::Party;

use super::memory::Chance;
use super::skip;

const PERIOD: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_millis(1000);
const START: Duration = Duration::from_secs(100);
/// The longest delay of a message.
const DELAY: Duration = Duration::from_millis(5);
const DEGREE_OF: u64 = DEGREE as u64;

#[derive(Debug)]
enum What {
    /// A party checks the clock, if this check is still the planned one.
    Look(Party),
    Down(u32, News),
    Up(u32, Observation),
    /// An agent dies unobserved.
    Dies(u32),
    /// From now on these cannot reach the others, nor be reached.
    Part(BTreeSet<u32>),
    /// An agent is stopped for a time.
    Stops(u32, Duration),
}

struct Agent {
    monitor: Monitor,
    ended: bool,
    stopped: Duration,
    /// Messages that wait for it while it is stopped.
    inbox: Vec<News>,
    look: Duration,
}

/// The network, its parties, and the declarations so far.
struct World {
    chance: Chance,
    now: Duration,
    count: u64,
    queue: BinaryHeap<Reverse<(Duration, u64)>>,
    what: BTreeMap<u64, What>,
    agents: Vec<Agent>,
    detector: FailureDetector,
    look: Duration,
    streams: BTreeMap<(Party, Party), Duration>,
    parted: BTreeSet<u32>,
    /// Links that drop all datagrams, from the first to the second.
    broken: BTreeSet<(Party, Party)>,
    /// One datagram in this many is lost; none if 0.
    losses: usize,
    /// Heartbeats that the launcher received and sent.
    heartbeats: u64,
    /// Its orders to nodes, except questions.
    orders: u64,
    questions: u64,
    declared: BTreeMap<u32, Duration>,
}

impl World {
    fn new(seed: u64, nodes: u32, losses: usize) -> World {
        let timing = Timing { period: PERIOD, limit: LIMIT };
        let mut detector = FailureDetector::new(0..nodes, true, DEGREE, timing, START);
        let agent = |node| {
            let monitor = Monitor::new(node, timing, START);
            Agent { monitor, ended: false, stopped: START, inbox: Vec::new(), look: START }
        };
        let first = detector.begin();
        let mut world = World {
            chance: Chance::new(seed),
            now: START,
            count: 0,
            queue: BinaryHeap::new(),
            what: BTreeMap::new(),
            agents: (0..nodes).map(agent).collect(),
            detector,
            look: START,
            streams: BTreeMap::new(),
            parted: BTreeSet::new(),
            broken: BTreeSet::new(),
            losses,
            heartbeats: 0,
            orders: 0,
            questions: 0,
            declared: BTreeMap::new(),
        };
        for node in 0..nodes {
            // Agents start when they are ordered to, not all at once.
            let look = START + world.time(PERIOD);
            world.agents[node as usize].look = look;
            world.at(look, What::Look(Party::Node(node)));
        }
        world.at(START, What::Look(Party::Launcher));
        world.judge(first);
        world
    }

    fn time(&mut self, most: Duration) -> Duration {
        Duration::from_micros(self.chance.below(most.as_micros() as usize) as u64)
    }

    fn at(&mut self, time: Duration, what: What) {
        self.count += 1;
        self.queue.push(Reverse((time, self.count)));
        self.what.insert(self.count, what);
    }

    fn is_parted(&self, from: Party, to: Party) -> bool {
        let other = |party| matches!(party, Party::Node(node) if self.parted.contains(&node));
        other(from) != other(to)
    }

    fn send(&mut self, from: Party, to: Party, what: What, sure: bool) {
        let lost = !sure && self.losses > 0 && self.chance.one_in(self.losses);
        if lost || !sure && self.broken.contains(&(from, to)) || self.is_parted(from, to) {
            return;
        }
        let mut time = self.now + self.time(DELAY);
        if sure {
            let last = self.streams.entry((from, to)).or_default();
            time = time.max(*last);
            *last = time;
        }
        self.at(time, what);
    }

    fn act(&mut self, node: u32, acts: Vec<MonitorAction>) {
        let me = Party::Node(node);
        for act in acts {
            let (about, observation) = match act {
                MonitorAction::Beat { to: Party::Node(to), beat } => {
                    let news = What::Down(to, News::Beat { from: me, beat });
                    self.send(me, Party::Node(to), news, false);
                    continue;
                }
                MonitorAction::Beat { beat, .. } => {
                    let ping = What::Up(node, Observation::Beat { beat });
                    self.send(me, Party::Launcher, ping, false);
                    continue;
                }
                MonitorAction::Accuse { node: about } => (about, Observation::Accused { by: node }),
                MonitorAction::Withdraw { node: about } => {
                    (about, Observation::Withdrawn { by: node })
                }
                MonitorAction::Opinion { node: about, alive } => {
                    (about, Observation::Opinion { by: node, alive })
                }
                MonitorAction::GiveUp { node: about, term, silent } => {
                    (about, Observation::GivenUp { by: node, term, silent })
                }
                MonitorAction::Die => {
                    self.agents[node as usize].ended = true;
                    continue;
                }
            };
            self.send(me, Party::Launcher, What::Up(about, observation), true);
        }
    }

    fn judge(&mut self, decisions: Vec<DetectorAction>) {
        for decision in decisions {
            if let Some((node, news)) = decision.news() {
                let by_stream = !matches!(news, News::Beat { .. });
                self.send(Party::Launcher, Party::Node(node), What::Down(node, news), by_stream);
            }
            match decision {
                DetectorAction::Beat { .. } => self.heartbeats += 1,
                DetectorAction::Ask { .. } => self.questions += 1,
                DetectorAction::Watch { .. }
                | DetectorAction::Adopt { .. }
                | DetectorAction::Release { .. }
                | DetectorAction::Parent { .. } => self.orders += 1,
                DetectorAction::Declare { node, .. } => {
                    let agent = &self.agents[node as usize];
                    let over = agent.ended || agent.monitor.lease().is_over(self.now);
                    assert!(over, "node {node} was declared lost while it might act");
                    self.declared.insert(node, self.now);
                }
                DetectorAction::CutOff { node, .. } => self.agents[node as usize].ended = true,
                DetectorAction::AsymmetricLink { .. } => {}
            }
        }
    }

    /// Lets an agent process its messages and the clock, as the real one does.
    fn serve(&mut self, node: u32) {
        let now = self.now;
        let agent = &mut self.agents[node as usize];
        if agent.ended || agent.stopped > now {
            return;
        }
        let mut acts = agent.monitor.tick(now);
        if !acts.contains(&MonitorAction::Die) {
            for news in std::mem::take(&mut agent.inbox) {
                acts.extend(agent.monitor.handle(now, news));
            }
        }
        let next = agent.monitor.deadline().max(now + Duration::from_nanos(1));
        if agent.look <= now || next < agent.look {
            agent.look = next;
            self.at(next, What::Look(Party::Node(node)));
        }
        self.act(node, acts);
    }

    fn happens(&mut self, what: What) {
        match what {
            What::Look(Party::Launcher) => {}
            What::Look(Party::Node(node)) => self.serve(node),
            What::Down(node, news) => {
                self.agents[node as usize].inbox.push(news);
                self.serve(node);
            }
            What::Up(about, observation) => {
                self.heartbeats += u64::from(matches!(observation, Observation::Beat { .. }));
                let decisions = self.detector.handle(self.now, about, observation);
                self.judge(decisions);
            }
            What::Dies(node) => self.agents[node as usize].ended = true,
            What::Part(nodes) => self.parted = nodes,
            What::Stops(node, time) => {
                self.agents[node as usize].stopped = self.now + time;
                self.at(self.now + time, What::Look(Party::Node(node)));
            }
        }
        if self.look <= self.now {
            let decisions = self.detector.tick(self.now);
            self.judge(decisions);
        }
        let next = self.detector.deadline().unwrap_or(Duration::MAX);
        let next = next.max(self.now + Duration::from_nanos(1));
        if self.look <= self.now || next < self.look {
            self.look = next;
            self.at(next, What::Look(Party::Launcher));
        }
    }

    /// Runs for `time`, and returns the launcher's heartbeats per period, on average.
    fn run(&mut self, time: Duration) -> f64 {
        let (until, before) = (self.now + time, self.heartbeats);
        while let Some(&Reverse((next, number))) = self.queue.peek() {
            if next > until {
                break;
            }
            self.queue.pop();
            self.now = next;
            let what = self.what.remove(&number).expect("it was planned");
            self.happens(what);
        }
        self.now = until;
        (self.heartbeats - before) as f64 / (time.as_secs_f64() / PERIOD.as_secs_f64())
    }

    /// Returns the age of the oldest lease.
    fn oldest(&self) -> Duration {
        let living = self.agents.iter().filter(|agent| !agent.ended);
        let left = living.map(|agent| agent.monitor.lease().end().saturating_sub(self.now));
        LIMIT - left.min().unwrap_or(LIMIT)
    }

    /// Checks that exactly these nodes ended and were declared lost, within that time since then.
    #[track_caller]
    fn lost(&self, nodes: &BTreeSet<u32>, since: Duration, within: Duration) {
        let ended = self.agents.iter().zip(0..).filter(|(agent, _)| agent.ended);
        assert_eq!(&ended.map(|(_, node)| node).collect::<BTreeSet<u32>>(), nodes, "have ended");
        assert_eq!(&self.declared.keys().copied().collect::<BTreeSet<u32>>(), nodes, "declared");
        let last = self.declared.values().max().map_or(Duration::ZERO, |&last| last - since);
        println!("  {} lost, the last after {:.2} limits", nodes.len(), last.as_secs_f64());
        assert!(last <= within, "{last:?} is too late");
    }
}

/// Two heartbeats per child and period: its ping, and the answer.
const STEADY: f64 = 2.0 * DEGREE as f64;

#[test]
fn the_heartbeats_of_the_launcher_do_not_grow_with_the_number_of_nodes() {
    let most = if skip::all_asked_for() { 10_000 } else { 2000 };
    for nodes in [4, 8, 9, 64, 512, most] {
        let mut world = World::new(1, nodes, 0);
        world.run(2 * LIMIT); // until all have found their place
        let (orders, mut oldest) = (world.orders, Duration::ZERO);
        let heartbeats = world.run(2 * LIMIT);
        for _ in 0..20 {
            world.run(PERIOD / 10);
            oldest = oldest.max(world.oldest());
        }
        println!("{nodes} nodes: {heartbeats:.1} heartbeats a period, oldest lease {oldest:.3?}");
        let children = f64::from(nodes.min(DEGREE as u32));
        assert!((heartbeats - 2.0 * children).abs() <= 2.0, "{nodes} nodes: {heartbeats}");
        assert_eq!(world.orders, orders, "nothing happens");
        assert!(orders <= 3 * u64::from(nodes), "{nodes} nodes: {orders} orders to begin with");
        let levels = (f64::from(nodes)).log(DEGREE as f64).ceil() as u32;
        assert!(oldest <= PERIOD * 2 + 2 * levels * DELAY, "{nodes} nodes: {oldest:?}");
        world.lost(&BTreeSet::new(), START, Duration::ZERO);
    }
}

/// One datagram in a hundred is lost: few agents turn to the launcher, and no node is lost.
#[test]
fn heartbeats_that_are_lost_now_and_then_cost_the_launcher_little() {
    for nodes in [8, 512, 2000] {
        let mut world = World::new(2, nodes, 100);
        world.run(2 * LIMIT);
        let heartbeats = world.run(10 * LIMIT);
        println!("{nodes} nodes, 1 % lost: {heartbeats:.1} heartbeats a period");
        assert!(heartbeats <= 1.5 * STEADY, "{nodes} nodes: {heartbeats}");
        world.lost(&BTreeSet::new(), START, Duration::ZERO);
    }
}

/// Below each of the first eight nodes is an eighth of all.
#[test]
fn a_dead_inner_node_is_found_as_fast_as_a_leaf_and_alone() {
    for seed in 0..4 {
        for dead in [vec![0], vec![8], vec![0, 8], (0..8).collect(), (0..80).collect()] {
            let mut world = World::new(seed, 600, 0);
            world.run(2 * LIMIT);
            let (begun, orders) = (world.now, world.orders);
            dead.iter().for_each(|&node| world.at(begun, What::Dies(node)));
            let heartbeats = world.run(2 * LIMIT);
            println!("{} dead: {heartbeats:.1} heartbeats a period", dead.len());
            world.lost(&dead.iter().copied().collect(), begun, LIMIT * 3 / 2);
            // Meanwhile the children of each turn to the launcher; later they have a parent.
            let more = 2.0 * (DEGREE * dead.len()) as f64;
            assert!(heartbeats <= STEADY + more, "{heartbeats}");
            let orders = world.orders - orders;
            let each = 4 * DEGREE_OF + 6;
            assert!(orders <= each * dead.len() as u64, "{orders} orders for {dead:?}");
            let heartbeats = world.run(LIMIT);
            assert!(heartbeats <= STEADY + 2.0, "{heartbeats} when all have a parent again");
        }
    }
}

/// A child dies, and then its parent before it reports the loss: the last renewal is unknown.
#[test]
fn a_parent_that_dies_after_its_child_delays_that_by_half_a_limit_at_most() {
    for seed in 0..8 {
        let mut world = World::new(seed, 600, 0);
        world.run(2 * LIMIT);
        let begun = world.now;
        let later = begun + world.time(LIMIT / 2);
        world.at(begun, What::Dies(80));
        world.at(later, What::Dies(9));
        world.run(3 * LIMIT);
        world.lost(&BTreeSet::from([9, 80]), begun, LIMIT * 2);
    }
}

/// A parent runs only a fifth of the time, and its child dies.
#[test]
fn a_slow_parent_does_not_hold_up_the_loss_of_its_child() {
    for seed in 0..4 {
        let mut world = World::new(seed, 80, 0);
        world.run(2 * LIMIT);
        let begun = world.now;
        let later = begun + world.time(LIMIT / 2);
        world.at(later, What::Dies(8));
        for k in 0..10 {
            world.at(begun + k * LIMIT / 2, What::Stops(0, LIMIT * 2 / 5));
        }
        world.run(5 * LIMIT);
        world.lost(&BTreeSet::from([8]), begun, LIMIT * 2);
    }
}

/// It renews its lease at the launcher while the link is broken, its own children renew at it, and
/// no node is lost.
#[test]
fn a_node_that_does_not_hear_its_parent_costs_the_launcher_what_a_child_does() {
    let children = (8..16).map(|child| (0, child)).collect();
    for (seed, links) in
        [vec![(0, 8)], vec![(8, 0)], vec![(0, 8), (8, 0)], children].iter().enumerate()
    {
        let mut world = World::new(seed as u64, 600, 0);
        world.run(2 * LIMIT);
        let link = |&(from, to)| (Party::Node(from), Party::Node(to));
        world.broken = links.iter().map(link).collect();
        world.run(LIMIT);
        let orders = world.orders;
        let heartbeats = world.run(10 * LIMIT);
        let orders = world.orders - orders;
        println!("{links:?} broken: {heartbeats:.1} heartbeats a period, {orders} orders");
        assert!(heartbeats <= STEADY + 2.0 * links.len() as f64 + 2.0, "{heartbeats}");
        // A node that its parent does not hear gives up, and tries again half a limit later.
        let heard = !links.contains(&(8, 0));
        assert!(orders <= if heard { 0 } else { 40 }, "{orders} orders");
        world.broken.clear();
        world.run(2 * LIMIT);
        let heartbeats = world.run(LIMIT);
        assert!(heartbeats <= STEADY + 2.0, "{heartbeats} when all hear their parents again");
        world.lost(&BTreeSet::new(), START, Duration::ZERO);
    }
}

#[test]
fn of_the_sides_of_a_partition_the_launcher_s_continues_in_a_tree_too() {
    for seed in 0..4 {
        let mut world = World::new(seed, 600, 0);
        world.run(2 * LIMIT);
        let begun = world.now;
        let mut other = |one_in| (0..600).filter(|_| world.chance.one_in(one_in)).collect();
        let other: BTreeSet<u32> = match seed {
            0 => (0..8).collect(),
            1 => (300..600).collect(),
            2 => other(2),
            _ => other(10),
        };
        world.at(begun, What::Part(other.clone()));
        world.at(begun + 3 * LIMIT, What::Part(BTreeSet::new()));
        world.run(4 * LIMIT);
        world.lost(&other, begun, LIMIT * 3 / 2);
        let heartbeats = world.run(LIMIT);
        assert!(heartbeats <= STEADY + 2.0, "{heartbeats} when all have a parent again");
    }
}

/// Partitions and stops shorter than the time left when nodes turn to the launcher.
#[test]
fn short_partitions_and_slow_nodes_are_harmless_in_a_tree() {
    for seed in 0..4 {
        let mut world = World::new(seed, 600, 1000);
        world.run(2 * LIMIT);
        for _ in 0..4 {
            let begun = world.now;
            let other = (0..600).filter(|_| world.chance.one_in(3)).collect();
            world.at(begun, What::Part(other));
            world.at(begun + LIMIT / 3, What::Part(BTreeSet::new()));
            for node in [0, 8, 80] {
                let stop = begun + LIMIT + world.time(LIMIT / 2);
                world.at(stop, What::Stops(node, LIMIT * 2 / 5));
            }
            world.run(3 * LIMIT);
        }
        world.lost(&BTreeSet::new(), START, Duration::ZERO);
        let heartbeats = world.run(LIMIT);
        assert!(heartbeats <= STEADY + 2.0, "{heartbeats} when all have a parent again");
    }
}

/// Two of three nodes are lost, one after another.
#[test]
fn the_tree_keeps_its_degree_whichever_node_is_lost() {
    let mut world = World::new(5, 300, 0);
    world.run(2 * LIMIT);
    let begun = world.now;
    let mut dead = BTreeSet::new();
    while dead.len() < 200 {
        let node = world.chance.below(300) as u32;
        if dead.insert(node) {
            let now = world.now;
            world.at(now, What::Dies(node));
            world.run(PERIOD);
        }
    }
    world.run(3 * LIMIT);
    let lasted = world.now - begun;
    world.lost(&dead, begun, lasted);
    let heartbeats = world.run(LIMIT);
    assert!(heartbeats <= STEADY + 2.0, "{heartbeats} when all have a parent again");
}
