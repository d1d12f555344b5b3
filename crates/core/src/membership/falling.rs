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

use super::fallback::FallStage;
use super::{Action, Membership, MembershipEvent};
use crate::ended::UNRECOVERABLE;
use crate::message::{Down, PeMessage};
use crate::mutant::{Mutant, breaks};
use crate::quantity::{CheckpointNumber, Pe};
use crate::view::State;

impl Membership {
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
        self.drains.withdraw(&self.nodes, &mut self.out);
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

    /// Processes an event while the job falls back.
    pub(super) fn fall_on(&mut self, event: MembershipEvent) {
        match event {
            MembershipEvent::Ended { proc, .. } => _ = self.procs.remove(proc),
            MembershipEvent::NodeLost { node } if self.nodes.remove(node) => {
                self.falling.node_lost = true;
                self.procs.remove_node(node);
                self.out.say(format!("node {node} was lost"));
                if self.nodes.all().next().is_none() {
                    let status = self.falling.status(self.recovery.checkpoint);
                    self.out.end(status, Some("unrecoverable: every node was lost".to_owned()));
                }
            }
            MembershipEvent::Message { proc, what: PeMessage::Hello } => {
                self.procs.get_mut(proc).into_iter().for_each(|entry| entry.hello = true);
            }
            MembershipEvent::Message { .. } => {} // of a process that is being killed
            MembershipEvent::Wiped { pe, memory } => _ = self.wiping.remove(&(pe, memory)),
            MembershipEvent::Shown { node, number } => self.nodes.note(node, number),
            MembershipEvent::SetStored => self.falling.has_set = true,
            MembershipEvent::SetChosen { number, node_of } => {
                return self.begin_again(number, &node_of);
            }
            MembershipEvent::NoSet { why } => {
                let status = self.falling.status(self.recovery.checkpoint);
                return self.out.end(status, Some(why));
            }
            MembershipEvent::NodeLost { .. }
            | MembershipEvent::Drain { .. }
            | MembershipEvent::Joined { .. }
            | MembershipEvent::MemoryMade { .. }
            | MembershipEvent::Looked { .. }
            | MembershipEvent::Opinion { .. }
            | MembershipEvent::Rested { .. } => {}
        }
        self.choose_if_ended();
    }

    /// Asks for a set once every process of a PE has ended.
    fn choose_if_ended(&mut self) {
        let ended = self.procs.of_pes().is_empty() || breaks(Mutant::FallsAmongTheLiving);
        if self.falling.stage != FallStage::Ending || !ended || self.out.is_ended() {
            return;
        }
        self.falling.stage = FallStage::Choosing;
        // A PE begins again on its own node, if that lives.
        let home = |pe: Pe| {
            let node = self.members.view.pes[pe.at()].node;
            let other = || self.elsewhere(pe, true).map_or(node, |(_, node)| node);
            if self.nodes.lives(node) { node } else { other() }
        };
        let home = self.members.all().map(home).collect();
        self.out.push(Action::ChooseSet { home });
    }

    /// Begins again from the set of checkpoint `number`, PE k on node `node_of[k]`.
    fn begin_again(&mut self, number: CheckpointNumber, node_of: &[u32]) {
        self.falling.begin_from(number);
        self.survey.begin_again();
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
