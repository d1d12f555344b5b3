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
//! request, so that none continues; a node is killed only if the job survives its loss at
//! that moment.

use std::collections::BTreeMap;

use super::decisions::Decisions;
use super::event::Action;
use super::members::{Members, PeStage};
use super::nodes::LivingNodes;
use super::processes::Processes;
use super::survey::Survey;
use crate::message::Down;
use crate::mutant::{Mutant, breaks};
use crate::quantity::{CheckpointNumber, Pe, ViewNumber};
use crate::view::{DrainRequest, View};

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
    /// The PEs know of it. These have waited in a checkpoint, in that view.
    Requested { waiting: BTreeMap<Pe, ViewNumber> },
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

/// The parts of a job on which a drain depends.
pub(super) struct DrainSite<'a> {
    pub members: &'a Members,
    pub nodes: &'a LivingNodes,
    pub procs: &'a Processes,
    pub survey: &'a Survey,
    /// True if processes may be started as substitutes; otherwise only spares are.
    pub spawns: bool,
    /// True if the mode keeps checkpoints.
    pub protects: bool,
    /// True if the job neither ends nor begins again from disk.
    pub lasts: bool,
}

impl Drains {
    /// Returns the node that is being drained.
    pub fn node(&self) -> Option<u32> {
        self.open.as_ref().map(|drain| drain.request.node)
    }

    /// Notes that all PEs roll back, after some have left the checkpoint.
    pub fn note_rollback(&mut self) {
        if let Some(DrainStage::Moving { repeats, .. }) = self.open.as_mut().map(|it| &mut it.stage)
        {
            *repeats = true;
        }
    }

    /// Returns the reason why `node` cannot be drained now, if there is one.
    pub fn refuses(&self, node: u32, site: &DrainSite) -> Option<DrainRefusal> {
        let DrainSite { members, nodes, .. } = site;
        let is_ending = members.pes.iter().any(|pe| pe.stage > PeStage::Running);
        match self.node() {
            _ if !nodes.lives(node) => {
                Some(DrainRefusal::NoNode { node, living: nodes.all().collect() })
            }
            Some(node) => Some(DrainRefusal::Busy { node }),
            None if !site.protects => Some(DrainRefusal::NoCheckpoints),
            None if members.shrinks() => Some(DrainRefusal::NoSubstitutes),
            None if !members.started || is_ending || !site.lasts => Some(DrainRefusal::NotRunning),
            None => site.must_stay(node),
        }
    }

    /// Begins to drain a node, unless that is refused. A node without PEs is killed at once.
    pub fn begin(
        &mut self,
        node: u32,
        (site, last): (&DrainSite, CheckpointNumber),
        out: &mut Decisions,
    ) {
        if self.refuses(node, site).is_some() {
            return;
        }
        self.serial += 1;
        let request = DrainRequest { serial: self.serial, node };
        let stage = match site.members.on(node).next() {
            None => {
                out.push(Action::KillNode { node });
                DrainStage::Leaving(last)
            }
            Some(_) => {
                site.nodes.send(&Down::Drain(Some(request)), out);
                DrainStage::Requested { waiting: BTreeMap::new() }
            }
        };
        self.open = Some(Drain { request, stage });
    }

    /// Handles the report of a PE that it waits after a checkpoint for its node to be drained. One
    /// of an older view, or of a request that was withdrawn, is void: the PE waits no longer.
    pub fn wait(
        &mut self,
        (pe, checkpoint): (Pe, CheckpointNumber),
        reported: (DrainRequest, ViewNumber),
        site: &DrainSite,
        out: &mut Decisions,
    ) {
        let Some(Drain { request, stage }) = &mut self.open else { return };
        let DrainStage::Requested { waiting } = stage else { return };
        let (node, view) = (request.node, site.members.view.number);
        if reported != (*request, view) {
            return;
        }
        waiting.insert(pe, view);
        let all_wait = site.members.on(node).all(|pe| waiting.get(&pe) == Some(&view));
        if !all_wait && !breaks(Mutant::DrainedEarly) {
            return;
        }
        *stage = DrainStage::Leaving(checkpoint);
        match site.must_stay(node) {
            None => out.push(Action::KillNode { node }),
            Some(why) => {
                self.withdraw(site.nodes, out);
                out.say(format!("node {node} is not drained: {why}"));
            }
        }
    }

    /// Forgets the drain under way. PEs that wait for it go on.
    pub fn withdraw(&mut self, nodes: &LivingNodes, out: &mut Decisions) {
        if self.open.take().is_some() {
            nodes.send(&Down::Drain(None), out);
        }
    }

    /// Takes note of the loss of a node with these PEs, before the view shows it. Returns the line
    /// that reports it.
    pub fn note_node_lost(&mut self, node: u32, pes: &[Pe]) -> String {
        let left = self.open.take_if(|drain| drain.request.node == node);
        let Some(Drain { request, stage: DrainStage::Leaving(checkpoint) }) = left else {
            return match pes {
                [] => format!("node {node} was lost; it carried no PE"),
                pes => format!("node {node} was lost with {}", Pe::names(pes)),
            };
        };
        let stage = DrainStage::Moving { checkpoint, pes: pes.to_vec(), repeats: false };
        self.open = Some(Drain { request, stage });
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

    /// Reports the drain that is complete, if all PEs have resumed.
    pub fn finish(&mut self, all_resumed: bool, view: &View, out: &mut Decisions) {
        let moved = |drain: &mut Drain| matches!(drain.stage, DrainStage::Moving { .. });
        let Some(drain) = self.open.take_if(|drain| all_resumed && moved(drain)) else { return };
        if let DrainStage::Moving { checkpoint, pes, repeats } = drain.stage {
            let to = pes.iter().map(|pe| view.pes[pe.at()].node).collect();
            out.push(Action::Drained { node: drain.request.node, checkpoint, pes, to, repeats });
        }
    }
}

impl DrainSite<'_> {
    /// Returns the reason why the PEs of a node must stay there, if there is one.
    fn must_stay(&self, node: u32) -> Option<DrainRefusal> {
        let pes: Vec<Pe> = self.members.on(node).collect();
        let spares = self.procs.spares() - self.procs.spares_on(node);
        let has_place = match self.spawns {
            true => self.nodes.all().any(|other| other != node),
            false => spares >= pes.len(),
        };
        let survives = self.survey.survives_node(&self.members.view, node);
        match pes.is_empty() {
            true => None,
            false if !survives && !breaks(Mutant::DrainedAnyhow) => {
                Some(DrainRefusal::Fatal { node })
            }
            false => (!has_place).then_some(DrainRefusal::NoPlace { pes }),
        }
    }
}
