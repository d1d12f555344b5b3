//! A simulated job with logs: its time, its future events, launcher and agents, and its losses.
//!
//! The launcher is the library's membership machine. A global rollback is one event here: all PEs
//! restore the checkpoint that the library's rule selects.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::rc::Rc;
use std::time::Duration;

use raidshmem_core::ended::Ended;
use raidshmem_core::membership::{Action, Membership, MembershipEvent, Shape};
use raidshmem_core::message::{AssignmentMessage, Down, PeMessage, ProgressReport};
use raidshmem_core::mutant::Mutant;
use raidshmem_core::quantity::{CheckpointNumber, Incarnation, Pe, ViewNumber};
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::replay::log::{Stage, is_in_doubt};
use raidshmem_core::replay::port::LogMode;
use raidshmem_core::replay::replicas::unmapped;
use raidshmem_core::settings::{BackupMode, Fabric, Rollback, Settings, Substitute};
use raidshmem_core::store::phase::{Phase, Vote, decide};
use raidshmem_core::view::View;

use super::super::memory::Chance;
use super::far::OnItsWay;
use super::port::Sight;
use super::program::{Program, REGISTERS, WORDS};
use super::state::{At, Entry, Process, Shared};

/// Events after which a running job counts as endless.
const EVENTS_MAX: u64 = 3_000_000;
/// The number of events after which sleepers look again.
const LIMIT: u64 = 10_000;
/// Most time of a message, of a step, and of a step that stalls.
const MESSAGE: usize = 60;
const STEP: usize = 20;
const STALL: usize = 2000;

/// A planned loss.
#[derive(Debug, Clone, Copy)]
pub struct Loss {
    pub time: u64,
    pub pe: usize,
    pub with_node: bool,
}

/// A future event.
#[derive(Debug)]
enum What {
    Step(usize),
    Down(u32, Box<Down>),
    Up(Box<MembershipEvent>),
    Far(Box<OnItsWay>),
    Loss(Loss),
}

/// A node of the job.
pub struct Node {
    alive: bool,
    shown: Rc<View>,
    down_at: u64,
    up_at: u64,
}

/// The results of a job.
#[derive(Debug, Clone, Default)]
pub struct Ending {
    pub words: Vec<[u64; WORDS]>,
    pub time: u64,
    pub events: u64,
    pub losses: u32,
    pub nodes_lost: u32,
    pub replayed: u32,
    pub global: u32,
}

/// The whole job.
pub struct Job {
    pub program: Program,
    pub broken: Option<Mutant>,
    /// True if PEs of different nodes do not map each other.
    pub is_far: bool,
    /// The clocks of the logs: that of each node, or one if PEs of all nodes map each other.
    clocks: Vec<u64>,
    pub nodes: Vec<Node>,
    pub processes: Vec<Process>,
    pub shared: Vec<Shared>,
    /// A broken promise.
    pub wrong: Option<String>,
    /// The number of checkpoints that PEs have completed.
    pub checkpoints: u32,
    chance: Chance,
    now: u64,
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    waiting: Vec<Option<What>>,
    machine: Membership,
    last: Rc<View>,
    /// The process that carries each PE.
    carrier: Vec<usize>,
    ending: Ending,
    over: bool,
    moved: bool,
    trace: Option<Vec<String>>,
    /// The time of the last message on its way between two processes.
    far_at: HashMap<(usize, usize), u64>,
    /// The node of each PE at the start, and if no other PE maps it.
    pub home: Vec<u32>,
    pub unmapped: Vec<bool>,
    pub maps: bool,
    /// The records that were ever sent to a holder of a replica.
    pub sent: RefCell<Vec<Entry>>,
}

impl Job {
    /// Creates a job of which the PEs are on these nodes.
    pub fn new(
        (program, (node_of, nodes), (is_far, maps)): (Program, (Vec<u32>, u32), (bool, bool)),
        losses: &[Loss],
        (mut chance, broken): (Chance, Option<Mutant>),
        traced: bool,
    ) -> Job {
        let n_pes = node_of.len();
        let fabric = if is_far { Fabric::Ucx } else { Fabric::Shm };
        let (home, unmapped) = (node_of.clone(), unmapped(&node_of, maps));
        let shape = Shape { node_of, nodes, spares: Vec::new(), fabric };
        let clocks = (0..nodes).map(|_| chance.below(1 << 20) as u64).collect();
        let settings = Settings {
            backup_mode: BackupMode::Raid5,
            rollback: Rollback::Local,
            substitute: Substitute::Spawn,
            max_restarts: u32::MAX,
            map: maps,
            ..Settings::default()
        };
        let (machine, first) = Membership::new(&shape, &settings, vec![0; n_pes]);
        let none = Rc::new(View { number: ViewNumber(0), pes: Vec::new(), local: false });
        let node = |_| Node { alive: true, shown: Rc::clone(&none), down_at: 0, up_at: 0 };
        let mut job = Job {
            program,
            broken,
            is_far,
            clocks,
            nodes: (0..nodes).map(node).collect(),
            processes: Vec::new(),
            shared: vec![Shared::new(n_pes, is_far); n_pes],
            wrong: None,
            checkpoints: 0,
            chance,
            now: 0,
            queue: BinaryHeap::new(),
            waiting: Vec::new(),
            machine,
            last: none,
            carrier: vec![usize::MAX; n_pes],
            ending: Ending::default(),
            over: false,
            moved: false,
            trace: traced.then(Vec::new),
            far_at: HashMap::new(),
            home,
            unmapped,
            maps,
            sent: RefCell::default(),
        };
        job.act(first);
        losses.iter().for_each(|&loss| job.at(loss.time, What::Loss(loss)));
        job
    }

    /// Runs to the end. The error is the promise that was broken.
    pub fn run(&mut self) -> Result<Ending, String> {
        let mut looked_again = false;
        while !self.over {
            let Some(Reverse((time, _, slot))) = self.queue.pop() else {
                if looked_again && !self.moved {
                    return Err(format!("a wait without end\n{}", self.stand()));
                }
                (looked_again, self.moved) = (true, false);
                self.wake_all(); // like a sleeper after its limit
                continue;
            };
            self.now = time;
            self.ending.events += 1;
            if self.ending.events.is_multiple_of(LIMIT) {
                self.wake_all(); // while others poll
            }
            if self.ending.events > EVENTS_MAX {
                return Err(format!("it goes on and on\n{}", self.stand()));
            }
            match self.waiting[slot].take().expect("queued once") {
                What::Step(process) => {
                    if self.processes[process].alive {
                        self.step(process);
                    }
                }
                What::Down(node, message) => self.obey(node, *message),
                What::Up(event) => {
                    let actions = self.machine.handle(*event);
                    self.act(actions);
                    self.moved = true;
                }
                What::Far(message) => {
                    self.moved = true;
                    self.arrives(*message);
                }
                What::Loss(loss) => self.strike(loss),
            }
            if let Some(wrong) = self.wrong.take() {
                return Err(wrong);
            }
        }
        let words = |(shared, &process): (&Shared, &usize)| {
            let number = self.processes[process].mapped[self.processes[process].pe].0;
            shared.memories[number as usize].words
        };
        self.ending.words = self.shared.iter().zip(&self.carrier).map(words).collect();
        self.ending.time = self.now;
        Ok(self.ending.clone())
    }

    /// Returns the last lines of the trace.
    pub fn trace(&self) -> String {
        let lines = self.trace.as_deref().unwrap_or_default();
        lines[lines.len().saturating_sub(250)..].join("\n")
    }

    /// Describes all PEs.
    pub fn stand(&self) -> String {
        let place = |(pe, &process): (usize, &usize)| {
            let own = &self.processes[process];
            let op = self.program.pes[pe].get(own.call);
            let (at, way, alive) = (own.at, own.way, own.alive);
            let log = &self.shared[pe].log;
            let seen = self.page(own.node).number;
            let views = [seen, own.joined, own.works];
            let (call, met, flight) = (own.call, log.met, log.flight);
            let log = (log.interval, log.memory, log.stage);
            format!(
                "PE {pe}: process {process}, {alive}, {at:?} {way:?}, views {views:?}, \
                 call {call} {op:?}, meeting {met}, flight {flight:?}, {log:?}"
            )
        };
        self.carrier.iter().enumerate().map(place).collect::<Vec<_>>().join("\n")
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>8} {}", self.now, line()));
        }
    }

    // ---- time ---------------------------------------------------------------------------------

    fn at(&mut self, time: u64, what: What) {
        self.waiting.push(Some(what));
        let slot = self.waiting.len() - 1;
        self.queue.push(Reverse((time, slot as u64, slot)));
    }

    fn delay(&mut self, most: usize) -> u64 {
        let most = if self.chance.one_in(300) { STALL } else { most };
        1 + self.chance.below(most) as u64
    }

    /// Returns the present time.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Returns the clock of the logs on a node.
    pub fn clock(&mut self, node: u32) -> &mut u64 {
        let which = if self.is_far { node } else { 0 };
        &mut self.clocks[which as usize]
    }

    /// Returns the process that carries a PE.
    pub fn carrier(&self, pe: usize) -> usize {
        self.carrier[pe]
    }

    /// Sends a message from one process to another, after those before.
    pub fn send_far(&mut self, message: OnItsWay) {
        let time = self.now + self.delay(MESSAGE);
        let last = self.far_at.entry((message.from, message.to)).or_default();
        *last = time.max(*last);
        let time = *last;
        self.at(time, What::Far(Box::new(message)));
    }

    /// Draws a number for a program.
    pub fn draw(&mut self) -> u64 {
        self.chance.next()
    }

    /// Plans the next step of a process.
    pub fn goes_on(&mut self, process: usize) {
        self.moved = true;
        self.processes[process].asleep = false;
        let time = self.now + self.delay(STEP);
        self.at(time, What::Step(process));
    }

    /// Lets a process sleep until it is woken.
    pub fn sleep(&mut self, process: usize) {
        self.processes[process].asleep = true;
    }

    fn wake(&mut self, process: usize) {
        let own = &mut self.processes[process];
        if own.alive && std::mem::take(&mut own.asleep) {
            let time = self.now + self.delay(STEP);
            self.at(time, What::Step(process));
        }
    }

    /// Wakes the process of a PE.
    pub fn wake_pe(&mut self, pe: usize) {
        if let Some(&process) = self.carrier.get(pe).filter(|&&process| process != usize::MAX) {
            self.wake(process);
        }
    }

    /// Wakes all processes.
    pub fn wake_all(&mut self) {
        (0..self.processes.len()).for_each(|process| self.wake(process));
    }

    // ---- launcher and agents ------------------------------------------------------------------

    /// Returns the view that a node shows.
    pub fn page(&self, node: u32) -> &Rc<View> {
        &self.nodes[node as usize].shown
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { node, message } => {
                    if let Down::Show(view) = &message
                        && view.number > self.last.number
                    {
                        self.note(|| format!("view {}, local {}", view.number, view.local));
                        self.ending.global += u32::from(self.last.local && !view.local);
                        self.last = Rc::new(view.clone());
                    }
                    let time = self.now + self.delay(MESSAGE);
                    let link = &mut self.nodes[node as usize].down_at;
                    *link = time.max(*link);
                    let time = *link;
                    self.at(time, What::Down(node, Box::new(message)));
                }
                Action::Wipe { pe, memory } => {
                    self.shared[pe.at()].wipe(memory);
                    for shared in &mut self.shared {
                        let is_there = |&(holder, number, _): &(usize, u32, usize)| {
                            (holder, number) == (pe.at(), memory)
                        };
                        shared.log.replica = shared.log.replica.filter(|at| !is_there(at));
                    }
                    let time = self.now + self.delay(MESSAGE);
                    self.at(time, What::Up(Box::new(MembershipEvent::Wiped { pe, memory })));
                }
                Action::End { status, words } => {
                    self.wrong = Some(format!("the job ends with {status}: {words:?}"));
                }
                Action::Rest { pe, ms } => {
                    let time = self.now + ms;
                    self.at(time, What::Up(Box::new(MembershipEvent::Rested { pe })));
                }
                Action::KillNode { .. } | Action::Lost { .. } | Action::Survives(_) => {}
                Action::Drained { .. } | Action::Moved { .. } => {} // nobody asks for it
                Action::GiveUp { .. } | Action::ChooseSet { .. } => {} // its jobs write no sets
                Action::Say(line) => self.note(|| line),
                Action::Tell(_) => {}
            }
        }
    }

    /// Sends a message from a node to the launcher.
    fn up(&mut self, node: u32, event: MembershipEvent) {
        let time = self.now + self.delay(MESSAGE);
        let link = &mut self.nodes[node as usize].up_at;
        *link = time.max(*link);
        let time = *link;
        self.at(time, What::Up(Box::new(event)));
    }

    pub fn says(&mut self, process: usize, what: PeMessage) {
        let node = self.processes[process].node;
        self.up(node, MembershipEvent::Message { proc: process as u32, what });
    }

    fn obey(&mut self, node: u32, message: Down) {
        if !self.nodes[node as usize].alive {
            return;
        }
        match message {
            Down::MakeMemory { pe, memory, .. } => {
                self.shared[pe.at()].memory(memory);
                self.up(node, MembershipEvent::MemoryMade { pe, memory });
            }
            Down::Start { proc, .. } => {
                let n_pes = self.shared.len();
                let process = proc as usize;
                while self.processes.len() <= process {
                    self.processes.push(Process::new(n_pes));
                }
                (self.processes[process].node, self.processes[process].alive) = (node, true);
                self.says(process, PeMessage::Hello);
            }
            Down::Assign { proc, assignment } => self.assign(proc as usize, &assignment),
            Down::Show(view) => {
                let number = view.number;
                if number > self.page(node).number {
                    self.nodes[node as usize].shown = Rc::new(view);
                    self.wake_node(node);
                }
                self.up(node, MembershipEvent::Shown { node, number });
            }
            _ => {}
        }
    }

    fn wake_node(&mut self, node: u32) {
        for process in 0..self.processes.len() {
            if self.processes[process].node == node {
                self.wake(process);
            }
        }
    }

    fn assign(&mut self, process: usize, assignment: &AssignmentMessage) {
        let own = &mut self.processes[process];
        (own.pe, own.incarnation) = (assignment.pe.at(), assignment.incarnation);
        own.mapped[own.pe] = (assignment.memory, own.node);
        own.at = if own.incarnation == Incarnation::FIRST { At::Starts } else { At::Begins };
        let node = own.node;
        self.note(|| format!("process {process} on node {node} becomes PE {}", assignment.pe));
        self.carrier[assignment.pe.at()] = process;
        self.make_links(process);
        if self.is_far {
            self.says(process, PeMessage::Address { address: Vec::new() });
        }
        self.wake(process);
    }

    // ---- losses -------------------------------------------------------------------------------

    fn strike(&mut self, loss: Loss) {
        let process = self.carrier[loss.pe];
        let starts = self.processes.iter().any(|own| own.at == At::Starts);
        if process == usize::MAX || !self.processes[process].alive || starts {
            return;
        }
        let node = self.processes[process].node;
        if !loss.with_node {
            self.note(|| format!("-- PE {} dies", loss.pe));
            self.ending.losses += 1;
            self.dies(process);
            let how = Ended::Killed(9);
            return self.up(node, MembershipEvent::Ended { proc: process as u32, how });
        }
        if self.nodes.iter().filter(|node| node.alive).count() < 3 {
            return;
        }
        self.note(|| format!("-- node {node} dies with PE {}", loss.pe));
        self.ending.nodes_lost += 1;
        self.nodes[node as usize].alive = false;
        for process in 0..self.processes.len() {
            if self.processes[process].node == node {
                self.dies(process);
            }
        }
        self.up(node, MembershipEvent::NodeLost { node });
    }

    fn dies(&mut self, process: usize) {
        self.processes[process].alive = false;
        self.processes[process].cut = self.chance.one_in(2).then_some(self.now);
        self.processes[process].script.clear();
    }

    // ---- rollback -----------------------------------------------------------------------------

    /// Sends the request for a global rollback, for a reason that must be a valid one.
    pub fn request(&mut self, process: usize, why: Reason) {
        let me = self.processes[process].pe;
        self.note(|| format!("PE {me} requests a global rollback: {why}"));
        let is_valid = match why {
            Reason::InDoubt | Reason::LostMeanwhile | Reason::NodeLost | Reason::InCheckpoint => {
                true
            }
            // Its effect may have been seen.
            Reason::Differs | Reason::Uncertain | Reason::Unlike => self.doubts(process),
            _ => false,
        };
        if !is_valid {
            self.wrong = Some(format!("PE {me} rolls all back: {why}\n{}", self.stand()));
        }
        self.says(process, PeMessage::RollAllBack { why: format!("PE {me}: {why}") });
    }

    /// Returns true if another lost PE, not yet restored, has an operation in doubt.
    fn doubts(&mut self, process: usize) -> bool {
        let me = self.processes[process].pe;
        let away = (0..self.shared.len()).filter(|&pe| pe != me);
        let away: Vec<usize> = away.filter(|&pe| self.is_away(pe)).collect();
        let sight = Sight { job: self, me, process };
        away.into_iter().any(|pe| is_in_doubt(&sight, Pe::of(pe)))
    }

    fn is_away(&self, pe: usize) -> bool {
        let own = &self.processes[self.carrier[pe]];
        !own.alive || matches!(own.at, At::Begins | At::Requests | At::RollsBack)
    }

    /// Reports the end of a replay.
    pub fn report_replay(&mut self, process: usize) {
        let own = &self.processes[process];
        let (pe, calls) = (Pe::of(own.pe), own.replay.calls());
        self.ending.replayed += 1;
        let (checkpoint, took) = (CheckpointNumber::START, Duration::ZERO);
        let report = ProgressReport::Replayed { pe, checkpoint, calls, took };
        self.says(process, PeMessage::Report(report));
    }

    /// Checks that the PEs that make a checkpoint are members of one view.
    pub fn check_joined(&mut self, view: ViewNumber, number: CheckpointNumber) {
        let differs = |&process: &usize| {
            let own = &self.processes[process];
            let memory = self.shared[own.pe].memories.get(own.mapped[own.pe].0 as usize);
            let makes_it = memory.is_some_and(|at| at.phase == Some(Phase::Entering(number)));
            own.alive && own.at == At::Calls && makes_it && own.joined != view
        };
        if self.carrier.iter().any(differs) {
            self.wrong = Some("members of several views make a checkpoint".to_owned());
        }
    }

    /// Rolls all PEs back once every one of them waits for that.
    pub fn rolls_back(&mut self) {
        let view = Rc::clone(&self.last);
        let is_there = |&process: &usize| {
            let own = &self.processes[process];
            let is_shown = self.page(own.node).number == view.number;
            let is_it = own.incarnation == view.pes[own.pe].incarnation;
            own.alive && own.at == At::RollsBack && is_shown && is_it
        };
        if view.local || !view.whole() || !self.carrier.iter().all(is_there) {
            return;
        }
        let votes = self.carrier.iter().map(|&process| {
            let own = &self.processes[process];
            let number = own.mapped[own.pe].0 as usize;
            let phase = self.shared[own.pe].memories.get(number).and_then(|memory| memory.phase);
            Vote { phase, decided: None }
        });
        let checkpoint = decide(&votes.collect()).expect("a PE is left");
        let lacks = |shared: &Shared| shared.saved.len() as u64 <= checkpoint.0;
        if let Some(pe) = self.shared.iter().position(lacks) {
            self.wrong = Some(format!("PE {pe} has no checkpoint {checkpoint}\n{}", self.stand()));
            return;
        }
        self.note(|| format!("all roll back to checkpoint {checkpoint}"));
        for pe in 0..self.shared.len() {
            self.resets(pe, checkpoint, &view);
        }
        for pe in 0..self.shared.len() {
            self.choose_holder(self.carrier[pe]);
            self.begin_far(self.carrier[pe]);
        }
        let (view, took) = (view.number, Duration::ZERO);
        let report = ProgressReport::Resumed { checkpoint, view, took };
        self.says(self.carrier[0], PeMessage::Report(report));
        self.wake_all();
    }

    fn resets(&mut self, pe: usize, checkpoint: CheckpointNumber, view: &View) {
        let own = &mut self.processes[self.carrier[pe]];
        own.join(view);
        own.mapped[pe] = (view.pes[pe].memory, own.node);
        let (number, shared) = (own.mapped[pe].0, &mut self.shared[pe]);
        let (words, call) = shared.saved[checkpoint.0 as usize];
        let memory = shared.memory(number);
        (memory.words, memory.arrived) = (words, 0);
        memory.phase = Some(Phase::Agreed(checkpoint));
        shared.log.entries.clear();
        (shared.log.interval, shared.log.memory) = (checkpoint, Some(number));
        shared.log.era = view.number.0;
        (shared.log.met, shared.log.flight, shared.log.lacks) = (0, None, false);
        shared.log.stage = (own.incarnation, Stage::Direct);
        shared.log.taken.fill(0);
        (own.call, own.registers, own.met, own.meetings) = (call, [0; REGISTERS], 0, 0);
        (own.at, own.way, own.owes_report) = (At::Calls, LogMode::Logged, false);
        own.replay = Default::default();
        own.script.clear();
    }

    /// Ends the job once all PEs have come to the end of their program.
    pub fn finished(&mut self) {
        let is_over = |(pe, &process): (usize, &usize)| {
            let own = &self.processes[process];
            let at_end = own.at == At::Calls && own.way == LogMode::Logged;
            own.alive && at_end && own.call == self.program.pes[pe].len()
        };
        self.over = self.last.whole() && self.carrier.iter().enumerate().all(is_over);
    }
}
