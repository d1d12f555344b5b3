//! The messages of the control connections. Pure data, transported elsewhere.
//!
//! Two conversations: launcher with agent, and agent with PE. An agent forwards a PE's messages as
//! `Up::Message`, so the launcher sees one stream per node. On another host a supervisor starts the
//! agent and tells it, as a launcher would, which job to join; such an agent sends `Hello` first.

#![allow(missing_docs)] // the comment of each variant covers its fields

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::disk::{Damage, DiskOutcome, Held, Resume, Task};
use crate::ended::Ended;
use crate::placement::Domains;
use crate::placement::moves::Move;
use crate::placement::pages::PageRuns;
use crate::quantity::{CheckpointNumber, Incarnation, Pe, ViewNumber};
use crate::secret::Secret;
use crate::settings::{Fabric, Settings};
pub use crate::step::RecoveryStep;
use crate::view::{MoveRequest, PES_MAX, View};
pub use heartbeat::{Beat, CounterEnd, Party};
pub use progress::{ChangedTiles, FoundBy, ProgressReport, Reader, Scrubbed};

mod heartbeat;
mod progress;
mod words;

/// Maximum symmetric heap of a PE in bytes.
pub const HEAP_MAX: u64 = 64 << 40;

/// Number of a process in the job; never reused.
pub type ProcId = u32;

/// The parameters that every process of a job must know and agree on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// Random identifier of the job; bytes of another job are rejected.
    pub id: u64,
    /// Number of PEs.
    pub n_pes: u32,
    /// Size of the symmetric heap of each PE in bytes.
    pub heap_len: u64,
    /// Node of each PE at the start; the initial groups are chosen from it.
    pub node_of: Vec<u32>,
    /// Machine of each node; nodes on one machine share its processors.
    pub machine_of: Vec<u32>,
    /// Names of the nodes, and the failure domains above them.
    pub domains: Domains,
    /// Transport between nodes; never `Auto`.
    pub fabric: Fabric,
    /// The checkpoint on disk that the job starts from, if any.
    pub resume: Option<Resume>,
}

impl Job {
    /// Returns the machine of a node.
    pub fn machine(&self, node: u32) -> u32 {
        // Without an engine all nodes are agents on one machine.
        let of_a_node_that_joined = if self.fabric == Fabric::Shm { 0 } else { node };
        self.machine_of.get(node as usize).copied().unwrap_or(of_a_node_that_joined)
    }

    /// Returns true if its parts are consistent and within bounds; other jobs are not started.
    pub fn is_sound(&self) -> bool {
        (1..=PES_MAX).contains(&(self.n_pes as usize))
            && self.node_of.len() == self.n_pes as usize
            && self.node_of.iter().all(|&node| self.domains.hold(node as usize))
            && self.heap_len <= HEAP_MAX
            && self.resume.iter().all(|resume| resume.folders.suit(self.n_pes as usize))
    }
}

/// The assignment that turns a waiting process into a PE.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AssignmentMessage {
    /// Its number.
    pub pe: Pe,
    /// Number of processes that carried it before.
    pub incarnation: Incarnation,
    /// Number of its memory.
    pub memory: u32,
    /// The node it runs on, which the view on the page may not show yet.
    pub node: u32,
    /// Injection rules that have fired, and must not fire again.
    pub fired: Vec<u32>,
    /// PEs lost since the job last resumed, including this one if it is a substitute.
    pub lost: Vec<Pe>,
    /// Incarnation of each PE when this was written; one that is higher later was lost since.
    pub incarnations: Vec<Incarnation>,
    /// The job's history; filled in by the launcher, which has a clock.
    pub past: Past,
    /// True if its memory comes from disk, unless it has it already.
    pub from_disk: bool,
    /// The record of the results that its predecessors got from calls before the first checkpoint.
    pub prelude: Option<Vec<u8>>,
    /// Moves of PEs since the start, from which the groups of a checkpoint are recomputed.
    pub moves: Vec<Move>,
}

/// The history of a job before a process joined it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// Time for which the job has run.
    pub ran: Duration,
    /// Completed recoveries.
    pub recoveries: u32,
}

/// CPU binding (empty: not bound) and NUMA node of a PE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    pub pe: Pe,
    pub cpus: Vec<u32>,
    pub numa: Option<u32>,
}

impl AssignmentMessage {
    /// Returns true if it names a PE of `job`, and covers all of them.
    pub fn is_sound(&self, job: &Job) -> bool {
        let known = |one: &Move| one.pe < Pe(job.n_pes) && job.domains.hold(one.node as usize);
        self.pe < Pe(job.n_pes)
            && self.incarnations.len() == job.n_pes as usize
            && self.moves.iter().all(known)
    }
}

/// The PEs that a PE waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WaitTarget {
    /// PEs that must make the same call: `start`, `start + stride` and so on, `size` of them.
    Members { start: i32, stride: i32, size: u32 },
    /// Any PE that acts: a put, a signal, the release of a lock.
    Anyone,
    /// All that have not finalised yet; this PE is in `shmem_finalize`.
    Finalize,
}

/// A wait of a PE, as observed by its agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    pub pe: Pe,
    /// The thread, and the number of this wait in it.
    pub serial: (u8, u64),
    /// Number of polls so far.
    pub looks: u64,
    /// Time for which its agent has observed it.
    pub lasted: Duration,
    /// The routine.
    pub call: String,
    pub whom: WaitTarget,
    /// The last agreed checkpoint.
    pub agreed: CheckpointNumber,
}

/// An event in the trace of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traced {
    /// Time in microseconds since 1970.
    pub micros: u64,
    /// The actor and its action.
    pub line: String,
}

/// A process of a node, as observed by its agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSeen {
    pub proc: ProcId,
    /// The process id of the program, not of a script around it.
    pub pid: u32,
    /// The PE number that it carries.
    pub pe: Option<Pe>,
    pub stopped: bool,
    /// The calls in which its threads have been waiting for long.
    pub calls: Vec<String>,
}

/// An agent's answer to a query for its processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub question: u32,
    /// Process id of the agent.
    pub agent: u32,
    pub processes: Vec<ProcessSeen>,
    /// The last events of the processes and the agent, if requested.
    pub events: Vec<Traced>,
}

/// The environment of programs and the handling of their output, whole on another host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessOptions {
    /// Working directory; None for that of the agent.
    pub folder: Option<Vec<u8>>,
    /// Environment variables, overriding those of the agent.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Standard input of PE 0; the other PEs have none.
    pub input: Stdin,
    /// True if output goes through pipes and is forwarded in whole lines.
    pub carried: bool,
    /// True if each forwarded line starts with the number of its PE.
    pub tag: bool,
    /// True if each forwarded line starts with the time.
    pub stamp: bool,
    /// Folder for forwarded output, with one file per PE.
    pub output: Option<Vec<u8>>,
}

/// The source of PE 0's standard input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stdin {
    /// No standard input.
    #[default]
    Nothing,
    /// The agent's, which is the launcher's.
    Agent,
    /// The launcher sends it ([`Down::Input`]).
    Launcher,
}

/// First message of a process to its agent: version and checksum of its library. Its format never
/// changes, so that two builds can detect that they differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build(pub String);

/// First message of an agent on another host; its format never changes either.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version and checksum of its library.
    pub build: String,
    /// The node number that it was started with.
    pub node: u32,
    /// UDP port on which it receives heartbeats.
    pub beats: u16,
}

/// Launcher to agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Down {
    /// First message of a node supervisor: connect to the launcher, and take orders from there.
    Join { launcher: SocketAddr, node: u32, secret: Secret },
    /// First message: the job, the settings in force, this node's number, the program with its
    /// arguments and options; between hosts also the key of heartbeats and the launcher's UDP port,
    /// and with checkpoints on disk the signal that requests a stop.
    Configure {
        job: Box<Job>,
        settings: Box<Settings>,
        node: u32,
        program: Vec<Vec<u8>>,
        place: ProcessOptions,
        net: Option<(Secret, u16)>,
        stop_signal: Option<i32>,
    },
    /// List the checkpoints on this disk below `folder`: before `Configure`, or while the job falls
    /// back to disk.
    List { folder: String },
    /// Read all files in these checkpoint folders in full, and report damage.
    Check { folders: Vec<String> },
    /// The job fell back to disk: its PEs begin from that set. Its further sets are those of the
    /// job `sets`, since checkpoint numbers repeat.
    BeginFrom { resume: Resume, sets: u64 },
    /// A heartbeat of the launcher.
    Beat(Beat),
    /// The node to watch, if any, and its heartbeat address.
    Watch { successor: Option<(u32, SocketAddr)> },
    /// The node that renews the lease of this one, if not the launcher.
    Parent { parent: Option<(u32, SocketAddr)> },
    /// Renew the lease of `node` from now on.
    Adopt { node: u32, at: SocketAddr, term: u64 },
    /// Stop renewing its lease, and confirm that.
    Release { node: u32, term: u64 },
    /// Give a second opinion: does `node` answer?
    Ask { node: u32, at: Option<SocketAddr> },
    /// Check on that process; if it has ended, its end is reported first.
    Look { proc: ProcId },
    /// End at once, by SIGKILL: an injected fault.
    Die,
    /// The launcher rejects this agent, and why.
    Refused { why: String },
    /// Create the memory `memory` of `pe`: its range in the memory file of this node, empty. Its
    /// pages shall lie on these NUMA nodes; the launcher fills them in, which keeps them.
    MakeMemory { pe: Pe, memory: u32, pages: PageRuns },
    /// Start a process, intended for the number `pe` if set; it sends `Hello` and waits for one.
    Start { proc: ProcId, pe: Option<Pe> },
    /// Assign the number `pe` to the waiting process `proc`.
    Assign { proc: ProcId, assignment: AssignmentMessage },
    /// The memory file of `node`, as a descriptor: pass it to every PE of this node.
    File { node: u32 },
    /// Address of that incarnation of `pe` for the engine between nodes: pass it to every PE.
    Address { pe: Pe, incarnation: Incarnation, address: Vec<u8> },
    /// Publish this view to the PEs.
    Show(View),
    /// List the local processes, with their last events if `events`.
    Dump { question: u32, events: bool },
    /// Announce to the PEs that the job stops once its next checkpoint is on disk.
    Stopping,
    /// Announce to the PEs that some of them move after the next checkpoint.
    Drain(MoveRequest),
    /// Announce to the PEs that all requests up to that number are over: no PE waits for them.
    DrainOver { serial: u32 },
    /// Send that signal to every PE.
    Signal { signal: i32 },
    /// More of PE 0's standard input; no bytes mark its end.
    Input { bytes: Vec<u8> },
    /// A task of writing a checkpoint to disk.
    Disk(Task),
    /// Kill that process.
    Kill { proc: ProcId },
    /// Every PE has entered `shmem_finalize`: let them leave.
    Finish,
    /// The launcher has every PE's record of the results of its first calls.
    PreludesKept,
    /// The job ends: let the PEs flush their buffers, and end.
    Abort,
    /// Kill everything and exit.
    Shutdown,
}

/// Agent to launcher.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Up {
    /// First message: the bindings of its PEs, with its memory file if other nodes may map it.
    Bound(Vec<Bound>),
    /// The checkpoints on this disk.
    Held(Vec<Held>),
    /// The damaged files.
    Checked(Vec<Damage>),
    /// The requested memory was created.
    Memory { pe: Pe, memory: u32 },
    /// A process was started; its pidfd is attached.
    Started { proc: ProcId, pid: u32 },
    /// A process sent a message.
    Message { proc: ProcId, what: PeMessage },
    /// A process ended.
    Ended { proc: ProcId, how: Ended },
    /// Number of further bytes of standard input written to PE 0's pipe.
    InputTaken { bytes: u32 },
    /// The PEs see that view now.
    Shown { number: ViewNumber },
    /// A heartbeat of the agent.
    Beat(Beat),
    /// The agent's successor is silent, or answers again.
    Accuse { node: u32, silent: bool },
    /// This node no longer renews the lease of `node`, after a silence of `silent`.
    GiveUp { node: u32, term: u64, silent: Duration },
    /// The requested second opinion: true if `node` answers.
    Opinion { node: u32, alive: bool },
    /// The process that it was asked to check on has not ended.
    Looked { proc: ProcId },
    /// Local PEs that have been waiting for long, and stopped ones; sent once more when there are
    /// none.
    Waits { waits: Vec<Wait>, stopped: Vec<Pe> },
    /// The local processes.
    Dump(Answer),
    /// The last events of a PE whose process was killed.
    Last { events: Vec<Traced> },
    /// The outcome of a task on checkpoint files.
    Disk(DiskOutcome),
    /// The signal that requests a stop has arrived here.
    StopSignal,
    /// A message for the user.
    Note { line: String },
    /// A request cannot be carried out here.
    Failed { what: String },
}

/// Agent to PE.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToPe {
    /// First message: a parent-death pipe is attached, to be armed.
    ParentDeathPipe,
    /// This process is `pe`; the page of views is attached. `oversubscribed`: PEs share processors.
    AssignmentMessage { job: Box<Job>, assignment: AssignmentMessage, oversubscribed: bool },
    /// The memory file of `node`, as a descriptor. Byte `i` of PE `k` is at `k * L + i` in it; L is
    /// the length of a segment.
    File { node: u32 },
    /// Address of that incarnation of `pe`, if its memory cannot be mapped.
    Address { pe: Pe, incarnation: Incarnation, address: Vec<u8> },
}

/// A message from a PE.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum PeMessage {
    /// First message after [`Build`]. If a script wraps the program, the sender is not the child
    /// that the agent started; the kernel identifies it.
    Hello,
    /// It cannot become a PE, for the reason in `words`, and ends with `status`.
    CannotStart { status: i32, words: String, cause: StartFailure },
    /// Address of its engine; it waits to be shown as alive.
    Address { address: Vec<u8> },
    /// Its connection to that incarnation of `pe` broke.
    Suspect { pe: Pe, incarnation: Incarnation },
    /// The checkpoint data of PE `pe` is unusable in the recovery of view `view`, which relied on
    /// it.
    Unusable { view: ViewNumber, pe: Pe, flaw: Flaw },
    /// It is at the point of injection rule `rule` and waits to be killed.
    AtPoint { rule: u32 },
    /// Progress to report.
    Report(ProgressReport),
    /// The job cannot continue; every PE reaches the same verdict.
    Verdict { status: i32, words: String },
    /// It is in `shmem_finalize`, a member of view `joined`; `cut` if a loss interrupted one of its
    /// calls and it has not rolled back since.
    Finalizing { joined: ViewNumber, cut: bool },
    /// It has reached its first checkpoint call; `record` has the results of the calls before it.
    PreludeOver { record: Vec<u8> },
    /// The pages of PE `pe`, the sender, lie on these NUMA nodes as a checkpoint begins.
    Pages { pe: Pe, pages: PageRuns },
    /// A PE was lost, and there is a reason against local rollback.
    RollAllBack { why: String },
    /// Its local rollback is over: others reach it, and its calls are logged again.
    CaughtUp,
    /// It needs, after its local rollback, PEs that are in `shmem_finalize` already.
    NeedsOthers,
    /// It left `shmem_finalize`; its end no longer counts as a death.
    Finalized,
    /// A member of view `view` that may have to move, it waits in the call of `checkpoint`, which
    /// every PE has: it may be killed, and nothing is lost.
    Drained { request: MoveRequest, view: ViewNumber, checkpoint: CheckpointNumber },
    /// `shmem_global_exit`, or an end for the reason in `words`.
    GlobalExit { status: i32, words: Option<String> },
}

/// A message between tasks of a step, or between a starter and a task.
#[derive(Debug, Serialize, Deserialize)]
pub enum TaskMessage {
    /// Start a supervisor by these words.
    Start(Vec<String>),
    /// Report the end of the job.
    Wait,
    /// Standard input of the supervisor; empty at its end.
    Input(Vec<u8>),
    /// Standard output of the supervisor.
    Output(Vec<u8>),
    /// Standard error of the supervisor.
    Errors(Vec<u8>),
    /// The supervisor, or the job, has ended with this status.
    Ended(i32),
}

/// The reason why a process cannot become a PE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartFailure {
    /// Its program, a setting or a network library.
    Program,
    /// The limit of address space, which applies to every process of the node.
    Limit,
    /// A temporary cause, such as a memory shortage or a network error.
    Passing,
}

impl StartFailure {
    /// Returns true if its substitute would fail likewise.
    pub fn lasts(self) -> bool {
        match self {
            StartFailure::Program | StartFailure::Limit => true,
            StartFailure::Passing => false,
        }
    }
}

/// A defect in a PE's checkpoint data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flaw {
    /// A tile does not match its checksum.
    Damaged,
    /// Its snapshot or parity does not belong to the checkpoint: overwritten, or never made.
    Missing,
}
