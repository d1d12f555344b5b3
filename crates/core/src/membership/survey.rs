//! The survey of survivable losses: reports the single losses that would end the job.
//!
//! Part of the machine in [`super`]. It reports only changes, and nothing while PEs are lost, since
//! they may restart anywhere, nor in a job without checkpoints or in shrink mode.

use super::{Action, Membership};
use crate::placement::survival::{Places, Survival};
use crate::quantity::ViewNumber;

impl Membership {
    /// Surveys a view in which every PE is alive, and reports changes.
    pub(super) fn survey(&mut self) {
        let protects = self.mode.protects() && self.holes.is_none();
        let settled = self.started && !self.ended && self.lost.is_empty();
        if !protects || !settled || self.known_survival().is_some() {
            return;
        }
        let found = self.survival();
        if self.surveyed.as_ref().is_none_or(|(_, known)| *known != found) {
            self.out.push(Action::Survives(found.clone()));
        }
        self.surveyed = Some((self.view.number, found));
    }

    /// Records new parity groups. Returns false if they are known already or do not fit the job.
    pub(super) fn regroup(&mut self, group_of: &[u32]) -> bool {
        let group_of: Vec<usize> = group_of.iter().map(|&group| group as usize).collect();
        let bound = self.pes.len();
        let fits = group_of.len() == bound && group_of.iter().all(|&group| group < bound);
        if !fits || group_of == self.site.group_of {
            return false;
        }
        self.site.group_of = group_of;
        self.surveyed.iter_mut().for_each(|(view, _)| *view = ViewNumber(0)); // survey again
        true
    }

    /// Returns the parity group of each PE.
    pub fn group_of(&self) -> &[usize] {
        &self.site.group_of
    }

    /// Returns the single losses that would end the job; None until the current view is surveyed.
    pub fn known_survival(&self) -> Option<&Survival> {
        let (view, known) = self.surveyed.as_ref()?;
        (*view == self.view.number).then_some(known)
    }

    fn survival(&self) -> Survival {
        let node_of: Vec<usize> = self.view.pes.iter().map(|pe| pe.node as usize).collect();
        let places = Places {
            mode: self.mode,
            adopt: self.adopt,
            site: &self.site,
            node_of: &node_of,
            erased: &vec![false; node_of.len()],
        };
        places.survey()
    }
}
