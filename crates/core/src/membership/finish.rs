//! The orderly end of a job: the PEs in `shmem_finalize`, and the handling of losses by then.
//!
//! Part of the machine in [`super`]. A PE counts as being in `shmem_finalize` once it has reported
//! entering it as a member of a view in which the latest loss was repaired. The PEs detect if a
//! loss cannot be repaired (`pgas::finish`), and report it here.

use super::decisions::Decisions;
use super::members::{Members, PeStage};
use super::nodes::LivingNodes;
use crate::ended::Ended;
use crate::message::Down;
use crate::mutant::{Mutant, breaks};
use crate::quantity::Pe;
use crate::view::State;

impl Members {
    /// Returns why the job cannot continue: `pe`, which rolled back locally, needs PEs that have
    /// entered `shmem_finalize`.
    pub(super) fn needs_others(&self, pe: Pe) -> String {
        let other =
            self.pes.iter().position(|pe| pe.stage == PeStage::Finalizing).unwrap_or(pe.at());
        format!(
            "unrecoverable: PE {pe} was lost when PE {other} had already entered shmem_finalize; \
             checkpoint before it to be safe to the end"
        )
    }

    /// Returns true if all PEs are in `shmem_finalize` and earlier losses have been repaired.
    pub(super) fn all_in_finalize(&self) -> bool {
        self.pes.iter().all(|pe| pe.stage >= PeStage::Finalizing && self.has_seen_losses(pe))
    }

    /// Lets all PEs leave `shmem_finalize` once all have entered it.
    pub(super) fn finish_if_all_in(&mut self, nodes: &LivingNodes, out: &mut Decisions) {
        if self.all_in_finalize() {
            nodes.send(&Down::Finish, out);
            self.end_if_all_over(out);
        }
    }

    /// Ends the job once every PE has done its work.
    pub(super) fn end_if_all_over(&self, out: &mut Decisions) {
        let Some(ends) = self.pes.iter().map(|pe| pe.status).collect::<Option<Vec<Ended>>>() else {
            return;
        };
        self.report_holes(out);
        let named = Pe::all(ends.len()).zip(&ends).find(|(_, how)| how.status() != 0);
        let status = named.map_or(0, |(_, how)| how.status());
        let words = named.and_then(|(pe, how)| match how {
            Ended::Exited(_) => Some(format!("PE {pe} {how} after shmem_finalize")),
            Ended::Killed(_) => None, // already reported when it happened
        });
        out.end(if breaks(Mutant::StatusLost) { 0 } else { status }, words);
    }

    /// Returns the first report that the job cannot continue, once every living PE has made one.
    pub(super) fn common_verdict(&self, out: &Decisions) -> Option<String> {
        let mut alive =
            self.view.pes.iter().zip(&self.pes).filter(|(m, _)| m.state == State::Alive);
        let all = alive.all(|(_, pe)| pe.stage == PeStage::Unrecoverable);
        out.verdict().filter(|_| all).map(|(_, words)| words.clone())
    }

    /// Ends PEs that had passed `shmem_finalize` and were lost with their node: in a mode that
    /// `protects`, their work is done, so the loss costs nothing.
    pub(super) fn over_with_node(
        &mut self,
        over: &[Pe],
        how: Ended,
        protects: bool,
        out: &mut Decisions,
    ) {
        let costs = !protects && !self.shrinks();
        let how = if costs { how } else { Ended::Exited(0) };
        if !costs && over.iter().any(|pe| self.pes[pe.at()].status.is_none()) {
            out.say("all PEs have left shmem_finalize: the loss costs nothing");
        }
        for pe in over {
            self.pes[pe.at()].status.get_or_insert(how);
        }
    }

    /// Records losses after all PEs have done their work, of which nothing is lost. An exit status
    /// of the program is kept.
    pub(super) fn lose_at_end(&mut self, lost: &[Pe], how: Ended, out: &mut Decisions) {
        for &pe in lost {
            let how = if let Ended::Exited(_) = how { how } else { Ended::Exited(0) };
            (self.pes[pe.at()].stage, self.pes[pe.at()].status) = (PeStage::Finalized, Some(how));
        }
        out.say("all PEs are in shmem_finalize: the loss costs nothing");
        self.end_if_all_over(out);
    }
}
