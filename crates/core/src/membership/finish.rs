//! The orderly end of a job: the PEs in `shmem_finalize`, and the handling of losses by then.
//!
//! Part of the machine in [`super`]. A PE counts as being in `shmem_finalize` once it has reported
//! entering it as a member of a view in which the latest loss was repaired. The PEs detect if a
//! loss cannot be repaired (`pgas::finish`), and report it here.

use super::{Action, Membership, Stage};
use crate::ended::Ended;
use crate::ended::UNRECOVERABLE;
use crate::message::Down;
use crate::mutant::{Mutant, breaks};
use crate::quantity::{Pe, ViewNumber};

impl Membership {
    pub(super) fn finalizing(&mut self, pe: Pe, joined: ViewNumber, cut: bool) {
        if cut && self.mode.protects() {
            let lost: Vec<Pe> = self.lost.iter().copied().collect();
            let words = format!(
                "unrecoverable: PE {pe} entered shmem_finalize without rolling back to the \
                 checkpoint, though {} {} lost; checkpoint before it to be safe to the end",
                Pe::names(&lost),
                if lost.len() == 1 { "was" } else { "were" }
            );
            return self.end(UNRECOVERABLE, Some(words));
        }
        (self.pes[pe.at()].stage, self.pes[pe.at()].joined) = (Stage::Finalizing, joined);
        self.finish_if_all_in();
    }

    /// Ends the job: `pe`, which rolled back locally, needs PEs that have entered `shmem_finalize`.
    pub(super) fn needs_others(&mut self, pe: Pe) {
        let other = self.pes.iter().position(|pe| pe.stage == Stage::Finalizing).unwrap_or(pe.at());
        let words = format!(
            "unrecoverable: PE {pe} was lost when PE {other} had already entered shmem_finalize; \
             checkpoint before it to be safe to the end"
        );
        self.end(UNRECOVERABLE, Some(words));
    }

    /// Returns true if all PEs are in `shmem_finalize` and earlier losses have been repaired.
    pub(super) fn all_in_finalize(&self) -> bool {
        self.pes.iter().all(|pe| pe.stage >= Stage::Finalizing && pe.joined >= self.fault_view)
    }

    pub(super) fn finish_if_all_in(&mut self) {
        if self.all_in_finalize() {
            let nodes: Vec<u32> = self.shown.keys().copied().collect();
            for node in nodes {
                self.send(node, Down::Finish);
            }
            self.end_if_all_over();
        }
    }

    pub(super) fn end_if_all_over(&mut self) {
        let Some(ends) = self.pes.iter().map(|pe| pe.status).collect::<Option<Vec<Ended>>>() else {
            return;
        };
        self.report_holes();
        let named = Pe::all(ends.len()).zip(&ends).find(|(_, how)| how.status() != 0);
        let status = named.map_or(0, |(_, how)| how.status());
        let words = named.and_then(|(pe, how)| match how {
            Ended::Exited(_) => Some(format!("PE {pe} {how} after shmem_finalize")),
            Ended::Killed(_) => None, // already reported when it happened
        });
        self.end(if breaks(Mutant::StatusLost) { 0 } else { status }, words);
    }

    /// Ends PEs that had passed `shmem_finalize` and were lost with their node: in a mode that
    /// protects, their work is done, so the loss costs nothing.
    pub(super) fn over_with_node(&mut self, over: &[Pe], how: Ended) {
        let costs = !self.mode.protects() && self.holes.is_none();
        let how = if costs { how } else { Ended::Exited(0) };
        let running = |pe: &Pe, of: &Membership| of.pes[pe.at()].status.is_none();
        if !costs && over.iter().any(|pe| running(pe, self)) {
            let line = "all PEs have left shmem_finalize: the loss costs nothing";
            self.out.push(Action::Say(line.to_owned()));
        }
        for pe in over {
            self.pes[pe.at()].status.get_or_insert(how);
        }
    }

    /// Records losses after all PEs have done their work, of which nothing is lost. An exit status
    /// of the program is kept.
    pub(super) fn lose_at_end(&mut self, lost: &[Pe], how: Ended) -> bool {
        for &pe in lost {
            let how = if let Ended::Exited(_) = how { how } else { Ended::Exited(0) };
            (self.pes[pe.at()].stage, self.pes[pe.at()].status) = (Stage::Finalized, Some(how));
        }
        let line = "all PEs are in shmem_finalize: the loss costs nothing".to_string();
        self.out.push(Action::Say(line));
        self.end_if_all_over();
        false
    }
}
