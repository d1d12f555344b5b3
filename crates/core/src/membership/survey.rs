//! Reports the single losses that would end the job, whenever they change.
//!
//! Part of the machine in [`super`]. Nothing is reported while PEs are lost, since they may come back
//! anywhere, nor in a job that keeps no checkpoints or goes on with fewer.

use super::{Action, Membership};
use crate::placement::survival::{Places, Survival};
use crate::quantity::ViewNumber;

/// The last survey.
#[derive(Debug, Clone, Default)]
pub(super) struct Surveyed {
    /// The view of which it was made; views are numbered from 1 once the job has started.
    view: ViewNumber,
    found: Option<Survival>,
}

impl Membership {
    /// Surveys a view in which every PE lives, and reports what has changed.
    pub(super) fn survey(&mut self) {
        let protects = self.mode.protects() && self.holes.is_none();
        let settled = self.started && !self.ended && self.lost.is_empty();
        if !protects || !settled || self.surveyed.view == self.view.number {
            return;
        }
        self.surveyed.view = self.view.number;
        let found = Some(self.survival());
        if self.surveyed.found != found {
            self.out.extend(found.clone().map(Action::Survives));
            self.surveyed.found = found;
        }
    }

    /// The single losses that would end the job; None while that is about to change.
    pub fn known_survival(&self) -> Option<&Survival> {
        self.surveyed.found.as_ref().filter(|_| self.surveyed.view == self.view.number)
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
