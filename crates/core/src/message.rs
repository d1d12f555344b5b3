//! The messages of the control connections. Pure data; others carry them.
//!
//! Two conversations: launcher with agent, agent with PE. An agent passes on what a PE says about
//! itself as `Up::Said`, so the launcher sees one stream a node. On another host a supervisor
//! starts the agent and tells it, as a launcher would, whom to join; that says `Hello` first.

#![allow(missing_docs)] // the sentence of each variant speaks of its fields

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::disk::{Damage, DiskOutcome, Held, Resume, Task};
use crate::ended::Ended;
use crate::placement::Domains;
use crate::placement::moves::Move;
use crate::quantity::{CheckpointNumber, Incarnation, Pe, ViewNumber};
use crate::secret::Secret;
use crate::settings::{Bind, Device, Fabric, Pages};
pub use crate::step::RecoveryStep;
use crate::view::{PES_MAX, View};
pub use heartbeat::{Beat, CounterEnd, HeartbeatSettings, Party};

mod heartbeat;
mod words;

/// Largest symmetric heap of a PE in bytes.
pub const HEAP_MAX: u64 = 64 << 40;

/// Number of a process in the job; never reused.
pub type ProcId = u32;

/// What every process of a job must know and agree on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// Random name of the job; bytes of another job are refused.
    pub id: u64,
    /// Number of PEs.
    pub n_pes: u32,
    /// Bytes of the symmetric heap of each PE.
    pub heap_len: u64,
    /// Node of each PE at the start: the first groups are made from it.
    pub node_of: Vec<u32>,
    /// Machine of each node: those of one machine share its processors.
    pub machine_of: Vec<u32>,
    /// What PEs are bound to.
    pub bind: Bind,
    /// Pages of the memory of PEs.
    pub pages: Pages,
    /// What the nodes are called, and what fails together with them.
    pub domains: Domains,
    /// What carries data between nodes; never `Auto`.
    pub fabric: Fabric,
    /// Through which device.
    pub device: Option<Device>,
    /// The checkpoint on disk that it begins from, if from one.
    pub resume: Option<Resume>,
}

impl Job {
    /// The machine of a node.
    pub fn machine(&self, node: u32) -> u32 {
        self.machine_of.get(node as usize).copied().unwrap_or(node)
    }

    /// True if its parts fit each other and the bounds: there are no other jobs.
    pub fn is_sound(&self) -> bool {
        (1..=PES_MAX).contains(&(self.n_pes as usize))
            && self.node_of.len() == self.n_pes as usize
            && self.node_of.iter().all(|&node| self.domains.hold(node as usize))
            && self.heap_len <= HEAP_MAX
    }
}

/// What makes a waiting process a PE.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Welcome {
    /// Its number.
    pub pe: Pe,
    /// How many processes carried it before.
    pub incarnation: Incarnation,
    /// Number of its memory.
    pub memory: u32,
    /// The node it runs on, which the view on the page may not say yet.
    pub node: u32,
    /// Injection rules that have been carried out, and are not to be again.
    pub fired: Vec<u32>,
    /// PEs lost since the job last resumed, this one among them if it is a substitute.
    pub lost: Vec<Pe>,
    /// Incarnation of each PE when this was written: one that is higher later was lost since.
    pub incarnations: Vec<Incarnation>,
    /// What the job has been through; the launcher fills it in, which has a clock.
    pub past: Past,
    /// Its memory comes from the disk, unless it has it already.
    pub from_disk: bool,
    /// The record of what calls before the first checkpoint gave back to its predecessors.
    pub prelude: Option<Vec<u8>>,
    /// How PEs have moved since the start: groups of checkpoints are chosen over their places.
    pub moves: Vec<Move>,
}

/// What a job has been through before a process came to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// For how long it has run.
    pub ran: Duration,
    /// Recoveries that are over.
    pub recoveries: u32,
}

/// Where a PE runs: its processors (none: it is not bound), and where its memory is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    pub pe: Pe,
    pub cpus: Vec<u32>,
    pub numa: Option<u32>,
}

impl Welcome {
    /// True if it names a PE of `job`, and speaks of all of them.
    pub fn is_sound(&self, job: &Job) -> bool {
        let known = |one: &Move| one.pe < Pe(job.n_pes) && job.domains.hold(one.node as usize);
        self.pe < Pe(job.n_pes)
            && self.incarnations.len() == job.n_pes as usize
            && self.moves.iter().all(known)
    }
}

/// The PEs that a PE waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Whom {
    /// PEs that have to make the same call: `start`, `start + stride` and so on, `size` of them.
    Members { start: i32, stride: i32, size: u32 },
    /// Some PE that does something: a put, a signal, the release of a lock.
    Anyone,
    /// All that have not finalised yet; this PE is in `shmem_finalize`.
    Finalize,
}

/// A wait of a PE, as its agent sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    pub pe: Pe,
    /// The thread, and which wait of it this is.
    pub serial: (u8, u64),
    /// How often it has looked at what it waits for.
    pub looks: u64,
    /// For how long its agent has seen it.
    pub lasted: Duration,
    /// The routine.
    pub call: String,
    pub whom: Whom,
    /// The last agreed checkpoint.
    pub agreed: CheckpointNumber,
}

/// Something that a process did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traced {
    /// When, in microseconds since 1970.
    pub micros: u64,
    /// Who, and what.
    pub line: String,
}

/// A process of a node, as its agent sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSeen {
    pub proc: ProcId,
    /// The process id of the program, not of a script around it.
    pub pid: u32,
    /// The number that it carries.
    pub pe: Option<Pe>,
    pub stopped: bool,
    /// The calls in which its threads wait for long.
    pub calls: Vec<String>,
}

/// What an agent answers when it is asked for its processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub question: u32,
    /// Process id of the agent.
    pub agent: u32,
    pub processes: Vec<ProcessSeen>,
    /// What they and the agent did last, if that was asked for.
    pub events: Vec<Traced>,
}

/// How programs run: what they get, and what becomes of what they print. On another host it has
/// all that a child of the launcher would have inherited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessOptions {
    /// Folder to run in; None for that of the agent.
    pub folder: Option<Vec<u8>>,
    /// Variables, over those that the agent has.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// What PE 0 reads; the others have no standard input.
    pub input: Stdin,
    /// What they print comes through pipes, and is carried on in whole lines.
    pub carried: bool,
    /// Such a line begins with the number of its PE.
    pub tag: bool,
    /// Such a line begins with the time.
    pub stamp: bool,
    /// Folder of a file for each PE, to which lines are carried.
    pub output: Option<Vec<u8>>,
}

/// Where the standard input of PE 0 comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stdin {
    /// It has none.
    #[default]
    Nothing,
    /// It is that of the agent, which is that of the launcher.
    Agent,
    /// The launcher sends it ([`Down::Input`]).
    Launcher,
}

/// First message of a process to its agent: version and checksum of its library. Its shape never
/// changes, so that two builds can tell each other that they differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build(pub String);

/// First message of an agent on another host; the same holds of its shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version and checksum of its library.
    pub build: String,
    /// The node it was started as.
    pub node: u32,
    /// UDP port on which it hears heartbeats.
    pub beats: u16,
}

/// Launcher to agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Down {
    /// First message of a node supervisor: connect to the launcher, and take the orders from there.
    Join { launcher: SocketAddr, node: u32, secret: Secret },
    /// First message: the job, this node's number, the program, its arguments and how it runs; with
    /// checkpoints on disk the signal that asks for a stop.
    Configure {
        job: Box<Job>,
        node: u32,
        program: Vec<Vec<u8>>,
        place: ProcessOptions,
        heartbeat: HeartbeatSettings,
        stop_signal: Option<i32>,
    },
    /// Before that: say what the disk here has of checkpoints below `folder`.
    List { folder: String },
    /// Read every byte of the files in these folders of checkpoints, and say what does not hold.
    Check { folders: Vec<String> },
    /// A heartbeat of the launcher.
    Beat(Beat),
    /// The node to watch, if there is one, and where it hears heartbeats.
    Watch { successor: Option<(u32, SocketAddr)> },
    /// The node that renews the lease of this one, if not the launcher.
    Parent { parent: Option<(u32, SocketAddr)> },
    /// Renew the lease of that node from now on.
    Adopt { node: u32, at: SocketAddr, term: u64 },
    /// Do not any more, and say so.
    Release { node: u32, term: u64 },
    /// Do you hear that node?
    Ask { node: u32, at: Option<SocketAddr> },
    /// Look after that process: if it ended, that is said first.
    Look { proc: ProcId },
    /// End at once, by SIGKILL: a fault that was asked for.
    Die,
    /// The launcher does not take this agent, and why.
    Refused { why: String },
    /// Make the memory `memory` of `pe`: its place in the memory file of this node, empty.
    MakeMemory { pe: Pe, memory: u32 },
    /// Start a process, meant for the number `pe` if for any; it says `Hello` and waits for one.
    Start { proc: ProcId, pe: Option<Pe> },
    /// Give the waiting process `proc` the number `pe`.
    Assign { proc: ProcId, welcome: Welcome },
    /// The memory file of `node`, as a descriptor: hand it to every PE of this one.
    File { node: u32 },
    /// Where that incarnation of `pe` is reached, for the engine between nodes: tell every PE.
    Address { pe: Pe, incarnation: Incarnation, address: Vec<u8> },
    /// Show this view to the PEs.
    Show(View),
    /// Say which processes are here, and what they did last if `events`.
    Dump { question: u32, events: bool },
    /// The job stops once its next checkpoint is on disk: PEs see that.
    Stopping,
    /// Send that signal to every PE.
    Signal { signal: i32 },
    /// More of PE 0's standard input; its end if there are no bytes.
    Input { bytes: Vec<u8> },
    /// Write a checkpoint to disk, or what belongs to that.
    Disk(Task),
    /// Kill that process.
    Kill { proc: ProcId },
    /// Every PE has entered `shmem_finalize`: let them leave.
    Finish,
    /// The launcher has the record of each PE of what its first calls gave back.
    PreludesKept,
    /// The job ends: let the PEs write out what they have buffered, and end.
    Abort,
    /// Kill everything and exit.
    Shutdown,
}

/// Agent to launcher.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Up {
    /// First message: where its PEs will run, and its memory file where other nodes may map it.
    Bound(Vec<Bound>),
    /// What the disk here has, before all else.
    Held(Vec<Held>),
    /// The files that do not hold.
    Checked(Vec<Damage>),
    /// The memory asked for is there.
    Memory { pe: Pe, memory: u32 },
    /// A process was started; its pidfd comes along.
    Started { proc: ProcId, pid: u32 },
    /// A process said something.
    Said { proc: ProcId, what: PeMessage },
    /// A process ended.
    Ended { proc: ProcId, how: Ended },
    /// So many more bytes of the standard input are in the pipe that PE 0 reads.
    InputTaken { bytes: u32 },
    /// The PEs see that view now.
    Shown { number: ViewNumber },
    /// A heartbeat of the agent.
    Beat(Beat),
    /// The agent's successor is silent; or not any more.
    Accuse { node: u32, silent: bool },
    /// This node does not renew the lease of that one any more, and has not heard it for so long.
    GiveUp { node: u32, term: u64, silent: Duration },
    /// Whether the node that was asked about answers.
    Opinion { node: u32, alive: bool },
    /// The process that it was asked to look after has not ended.
    Looked { proc: ProcId },
    /// The PEs here that wait for long, and those that are stopped; once more when none are.
    Waits { waits: Vec<Wait>, stopped: Vec<Pe> },
    /// The processes here.
    Dump(Answer),
    /// The last events of a PE whose process was killed.
    Last { events: Vec<Traced> },
    /// A checkpoint is on disk, as far as it goes.
    Disk(DiskOutcome),
    /// The signal that asks for a stop has come here.
    StopSignal,
    /// News for people.
    Note { line: String },
    /// What was asked for cannot be done here.
    Failed { what: String },
}

/// Agent to PE.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToPe {
    /// First message: a parent-death pipe comes along, to be armed.
    ParentDeathPipe,
    /// You are `pe`; the page of views comes along. `oversubscribed`: PEs take turns.
    Welcome { job: Box<Job>, welcome: Welcome, oversubscribed: bool },
    /// The memory file of `node`, as a descriptor: byte `i` of PE `k` is byte `k * L + i` of it,
    /// where L is the length of a segment.
    File { node: u32 },
    /// Where that incarnation of `pe` is reached, if its memory cannot be mapped.
    Address { pe: Pe, incarnation: Incarnation, address: Vec<u8> },
}

/// What a PE says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum PeMessage {
    /// First message after [`Build`]. When the program is wrapped in a script it does not come
    /// from the child that the agent started: the kernel says from whom.
    Hello,
    /// It cannot become a PE and ends with `status`; `words` say why.
    CannotStart { status: i32, words: String, cause: StartFailure },
    /// Where its engine is reached; it waits to be shown as alive.
    Address { address: Vec<u8> },
    /// Its connection to that incarnation of `pe` broke.
    Suspect { pe: Pe, incarnation: Incarnation },
    /// What PE `pe` keeps cannot be used in the recovery of view `view`, which had counted on it.
    Unusable { view: ViewNumber, pe: Pe, flaw: Flaw },
    /// It stands at a point of injection rule `rule` and waits to be killed.
    AtPoint { rule: u32 },
    /// Something worth a line.
    Report(ProgressReport),
    /// The job cannot go on; every PE comes to the same words.
    Verdict { status: i32, words: String },
    /// It is in `shmem_finalize`, a member of view `joined`; `cut` if a loss made a call of it do
    /// less than it should, and it has not gone back since.
    Finalizing { joined: ViewNumber, cut: bool },
    /// It has come to its first checkpoint call, and what the calls before it gave back.
    PreludeOver { record: Vec<u8> },
    /// A PE was lost, and there is a reason why it cannot go back alone.
    GoBack { why: String },
    /// It goes on alone after a loss that came when others were at their end, and cannot.
    NeedsOthers,
    /// It left `shmem_finalize`; its end is no death any more.
    Finalized,
    /// `shmem_global_exit`, or an end for the reason that `words` say.
    GlobalExit { status: i32, words: Option<String> },
}

/// Why a process cannot become a PE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartFailure {
    /// Its program, a setting or a library of the network.
    Program,
    /// The limit of address space, which every process of the node has.
    Limit,
    /// Memory that is short now, a network that refuses, or another cause that may pass.
    Passing,
}

impl StartFailure {
    /// True if its substitute would fail alike.
    pub fn lasts(self) -> bool {
        match self {
            StartFailure::Program | StartFailure::Limit => true,
            StartFailure::Passing => false,
        }
    }
}

/// What is wrong with what a PE keeps of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flaw {
    /// A tile does not match its checksum.
    Damaged,
    /// Its snapshot or its parity is not of that checkpoint: it was overwritten, or never made.
    Missing,
}

/// What the scrub of a PE's store has seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrubbed {
    /// Bytes that were looked at and held.
    pub bytes: u64,
    /// Tiles and headers that did not.
    pub damaged: u64,
    /// Tiles of them that were repaired.
    pub repaired: u64,
}

/// What a PE found to have changed since the checkpoint before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedTiles {
    /// Tiles that changed.
    pub changed: u64,
    /// How many there are in all.
    pub of: u64,
    /// By the pages that were written; else by digests.
    pub by_pages: bool,
}

/// Progress worth a line for people, and for tests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ProgressReport {
    /// A checkpoint was agreed (said by PE 0). Bytes are one PE's.
    Checkpoint {
        number: CheckpointNumber,
        bytes: u64,
        parity_bytes: u64,
        micros: u64,
        found: Option<ChangedTiles>,
    },
    /// The parity groups of that checkpoint were chosen anew, and those of all before it are of no
    /// use any more: the group of each PE, and a line on what they survive (said by one PE).
    Regrouped { number: CheckpointNumber, group_of: Vec<u32>, words: String },
    /// So much of what this PE holds is read-only, and is protected once by so much that it keeps.
    ReadOnly { bytes: u64, parity_bytes: u64 },
    /// The memory of a dead process was taken over as it was.
    Adopted { pe: Pe, number: CheckpointNumber, bytes: u64, micros: u64 },
    /// Lost data was rebuilt from the survivors.
    Rebuilt { pe: Pe, number: CheckpointNumber, bytes: u64, from: Vec<Pe>, micros: u64 },
    /// The recovery has come to this step (said by PE 0).
    Step(RecoveryStep),
    /// So many `bytes` of those that PE `pe` rebuilds are there; a few times a second at most.
    Rebuilding { pe: Pe, bytes: u64, of: u64 },
    /// All PEs are back at checkpoint `number` (said by PE 0).
    Resumed { number: CheckpointNumber, micros: u64 },
    /// PE `pe` went back alone and has caught up: `calls` of it came from logs.
    Replayed { pe: Pe, number: CheckpointNumber, micros: u64, calls: u64 },
    /// PE `pe` went back to checkpoint `number`, and others are in `shmem_finalize`.
    Alone { pe: Pe, number: CheckpointNumber, micros: u64 },
    /// The scrub found a damaged `part` of the store, and repaired it from PEs `from`, or not.
    Damaged { pe: Pe, number: CheckpointNumber, part: String, from: Option<Vec<Pe>> },
    /// What the scrub of one PE has seen by `shmem_finalize`.
    Scrubbed { pe: Pe, counts: Scrubbed },
    /// Proportional share of memory of one PE at `shmem_finalize`.
    Memory { pe: Pe, bytes: u64 },
    /// The longest log of one PE between two checkpoints, at `shmem_finalize`.
    Logged { pe: Pe, bytes: u64, records: u64 },
    /// A free-form line.
    Note(String),
}
