//! The state of each PE, as the membership machine sees it, and the progress that PEs report.
//!
//! Part of the machine in [`super`].

use std::collections::BTreeSet;

use super::{Action, Membership, PeEntry, Role, Stage};
use crate::message::{ProcId, ProgressReport, Reader};
use crate::quantity::Pe;
use crate::view::{Member, PeState, State, View};

impl Membership {
    /// Returns true once every PE has reached `shmem_init`.
    pub fn has_started(&self) -> bool {
        self.started
    }

    /// Returns the view: the process that carries each PE number.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the PE that a process carries or will carry; None for a spare.
    pub fn pe_of(&self, proc: ProcId) -> Option<Pe> {
        match self.procs.get(&proc)?.role {
            Role::Pe(pe) | Role::Substitute(pe) => Some(pe),
            Role::Spare => None,
        }
    }

    /// Returns the number of spares: processes that wait for a PE to be lost.
    pub fn spares(&self) -> usize {
        self.procs.values().filter(|proc| proc.role == Role::Spare).count()
    }

    /// Returns the number of spares on a node.
    pub fn spares_on(&self, node: u32) -> usize {
        let procs = self.procs.values().filter(|proc| proc.node == node);
        procs.filter(|proc| proc.role == Role::Spare).count()
    }

    /// Takes from a PE's report what the machine needs, and passes it on.
    pub(super) fn reported(&mut self, report: ProgressReport) {
        match &report {
            ProgressReport::Checkpoint { number, .. } => self.checkpoint = *number,
            ProgressReport::Resumed { checkpoint, view, .. } => {
                self.resumed(*checkpoint, *view);
            }
            ProgressReport::Alone { .. } => (self.lost, self.corrupt) = (BTreeSet::new(), 0),
            ProgressReport::Replayed { pe, .. } => self.caught_up(*pe),
            ProgressReport::Regrouped { group_of, .. } => {
                if !self.regroup(group_of) {
                    return; // that is known
                }
            }
            other => other.ignored_by(Reader::Membership),
        }
        self.out.push(Action::Tell(report));
    }

    /// Returns the state of each PE.
    pub fn standing(&self) -> Vec<PeState> {
        let of = |(number, (pe, member)): (usize, (&PeEntry, &Member))| match pe.stage {
            _ if self.is_hole(Pe::of(number)) => PeState::Hole,
            Stage::Finalized => PeState::Ended,
            _ if pe.status.is_some() => PeState::Ended,
            _ if member.state != State::Alive => PeState::Lost,
            Stage::Starting => match pe.proc.and_then(|proc| self.procs.get(&proc)) {
                Some(proc) if proc.hello => PeState::Joining,
                _ => PeState::Starting,
            },
            Stage::Running | Stage::Unrecoverable if self.lost.contains(&Pe::of(number)) => {
                PeState::Recovering
            }
            Stage::Running | Stage::Unrecoverable => PeState::Running,
            Stage::Finalizing => PeState::Finalizing,
        };
        self.pes.iter().zip(&self.view.pes).enumerate().map(of).collect()
    }
}
