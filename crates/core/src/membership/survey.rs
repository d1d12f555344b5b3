//! The survey of survivable losses: reports the single losses that would end the job.
//!
//! Part of the machine in [`super`]. It reports only changes, and nothing while PEs are lost, since
//! they may restart anywhere, nor in a job without checkpoints or in shrink mode.

use super::decisions::Decisions;
use super::event::Action;
use crate::placement::substitute::JobLayout;
use crate::placement::survival::{Loss, Places, Survival};
use crate::quantity::ViewNumber;
use crate::settings::{BackupMode, Rollback, Settings};
use crate::view::View;

/// The places of a job's groups, and the last survey.
#[derive(Debug, Clone)]
pub(super) struct Survey {
    mode: BackupMode,
    adopt: bool,
    /// True if losses of single nodes or processes can end the job, and others not.
    surveys: bool,
    /// Groups and failure domains: a substitute is placed away from its group.
    pub site: JobLayout,
    /// The initial groups.
    first: Vec<usize>,
    /// The last survey, and the view it was made for.
    surveyed: Option<(ViewNumber, Survival)>,
}

impl Survey {
    /// Creates the survey of a job that has not started.
    pub fn new(settings: &Settings, site: JobLayout) -> Survey {
        let (mode, adopt) = (settings.backup_mode, settings.adopt);
        let surveys = mode.protects() && settings.rollback != Rollback::None;
        let first = site.group_of.clone();
        Survey { mode, adopt, surveys, site, first, surveyed: None }
    }

    /// Returns to the initial groups, for a job that begins again from disk; its PEs report others.
    pub fn begin_again(&mut self) {
        self.site.group_of.clone_from(&self.first);
        self.survey_again();
    }

    fn survey_again(&mut self) {
        self.surveyed.iter_mut().for_each(|(view, _)| *view = ViewNumber(0));
    }

    /// Surveys a view in which every PE is alive, and reports changes.
    pub fn update(&mut self, view: &View, out: &mut Decisions) {
        if !self.surveys || out.is_ended() || self.known(view).is_some() {
            return;
        }
        let found = self.survival(view);
        if self.surveyed.as_ref().is_none_or(|(_, known)| *known != found) {
            out.push(Action::Survives(found.clone()));
        }
        self.surveyed = Some((view.number, found));
    }

    /// Records new parity groups. Returns false if they are known already or do not fit the job.
    pub fn regroup(&mut self, group_of: &[u32], n_pes: usize) -> bool {
        let group_of: Vec<usize> = group_of.iter().map(|&group| group as usize).collect();
        let fits = group_of.len() == n_pes && group_of.iter().all(|&group| group < n_pes);
        if !fits || group_of == self.site.group_of {
            return false;
        }
        self.site.group_of = group_of;
        self.survey_again();
        true
    }

    /// Returns the single losses that would end the job; None until this view is surveyed.
    pub fn known(&self, of: &View) -> Option<&Survival> {
        let (view, known) = self.surveyed.as_ref()?;
        (*view == of.number).then_some(known)
    }

    /// Returns true if the job survives the loss of that node in a view in which every PE is alive.
    pub fn survives_node(&self, view: &View, node: u32) -> bool {
        let loss = Loss::Domain { kind: 0, domain: node as usize };
        self.with_places(view, |places| places.survive(loss))
    }

    /// Returns true if the data of PEs that are killed so that they move can be rebuilt, at most as
    /// many of a group as the parity covers.
    pub fn survives_moves(&self) -> bool {
        !matches!(self.mode, BackupMode::None | BackupMode::Single)
    }

    fn survival(&self, view: &View) -> Survival {
        self.with_places(view, |places| places.survey())
    }

    fn with_places<R>(&self, view: &View, of: impl FnOnce(Places) -> R) -> R {
        let node_of: Vec<usize> = view.pes.iter().map(|pe| pe.node as usize).collect();
        of(Places {
            mode: self.mode,
            adopt: self.adopt,
            site: &self.site,
            node_of: &node_of,
            erased: &vec![false; node_of.len()],
        })
    }
}
