//! Events that the membership machine processes, and actions that it requests from the launcher.

use crate::ended::Ended;
use crate::message::{Down, PeMessage, ProcId, ProgressReport};
use crate::placement::survival::Survival;
use crate::quantity::{CheckpointNumber, Pe, ViewNumber};

/// An event that the launcher reports.
#[derive(Debug, Clone)]
pub enum MembershipEvent {
    /// The requested memory was created and passed to every node.
    MemoryMade { pe: Pe, memory: u32 },
    /// The contents of a lost memory were discarded.
    Wiped { pe: Pe, memory: u32 },
    /// A process sent a message.
    Message { proc: ProcId, what: PeMessage },
    /// A process ended.
    Ended { proc: ProcId, how: Ended },
    /// A node is lost and its processes are known to be dead.
    NodeLost { node: u32 },
    /// The agent of `proc` was asked to check on it, and answered.
    Looked { proc: ProcId },
    /// The second opinion of node `by`: true if it hears node `about`.
    Opinion { by: u32, about: u32, alive: bool },
    /// The delay of a substitute for that PE is over.
    Rested { pe: Pe },
    /// A set of the job is on disk.
    SetStored,
    /// The requested set was found: PE k begins on node `node_of[k]`.
    SetChosen { number: CheckpointNumber, node_of: Vec<u32> },
    /// No set holds on the disks that are left, for the reason `why`.
    NoSet { why: String },
    /// A request to drain a node; void if [`super::Membership::refuses_move`] refuses it.
    Drain { node: u32 },
    /// A node has joined the running job, and knows the memory of all nodes. It takes at most
    /// `room` PEs now, or has as many spares if only spares replace lost PEs.
    Joined { node: u32, room: Option<usize> },
    /// A node has published this view.
    Shown { node: u32, number: ViewNumber },
}

/// An action that the launcher must carry out, in the order given.
#[derive(Debug, Clone)]
pub enum Action {
    /// Send a message to a node's agent.
    Send { node: u32, message: Down },
    /// Discard the contents of a lost memory, and report completion.
    Wipe { pe: Pe, memory: u32 },
    /// Kill a node: its agent and every process on it.
    KillNode { node: u32 },
    /// Report after this many milliseconds.
    Rest { pe: Pe, ms: u64 },
    /// Report that PEs were lost, and how they ended; `node` is set if it was lost with them.
    /// `drained` if they were ended so that they move.
    Lost { pes: Vec<Pe>, node: Option<u32>, how: Ended, drained: bool },
    /// Report that a node was drained after that checkpoint: each PE of `pes` is now on the node of
    /// `to` at its place; `repeats` if PEs may compute again what followed.
    Drained { node: u32, checkpoint: CheckpointNumber, pes: Vec<Pe>, to: Vec<u32>, repeats: bool },
    /// Report that PEs moved to that node, which has joined, like [`Action::Drained`].
    Moved { node: u32, checkpoint: CheckpointNumber, pes: Vec<Pe>, to: Vec<u32>, repeats: bool },
    /// Print a line for the user.
    Say(String),
    /// Report that exactly these single losses would now end the job.
    Survives(Survival),
    /// Pass on a progress report, for users and tests.
    Tell(ProgressReport),
    /// Record that the job gives up the data in memory, for the reason `why`.
    GiveUp { why: String },
    /// Find the newest set that holds, and report it; PE k begins on node `home[k]`, unless its
    /// file is on the disk of another node.
    ChooseSet { home: Vec<u32> },
    /// End the job.
    End { status: i32, words: Option<String> },
}
