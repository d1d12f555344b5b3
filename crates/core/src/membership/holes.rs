//! Shrink mode: the job continues without lost PEs, whose numbers stay unused.
//!
//! Part of the machine in [`super`]. A hole counts as ended: it gets no substitute, its memory is
//! left untouched, and `shmem_finalize` does not wait for it. The way its process ended does not
//! affect the job's status, which is the first status of a living PE that is not 0.

use super::decisions::Decisions;
use super::members::{Members, PeStage};
use super::nodes::LivingNodes;
use crate::ended::{Ended, UNRECOVERABLE};
use crate::quantity::{Pe, ViewNumber};

impl Members {
    /// Returns true if the job continues without lost PEs.
    pub(super) fn shrinks(&self) -> bool {
        self.holes.is_some()
    }

    /// Returns true if the PE was lost for good.
    pub(super) fn is_hole(&self, pe: Pe) -> bool {
        self.holes.as_ref().is_some_and(|holes| holes.contains(&pe))
    }

    /// Turns the PEs that are dead in the next view into holes. The loss needs no further handling.
    pub(super) fn leave_holes(&mut self, lost: &[Pe], nodes: &LivingNodes, out: &mut Decisions) {
        self.holes.get_or_insert_default().extend(lost);
        for &pe in lost {
            let hole = &mut self.pes[pe.at()];
            (hole.stage, hole.status, hole.joined) =
                (PeStage::Finalized, Some(Ended::Exited(0)), ViewNumber(u64::MAX));
        }
        if self.all().all(|pe| self.is_hole(pe)) {
            return out.end(UNRECOVERABLE, Some("unrecoverable: every PE was lost".to_owned()));
        }
        self.show(nodes, out);
        self.finish_if_all_in(nodes, out);
    }

    /// Reports at the end of the job which PEs were lost.
    pub(super) fn report_holes(&self, out: &mut Decisions) {
        let holes: Vec<Pe> = self.holes.iter().flatten().copied().collect();
        if !holes.is_empty() {
            let verb = if holes.len() == 1 { "was" } else { "were" };
            let names = Pe::names(&holes);
            out.say(format!("{names} {verb} lost, and the remaining PEs finished"));
        }
    }
}
