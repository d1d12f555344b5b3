//! The assignment of processes to PE numbers: the launcher's decisions as a pure state machine.
//!
//! Events in, actions out; no clock, no socket, no process: `launcher` supplies those.
//!
//! ```text
//! PE:   starting -> running -> finalizing -> finalized
//!                     |  ^
//!               death |  | a substitute said Hello and its memory exists
//!                     v  |
//!                    dead -> (view published on every live node) -> replacing
//! ```
//! A death while other PEs are finalizing is an ordinary one; they serve the PEs that roll back. In
//! shrink mode a dead PE stays dead ([`holes`]).
//!
//! Invariants:
//! - memory of a lost PE is wiped, and a substitute chosen, only after every living node has shown
//!   the view in which the PE is dead: a survivor that read wiped bytes sees that view afterwards;
//!   the number is assigned to the substitute only after the memory is wiped;
//! - a PE number is reassigned only after its process is known to have ended; `view.number`, and
//!   each PE's `incarnation` and `memory`, only grow.

#![allow(missing_docs)] // the comment of each event and action covers its fields

mod crashes;
mod deaths;
mod event;
mod finish;
mod holes;
mod local;
mod preludes;
mod standing;
mod starting;
mod substitutes;
mod survey;
mod suspicion;
mod suspicions;

use std::collections::{BTreeMap, BTreeSet};

use crate::ended::{Ended, UNRECOVERABLE};
use crate::inject::InjectedFault;
use crate::message::{Down, PeMessage, ProcId};
use crate::placement::{moves::PlaceHistory, substitute::JobLayout, survival::Survival};
use crate::quantity::{CheckpointNumber, Incarnation, Pe, ViewNumber};
use crate::settings::{BackupMode, Fabric, Rollback, Settings, Substitute};
use crate::view::{Member, State, View};
use crashes::Crashes;
pub use event::{Action, MembershipEvent};
use preludes::Preludes;
use suspicion::Suspicions;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Pe(Pe),
    /// Intended for a PE number, not carrying it yet.
    Substitute(Pe),
    Spare,
}

#[derive(Debug, Clone)]
struct Proc {
    node: u32,
    role: Role,
    hello: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Starting,
    Running,
    Finalizing,
    Finalized,
    Unrecoverable,
}

#[derive(Debug, Clone)]
struct PeEntry {
    proc: Option<ProcId>,
    stage: Stage,
    memory_made: bool,
    /// Its process has received its number, and may have reported its engine's address.
    assigned: bool,
    reached: bool,
    crashes: Crashes,
    /// Its substitute is delayed, because it died too often.
    rests: bool,
    /// The way its process ended, once its work is done.
    status: Option<Ended>,
    /// The view of which it was a member when it last reported being in `shmem_finalize`.
    joined: ViewNumber,
}

/// The nodes and PEs of a job.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Node of each PE.
    pub node_of: Vec<u32>,
    /// Number of nodes, including those of spares.
    pub nodes: u32,
    /// Node of each idle spare.
    pub spares: Vec<u32>,
    /// The transport between the nodes; never `Auto`.
    pub fabric: Fabric,
}

/// The membership machine.
#[derive(Debug, Clone)]
pub struct Membership {
    mode: BackupMode,
    substitute: Substitute,
    adopt: bool,
    max_restarts: u32,
    /// True if PEs of other nodes are reached through an engine, by addresses.
    engine: bool,
    rules: Vec<InjectedFault>,
    fired: BTreeSet<u32>,
    /// Groups and failure domains: a substitute is placed away from its group.
    site: JobLayout,
    view: View,
    pes: Vec<PeEntry>,
    /// Memories of lost PEs that are being wiped.
    wiping: BTreeSet<(Pe, u32)>,
    procs: BTreeMap<ProcId, Proc>,
    next_proc: ProcId,
    /// Living nodes and the newest view that each has published.
    shown: BTreeMap<u32, ViewNumber>,
    checkpoint: CheckpointNumber,
    /// The view in which the latest loss was shown; a PE that joined an older one has not seen it.
    fault_view: ViewNumber,
    /// PEs lost since the job last resumed.
    lost: BTreeSet<Pe>,
    /// Restarts of the current recovery because of corrupt tiles.
    corrupt: u32,
    /// True if only the lost PE rolls back, when possible.
    local: bool,
    /// PEs that were lost for good, without substitutes. None if the job replaces lost PEs.
    holes: Option<BTreeSet<Pe>>,
    suspicions: Suspicions,
    preludes: Preludes,
    /// True if memory comes from disk, until all PEs have restored its checkpoint.
    from_disk: bool,
    started: bool,
    /// The last survey, and the view it was made for.
    surveyed: Option<(ViewNumber, Survival)>,
    /// The nodes of the PEs in all views so far.
    places: PlaceHistory,
    verdict: Option<(i32, String)>,
    ended: bool,
    out: Vec<Action>,
}

impl Membership {
    /// Creates a job that is about to start, and the actions that start it.
    pub fn new(
        shape: &Shape,
        settings: &Settings,
        site: impl Into<JobLayout>,
    ) -> (Self, Vec<Action>) {
        let pe = |_: &u32| PeEntry {
            proc: None,
            stage: Stage::Starting,
            memory_made: false,
            assigned: false,
            reached: false,
            crashes: Crashes::original(),
            rests: false,
            status: None,
            joined: ViewNumber(0),
        };
        let mut machine = Membership {
            mode: settings.backup_mode,
            substitute: settings.substitute,
            adopt: settings.adopt,
            max_restarts: settings.max_restarts,
            engine: shape.fabric != Fabric::Shm,
            rules: settings.inject.clone(),
            fired: BTreeSet::new(),
            site: site.into(),
            view: View {
                number: ViewNumber(0),
                pes: shape.node_of.iter().copied().map(Member::first).collect(),
                local: false,
            },
            pes: shape.node_of.iter().map(pe).collect(),
            wiping: BTreeSet::new(),
            procs: BTreeMap::new(),
            next_proc: 0,
            shown: (0..shape.nodes).map(|node| (node, ViewNumber(0))).collect(),
            checkpoint: CheckpointNumber::START,
            fault_view: ViewNumber(0),
            lost: BTreeSet::new(),
            corrupt: 0,
            local: settings.rollback == Rollback::Local,
            holes: (settings.rollback == Rollback::None).then(BTreeSet::new),
            suspicions: Suspicions::default(),
            preludes: Preludes::new(shape.node_of.len()),
            from_disk: false,
            started: false,
            surveyed: None,
            places: PlaceHistory::new(shape.node_of.clone(), Vec::new()),
            verdict: None,
            ended: false,
            out: Vec::new(),
        };
        for (pe, &node) in Pe::all(shape.node_of.len()).zip(&shape.node_of) {
            machine.send(node, Down::MakeMemory { pe, memory: 0 });
            let proc = machine.start(node, Role::Pe(pe));
            machine.pes[pe.at()].proc = Some(proc);
        }
        for &node in &shape.spares {
            machine.start(node, Role::Spare);
        }
        let out = std::mem::take(&mut machine.out);
        (machine, out)
    }

    /// Starts the job from a checkpoint on disk: to the program every PE is a substitute, and all
    /// were lost. Call it before the first event.
    pub fn resume_from(&mut self, number: CheckpointNumber) {
        self.view.pes.iter_mut().for_each(|pe| pe.incarnation = Incarnation::FIRST.next());
        self.lost = Pe::all(self.pes.len()).collect();
        (self.checkpoint, self.from_disk) = (number, true);
    }

    /// Processes one event and returns the actions to take.
    pub fn handle(&mut self, event: MembershipEvent) -> Vec<Action> {
        if !self.ended {
            match event {
                MembershipEvent::MemoryMade { pe, memory } => self.memory_made(pe, memory),
                MembershipEvent::Wiped { pe, memory } => self.wiped(pe, memory),
                MembershipEvent::Message { proc, what } => self.received(proc, what),
                MembershipEvent::Ended { proc, how } => self.proc_ended(proc, how),
                MembershipEvent::NodeLost { node } => self.node_lost(node),
                MembershipEvent::Shown { node, number } => {
                    if let Some(shown) = self.shown.get_mut(&node) {
                        *shown = number;
                    }
                    self.repair();
                }
                MembershipEvent::Looked { proc } => self.looked(proc),
                MembershipEvent::Opinion { by, about, alive } => self.opinion(by, about, alive),
                MembershipEvent::Rested { pe } => self.rested(pe),
            }
            self.settle();
            self.survey();
        }
        std::mem::take(&mut self.out)
    }

    /// Returns the injection rules that have not fired, and the last checkpoint.
    pub fn not_due(&self) -> (impl Iterator<Item = &InjectedFault>, CheckpointNumber) {
        let numbered = (0..).zip(&self.rules);
        let left = numbered.filter(|(rule, _)| !self.fired.contains(rule)).map(|(_, rule)| rule);
        (left, self.checkpoint)
    }

    /// Returns true once a PE has reported that the job cannot continue; others may follow.
    pub fn unrecoverable(&self) -> bool {
        self.verdict.is_some()
    }

    /// Ends the job with the verdict received so far, without waiting for the remaining PEs.
    pub fn cut_short(&mut self) -> Vec<Action> {
        let (status, words) = self.verdict.clone().unwrap_or((1, "the job ended early".into()));
        self.end(status, Some(words));
        std::mem::take(&mut self.out)
    }

    fn send(&mut self, node: u32, message: Down) {
        self.out.push(Action::Send { node, message });
    }

    fn end(&mut self, status: i32, words: Option<String>) {
        if !self.ended {
            self.ended = true;
            self.out.push(Action::End { status, words });
        }
    }

    fn start(&mut self, node: u32, role: Role) -> ProcId {
        let proc = self.next_proc;
        self.next_proc += 1;
        self.procs.insert(proc, Proc { node, role, hello: false });
        let pe = match role {
            Role::Pe(pe) | Role::Substitute(pe) => Some(pe),
            Role::Spare => None,
        };
        self.send(node, Down::Start { proc, pe });
        proc
    }

    fn show(&mut self) {
        self.view.number = self.view.number.next();
        self.places.note(self.view.number, self.view.nodes());
        let nodes: Vec<u32> = self.shown.keys().copied().collect();
        for node in nodes {
            self.send(node, Down::Show(self.view.clone()));
        }
    }

    fn memory_made(&mut self, pe: Pe, memory: u32) {
        let newest = self.view.pes.get(pe.at()).map(|member| member.memory);
        if newest == Some(memory) {
            self.pes[pe.at()].memory_made = true;
        }
        self.advance();
    }

    fn received(&mut self, proc: ProcId, what: PeMessage) {
        let Some(entry) = self.procs.get_mut(&proc) else { return };
        let pe = match entry.role {
            Role::Pe(pe) => Some(pe),
            _ => None,
        };
        match (what, pe) {
            (PeMessage::Hello, _) => {
                entry.hello = true;
                self.refuse_part_of_a_job();
                self.advance();
                self.repair(); // a repair may be waiting for a spare
            }
            (PeMessage::CannotStart { status, words, cause }, _) => {
                let role = entry.role;
                self.cannot_start(role, cause, (status, &words));
            }
            (PeMessage::AtPoint { rule }, _) => self.at_point(proc, rule),
            (PeMessage::Report(report), _) => self.reported(report),
            (PeMessage::Address { address }, _) => self.addressed(proc, address),
            (PeMessage::Unusable { view, pe, flaw }, _) => self.unusable(view, pe, flaw),
            (PeMessage::Suspect { pe, incarnation }, Some(by)) => {
                self.suspected(by, pe, incarnation)
            }
            (PeMessage::GlobalExit { status, words }, _) => self.end(status, words),
            (PeMessage::Finalizing { joined, cut }, Some(pe)) => self.finalizing(pe, joined, cut),
            (PeMessage::NeedsOthers, Some(pe)) => self.needs_others(pe),
            (PeMessage::PreludeOver { record }, Some(pe)) => self.prelude_over(pe, record),
            (PeMessage::GoBack { why }, Some(_)) => self.roll_all_back(&why),
            (PeMessage::Finalized, Some(pe)) => self.pes[pe.at()].stage = Stage::Finalized,
            (PeMessage::Verdict { status, words }, Some(pe)) => {
                self.pes[pe.at()].stage = Stage::Unrecoverable;
                self.verdict.get_or_insert((status, words));
                self.end_if_all_unrecoverable();
            }
            (_, None) => {} // for PEs only
        }
    }

    fn end_if_all_unrecoverable(&mut self) {
        let Some((status, words)) = self.verdict.clone() else { return };
        let alive = self.view.pes.iter().zip(&self.pes).filter(|(m, _)| m.state == State::Alive);
        if alive.into_iter().all(|(_, pe)| pe.stage == Stage::Unrecoverable) {
            self.end(status, Some(words));
        }
    }

    fn proc_ended(&mut self, proc: ProcId, how: Ended) {
        let Some(entry) = self.procs.remove(&proc) else { return };
        match entry.role {
            Role::Spare => self.repair(), // a repair may be waiting for it
            Role::Substitute(pe) if Membership::is_missing(&entry, how) => {
                self.program_is_missing(pe, how)
            }
            Role::Substitute(pe) => self.substitute_died(pe, how),
            Role::Pe(pe) => self.pe_died(pe, entry.hello, how),
        }
    }

    fn substitute_died(&mut self, pe: Pe, how: Ended) {
        self.pes[pe.at()].proc = None;
        if self.count_death(pe, how) {
            self.repair();
        }
    }

    fn pe_died(&mut self, pe: Pe, hello: bool, how: Ended) {
        self.pes[pe.at()].proc = None;
        match self.pes[pe.at()].stage {
            Stage::Starting => return self.ended_at_start(pe, hello, how),
            Stage::Unrecoverable => return self.end_if_all_unrecoverable(),
            Stage::Finalized => {
                self.pes[pe.at()].status = Some(how);
                if let Ended::Killed(_) = how {
                    self.out.push(Action::Say(format!("PE {pe} {how} after shmem_finalize")));
                }
                return self.end_if_all_over();
            }
            Stage::Running | Stage::Finalizing => {}
        }
        if self.mode.protects() || self.holes.is_some() || self.all_in_finalize() {
            let line = format!("PE {pe} {}", how.cause()); // otherwise it is in the final message
            self.out.push(Action::Say(line));
        }
        if self.lose(&[pe], State::ProcessDead, how) && self.count_death(pe, how) {
            self.show();
        }
    }

    /// Marks PEs as dead. Returns false if that ends the job.
    fn lose(&mut self, lost: &[Pe], state: State, how: Ended) -> bool {
        for &pe in lost {
            self.view.pes[pe.at()].state = state;
            self.view.pes[pe.at()].with_node = state == State::NodeDead;
        }
        let one = lost[0];
        if self.all_in_finalize() {
            return self.lose_at_end(lost, how);
        }
        let pes = lost.to_vec();
        let node = (state == State::NodeDead).then(|| self.view.pes[one.at()].node);
        self.out.push(Action::Lost { pes, node, how });
        if self.holes.is_some() {
            return self.leave_holes(lost);
        }
        if !self.mode.protects() {
            let words = format!(
                "PE {one} {}; SHMEM_FT_BACKUP_MODE=none keeps no checkpoint, so the job ends",
                how.cause()
            );
            self.end(if how.status() == 0 { 1 } else { how.status() }, Some(words));
        } else if self.no_pe_is_left() {
            let words = "unrecoverable: every PE was lost".to_string();
            self.end(UNRECOVERABLE, Some(words));
        }
        self.decide_local(lost, state);
        for &pe in lost {
            self.pes[pe.at()].stage = Stage::Running;
            self.lost.insert(pe);
        }
        self.fault_view = self.view.number.next();
        !self.ended
    }

    fn node_lost(&mut self, node: u32) {
        if self.shown.remove(&node).is_none() {
            return;
        }
        let gone: Vec<ProcId> =
            self.procs.iter().filter(|(_, p)| p.node == node).map(|(&id, _)| id).collect();
        let mut lost = Vec::new();
        for id in gone {
            match self.procs.remove(&id).map(|proc| proc.role) {
                Some(Role::Pe(pe)) => lost.push(pe),
                Some(Role::Substitute(pe)) => self.pes[pe.at()].proc = None,
                Some(Role::Spare) | None => {}
            }
        }
        lost.extend(Pe::all(self.pes.len()).filter(|&pe| {
            // Its process died before, but its memory was still there until now.
            let left = self.view.pes[pe.at()].state == State::ProcessDead && !self.is_hole(pe);
            left && self.view.pes[pe.at()].node == node
        }));
        lost.sort_unstable();
        for &pe in &lost {
            self.pes[pe.at()].proc = None;
        }
        self.out.push(Action::Say(match lost.as_slice() {
            [] => format!("node {node} was lost; it carried no PE"),
            pes => format!("node {node} was lost with {}", Pe::names(pes)),
        }));
        let how = Ended::Killed(9);
        if !self.started {
            return self.end(1, Some(format!("node {node} was lost before the job was complete")));
        }
        let (over, lost): (Vec<Pe>, Vec<Pe>) =
            lost.into_iter().partition(|&pe| self.pes[pe.at()].stage == Stage::Finalized);
        self.over_with_node(&over, how);
        if lost.is_empty() {
            self.end_if_all_over();
            return self.repair();
        }
        if self.lose(&lost, State::NodeDead, how) {
            self.show();
        }
    }
}

#[cfg(test)]
mod drawing;
#[cfg(test)]
mod tests;
