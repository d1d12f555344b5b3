//! Startup failures: processes that cannot become PEs, and ends before the job is complete, when no
//! PE can be replaced yet.
//!
//! Part of the machine in [`super`].

use super::decisions::Decisions;
use super::members::Members;
use super::processes::Processes;
use crate::ended::Ended;
use crate::quantity::Pe;

/// Ends the job: every substitute would end likewise.
pub(super) fn program_is_missing(pe: Pe, how: Ended, out: &mut Decisions) {
    let why = "the program or a library of it is missing";
    let words = format!("PE {pe} cannot start: its process {how} before shmem_init: {why}");
    out.end(how.status(), Some(words));
}

impl Members {
    /// Handles the end of a process before the job is complete; this is valid if the program never
    /// calls `shmem_init`.
    pub(super) fn ended_at_start(
        &mut self,
        (pe, hello): (Pe, bool),
        how: Ended,
        (procs, out): (&Processes, &mut Decisions),
    ) {
        if how != Ended::Exited(0) || hello {
            let words = format!("PE {pe} {how} before shmem_init was complete");
            return out.end(if how.status() == 0 { 1 } else { how.status() }, Some(words));
        }
        self.pes[pe.at()].status = Some(how);
        self.refuse_part_of_a_job(procs, out);
        self.end_if_all_over(out);
    }

    /// Ends the job if some PEs called `shmem_init` and one ended without: it can never be
    /// complete.
    pub(super) fn refuse_part_of_a_job(&self, procs: &Processes, out: &mut Decisions) {
        let gone = self.pes.iter().position(|pe| pe.status.is_some());
        let waits = procs.any_is_ready();
        if let Some(pe) = gone.filter(|_| !self.started && waits) {
            let words = format!("PE {pe} exited without shmem_init, which other PEs called");
            out.end(1, Some(words));
        }
    }
}
