//! Time, messages, launcher and agents of a simulated job.
//!
//! The launcher is the library's own machine ([`Membership`]); agents do as the real ones: make
//! memory, start processes, show views, report ends. Their connections are streams: a message may
//! take any time but overtakes none on the same connection; connections overtake each other.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::rc::Rc;

use raidshmem_core::ended::Ended;
use raidshmem_core::membership::{Action, Membership, MembershipEvent, Shape};
use raidshmem_core::message::{Down, PeMessage, ProcId, Welcome};
use raidshmem_core::mutant::Mutant;
use raidshmem_core::quantity::{CheckpointNumber, ViewNumber};
use raidshmem_core::settings::Fabric;
use raidshmem_core::tree::{Location, Tree, trees};
use raidshmem_core::view::{Member, State, View};

use super::heartbeats::{Detector, Heartbeat};
use super::mailbox::Transfer;
use super::memory::Memory;
use super::pe::Proc;
use super::plan::{Broken, Mode, Plan, When};

/// Events after which a job that goes on is taken to go on for ever.
const EVENTS_MAX: u64 = 20_000_000;
/// Heartbeats in a row after which nothing else is taken to happen any more.
const BEATS_MAX: u64 = 100_000;
/// How long the launcher waits for the verdicts of all, in units of the slowest message.
const LAST_WORDS: u64 = 10_000;

/// Something that will happen.
#[derive(Debug)]
pub enum What {
    /// A message reaches an agent.
    Down(u32, Down),
    /// A message reaches the launcher.
    Up(MembershipEvent),
    /// Words arrive in a mailbox.
    Mailbox(Box<Transfer>),
    /// A view appears on a node's page.
    Show(u32, ViewNumber),
    /// A process takes a step.
    Step(ProcId),
    ProcessDies(ProcId, Ended),
    NodeGone(u32),
    Heartbeat(Heartbeat),
    Fault(usize),
    CutShort,
}

/// An agent and its two connections.
pub struct Node {
    pub alive: bool,
    pub finished: bool,
    pub shown: Rc<View>,
    down_at: u64,
    up_at: u64,
}

/// A view that was ordered.
pub struct Ordered {
    pub view: Rc<View>,
    /// Which memory of each PE is mapped by who enters it.
    pub mapped: Rc<Vec<u32>>,
    pub living: usize,
    /// The tree in which they meet, as each PE sees it.
    pub trees: Vec<Tree>,
    pub resumed: usize,
    /// All have encoded what was missing.
    pub whole: bool,
}

impl Ordered {
    fn new(view: View, mapped: Vec<u32>, together: bool) -> Ordered {
        let living = view.pes.iter().filter(|pe| pe.state == State::Alive).count();
        let place = |pe: &Member| {
            let machine = if together { 0 } else { pe.node };
            (pe.state == State::Alive).then_some(Location { machine, node: pe.node })
        };
        let trees = trees(&view.pes.iter().map(place).collect::<Vec<_>>());
        let (view, mapped) = (Rc::new(view), Rc::new(mapped));
        Ordered { view, mapped, living, trees, resumed: 0, whole: false }
    }
}

/// What came of a job.
#[derive(Debug, Default)]
pub struct Ending {
    pub status: i32,
    pub words: Option<String>,
    pub recoveries: u32,
    pub losses: u32,
    pub flips: u32,
    /// PEs that were killed since a connection to them broke.
    pub suspected: u32,
    /// Of them those that had suspected another.
    pub accusers: u32,
    /// Nodes that the detector declared lost.
    pub declared: u32,
    /// Times that all processes died at once.
    pub at_once: u32,
    /// Tiles that went bad between check and use.
    pub corrupt: u32,
    /// Looks at a snapshot that was not checked before and does not hold.
    pub found: u32,
    /// Times that bits flipped and nobody looked.
    pub rotten: u32,
    /// Tiles of parity that were kept, carried over or brought up to date.
    pub spared: u32,
    /// Of them the last.
    pub updated: u32,
    /// Tiles of second snapshots written by who made the parity over them.
    pub along: u64,
    /// Looks of a PE that went by what was written.
    pub by_pages: u32,
    /// Faults that struck when some PE was on its last checkpoint.
    pub late: bool,
    /// PEs that came to their end alone.
    pub alone: u32,
    pub events: u64,
    pub compared: u64,
    /// Calls of PEs that were behind.
    pub passed: u32,
    /// Messages of the protocol that each PE sent: its findings, and posts in the tree.
    pub sent: Vec<u64>,
}

/// The whole job.
pub struct Job {
    pub plan: Plan,
    pub now: u64,
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    waiting: Vec<Option<What>>,
    free: Vec<usize>,
    sequence: u64,
    pub machine: Membership,
    pub detector: Option<Detector>,
    pub nodes: Vec<Node>,
    pub procs: Vec<Proc>,
    /// By PE, by number of the memory.
    pub memories: Vec<Vec<Memory>>,
    /// By view number.
    pub views: Vec<Ordered>,
    /// The process that carries each PE.
    pub carrier: Vec<Option<ProcId>>,
    /// PEs lost since redundancy was whole.
    pub lost: BTreeSet<usize>,
    /// How often a tile was made to go bad since then.
    pub spoils: u32,
    /// PEs that will be lost when the launcher has heard what is said of them, or who says it: the
    /// accuser of each.
    pub suspects: BTreeMap<usize, usize>,
    pub verdicts: BTreeSet<String>,
    /// Highest checkpoint that any PE was posted is saved.
    pub saved: CheckpointNumber,
    /// Checkpoint resumed from, by view.
    pub resumed: BTreeMap<ViewNumber, CheckpointNumber>,
    pub ending: Ending,
    over: bool,
    cut: bool,
    trace: Option<Vec<String>>,
    pub broken_promise: Option<String>,
    /// The refusal that the plan names has been made.
    pub refused: bool,
}

impl Job {
    pub fn new(plan: Plan, traced: bool) -> Job {
        let shape = Shape {
            node_of: plan.node_of.clone(),
            nodes: plan.nodes,
            spares: plan.spares.clone(),
            fabric: if plan.far { Fabric::Ucx } else { Fabric::Shm },
        };
        let group_of: Vec<usize> = plan.protection.plan.of.iter().map(|of| of.group).collect();
        let (mut machine, first) = Membership::new(&shape, &plan.settings, group_of);
        if plan.asked {
            machine.let_nodes_be_asked();
        }
        let pes = plan.node_of.len();
        let first_view = Ordered::new(
            View { number: ViewNumber(0), pes: Vec::new(), alone: false },
            vec![0; pes],
            false,
        );
        let none = first_view.view.clone();
        let node =
            |_| Node { alive: true, finished: false, shown: none.clone(), down_at: 0, up_at: 0 };
        let mut job = Job {
            now: 0,
            queue: BinaryHeap::new(),
            waiting: Vec::new(),
            free: Vec::new(),
            sequence: 0,
            machine,
            detector: plan.heartbeat.then(|| Detector::new(&plan)),
            nodes: (0..plan.nodes).map(node).collect(),
            procs: Vec::new(),
            memories: vec![Vec::new(); pes],
            views: vec![first_view],
            carrier: vec![None; pes],
            spoils: 0,
            lost: BTreeSet::new(),
            suspects: BTreeMap::new(),
            verdicts: BTreeSet::new(),
            saved: CheckpointNumber(0),
            resumed: Default::default(),
            ending: Ending::default(),
            over: false,
            cut: false,
            trace: traced.then(Vec::new),
            broken_promise: None,
            refused: false,
            plan,
        };
        job.act(first);
        job.begin_heartbeats();
        for index in 0..job.plan.faults.len() {
            if let When::Time(time) = job.plan.faults[index].when {
                job.at(time, What::Fault(index));
            }
        }
        job
    }

    /// Runs to the end. The error is the promise that was broken.
    pub fn run(&mut self) -> Result<(), String> {
        let (mut looked_again, mut beats) = (false, 0);
        while !self.over {
            let next = if beats < BEATS_MAX { self.queue.pop() } else { None };
            let Some(Reverse((time, _, slot))) = next else {
                beats = 0;
                if looked_again {
                    return Err(format!("no wait for ever: nothing moves\n{}", self.stand()));
                }
                looked_again = true; // as a sleeper does after its limit
                (0..self.procs.len()).for_each(|proc| self.wake(proc as ProcId));
                continue;
            };
            self.now = time;
            self.ending.events += 1;
            let what = self.waiting[slot].take().expect("queued once");
            self.free.push(slot);
            looked_again &= matches!(what, What::Step(_) | What::Heartbeat(_));
            beats = if matches!(what, What::Heartbeat(_)) { beats + 1 } else { 0 };
            self.happen(what);
            if let Some(promise) = self.broken_promise.take() {
                return Err(promise);
            }
            if self.ending.events > EVENTS_MAX {
                return Err(format!("no wait for ever: it goes on and on\n{}", self.stand()));
            }
        }
        Ok(())
    }

    fn stand(&self) -> String {
        let place = |pe: usize| match self.carrier[pe] {
            None => format!("PE {pe}: nobody"),
            Some(proc) => format!("PE {pe}: {}", self.procs[proc as usize]),
        };
        (0..self.carrier.len()).map(place).collect::<Vec<_>>().join("\n")
    }

    // ---- time ---------------------------------------------------------------------------------

    pub fn at(&mut self, time: u64, what: What) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() - 1
        });
        self.waiting[slot] = Some(what);
        self.sequence += 1;
        self.queue.push(Reverse((time, self.sequence, slot)));
    }

    /// A delay of at most `most`; now and then a stall.
    pub fn delay(&mut self, most: usize) -> u64 {
        let (chance, stall) = (&mut self.plan.chance, self.plan.stall);
        let most = if chance.one_in(300) { stall } else { most };
        1 + chance.below(most) as u64
    }

    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>8} {}", self.now, line()));
        }
    }

    /// The last lines of what happened, 250 or `TRACE` of them.
    pub fn trace(&self) -> String {
        let lines = self.trace.as_deref().unwrap_or_default();
        let shown = std::env::var("TRACE").ok().and_then(|count| count.parse().ok());
        lines[lines.len().saturating_sub(shown.unwrap_or(250))..].join("\n")
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Down(node, message) => {
                if self.nodes[node as usize].alive && !self.is_parted(node) {
                    self.obey(node, message);
                }
            }
            What::Up(event) => self.deliver(event),
            What::Show(node, number) => self.show(node, number),
            What::Mailbox(transfer) => self.land(transfer),
            What::Step(proc) => self.step(proc),
            What::Heartbeat(heartbeat) => self.heartbeat(heartbeat),
            What::ProcessDies(proc, how) => self.process_dies(proc, how),
            What::NodeGone(node) => {
                self.note(|| format!("launcher: node {node} is lost"));
                self.deliver(MembershipEvent::NodeLost { node });
            }
            What::Fault(index) => self.strike(index),
            What::CutShort => {
                let actions = self.machine.cut_short();
                self.act(actions);
            }
        }
    }

    // ---- launcher -----------------------------------------------------------------------------

    pub fn deliver(&mut self, event: MembershipEvent) {
        if let MembershipEvent::Said { what: PeMessage::Verdict { words, .. }, .. } = &event {
            self.verdicts.insert(words.clone());
        }
        if let MembershipEvent::MemoryMade { pe, memory } = &event {
            let (of_pe, memory) = (&mut self.memories[pe.at()], *memory as usize);
            if of_pe.len() <= memory {
                of_pe.resize(memory + 1, Memory::default());
            }
        }
        let actions = self.machine.handle(event);
        self.act(actions);
        if self.machine.unrecoverable() && !self.cut {
            self.cut = true;
            self.at(self.now + LAST_WORDS * self.plan.message as u64, What::CutShort);
        }
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { node, message } => {
                    if let Down::Show(view) = &message {
                        self.order(view);
                    }
                    let delay = self.delay(self.plan.message);
                    let link = &mut self.nodes[node as usize];
                    link.down_at = (self.now + delay).max(link.down_at);
                    let time = link.down_at;
                    self.at(time, What::Down(node, message));
                }
                Action::Wipe { pe, memory } => {
                    self.note(|| format!("launcher: memory {memory} of PE {pe} is wiped"));
                    if let Some(old) = self.memories[pe.at()].get_mut(memory as usize) {
                        *old = Memory::default();
                    }
                    let later = self.now + self.delay(self.plan.message);
                    self.at(later, What::Up(MembershipEvent::Wiped { pe, memory }));
                }
                Action::End { status, words } => {
                    self.note(|| format!("launcher: the job ends, {status} {words:?}"));
                    (self.ending.status, self.ending.words) = (status, words);
                    self.over = true;
                }
                Action::Rest { pe, ms } => {
                    self.at(self.now + ms, What::Up(MembershipEvent::Rested { pe }));
                }
                Action::KillNode { .. } | Action::Lost { .. } => {}
                Action::Say(_) | Action::Tell(_) => {}
            }
        }
    }

    /// Notes a new view, and which memories a PE maps that enters it.
    fn order(&mut self, view: &View) {
        if view.number < ViewNumber(self.views.len() as u64) {
            return;
        }
        let mut mapped = self.views[self.views.len() - 1].mapped.to_vec();
        for (pe, member) in view.pes.iter().enumerate() {
            if member.state == State::Alive {
                mapped[pe] = member.memory;
            }
        }
        let dead: Vec<usize> =
            (0..mapped.len()).filter(|&pe| view.pes[pe].state != State::Alive).collect();
        self.note(|| format!("launcher: view {}, dead {dead:?}", view.number));
        let together = self.plan.broken == Broken::Rule(Mutant::MemoryOfTheJob);
        self.views.push(Ordered::new(view.clone(), mapped, together));
    }

    // ---- agents -------------------------------------------------------------------------------

    fn obey(&mut self, node: u32, message: Down) {
        match message {
            Down::MakeMemory { pe, memory } => {
                self.up(node, MembershipEvent::MemoryMade { pe, memory })
            }
            Down::Start { proc, .. } => {
                while self.procs.len() <= proc as usize {
                    let id = self.procs.len() as ProcId;
                    self.procs.push(Proc::new(id));
                }
                self.procs[proc as usize].start(node);
                self.up(node, MembershipEvent::Said { proc, what: PeMessage::Hello });
            }
            Down::Assign { proc, welcome } => self.assign(proc, &welcome),
            Down::Show(view) => {
                let number = view.number;
                if self.plan.broken == Broken::ShownTooEarly {
                    let later = self.now + 20 * self.delay(self.plan.message);
                    self.at(later, What::Show(node, number));
                } else {
                    self.show(node, number);
                }
                self.up(node, MembershipEvent::Shown { node, number });
            }
            Down::Look { proc } => self.up(node, MembershipEvent::Looked { proc }),
            Down::Kill { proc } => self.end_suspect(proc),
            Down::Ask { node: about, .. } => self.give_opinion(node, about),
            Down::Finish => {
                self.nodes[node as usize].finished = true;
                self.wake_node(node);
            }
            _ => {}
        }
    }

    /// A process that waits is given a number, unless it died meanwhile.
    fn assign(&mut self, proc: ProcId, welcome: &Welcome) {
        let mapped = self.views[self.views.len() - 1].mapped.clone();
        if self.procs[proc as usize].alive {
            self.carrier[welcome.pe.at()] = Some(proc);
            self.procs[proc as usize].take(welcome, mapped);
            let node = self.procs[proc as usize].node;
            let what = PeMessage::Address { address: Vec::new() };
            self.up(node, MembershipEvent::Said { proc, what });
            self.wake(proc);
        }
    }

    fn show(&mut self, node: u32, number: ViewNumber) {
        if number <= self.nodes[node as usize].shown.number {
            return;
        }
        self.note(|| format!("node {node} shows view {number}"));
        self.nodes[node as usize].shown = self.views[number.0 as usize].view.clone();
        self.wake_node(node);
    }

    fn wake_node(&mut self, node: u32) {
        for proc in 0..self.procs.len() {
            if self.procs[proc].node == node {
                self.wake(proc as ProcId);
            }
        }
    }

    /// An agent tells the launcher something.
    pub fn up(&mut self, node: u32, event: MembershipEvent) {
        if self.is_parted(node) {
            return;
        }
        let delay = self.delay(self.plan.message);
        let link = &mut self.nodes[node as usize];
        link.up_at = (self.now + delay).max(link.up_at);
        let time = link.up_at;
        self.at(time, What::Up(event));
    }

    pub fn wake(&mut self, proc: ProcId) {
        let entry = &mut self.procs[proc as usize];
        if entry.alive && entry.asleep {
            entry.asleep = false;
            let delay = self.delay(self.plan.step);
            self.at(self.now + delay, What::Step(proc));
        }
    }

    // ---- ends ---------------------------------------------------------------------------------

    pub fn process_dies(&mut self, proc: ProcId, how: Ended) {
        let entry = &mut self.procs[proc as usize];
        if !entry.alive {
            return;
        }
        entry.alive = false;
        let node = entry.node;
        let last = self.plan.last;
        let killed = matches!(how, Ended::Killed(_));
        self.ending.late |= killed && self.procs.iter().any(|proc| proc.number >= last);
        if self.nodes[node as usize].alive {
            self.up(node, MembershipEvent::Ended { proc, how });
        }
    }

    /// The agent is killed, or cut off from the launcher: its processes follow within a moment, or
    /// go on in the last view they saw until its lease is over; then the launcher declares it.
    pub fn node_dies(&mut self, node: u32) {
        if self.detector.is_some() {
            let parted = self.plan.mode == Mode::Within && self.plan.chance.one_in(3);
            self.befalls(node, parted);
            if parted {
                return;
            }
        }
        self.nodes[node as usize].alive = false;
        let cut_off = self.detector.is_none() && self.plan.chance.one_in(3);
        let lease = if cut_off { 100 } else { 1 };
        let mut last = self.now;
        for proc in 0..self.procs.len() {
            if self.procs[proc].alive && self.procs[proc].node == node {
                let time = self.now + self.plan.chance.below(lease * self.plan.step) as u64;
                last = last.max(time);
                self.at(time, What::ProcessDies(proc as ProcId, Ended::Killed(9)));
            }
        }
        if self.detector.is_some() {
            return;
        }
        let heard = last.max(self.nodes[node as usize].up_at) + self.delay(self.plan.message);
        self.at(heard, What::NodeGone(node));
    }
}
