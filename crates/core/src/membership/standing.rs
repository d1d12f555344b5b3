//! The state of each PE, as the membership machine sees it, and the progress that PEs report.
//!
//! Part of the machine in [`super`].

use super::{Action, DrainRefusal, Membership};
use crate::message::{ProcId, ProgressReport, Reader};
use crate::placement::moves::PlaceHistory;
use crate::placement::survival::Survival;
use crate::quantity::Pe;
use crate::view::{PeState, View};

impl Membership {
    /// Returns true once every PE has reached `shmem_init`.
    pub fn has_started(&self) -> bool {
        self.members.started
    }

    /// Returns the view: the process that carries each PE number.
    pub fn view(&self) -> &View {
        &self.members.view
    }

    /// Returns the PE that a process carries or will carry; None for a spare.
    pub fn pe_of(&self, proc: ProcId) -> Option<Pe> {
        self.procs.get(proc)?.role.pe()
    }

    /// Returns the nodes of the PEs in all views so far.
    pub fn places(&self) -> &PlaceHistory {
        &self.members.places
    }

    /// Returns the number of spares, on one node or on all: processes that wait for a loss.
    pub fn spares(&self, node: Option<u32>) -> usize {
        node.map_or_else(|| self.procs.spares(), |node| self.procs.spares_on(node))
    }

    /// Returns the parity group of each PE.
    pub fn group_of(&self) -> &[usize] {
        &self.survey.site.group_of
    }

    /// Returns the single losses that would end the job; None until the current view is surveyed.
    pub fn known_survival(&self) -> Option<&Survival> {
        self.survey.known(&self.members.view)
    }

    /// Returns the node that is being drained.
    pub fn drained_node(&self) -> Option<u32> {
        self.drains.node()
    }

    /// Returns the reason why `node` cannot be drained now; for None, why a node may not join.
    pub fn refuses_move(&mut self, node: Option<u32>) -> Option<DrainRefusal> {
        self.drain(|drains, site, _| drains.refuses(node, &site))
    }

    /// Takes from a PE's report what the machine needs, and passes it on.
    pub(super) fn reported(&mut self, report: ProgressReport) {
        match &report {
            ProgressReport::Checkpoint { number, .. } => self.recovery.checkpoint = *number,
            ProgressReport::Resumed { checkpoint, view, .. } => {
                self.resumed(*checkpoint, *view);
            }
            ProgressReport::Alone { .. } => {
                self.drains.note_rollback();
                self.recovery.forget();
            }
            ProgressReport::Replayed { pe, .. } => {
                self.members.pes[pe.at()].crashes.resume(self.recovery.checkpoint);
                if self.recovery.catch_up(*pe) {
                    self.members.view.local = false;
                }
            }
            ProgressReport::Regrouped { group_of, .. } => {
                if !self.survey.regroup(group_of, self.members.pes.len()) {
                    return; // that is known
                }
            }
            other => other.ignored_by(Reader::Membership),
        }
        self.out.push(Action::Tell(report));
    }

    /// Returns the state of each PE.
    pub fn standing(&self) -> Vec<PeState> {
        self.members.standing(&self.procs, &self.recovery.lost)
    }
}
