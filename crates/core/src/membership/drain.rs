//! Planned moves: right after a checkpoint, so that no work is lost, a node is drained of its PEs,
//! or some PEs move to a node that has joined.
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
//! PEs that move to a node that has joined are killed instead of their nodes.
//!
//! Invariants: one request at a time; PEs wait for a request, whether or not their own agent
//! already knows it, until the launcher says that its number is over; PEs see the loss of the node
//! before the end of its request, so that none continues; a node is killed only if the job survives
//! its loss at that moment.

use std::collections::{BTreeMap, BTreeSet};

use super::decisions::Decisions;
use super::event::Action;
use super::members::{Members, PeStage};
use super::nodes::LivingNodes;
use super::processes::Processes;
use super::survey::Survey;
use crate::message::Down;
use crate::mutant::{Mutant, breaks};
use crate::placement::balance::{self, PlacesNow};
use crate::quantity::{CheckpointNumber, Pe, ViewNumber};
use crate::view::{MoveRequest, View};

/// A reason why a node is not drained.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // each variant's message describes its fields
pub enum DrainRefusal {
    #[error("node {node} is not in the job: expected one of {}", list(.living))]
    NoNode { node: u32, living: Vec<u32> },
    #[error("node {node} is being drained: wait until its PEs have moved")]
    Busy { node: u32 },
    #[error("PEs are about to move to node {node}: wait until they have moved")]
    Filling { node: u32 },
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

/// Returns the line on a node that has joined with some spares, and to which PEs move.
pub(super) fn line_of_join(node: u32, spares: usize, pes: &[Pe]) -> String {
    let next = match pes {
        [] if spares > 0 => format!("spares there: {spares}"),
        [] => "and may take PEs after a loss".to_owned(),
        [one] => format!("and PE {one} moves there after the next checkpoint"),
        pes => format!("and {} move there after the next checkpoint", Pe::names(pes)),
    };
    format!("node {node} has joined, {next}")
}

fn list(nodes: &[u32]) -> String {
    nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[derive(Debug, Clone)]
enum DrainStage {
    /// The PEs know of it. These have waited in a checkpoint, in that view.
    Requested { waiting: BTreeMap<Pe, ViewNumber> },
    /// The node, or the PEs, are killed after that checkpoint. These have ended.
    Leaving { checkpoint: CheckpointNumber, gone: BTreeSet<Pe> },
    /// The PEs of the node are replaced. `repeats` is true if PEs may compute again what followed
    /// the checkpoint.
    Moving { checkpoint: CheckpointNumber, pes: Vec<Pe>, repeats: bool },
}

#[derive(Debug, Clone)]
struct Drain {
    request: MoveRequest,
    stage: DrainStage,
    /// The PEs that move to a node that has joined, and how many more it may take.
    joining: (Vec<Pe>, usize),
}

/// The request under way, and the number of requests so far.
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
        let request = self.open.as_ref().map(|drain| drain.request);
        request.filter(|request| !request.joins).map(|request| request.node)
    }

    /// Returns the node to which a PE moves that is killed for it.
    pub fn target(&self, pe: Pe) -> Option<u32> {
        let Drain { request, stage, joining } = self.open.as_ref()?;
        let is_killed = !matches!(stage, DrainStage::Requested { .. });
        (request.joins && is_killed && joining.0.contains(&pe)).then_some(request.node)
    }

    /// Notes that all PEs roll back, after some have left the checkpoint.
    pub fn note_rollback(&mut self) {
        if let Some(DrainStage::Moving { repeats, .. }) = self.open.as_mut().map(|it| &mut it.stage)
        {
            *repeats = true;
        }
    }

    /// Returns the reason why `node` cannot be drained now; for None, why a node may not join.
    pub fn refuses(&self, node: Option<u32>, site: &DrainSite) -> Option<DrainRefusal> {
        let DrainSite { members, nodes, .. } = site;
        let is_ending = members.pes.iter().any(|pe| pe.stage > PeStage::Running);
        if let Some(node) = node.filter(|node| !nodes.lives(*node)) {
            return Some(DrainRefusal::NoNode { node, living: nodes.all().collect() });
        }
        match self.open.as_ref().map(|drain| drain.request) {
            Some(MoveRequest { node, joins: false, .. }) => Some(DrainRefusal::Busy { node }),
            Some(MoveRequest { node, joins: true, .. }) => Some(DrainRefusal::Filling { node }),
            None if !site.protects => Some(DrainRefusal::NoCheckpoints),
            None if members.shrinks() => Some(DrainRefusal::NoSubstitutes),
            None if !members.started || is_ending || !site.lasts => Some(DrainRefusal::NotRunning),
            None => node.and_then(|node| site.must_stay(node)),
        }
    }

    /// Begins to drain a node, unless that is refused. A node without PEs is killed at once.
    pub fn begin(
        &mut self,
        node: u32,
        (site, last): (&DrainSite, CheckpointNumber),
        out: &mut Decisions,
    ) {
        if self.refuses(Some(node), site).is_some() {
            return;
        }
        self.serial += 1;
        let request = MoveRequest { serial: self.serial, node, joins: false };
        let stage = match site.members.on(node).next() {
            None => {
                out.push(Action::KillNode { node });
                DrainStage::Leaving { checkpoint: last, gone: BTreeSet::new() }
            }
            Some(_) => {
                site.nodes.send(&Down::Drain(request), out);
                DrainStage::Requested { waiting: BTreeMap::new() }
            }
        };
        self.open = Some(Drain { request, stage, joining: Default::default() });
    }

    /// Lets PEs move to a node that has joined, at most `room`. Returns those that move after the
    /// next checkpoint.
    pub fn fill(
        &mut self,
        node: u32,
        room: usize,
        site: &DrainSite,
        out: &mut Decisions,
    ) -> Vec<Pe> {
        if self.refuses(None, site).is_some() || !site.nodes.lives(node) || !site.spawns {
            return Vec::new();
        }
        let pes = site.movers(node, room);
        if !pes.is_empty() {
            self.serial += 1;
            let request = MoveRequest { serial: self.serial, node, joins: true };
            site.nodes.send(&Down::Drain(request), out);
            let stage = DrainStage::Requested { waiting: BTreeMap::new() };
            self.open = Some(Drain { request, stage, joining: (pes.clone(), room - pes.len()) });
        }
        pes
    }

    /// Handles the report of a PE that it waits after a checkpoint for PEs to move. One of an older
    /// view, or of a request that was withdrawn, is void: the PE waits no longer. After a loss,
    /// those that move to a node that has joined may be chosen anew, for the next checkpoint.
    pub fn wait(
        &mut self,
        (pe, checkpoint): (Pe, CheckpointNumber),
        reported: (MoveRequest, ViewNumber),
        site: &DrainSite,
        out: &mut Decisions,
    ) {
        let Some(Drain { request, stage, joining: (joining, left) }) = &mut self.open else {
            return;
        };
        let DrainStage::Requested { waiting } = stage else { return };
        let (node, joins, view) = (request.node, request.joins, site.members.view.number);
        if reported != (*request, view) {
            return;
        }
        waiting.insert(pe, view);
        let waits = |pe: Pe| waiting.get(&pe) == Some(&view);
        let all_wait = if joins {
            joining.iter().all(|&pe| waits(pe))
        } else {
            site.members.on(node).all(waits)
        };
        if !all_wait && !breaks(Mutant::DrainedEarly) {
            return;
        }
        *stage = DrainStage::Leaving { checkpoint, gone: BTreeSet::new() };
        if joins {
            let can = site.nodes.lives(node)
                && joining.iter().all(|pe| site.movers(node, joining.len()).contains(pe));
            if can {
                return site.kill(joining, out);
            }
            let room = joining.len() + *left;
            self.withdraw(site.nodes, out);
            self.fill(node, room, site, out);
            return;
        }
        match site.must_stay(node) {
            None => out.push(Action::KillNode { node }),
            Some(why) => {
                self.withdraw(site.nodes, out);
                out.say(format!("node {node} is not drained: {why}"));
            }
        }
    }

    /// Takes note of the end of a PE, before the view shows it. Returns the line that reports it,
    /// if the PE moves, and true if all that move have ended.
    pub fn note_pe_lost(&mut self, lost: Pe) -> Option<(String, bool)> {
        let target = self.target(lost)?;
        let Drain { stage, joining: (pes, _), .. } = self.open.as_mut()?;
        let DrainStage::Leaving { checkpoint, gone } = stage else { return None };
        let (number, is_new) = (*checkpoint, gone.insert(lost));
        let all = gone.len() == pes.len();
        if all {
            *stage = DrainStage::Moving { checkpoint: number, pes: pes.clone(), repeats: false };
        }
        let line = format!("PE {lost} moves to node {target} after checkpoint {number}");
        is_new.then_some((line, all))
    }

    /// Forgets the drain under way. PEs that wait for it go on.
    pub fn withdraw(&mut self, nodes: &LivingNodes, out: &mut Decisions) {
        if self.open.take().is_some() {
            self.release(nodes, out);
        }
    }

    /// Tells the PEs that wait for the last request that it is over. They may know of it only by
    /// other PEs, so its absence tells them nothing.
    pub fn release(&self, nodes: &LivingNodes, out: &mut Decisions) {
        nodes.send(&Down::DrainOver { serial: self.serial }, out);
    }

    /// Takes note of the loss of a node with these PEs, before the view shows it. Returns the line
    /// that reports it.
    pub fn note_node_lost(&mut self, node: u32, pes: &[Pe]) -> String {
        let left = self.open.take_if(|drain| drain.request.node == node && !drain.request.joins);
        let Some(Drain { request, stage: DrainStage::Leaving { checkpoint, .. }, joining }) = left
        else {
            return match pes {
                [] => format!("node {node} was lost; it carried no PE"),
                pes => format!("node {node} was lost with {}", Pe::names(pes)),
            };
        };
        let stage = DrainStage::Moving { checkpoint, pes: pes.to_vec(), repeats: false };
        self.open = Some(Drain { request, stage, joining });
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

    /// Reports the drain or the move that is complete, if all PEs have resumed. Returns the node
    /// that has joined, with the number of PEs that it may still take.
    pub fn finish(
        &mut self,
        all_resumed: bool,
        view: &View,
        out: &mut Decisions,
    ) -> Option<(u32, usize)> {
        let moved = |drain: &mut Drain| matches!(drain.stage, DrainStage::Moving { .. });
        let drain = self.open.take_if(|drain| all_resumed && moved(drain))?;
        let DrainStage::Moving { checkpoint, pes, repeats } = drain.stage else { return None };
        let MoveRequest { node, joins, .. } = drain.request;
        let to = pes.iter().map(|pe| view.pes[pe.at()].node).collect();
        out.push(match joins {
            false => Action::Drained { node, checkpoint, pes, to, repeats },
            true => Action::Moved { node, checkpoint, pes, to, repeats },
        });
        joins.then_some((node, drain.joining.1))
    }
}

impl DrainSite<'_> {
    /// Returns the PEs that move to the node `new`, at most `room`.
    fn movers(&self, new: u32, room: usize) -> Vec<Pe> {
        if !self.survey.survives_moves() {
            return Vec::new();
        }
        let node_of: Vec<usize> = self.members.view.nodes().map(|node| node as usize).collect();
        let first = &self.members.places.at(ViewNumber(0));
        let places = PlacesNow { site: &self.survey.site, first, node_of: &node_of };
        balance::movers(places, new as usize, room)
    }

    /// Kills the processes of PEs.
    fn kill(&self, pes: &[Pe], out: &mut Decisions) {
        for pe in pes {
            let node = self.members.view.pes[pe.at()].node;
            let proc = self.members.pes[pe.at()].proc;
            proc.into_iter().for_each(|proc| out.send(node, Down::Kill { proc }));
        }
    }

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
