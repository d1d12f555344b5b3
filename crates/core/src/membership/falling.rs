//! Falling back to disk: a job that has lost more than its parity covers begins again from a set.
//!
//! Part of the machine in [`super`].
//!
//! ```text
//! a loss beyond the parity -> Ending: every process of a PE is killed
//!                                |  the last one has ended
//!                                v
//!                          Choosing: the launcher looks for the newest set that holds
//!                                |  it has found one
//!                                v
//!          every PE counts as lost with its memory, and the job is repaired as after any loss;
//!          its memory comes from disk
//! ```
//!
//! Invariants: no process of a PE lives while a set is chosen, so none writes to the new memory; a
//! job that does not get beyond a set begins from disk at most `SHMEM_FT_MAX_RESTARTS` times.

use super::crashes::Crashes;
use super::{Action, Membership, MembershipEvent};
use crate::ended::{REQUEUE, UNRECOVERABLE};
use crate::message::{Down, PeMessage};
use crate::mutant::{Mutant, breaks};
use crate::quantity::{CheckpointNumber, Pe};
use crate::view::State;

/// The progress of a job that falls back to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FallStage {
    /// It does not fall back.
    Running,
    /// The processes of its PEs are being ended.
    Ending,
    /// The launcher looks for a set.
    Choosing,
}

/// The sets of a job, as far as decisions depend on them.
#[derive(Debug, Clone)]
pub(super) struct FallBack {
    /// True if the job writes sets.
    stores: bool,
    /// True once a set is on disk.
    has_set: bool,
    stage: FallStage,
    /// The checkpoint from which the job, or the last fall, began.
    begun: CheckpointNumber,
    /// True if a node was lost.
    pub node_lost: bool,
    /// Falls, counted like crashes of a PE.
    falls: Crashes,
}

impl FallBack {
    /// Creates the state of a job that writes sets if `stores`, and has none.
    pub fn new(stores: bool) -> FallBack {
        FallBack {
            stores,
            has_set: false,
            stage: FallStage::Running,
            begun: CheckpointNumber::START,
            node_lost: false,
            falls: Crashes::original(),
        }
    }

    /// Records that the job begins from the set of checkpoint `number`.
    pub fn begin_from(&mut self, number: CheckpointNumber) {
        (self.begun, self.stage) = (number, FallStage::Running);
        self.falls.begin();
        self.falls.resume(number);
    }

    /// Returns true while the job falls back.
    pub fn is_under_way(&self) -> bool {
        self.stage != FallStage::Running
    }

    /// Returns true if a set is on disk.
    fn can_fall(&self) -> bool {
        self.stores && self.has_set
    }

    /// Returns the status of a job that cannot continue after checkpoint `now`. A batch system may
    /// submit it again only if it lost nodes and came further than the set that it began from.
    fn status(&self, now: CheckpointNumber) -> i32 {
        let has_passed = now > self.begun && self.node_lost;
        match self.can_fall() && (has_passed || breaks(Mutant::CrashRequeued)) {
            true => REQUEUE,
            false => UNRECOVERABLE,
        }
    }
}

impl Membership {
    /// Records that a set of the job is on disk.
    pub fn note_set(&mut self) {
        self.falling.has_set = true;
    }

    /// Returns true if a loss beyond the parity would not end the job.
    pub fn can_fall(&self) -> bool {
        self.falling.can_fall()
    }

    /// Handles a loss that the data in memory cannot repair: the job falls back to disk, or ends
    /// for the reason in `words`.
    pub(super) fn give_up(&mut self, words: String) {
        if self.out.is_ended() || self.falling.is_under_way() {
            return;
        }
        if !self.falling.can_fall() {
            return self.out.end(UNRECOVERABLE, Some(words));
        }
        if self.nodes.all().next().is_none() {
            let status = self.falling.status(self.recovery.checkpoint);
            return self.out.end(status, Some(words));
        }
        let falls = self.falling.falls.die(self.recovery.checkpoint);
        let limit = self.max_restarts;
        if falls > limit && !breaks(Mutant::FallsForever) {
            let status = self.falling.status(self.recovery.checkpoint);
            let words = format!(
                "{words}; the job began from disk {limit} times without getting further \
                 (SHMEM_FT_MAX_RESTARTS={limit})"
            );
            return self.out.end(status, Some(words));
        }
        self.out.push(Action::GiveUp { why: words });
        self.out.forget_verdict();
        self.falling.stage = FallStage::Ending;
        for pe in &mut self.members.pes {
            (pe.proc, pe.assigned, pe.rests) = (None, false, false);
        }
        for (node, proc) in self.procs.of_pes() {
            self.out.send(node, Down::Kill { proc });
        }
        self.choose_if_ended();
    }

    /// Gives up if every living PE has reported that it cannot continue.
    pub(super) fn give_up_if_all_unrecoverable(&mut self) {
        if let Some((_, words)) = self.out.verdict().cloned()
            && self.members.all_unrecoverable()
        {
            self.give_up(words);
        }
    }

    /// Processes an event while the job falls back.
    pub(super) fn fall_on(&mut self, event: MembershipEvent) {
        match event {
            MembershipEvent::Ended { proc, .. } => _ = self.procs.remove(proc),
            MembershipEvent::NodeLost { node } => self.lose_node(node),
            MembershipEvent::Message { proc, what: PeMessage::Hello } => {
                self.procs.get_mut(proc).into_iter().for_each(|entry| entry.hello = true);
            }
            MembershipEvent::Message { .. } => {} // of a process that is being killed
            MembershipEvent::Wiped { pe, memory } => _ = self.wiping.remove(&(pe, memory)),
            MembershipEvent::Shown { node, number } => self.nodes.note(node, number),
            MembershipEvent::SetChosen { number, node_of } => {
                return self.begin_again(number, &node_of);
            }
            MembershipEvent::NoSet { why } => {
                let status = self.falling.status(self.recovery.checkpoint);
                return self.out.end(status, Some(why));
            }
            MembershipEvent::MemoryMade { .. }
            | MembershipEvent::Looked { .. }
            | MembershipEvent::Opinion { .. }
            | MembershipEvent::Rested { .. } => {}
        }
        self.choose_if_ended();
    }

    /// Removes a node that is lost while no PE lives.
    fn lose_node(&mut self, node: u32) {
        if !self.nodes.remove(node) {
            return;
        }
        self.falling.node_lost = true;
        self.procs.remove_node(node);
        self.out.say(format!("node {node} was lost"));
        if self.nodes.all().next().is_none() {
            let status = self.falling.status(self.recovery.checkpoint);
            self.out.end(status, Some("unrecoverable: every node was lost".to_owned()));
        }
    }

    /// Asks for a set once every process of a PE has ended.
    fn choose_if_ended(&mut self) {
        let ended = self.procs.of_pes().is_empty() || breaks(Mutant::FallsAmongTheLiving);
        if self.falling.stage != FallStage::Ending || !ended || self.out.is_ended() {
            return;
        }
        self.falling.stage = FallStage::Choosing;
        let home = self.members.all().map(|pe| self.home_of(pe)).collect();
        self.out.push(Action::ChooseSet { home });
    }

    /// Returns the node on which a PE begins again: its own, if that lives.
    fn home_of(&self, pe: Pe) -> u32 {
        let node = self.members.view.pes[pe.at()].node;
        if self.nodes.lives(node) {
            return node;
        }
        self.elsewhere(pe, true).map_or(node, |(_, node)| node)
    }

    /// Begins again from the set of checkpoint `number`, PE k on node `node_of[k]`.
    fn begin_again(&mut self, number: CheckpointNumber, node_of: &[u32]) {
        self.falling.begin_from(number);
        let all: Vec<Pe> = self.members.all().collect();
        self.members.mark_lost(&all, State::NodeDead);
        for (member, &node) in self.members.view.pes.iter_mut().zip(node_of) {
            member.node = node;
        }
        self.members.view.local = false;
        self.members.await_substitutes(&all);
        self.recovery.forget();
        self.recovery.begin_from(number, all.len());
        self.members.show(&self.nodes, &mut self.out);
    }
}
