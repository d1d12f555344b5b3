//! The transition from "survivors only log" to "survivors reach the substitute".
//!
//! The substitute publishes a [`Stage`]:
//!
//! ```text
//! Replaying   origins log and continue; operations that need an answer wait
//! Draining    the substitute reads the chains for the last time; origins wait
//! Direct      origins carry out the operations that were not taken over, and all later ones
//! ```
//!
//! An origin appends its entry, and then reads: first the view of its node, then, if the target was
//! lost, the stage. The substitute publishes `Draining`, and then reads the chains. So either the
//! substitute sees the entry, or the origin sees `Draining`: no operation is lost. (Both sides have
//! a full fence between the store and the read.) The substitute marks the entries that it takes
//! over as done in the chain, so no operation is executed twice. An origin marks an entry as logged
//! by a compare-and-swap from `Begun`, so a done entry stays done, even if the next substitute
//! already replays.
//!
//! A node that does not show the loss yet lets its PEs access the memory of the dead process. So
//! the last read of the chains must wait until every node shows the loss. So must every release by
//! an origin that only logged an operation: a released waiter must not read stale memory.

#![allow(missing_docs)] // each variant's doc comment describes its fields

use super::log::EntryProgress;

/// The stage that a substitute publishes to origins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The substitute replays.
    Replaying,
    /// The substitute reads the chains for the last time.
    Draining,
    /// Origins reach the substitute directly.
    Direct,
}

/// The action of an origin for an operation whose entry is in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Execute the operation.
    CarryOut,
    /// Mark the entry as logged and continue; an origin that needs a result waits as below.
    Log,
    /// Mark the entry as logged and check again when the stage changes.
    Wait,
    /// The substitute has taken the operation over, and found `old`.
    TakenOver { old: u64 },
}

/// Returns the action for an entry with this progress, at this stage of its target.
pub fn deliver(stage: Stage, progress: EntryProgress) -> Delivery {
    match (progress, stage) {
        (EntryProgress::Done { old }, _) => Delivery::TakenOver { old },
        (_, Stage::Replaying) => Delivery::Log,
        (_, Stage::Draining) => Delivery::Wait,
        (_, Stage::Direct) => Delivery::CarryOut,
    }
}

/// The next action of a substitute on its way from replay to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Wait until every node shows the loss.
    AwaitNodes,
    /// Publish that it drains.
    Drain,
    /// Read and apply all chains, mark the entries taken over, and become direct.
    TakeOver,
    /// No action: it is live.
    Live,
}

/// Returns the next action at this stage; `all_show` is true if every node shows the loss.
pub fn next(stage: Stage, all_show: bool) -> Next {
    match stage {
        Stage::Replaying if !all_show => Next::AwaitNodes,
        Stage::Replaying => Next::Drain,
        Stage::Draining => Next::TakeOver,
        Stage::Direct => Next::Live,
    }
}
