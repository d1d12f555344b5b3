//! Events that the machine takes, and actions that it asks of the launcher.

use crate::ended::Ended;
use crate::message::{Down, PeMessage, ProcId, ProgressReport};
use crate::placement::survival::Survival;
use crate::quantity::{Pe, ViewNumber};

/// What happened.
#[derive(Debug, Clone)]
pub enum MembershipEvent {
    /// The memory asked for was made and handed to every node.
    MemoryMade { pe: Pe, memory: u32 },
    /// The bytes of a lost memory were taken away.
    Wiped { pe: Pe, memory: u32 },
    /// A process said something.
    Said { proc: ProcId, what: PeMessage },
    /// A process ended.
    Ended { proc: ProcId, how: Ended },
    /// A node is gone and its processes are known to be dead.
    NodeLost { node: u32 },
    /// The agent of `proc` was asked to look after it, and answered.
    Looked { proc: ProcId },
    /// Node `by` was asked whether it hears node `about`.
    Opinion { by: u32, about: u32, alive: bool },
    /// A substitute of that PE was held back for long enough.
    Rested { pe: Pe },
    /// A node shows that view.
    Shown { node: u32, number: ViewNumber },
}

/// What the launcher must do, in this order.
#[derive(Debug, Clone)]
pub enum Action {
    /// Send a message to a node's agent.
    Send { node: u32, message: Down },
    /// Take the bytes of a lost memory away, and say when that is done.
    Wipe { pe: Pe, memory: u32 },
    /// Kill a node: its agent and every process on it.
    KillNode { node: u32 },
    /// Say so when that many milliseconds are over.
    Rest { pe: Pe, ms: u64 },
    /// PEs were lost, with their node if there is one, and how they ended.
    Lost { pes: Vec<Pe>, node: Option<u32>, how: Ended },
    /// A line for people.
    Say(String),
    /// The single losses that would end the job are these from now on.
    Survives(Survival),
    /// A progress report for people and tests.
    Tell(ProgressReport),
    /// The job is over.
    End { status: i32, words: Option<String> },
}
