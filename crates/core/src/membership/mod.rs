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
mod decisions;
mod drain;
mod event;
mod fallback;
mod falling;
mod faults;
mod finish;
mod holes;
mod local;
mod members;
mod nodes;
mod preludes;
mod processes;
mod recovery;
mod shape;
mod standing;
mod starting;
mod substitutes;
mod survey;
mod suspicion;
mod suspicions;

use std::collections::BTreeSet;

use crate::ended::Ended;
use crate::inject::InjectedFault;
use crate::message::{Down, PeMessage, ProcId};
use crate::placement::pages::PageRuns;
use crate::placement::substitute::JobLayout;
use crate::quantity::{CheckpointNumber, Incarnation, Pe, ViewNumber};
use crate::settings::{BackupMode, Settings, Substitute};
use crate::view::State;
use decisions::Decisions;
pub use drain::DrainRefusal;
use drain::{DrainSite, Drains};
pub use event::{Action, MembershipEvent};
use fallback::FallBack;
use faults::FaultRules;
use members::{Members, PeStage};
use nodes::LivingNodes;
use preludes::Preludes;
use processes::{Processes, Role};
use recovery::Recovery;
pub use shape::Shape;
use survey::Survey;
use suspicion::Suspicions;

/// The membership machine.
#[derive(Debug, Clone)]
pub struct Membership {
    mode: BackupMode,
    substitute: Substitute,
    adopt: bool,
    max_restarts: u32,
    members: Members,
    nodes: LivingNodes,
    procs: Processes,
    /// Memories of lost PEs that are being wiped.
    wiping: BTreeSet<(Pe, u32)>,
    recovery: Recovery,
    faults: FaultRules,
    suspicions: Suspicions,
    preludes: Preludes,
    survey: Survey,
    falling: FallBack,
    drains: Drains,
    out: Decisions,
}

impl Membership {
    /// Creates a job that is about to start, and the actions that start it.
    pub fn new(
        shape: &Shape,
        settings: &Settings,
        site: impl Into<JobLayout>,
    ) -> (Self, Vec<Action>) {
        let mut machine = Membership {
            mode: settings.backup_mode,
            substitute: settings.substitute,
            adopt: settings.adopt,
            max_restarts: settings.max_restarts,
            members: Members::new(shape, settings),
            nodes: LivingNodes::new(shape.nodes),
            procs: Processes::default(),
            wiping: BTreeSet::new(),
            recovery: Recovery::none(),
            faults: FaultRules::new(settings.inject.clone()),
            suspicions: Suspicions::default(),
            preludes: Preludes::new(shape.node_of.len()),
            survey: Survey::new(settings, site.into()),
            falling: FallBack::new(settings.store.is_some()),
            drains: Drains::default(),
            out: Decisions::default(),
        };
        for (pe, &node) in Pe::all(shape.node_of.len()).zip(&shape.node_of) {
            let pages = PageRuns::default();
            machine.out.send(node, Down::MakeMemory { pe, memory: 0, pages });
            let proc = machine.procs.start(node, Role::Pe(pe), &mut machine.out);
            machine.members.pes[pe.at()].proc = Some(proc);
        }
        for &node in &shape.spares {
            machine.procs.start(node, Role::Spare, &mut machine.out);
        }
        let out = machine.out.take();
        (machine, out)
    }

    /// Starts the job from a checkpoint on disk: to the program every PE is a substitute, and all
    /// were lost. Call it before the first event.
    pub fn resume_from(&mut self, number: CheckpointNumber) {
        let members = &mut self.members.view.pes;
        members.iter_mut().for_each(|pe| pe.incarnation = Incarnation::FIRST.next());
        self.recovery.begin_from(number, members.len());
        self.falling.begin_from(number);
    }

    /// Allows asking nodes for a second opinion: their agents hear each other.
    pub fn let_nodes_be_asked(&mut self) {
        self.suspicions.among_hosts = true;
    }

    /// Processes one event and returns the actions to take.
    pub fn handle(&mut self, event: MembershipEvent) -> Vec<Action> {
        if !self.out.is_ended() {
            match event {
                event if self.falling.is_under_way() => self.fall_on(event),
                MembershipEvent::MemoryMade { pe, memory } => {
                    self.members.add_memory(pe, memory);
                    self.advance();
                }
                MembershipEvent::Wiped { pe, memory } => {
                    self.wiping.remove(&(pe, memory));
                    self.advance();
                }
                MembershipEvent::Message { proc, what } => self.received(proc, what),
                MembershipEvent::Ended { proc, how } => self.proc_ended(proc, how),
                MembershipEvent::NodeLost { node } => self.node_lost(node),
                MembershipEvent::Shown { node, number } => {
                    self.nodes.note(node, number);
                    self.repair();
                }
                MembershipEvent::Looked { proc } => {
                    self.suspicions.add_answer(proc, &self.members);
                }
                MembershipEvent::Opinion { by, about, alive } => {
                    self.suspicions.add_opinion(by, about, alive, &self.members);
                }
                MembershipEvent::Drain { node } => {
                    let last = self.recovery.checkpoint;
                    self.drain(|drains, site, out| drains.begin(node, (&site, last), out));
                }
                MembershipEvent::Joined { node, room } => {
                    self.nodes.add(node);
                    self.members.tell_all(node, self.preludes.are_kept(), &mut self.out);
                    let spares =
                        if self.substitute == Substitute::Spare { room.unwrap_or(1) } else { 0 };
                    for _ in 0..spares {
                        self.procs.start(node, Role::Spare, &mut self.out);
                    }
                    let room = room.unwrap_or(usize::MAX);
                    let pes = self.drain(|drains, site, out| drains.fill(node, room, &site, out));
                    self.out.say(drain::line_of_join(node, spares, &pes));
                }
                MembershipEvent::SetStored => self.falling.has_set = true,
                MembershipEvent::SetChosen { .. } | MembershipEvent::NoSet { .. } => {}
                MembershipEvent::Rested { pe } => {
                    self.members.pes[pe.at()].rests = false;
                    self.repair();
                }
            }
            self.suspicions.settle(&self.members, &self.nodes, &mut self.out);
            let (is_whole, view) = (self.recovery.lost.is_empty(), &self.members.view);
            if let Some((node, room)) = self.drains.finish(is_whole, view, &mut self.out) {
                self.drain(|drains, site, out| drains.fill(node, room, &site, out));
            }
            if self.members.started && self.recovery.lost.is_empty() {
                self.survey.update(&self.members.view, &mut self.out);
            }
        }
        self.out.take()
    }

    /// Returns the injection rules that have not fired, and the last checkpoint.
    pub fn not_due(&self) -> (impl Iterator<Item = &InjectedFault>, CheckpointNumber) {
        (self.faults.left(), self.recovery.checkpoint)
    }

    /// Returns true once a PE has reported that the job cannot continue; others may follow.
    pub fn unrecoverable(&self) -> bool {
        self.out.verdict().is_some()
    }

    /// Ends the job with the verdict received so far, without waiting for the remaining PEs.
    pub fn cut_short(&mut self) -> Vec<Action> {
        let verdict = self.out.verdict().cloned();
        match verdict {
            Some((_, words)) => self.give_up(words),
            None => self.out.end(1, Some("the job ended early".into())),
        }
        self.out.take()
    }

    /// Lets the drain act with the parts that it depends on.
    fn drain<R>(&mut self, act: impl FnOnce(&mut Drains, DrainSite, &mut Decisions) -> R) -> R {
        let site = DrainSite {
            members: &self.members,
            nodes: &self.nodes,
            procs: &self.procs,
            survey: &self.survey,
            spawns: self.substitute == Substitute::Spawn,
            protects: self.mode.protects(),
            lasts: !self.falling.is_under_way() && !self.out.is_ended(),
        };
        act(&mut self.drains, site, &mut self.out)
    }

    fn received(&mut self, proc: ProcId, what: PeMessage) {
        let Some(entry) = self.procs.get_mut(proc) else { return };
        let (role, node_list) = (entry.role, &self.nodes);
        let pe = match role {
            Role::Pe(pe) => Some(pe),
            _ => None,
        };
        let (members, out) = (&mut self.members, &mut self.out);
        match (what, pe) {
            (PeMessage::Hello, _) => {
                entry.hello = true;
                self.members.refuse_part_of_a_job(&self.procs, &mut self.out);
                self.advance();
                self.repair(); // a repair may be waiting for a spare
            }
            (PeMessage::CannotStart { status, words, cause }, _) => {
                if let Some(pe) = role.pe() {
                    out.report_failure(pe, (cause, members.started), (status, &words));
                }
            }
            (PeMessage::AtPoint { rule }, _) => self.faults.fire(proc, rule, &self.procs, out),
            (PeMessage::Report(report), _) => self.reported(report),
            (PeMessage::Address { address }, _) => {
                if members.add_address(proc, address, node_list, out) {
                    self.advance();
                }
            }
            (PeMessage::Unusable { view, pe, flaw }, _) => self.unusable(view, pe, flaw),
            (PeMessage::Suspect { pe, incarnation }, Some(by)) => {
                self.suspicions.suspect(by, (pe, incarnation), members, node_list, out);
            }
            (PeMessage::GlobalExit { status, words }, _) => out.end(status, words),
            (PeMessage::Finalizing { joined, cut }, Some(pe)) => self.finalizing(pe, joined, cut),
            (PeMessage::NeedsOthers, Some(pe)) => {
                let words = members.needs_others(pe);
                self.give_up(words);
            }
            (PeMessage::PreludeOver { record }, Some(pe)) => {
                self.preludes.keep(pe, record, node_list, out);
            }
            (PeMessage::Pages { .. }, _) => {} // the launcher keeps them
            (PeMessage::RollAllBack { why }, Some(_)) => {
                self.drains.note_rollback();
                members.roll_all_back(&why, node_list, out)
            }
            (PeMessage::CaughtUp, Some(pe)) => self.recovery.note_live(pe),
            (PeMessage::Drained { request, view, checkpoint }, Some(pe)) => {
                let (pe, reported) = ((pe, checkpoint), (request, view));
                self.drain(|drains, site, out| drains.wait(pe, reported, &site, out));
            }
            (PeMessage::Finalized, Some(pe)) => members.pes[pe.at()].stage = PeStage::Finalized,
            (PeMessage::Verdict { status, words }, Some(pe)) => {
                members.pes[pe.at()].stage = PeStage::Unrecoverable;
                out.keep_verdict(status, words);
                members.common_verdict(out).into_iter().for_each(|words| self.give_up(words));
            }
            (_, None) => {} // for PEs only
        }
    }

    fn finalizing(&mut self, pe: Pe, joined: ViewNumber, cut: bool) {
        if cut && self.mode.protects() {
            let lost: Vec<Pe> = self.recovery.lost.iter().copied().collect();
            let words = format!(
                "unrecoverable: PE {pe} entered shmem_finalize without rolling back to the \
                 checkpoint, though {} {} lost; checkpoint before it to be safe to the end",
                Pe::names(&lost),
                if lost.len() == 1 { "was" } else { "were" }
            );
            return self.give_up(words);
        }
        let entry = &mut self.members.pes[pe.at()];
        (entry.stage, entry.joined) = (PeStage::Finalizing, joined);
        self.members.finish_if_all_in(&self.nodes, &mut self.out);
    }

    fn proc_ended(&mut self, proc: ProcId, how: Ended) {
        let Some(entry) = self.procs.remove(proc) else { return };
        match entry.role {
            Role::Spare => self.repair(), // a repair may be waiting for it
            Role::Substitute(pe) if entry.lacks_program(how) => {
                starting::program_is_missing(pe, how, &mut self.out);
            }
            Role::Substitute(pe) => {
                self.members.pes[pe.at()].proc = None;
                if self.count_death(pe, how) {
                    self.repair();
                }
            }
            Role::Pe(pe) => self.pe_died(pe, entry.hello, how),
        }
    }

    fn pe_died(&mut self, pe: Pe, hello: bool, how: Ended) {
        let entry = &mut self.members.pes[pe.at()];
        entry.proc = None;
        match entry.stage {
            PeStage::Starting => {
                let parts = (&self.procs, &mut self.out);
                return self.members.ended_at_start((pe, hello), how, parts);
            }
            PeStage::Unrecoverable => {
                let verdict = self.members.common_verdict(&self.out);
                return verdict.into_iter().for_each(|words| self.give_up(words));
            }
            PeStage::Finalized => {
                entry.status = Some(how);
                if let Ended::Killed(_) = how {
                    self.out.say(format!("PE {pe} {how} after shmem_finalize"));
                }
                return self.members.end_if_all_over(&mut self.out);
            }
            PeStage::Running | PeStage::Finalizing => {}
        }
        if let Some((line, all)) = self.drains.note_pe_lost(pe) {
            self.out.say(line);
            if self.lose(&[pe], State::NodeDead, how) {
                self.members.show(&self.nodes, &mut self.out);
            }
            if all && !self.out.is_ended() {
                self.drains.release(&self.nodes, &mut self.out); // after the view: see `drain`
            }
            return;
        }
        let members = &self.members;
        if self.mode.protects() || members.shrinks() || members.all_in_finalize() {
            // Otherwise it is in the final message.
            self.out.say(format!("PE {pe} {}", how.cause()));
        }
        if self.lose(&[pe], State::ProcessDead, how) && self.count_death(pe, how) {
            self.members.show(&self.nodes, &mut self.out);
        }
    }

    /// Marks PEs as dead. Returns true if substitutes are to replace them.
    fn lose(&mut self, lost: &[Pe], state: State, how: Ended) -> bool {
        let (members, nodes, out) = (&mut self.members, &self.nodes, &mut self.out);
        members.mark_lost(lost, state);
        if members.all_in_finalize() {
            members.lose_at_end(lost, how, out);
            return false;
        }
        let (one, pes) = (lost[0], lost.to_vec());
        let node = Some(members.view.pes[one.at()].node).filter(|node| !nodes.lives(*node));
        let drained = match node {
            Some(_) => node == self.drains.node(),
            None => self.drains.target(one).is_some(),
        };
        out.push(Action::Lost { pes, node, how, drained });
        let before = !self.recovery.lost.is_empty();
        if members.shrinks() {
            self.recovery.lost.extend(lost);
            members.leave_holes(lost, nodes, out);
            return false;
        }
        if !self.mode.protects() {
            let words = format!(
                "PE {one} {}; SHMEM_FT_BACKUP_MODE=none keeps no checkpoint, so the job ends",
                how.cause()
            );
            out.end(if how.status() == 0 { 1 } else { how.status() }, Some(words));
        }
        members.decide_local(lost, state, (before, self.recovery.is_any_away()), out);
        members.await_substitutes(lost);
        self.recovery.lose(lost);
        // While PEs begin from disk, their data is lost only with the last node.
        let from_disk = self.recovery.from_disk && self.nodes.all().next().is_some();
        if !from_disk && self.members.no_pe_is_left(self.adopt, &self.nodes) {
            self.give_up("unrecoverable: every PE was lost".to_owned());
        }
        !self.out.is_ended() && !self.falling.is_under_way()
    }

    fn node_lost(&mut self, node: u32) {
        if !self.nodes.remove(node) {
            return;
        }
        self.falling.node_lost = true;
        let mut lost = Vec::new();
        for role in self.procs.remove_node(node) {
            match role {
                Role::Pe(pe) => lost.push(pe),
                Role::Substitute(pe) => self.members.pes[pe.at()].proc = None,
                Role::Spare => {}
            }
        }
        // Of others the process died before, but their memory was still there until now.
        lost.extend(self.members.left_on(node));
        lost.sort_unstable();
        for &pe in &lost {
            self.members.pes[pe.at()].proc = None;
        }
        let is_drained = self.drains.node() == Some(node);
        let line = self.drains.note_node_lost(node, &lost);
        self.out.say(line);
        let how = Ended::Killed(9);
        if !self.members.started {
            let words = format!("node {node} was lost before the job was complete");
            return self.out.end(1, Some(words));
        }
        let is_over = |pe: &Pe| self.members.pes[pe.at()].stage == PeStage::Finalized;
        let (over, lost): (Vec<Pe>, Vec<Pe>) = lost.into_iter().partition(is_over);
        self.members.over_with_node(&over, how, self.mode.protects(), &mut self.out);
        if lost.is_empty() {
            self.members.end_if_all_over(&mut self.out);
            return self.repair();
        }
        if self.lose(&lost, State::NodeDead, how) {
            self.members.show(&self.nodes, &mut self.out);
        }
        if is_drained && !self.out.is_ended() {
            self.drains.release(&self.nodes, &mut self.out); // after the view: see `drain`
        }
    }
}

#[cfg(test)]
mod drawing;
#[cfg(test)]
mod tests;
