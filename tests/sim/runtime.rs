//! Launcher and agents of a simulated job.
//!
//! The launcher is the library's own machine ([`Membership`]); agents act as the real ones do: they
//! make memory, start processes, publish views, report ends. Their connections are streams: a
//! message may be delayed but overtakes none on the same connection; connections overtake each
//! other.
//!
//! [`Membership`]: raidshmem_core::membership::Membership

use std::rc::Rc;

use raidshmem_core::ended::Ended;
use raidshmem_core::membership::{Action, MembershipEvent};
use raidshmem_core::message::{AssignmentMessage, Down, PeMessage, ProcId};
use raidshmem_core::mutant::Mutant;
use raidshmem_core::quantity::ViewNumber;
use raidshmem_core::tree::{Location, Tree, trees};
use raidshmem_core::view::{Member, MoveRequest, State, View};

use super::job::{Job, What};
use super::memory::Memory;
use super::pe::Proc;
use super::plan::{Broken, Mode};

/// The time that the launcher waits for all verdicts, in units of the slowest message.
const LAST_WORDS: u64 = 10_000;

/// An agent and its two connections.
pub struct Node {
    pub alive: bool,
    pub finished: bool,
    pub shown: Rc<View>,
    /// The request that PEs move after the next checkpoint, and the last request that is over.
    pub moves: Option<MoveRequest>,
    pub moves_over: u32,
    down_at: u64,
    up_at: u64,
}

impl Node {
    pub fn new(shown: Rc<View>) -> Node {
        let (moves, moves_over) = (None, 0);
        Node { alive: true, finished: false, shown, moves, moves_over, down_at: 0, up_at: 0 }
    }
}

/// An ordered view.
pub struct Ordered {
    pub view: Rc<View>,
    /// The memory of each PE that a process maps when it enters the view.
    pub mapped: Rc<Vec<u32>>,
    pub living: usize,
    /// The meeting tree, as each PE sees it.
    pub trees: Vec<Tree>,
    pub resumed: usize,
    /// True if all have encoded the missing parity.
    pub whole: bool,
}

impl Ordered {
    pub fn new(view: View, mapped: Vec<u32>, together: bool) -> Ordered {
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

impl Job {
    // ---- launcher -----------------------------------------------------------------------------

    pub fn deliver(&mut self, event: MembershipEvent) {
        if let MembershipEvent::Message { what: PeMessage::Verdict { words, .. }, .. } = &event {
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

    pub fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { node, message } => {
                    if let Down::Show(view) = &message {
                        self.order(view);
                    }
                    match message {
                        Down::Drain(request) => self.moving = Some(request),
                        Down::DrainOver { .. } => self.moving = None,
                        _ => {}
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
                Action::KillNode { node } if self.moving.is_some_and(|it| it.node == node) => {
                    self.kill_drained(node);
                }
                Action::KillNode { .. } | Action::Lost { .. } | Action::Survives(_) => {}
                Action::Drained { checkpoint, repeats, .. } => {
                    self.moved(false, checkpoint, repeats);
                }
                Action::Moved { checkpoint, repeats, .. } => self.moved(true, checkpoint, repeats),
                Action::GiveUp { .. } | Action::ChooseSet { .. } => {} // its jobs write no sets
                Action::Say(_) | Action::Tell(_) => {}
            }
        }
    }

    /// Records a new view, and the memories that a PE maps when it enters it.
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

    pub fn obey(&mut self, node: u32, message: Down) {
        match message {
            Down::MakeMemory { pe, memory, .. } => {
                self.up(node, MembershipEvent::MemoryMade { pe, memory })
            }
            Down::Start { proc, .. } => {
                while self.procs.len() <= proc as usize {
                    let id = self.procs.len() as ProcId;
                    self.procs.push(Proc::new(id));
                }
                self.procs[proc as usize].start(node);
                self.up(node, MembershipEvent::Message { proc, what: PeMessage::Hello });
            }
            Down::Assign { proc, assignment } => self.assign(proc, &assignment),
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
            Down::Kill { proc } if self.kill_moving(proc) => {}
            Down::Kill { proc } => self.end_suspect(proc),
            Down::Drain(request) => {
                self.nodes[node as usize].moves = Some(request);
            }
            Down::DrainOver { serial } => {
                let page = &mut self.nodes[node as usize];
                (page.moves, page.moves_over) = (None, serial);
                self.wake_node(node);
            }
            Down::Ask { node: about, .. } => self.give_opinion(node, about),
            Down::Finish => {
                self.nodes[node as usize].finished = true;
                self.wake_node(node);
            }
            _ => {}
        }
    }

    /// Gives a waiting process its PE number, unless it died meanwhile.
    fn assign(&mut self, proc: ProcId, assignment: &AssignmentMessage) {
        let mapped = self.views[self.views.len() - 1].mapped.clone();
        if self.procs[proc as usize].alive {
            self.carrier[assignment.pe.at()] = Some(proc);
            self.procs[proc as usize].take(assignment, mapped, &self.plan);
            let node = self.procs[proc as usize].node;
            let what = PeMessage::Address { address: Vec::new() };
            self.up(node, MembershipEvent::Message { proc, what });
            self.wake(proc);
        }
    }

    pub fn show(&mut self, node: u32, number: ViewNumber) {
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

    /// Sends a message from an agent to the launcher.
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

    /// Kills the agent, or cuts it off from the launcher: its processes follow within a moment, or
    /// continue in the last view they saw until its lease is over; then the launcher declares it.
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
