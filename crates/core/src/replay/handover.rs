//! From "survivors only log" to "survivors reach the substitute".
//!
//! The substitute shows a [`Stage`]:
//!
//! ```text
//! Replaying   origins log and go on; who needs an answer waits
//! Draining    the substitute looks at the chains for the last time; origins wait
//! Direct      origins carry out what was not taken over, and everything from then on
//! ```
//!
//! An origin appends its entry, and then looks: first at the view of its node, then, if the
//! target was lost, at the stage. The substitute shows `Draining`, and then looks at the chains.
//! So either the substitute sees the entry, or the origin sees `Draining`: no operation is lost.
//! (A full fence on both sides between the store and the look.) What the substitute takes over it
//! marks as done in the chain, so no operation is done twice: an origin marks an entry as logged
//! by a compare and swap with `Begun`, and what is done stays done, also if the next substitute
//! replays already.
//!
//! A node that does not show the loss yet lets its PEs reach the memory of the dead. Therefore the
//! last look comes after every node has shown it, and so does every release of an origin that only
//! logged an operation: whom it releases must not read what the dead left.

#![allow(missing_docs)] // the sentence of each variant speaks of its fields

use super::log::EntryProgress;

/// What a substitute shows to origins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It replays.
    Replaying,
    /// It looks at the chains for the last time.
    Draining,
    /// It is reached.
    Direct,
}

/// What an origin does with an operation whose entry is in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It carries it out.
    CarryOut,
    /// It marks the entry as logged and goes on; who needs an answer waits as below.
    Log,
    /// It marks the entry as logged and looks again when the stage changes.
    Wait,
    /// The substitute has taken it over, and this is what it found.
    TakenOver { old: u64 },
}

/// The way of an entry that is so far, at this stage of its target.
pub fn deliver(stage: Stage, progress: EntryProgress) -> Delivery {
    match (progress, stage) {
        (EntryProgress::Done { old }, _) => Delivery::TakenOver { old },
        (_, Stage::Replaying) => Delivery::Log,
        (_, Stage::Draining) => Delivery::Wait,
        (_, Stage::Direct) => Delivery::CarryOut,
    }
}

/// What a substitute does next on its way from replay to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Wait until every node shows the loss.
    AwaitNodes,
    /// Show that it drains.
    Drain,
    /// Look at all chains, apply them, mark what was taken over, and be direct.
    TakeOver,
    /// Nothing: it is live.
    Live,
}

/// The next step at this stage; `all_show`: every node shows the loss.
pub fn next(stage: Stage, all_show: bool) -> Next {
    match stage {
        Stage::Replaying if !all_show => Next::AwaitNodes,
        Stage::Replaying => Next::Drain,
        Stage::Draining => Next::TakeOver,
        Stage::Direct => Next::Live,
    }
}
