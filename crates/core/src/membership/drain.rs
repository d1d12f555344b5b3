//! Planned losses: a node is drained of its PEs right after a checkpoint, so that no work is lost.
//!
//! Part of the machine in [`super`].
//!
//! ```text
//! Requested   every PE knows of it; in barrier Q of the next checkpoint all learn that it is the
//!    |        one, and wait in that call
//!    |  every PE of the node has reported in the current view that it waits
//!    v
//! Leaving     the node is killed
//!    |  it is lost
//!    v
//! Moving      its PEs are replaced as after any loss, from that checkpoint
//!    |  all have resumed
//!    v
//! the drain is reported
//! ```
//!
//! Invariants: one node is drained at a time; PEs never wait for a request that was withdrawn,
//! since each request has a number of its own; PEs see the loss of the node before the end of its
//! request, so that none of them goes on; a node is killed only if the job survives its loss at
//! that moment.

use std::collections::BTreeSet;
use std::mem;

use super::event::Action;
use super::members::PeStage;
use super::{Membership, Substitute};
use crate::message::Down;
use crate::quantity::{CheckpointNumber, Pe, ViewNumber};
use crate::view::DrainRequest;

/// A reason why a node is not drained.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // each variant's message describes its fields
pub enum DrainRefusal {
    #[error("node {node} is not in the job: expected one of {}", list(.living))]
    NoNode { node: u32, living: Vec<u32> },
    #[error("node {node} is being drained: wait until its PEs have moved")]
    Busy { node: u32 },
    #[error("SHMEM_FT_BACKUP_MODE=none keeps no checkpoint from which PEs could move")]
    NoCheckpoints,
    #[error("SHMEM_FT_ROLLBACK=none gives no PE another place")]
    NoSubstitutes,
    #[error("the job is starting, ending or beginning again from disk")]
    NotRunning,
    #[error(
        "the job does not survive the loss of node {node} now; `oshrun --status` prints what it \
         survives"
    )]
    Fatal { node: u32 },
    #[error("no place is left for {}", Pe::names(.pes))]
    NoPlace { pes: Vec<Pe> },
}

fn list(nodes: &[u32]) -> String {
    nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[derive(Debug, Clone)]
enum DrainStage {
    /// The PEs know of it. These PEs of the node wait in a checkpoint, in that view.
    Requested { view: ViewNumber, waiting: BTreeSet<Pe> },
    /// The node is killed after that checkpoint.
    Leaving(CheckpointNumber),
    /// The PEs of the node are replaced. `repeats` is true if PEs may compute again what followed
    /// the checkpoint.
    Moving { checkpoint: CheckpointNumber, pes: Vec<Pe>, repeats: bool },
}

#[derive(Debug, Clone)]
struct Drain {
    request: DrainRequest,
    stage: DrainStage,
}

/// The drain under way, and the number of requests so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Drains {
    open: Option<Drain>,
    serial: u32,
}

impl Drains {
    /// Returns true if the PEs of that node are about to move.
    pub fn empties(&self, node: u32) -> bool {
        self.open.as_ref().is_some_and(|drain| drain.request.node == node)
    }

    /// Notes that all PEs roll back, after some have left the checkpoint.
    pub fn note_rollback(&mut self) {
        if let Some(DrainStage::Moving { repeats, .. }) = self.open.as_mut().map(|it| &mut it.stage)
        {
            *repeats = true;
        }
    }
}

impl Membership {
    /// Returns the node that is being drained.
    pub fn drained_node(&self) -> Option<u32> {
        self.drains.open.as_ref().map(|drain| drain.request.node)
    }

    /// Returns the reason why `node` cannot be drained now, if there is one.
    pub fn refuses_drain(&self, node: u32) -> Option<DrainRefusal> {
        let is_ending = self.members.pes.iter().any(|pe| pe.stage > PeStage::Running);
        let runs = self.members.started && !is_ending && !self.falling.is_under_way();
        match &self.drains.open {
            _ if !self.nodes.lives(node) => {
                Some(DrainRefusal::NoNode { node, living: self.nodes.all().collect() })
            }
            Some(Drain { request, .. }) => Some(DrainRefusal::Busy { node: request.node }),
            None if !self.mode.protects() => Some(DrainRefusal::NoCheckpoints),
            None if self.members.shrinks() => Some(DrainRefusal::NoSubstitutes),
            None if !runs || self.out.is_ended() => Some(DrainRefusal::NotRunning),
            None => self.must_stay(node),
        }
    }

    /// Begins to drain a node, unless that is refused. A node without PEs is killed at once.
    pub(super) fn begin_drain(&mut self, node: u32) {
        if self.refuses_drain(node).is_some() {
            return;
        }
        self.drains.serial += 1;
        let request = DrainRequest { serial: self.drains.serial, node };
        let stage = match self.members.on(node).next() {
            None => {
                self.out.push(Action::KillNode { node });
                DrainStage::Leaving(self.recovery.checkpoint)
            }
            Some(_) => {
                self.nodes.send(&Down::Drain(Some(request)), &mut self.out);
                let (view, waiting) = (self.members.view.number, BTreeSet::new());
                DrainStage::Requested { view, waiting }
            }
        };
        self.drains.open = Some(Drain { request, stage });
    }

    /// Handles the report of a PE that it waits after a checkpoint for its node to be drained. One
    /// of an older view, or of a request that was withdrawn, is void: the PE waits no longer.
    pub(super) fn pe_waits(
        &mut self,
        pe: Pe,
        reported: (DrainRequest, ViewNumber),
        checkpoint: CheckpointNumber,
    ) {
        let Some(Drain { request, stage }) = &mut self.drains.open else { return };
        let DrainStage::Requested { view, waiting } = stage else { return };
        if reported != (*request, self.members.view.number) {
            return;
        }
        if mem::replace(view, reported.1) != reported.1 {
            waiting.clear();
        }
        waiting.insert(pe);
        let node = request.node;
        if !self.members.on(node).all(|pe| waiting.contains(&pe)) {
            return;
        }
        *stage = DrainStage::Leaving(checkpoint);
        match self.must_stay(node) {
            None => self.out.push(Action::KillNode { node }),
            Some(why) => {
                self.withdraw_drain();
                self.out.say(format!("node {node} is not drained: {why}"));
            }
        }
    }

    /// Forgets the drain under way. PEs that wait for it go on.
    pub(super) fn withdraw_drain(&mut self) {
        if self.drains.open.take().is_some() {
            self.nodes.send(&Down::Drain(None), &mut self.out);
        }
    }

    /// Takes note of the loss of a node with these PEs, before the view shows it. Returns the line
    /// that reports it.
    pub(super) fn note_node_lost(&mut self, node: u32, pes: &[Pe]) -> String {
        let left = self.drains.open.take_if(|drain| drain.request.node == node);
        let Some(Drain { request, stage: DrainStage::Leaving(checkpoint) }) = left else {
            if left.is_some() {
                self.withdraw_drain();
            }
            return match pes {
                [] => format!("node {node} was lost; it carried no PE"),
                pes => format!("node {node} was lost with {}", Pe::names(pes)),
            };
        };
        let stage = DrainStage::Moving { checkpoint, pes: pes.to_vec(), repeats: false };
        self.drains.open = Some(Drain { request, stage });
        match pes {
            [] => format!("node {node} leaves the job"),
            pes => {
                let (names, verb) = (Pe::names(pes), if pes.len() == 1 { "moves" } else { "move" });
                format!(
                    "node {node} leaves the job after checkpoint {checkpoint}, and {names} {verb}"
                )
            }
        }
    }

    /// Reports the drain that is complete, once no PE is lost any more.
    pub(super) fn finish_drain(&mut self) {
        if !self.recovery.lost.is_empty() {
            return;
        }
        let moved = |drain: &mut Drain| matches!(drain.stage, DrainStage::Moving { .. });
        let Some(Drain { request, stage }) = self.drains.open.take_if(moved) else { return };
        self.nodes.send(&Down::Drain(None), &mut self.out);
        if let DrainStage::Moving { checkpoint, pes, repeats } = stage {
            let to = pes.iter().map(|pe| self.members.view.pes[pe.at()].node).collect();
            self.out.push(Action::Drained { node: request.node, checkpoint, pes, to, repeats });
        }
    }

    /// Returns the reason why the PEs of a node must stay there, if there is one.
    fn must_stay(&self, node: u32) -> Option<DrainRefusal> {
        let pes: Vec<Pe> = self.members.on(node).collect();
        let spares = self.procs.spares() - self.procs.spares_on(node);
        let has_place = match self.substitute == Substitute::Spawn {
            true => self.nodes.all().any(|other| other != node),
            false => spares >= pes.len(),
        };
        match pes.is_empty() {
            true => None,
            false if !self.survey.survives_node(&self.members.view, node) => {
                Some(DrainRefusal::Fatal { node })
            }
            false => (!has_place).then_some(DrainRefusal::NoPlace { pes }),
        }
    }
}
