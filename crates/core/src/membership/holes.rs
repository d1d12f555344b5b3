//! Shrink mode: the job continues without lost PEs, whose numbers stay unused.
//!
//! Part of the machine in [`super`]. A hole counts as ended: it gets no substitute, its memory is
//! left untouched, and `shmem_finalize` does not wait for it. The way its process ended does not
//! affect the job's status, which is the first status of a living PE that is not 0.

use std::collections::BTreeSet;

use super::{Action, Membership, Stage};
use crate::ended::{Ended, UNRECOVERABLE};
use crate::quantity::{Pe, ViewNumber};

impl Membership {
    /// Returns true if the PE was lost for good.
    pub(super) fn is_hole(&self, pe: Pe) -> bool {
        self.holes.as_ref().is_some_and(|holes| holes.contains(&pe))
    }

    /// Turns the PEs that are dead in the next view into holes. Returns false: the loss needs no
    /// further handling.
    pub(super) fn leave_holes(&mut self, lost: &[Pe]) -> bool {
        self.holes.get_or_insert_default().extend(lost);
        for &pe in lost {
            self.lost.insert(pe);
            let hole = &mut self.pes[pe.at()];
            (hole.stage, hole.status, hole.joined) =
                (Stage::Finalized, Some(Ended::Exited(0)), ViewNumber(u64::MAX));
        }
        if Pe::all(self.pes.len()).all(|pe| self.is_hole(pe)) {
            self.end(UNRECOVERABLE, Some("unrecoverable: every PE was lost".to_owned()));
            return false;
        }
        self.show();
        self.finish_if_all_in();
        false
    }

    /// Reports at the end of the job which PEs were lost.
    pub(super) fn report_holes(&mut self) {
        let holes: &BTreeSet<Pe> = match &self.holes {
            Some(holes) if !holes.is_empty() => holes,
            _ => return,
        };
        let holes: Vec<Pe> = holes.iter().copied().collect();
        let verb = if holes.len() == 1 { "was" } else { "were" };
        let line = format!("{} {verb} lost, and the remaining PEs finished", Pe::names(&holes));
        self.out.push(Action::Say(line));
    }
}
