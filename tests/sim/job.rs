//! A simulated job: its time, its future events, and its results.
//!
//! Left out: the reactions of launcher and agents (`runtime`) and of PEs (`pe`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use raidshmem_core::ended::Ended;
use raidshmem_core::membership::{Membership, MembershipEvent, Shape};
use raidshmem_core::message::{Down, ProcId};
use raidshmem_core::quantity::{CheckpointNumber, ViewNumber};
use raidshmem_core::settings::Fabric;
use raidshmem_core::view::{MoveRequest, View};

use super::heartbeats::{Detector, Heartbeat};
use super::mailbox::Transfer;
use super::memory::Memory;
use super::pe::Proc;
use super::plan::{Plan, When};
use super::runtime::{Node, Ordered};

/// Events after which a running job counts as endless.
const EVENTS_MAX: u64 = 20_000_000;
/// Heartbeats in a row after which no other event is expected.
const BEATS_MAX: u64 = 100_000;

/// A future event.
#[derive(Debug)]
pub enum What {
    /// A message reaches an agent.
    Down(u32, Down),
    /// A message reaches the launcher.
    Up(MembershipEvent),
    /// A transfer arrives in a mailbox.
    Mailbox(Box<Transfer>),
    /// A view appears on a node's page.
    Show(u32, ViewNumber),
    /// A process takes a step.
    Step(ProcId),
    ProcessDies(ProcId, Ended),
    NodeGone(u32),
    Heartbeat(Heartbeat),
    Fault(usize),
    Move(usize),
    CutShort,
}

/// The results of a job.
#[derive(Debug, Default)]
pub struct Ending {
    pub status: i32,
    pub words: Option<String>,
    pub recoveries: u32,
    pub losses: u32,
    pub flips: u32,
    /// Number of times that a PE got new groups.
    pub regrouped: u32,
    /// Recoveries that ended with new groups in prospect.
    pub healed: u32,
    /// PEs that were killed since a connection to them broke.
    pub suspected: u32,
    /// Killed PEs that had themselves suspected another.
    pub accusers: u32,
    /// Nodes that the detector declared lost.
    pub declared: u32,
    /// The number of times that all processes died at once.
    pub at_once: u32,
    /// Tiles damaged between check and use.
    pub corrupt: u32,
    /// Invalid tiles found in a snapshot that was not checked before.
    pub found: u32,
    /// The number of times that bits flipped unnoticed.
    pub rotten: u32,
    /// Parity tiles that were kept, carried over or updated.
    pub spared: u32,
    /// Updated ones among them.
    pub updated: u32,
    /// Tiles of second snapshots written by the PE that encoded the parity over them.
    pub along: u64,
    /// Checkpoints whose parity was computed in the background.
    pub behind: u32,
    /// Comparisons of a PE that used the written pages.
    pub by_pages: u32,
    /// True if a fault struck when some PE was on its last checkpoint.
    pub late: bool,
    /// PEs that completed alone.
    pub alone: u32,
    pub events: u64,
    pub compared: u64,
    /// Calls of late PEs that were skipped.
    pub passed: u32,
    /// Nodes that were drained, and moves of PEs to a node that joined.
    pub drained: u32,
    pub joined: u32,
    /// True if PEs that moved and a loss of which the launcher did not know were too much.
    pub overlaps: bool,
    /// Protocol messages that each PE sent: its findings, and posts in the tree.
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
    /// Memories by PE, and by the memory's number.
    pub memories: Vec<Vec<Memory>>,
    /// Views by number.
    pub views: Vec<Ordered>,
    /// The process that carries each PE.
    pub carrier: Vec<Option<ProcId>>,
    /// PEs lost since redundancy was whole.
    pub lost: BTreeSet<usize>,
    /// The number of times that a tile was damaged since then.
    pub spoils: u32,
    /// PEs that will be lost once the launcher gets a report about them, or from them: the accuser
    /// of each.
    pub suspects: BTreeMap<usize, usize>,
    pub verdicts: BTreeSet<String>,
    /// The highest checkpoint that was reported saved to any PE.
    pub saved: CheckpointNumber,
    /// The checkpoint resumed from, by view.
    pub resumed: BTreeMap<ViewNumber, CheckpointNumber>,
    pub ending: Ending,
    pub over: bool,
    /// True if the job was ordered to end before all had reported their verdict.
    pub cut: bool,
    trace: Option<Vec<String>>,
    pub broken_promise: Option<String>,
    /// True if the planned refusal has occurred.
    pub refused: bool,
    /// The request for which PEs are not killed yet.
    pub moving: Option<MoveRequest>,
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
            View { number: ViewNumber(0), pes: Vec::new(), local: false },
            vec![0; pes],
            false,
        );
        let none = first_view.view.clone();
        let mut job = Job {
            now: 0,
            queue: BinaryHeap::new(),
            waiting: Vec::new(),
            free: Vec::new(),
            sequence: 0,
            machine,
            detector: plan.heartbeat.then(|| Detector::new(&plan)),
            nodes: (0..plan.nodes).map(|_| Node::new(none.clone())).collect(),
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
            moving: None,
            plan,
        };
        job.act(first);
        job.begin_heartbeats();
        for index in 0..job.plan.faults.len() {
            if let When::Time(time) = job.plan.faults[index].when {
                job.at(time, What::Fault(index));
            }
        }
        for index in 0..job.plan.moves.len() {
            job.at(job.plan.moves[index].time, What::Move(index));
        }
        job
    }

    /// Runs to the end. The error is the guarantee that was broken.
    pub fn run(&mut self) -> Result<(), String> {
        let (mut looked_again, mut beats) = (false, 0);
        while !self.over {
            let next = if beats < BEATS_MAX { self.queue.pop() } else { None };
            let Some(Reverse((time, _, slot))) = next else {
                beats = 0;
                if looked_again {
                    return Err(format!("no wait for ever: nothing moves\n{}", self.stand()));
                }
                looked_again = true; // like a sleeper after its limit
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

    /// Draws a delay of at most `most`; occasionally a stall.
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

    /// Returns the last lines of the trace, 250 or `TRACE` of them.
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
            What::Move(index) => self.ask_to_move(index),
            What::CutShort => {
                let actions = self.machine.cut_short();
                self.act(actions);
            }
        }
    }
}
