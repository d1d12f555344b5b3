//! The PEs of a job: the view, and the launcher's further knowledge of each PE.
//!
//! Part of the machine in [`super`].

use std::collections::{BTreeMap, BTreeSet};

use super::crashes::Crashes;
use super::decisions::Decisions;
use super::nodes::LivingNodes;
use super::processes::Processes;
use super::shape::Shape;
use super::suspicion::Process;
use crate::ended::Ended;
use crate::message::{Down, ProcId};
use crate::placement::moves::PlaceHistory;
use crate::quantity::{Incarnation, Pe, ViewNumber};
use crate::replay::replicas::unmapped;
use crate::settings::{Fabric, Rollback, Settings};
use crate::view::{Member, PeState, State, View};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PeStage {
    Starting,
    Running,
    Finalizing,
    Finalized,
    Unrecoverable,
}

#[derive(Debug, Clone)]
pub(super) struct PeEntry {
    pub proc: Option<ProcId>,
    pub stage: PeStage,
    pub memory_made: bool,
    /// Its process has received its number, and may have reported its engine's address.
    pub assigned: bool,
    pub reached: bool,
    pub crashes: Crashes,
    /// Its substitute is delayed, because it died too often.
    pub rests: bool,
    /// The way its process ended, once its work is done.
    pub status: Option<Ended>,
    /// The view of which it was a member when it last reported being in `shmem_finalize`.
    pub joined: ViewNumber,
}

impl PeEntry {
    fn new() -> PeEntry {
        PeEntry {
            proc: None,
            stage: PeStage::Starting,
            memory_made: false,
            assigned: false,
            reached: false,
            crashes: Crashes::original(),
            rests: false,
            status: None,
            joined: ViewNumber(0),
        }
    }
}

/// The PEs of a job.
#[derive(Debug, Clone)]
pub(super) struct Members {
    pub view: View,
    pub pes: Vec<PeEntry>,
    /// The nodes of the PEs in all views so far.
    pub places: PlaceHistory,
    /// True if every PE has reached `shmem_init`.
    pub started: bool,
    /// True if PEs of other nodes are reached through an engine, by addresses.
    pub engine: bool,
    /// True if only the lost PE rolls back, when possible.
    pub local: bool,
    /// True for each PE whose memory no other PE maps.
    unmapped: Vec<bool>,
    /// The last address that each PE has reported.
    addresses: BTreeMap<Pe, (Incarnation, Vec<u8>)>,
    /// PEs that were lost for good, without substitutes. None if the job replaces lost PEs.
    pub holes: Option<BTreeSet<Pe>>,
    /// The view in which the latest loss was shown; a PE that joined an older one has not seen it.
    fault_view: ViewNumber,
}

impl Members {
    /// Creates the PEs of a job that is about to start.
    pub fn new(shape: &Shape, settings: &Settings) -> Members {
        Members {
            view: View {
                number: ViewNumber(0),
                pes: shape.node_of.iter().copied().map(Member::first).collect(),
                local: false,
            },
            pes: shape.node_of.iter().map(|_| PeEntry::new()).collect(),
            places: PlaceHistory::new(shape.node_of.clone(), Vec::new()),
            addresses: BTreeMap::new(),
            started: false,
            engine: shape.fabric != Fabric::Shm,
            local: settings.rollback == Rollback::Local,
            unmapped: unmapped(&shape.node_of, settings.map),
            holes: (settings.rollback == Rollback::None).then(BTreeSet::new),
            fault_view: ViewNumber(0),
        }
    }

    /// Returns true if the logs of these PEs, lost with their node, may have replicas.
    pub fn may_have_replicas(&self, lost: &[Pe]) -> bool {
        !self.engine || lost.iter().all(|pe| self.unmapped[pe.at()])
    }

    /// Returns all PEs.
    pub fn all(&self) -> impl Iterator<Item = Pe> + use<> {
        Pe::all(self.pes.len())
    }

    /// Publishes a new view.
    pub fn show(&mut self, nodes: &LivingNodes, out: &mut Decisions) {
        self.view.number = self.view.number.next();
        self.places.note(self.view.number, self.view.nodes());
        nodes.send(&Down::Show(self.view.clone()), out);
    }

    /// Records that a memory was created, if it is the newest of its PE.
    pub fn add_memory(&mut self, pe: Pe, memory: u32) {
        let newest = self.view.pes.get(pe.at()).map(|member| member.memory);
        if newest == Some(memory) {
            self.pes[pe.at()].memory_made = true;
        }
    }

    /// Returns true if the process for a PE has reached `shmem_init`, and its memory exists.
    pub fn is_ready(&self, pe: Pe, procs: &Processes) -> bool {
        let entry = &self.pes[pe.at()];
        entry.memory_made && entry.proc.is_some_and(|proc| procs.is_ready(proc))
    }

    /// Returns true if a PE is dead and waits for a substitute.
    pub fn needs_substitute(&self, pe: Pe) -> bool {
        let (entry, member) = (&self.pes[pe.at()], &self.view.pes[pe.at()]);
        let free = entry.proc.is_none() && !entry.rests;
        member.state != State::Alive && free && entry.stage != PeStage::Finalized
    }

    /// Returns the incarnation of the next process of PE `pe`; the processes that the job starts
    /// with are the first.
    pub fn next_incarnation(&self, pe: Pe) -> Incarnation {
        let last = self.view.pes[pe.at()].incarnation;
        if self.started { last.next() } else { last }
    }

    /// Marks PEs as dead in the next view.
    pub fn mark_lost(&mut self, lost: &[Pe], state: State) {
        for &pe in lost {
            self.view.pes[pe.at()].state = state;
            self.view.pes[pe.at()].with_node = state == State::NodeDead;
        }
    }

    /// Lets dead PEs run again, once their substitutes have seen the next view.
    pub fn await_substitutes(&mut self, lost: &[Pe]) {
        lost.iter().for_each(|pe| self.pes[pe.at()].stage = PeStage::Running);
        self.fault_view = self.view.number.next();
    }

    /// Returns true if a PE joined the view of the latest loss, or a newer one.
    pub fn has_seen_losses(&self, entry: &PeEntry) -> bool {
        !self.has_lost_since(entry.joined)
    }

    /// Returns true if a PE was lost after `view`.
    pub fn has_lost_since(&self, view: ViewNumber) -> bool {
        view < self.fault_view
    }

    /// Returns the PEs that are on `node` in the current view.
    pub fn on(&self, node: u32) -> impl Iterator<Item = Pe> {
        self.all().filter(move |pe| self.view.pes[pe.at()].node == node)
    }

    /// Returns the PEs whose processes died before, and whose memory is still on `node`.
    pub fn left_on(&self, node: u32) -> impl Iterator<Item = Pe> {
        self.all().filter(move |&pe| {
            let member = &self.view.pes[pe.at()];
            member.state == State::ProcessDead && member.node == node && !self.is_hole(pe)
        })
    }

    /// Returns true if no PE is alive and no memory is left that a substitute could adopt.
    pub fn no_pe_is_left(&self, adopt: bool, nodes: &LivingNodes) -> bool {
        self.view.pes.iter().all(|pe| match pe.state {
            State::Alive => false,
            State::ProcessDead => !adopt || !nodes.lives(pe.node),
            State::NodeDead => true,
        })
    }

    /// Returns true if that process carries its PE, and operations in flight to it matter.
    pub fn carries_on(&self, (pe, incarnation): Process) -> bool {
        let Some(member) = self.view.pes.get(pe.at()) else { return false };
        let alive = member.state == State::Alive && member.incarnation == incarnation;
        let entry = &self.pes[pe.at()];
        // Once all are in finalize, no PE waits for operations in flight.
        let needed = matches!(entry.stage, PeStage::Running | PeStage::Finalizing);
        self.started && alive && needed && entry.proc.is_some() && !self.all_in_finalize()
    }

    /// Records the address of a process with an assigned number. All others receive the address
    /// before the view that shows the process as alive. Returns false if it was known.
    pub fn add_address(
        &mut self,
        proc: ProcId,
        address: Vec<u8>,
        nodes: &LivingNodes,
        out: &mut Decisions,
    ) -> bool {
        let carries = |pe: &Pe| self.pes[pe.at()].proc == Some(proc) && self.pes[pe.at()].assigned;
        let carried = self.all().find(carries).filter(|&pe| !self.pes[pe.at()].reached);
        let Some(pe) = carried else { return false };
        let incarnation = self.next_incarnation(pe);
        self.addresses.insert(pe, (incarnation, address.clone()));
        nodes.send(&Down::Address { pe, incarnation, address }, out);
        self.pes[pe.at()].reached = true;
        true
    }

    /// Sends a node that has joined all that the others were sent: the addresses of PEs, that the
    /// records of first calls are `kept`, and the view.
    pub fn tell_all(&self, node: u32, kept: bool, out: &mut Decisions) {
        for (&pe, (incarnation, address)) in &self.addresses {
            let (incarnation, address) = (*incarnation, address.clone());
            out.send(node, Down::Address { pe, incarnation, address });
        }
        if kept {
            out.send(node, Down::PreludesKept);
        }
        out.send(node, Down::Show(self.view.clone()));
    }

    /// Shows a PE as alive in the next view, carried by its next process.
    pub fn bring_to_life(&mut self, pe: Pe) {
        let incarnation = self.next_incarnation(pe);
        let (entry, member) = (&mut self.pes[pe.at()], &mut self.view.pes[pe.at()]);
        (member.incarnation, member.state) = (incarnation, State::Alive);
        entry.stage = PeStage::Running;
        if self.started {
            entry.crashes.begin();
        }
    }

    /// Returns the state of each PE, in a job that has `lost` PEs since it last resumed.
    pub fn standing(&self, procs: &Processes, lost: &BTreeSet<Pe>) -> Vec<PeState> {
        let of = |pe: Pe| match &self.pes[pe.at()] {
            _ if self.is_hole(pe) => PeState::Hole,
            entry if entry.stage == PeStage::Finalized || entry.status.is_some() => PeState::Ended,
            _ if self.view.pes[pe.at()].state != State::Alive => PeState::Lost,
            entry => match entry.stage {
                PeStage::Starting if entry.proc.is_some_and(|proc| procs.is_ready(proc)) => {
                    PeState::Joining
                }
                PeStage::Starting => PeState::Starting,
                PeStage::Running | PeStage::Unrecoverable if lost.contains(&pe) => {
                    PeState::Recovering
                }
                PeStage::Running | PeStage::Unrecoverable => PeState::Running,
                PeStage::Finalizing | PeStage::Finalized => PeState::Finalizing,
            },
        };
        self.all().map(of).collect()
    }
}
