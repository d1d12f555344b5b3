//! A job that goes on with fewer: the number of a lost PE stays, and nobody carries it.
//!
//! Part of the machine in [`super`]. A hole has had its end: nobody is started for it, its memory
//! is left alone, nobody waits for it in `shmem_finalize`, and how its process ended is not the
//! status of the job, which is the first of the living that is not 0.

use std::collections::BTreeSet;

use super::{Action, Membership, Stage};
use crate::ended::{Ended, UNRECOVERABLE};
use crate::quantity::{Pe, ViewNumber};

impl Membership {
    /// True if the PE was lost for good.
    pub(super) fn is_hole(&self, pe: Pe) -> bool {
        self.holes.as_ref().is_some_and(|holes| holes.contains(&pe))
    }

    /// PEs that are dead in the view to come leave holes. False: what is to be done about them is
    /// done.
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

    /// The job is over: says who was lost on the way.
    pub(super) fn tell_of_holes(&mut self) {
        let holes: &BTreeSet<Pe> = match &self.holes {
            Some(holes) if !holes.is_empty() => holes,
            _ => return,
        };
        let holes: Vec<Pe> = holes.iter().copied().collect();
        let verb = if holes.len() == 1 { "was" } else { "were" };
        let line = format!("{} {verb} lost, and the others went on to the end", Pe::names(&holes));
        self.out.push(Action::Say(line));
    }
}
