//! Startup failures: processes that cannot become PEs, and ends before the job is complete, when no
//! PE can be replaced yet.
//!
//! Part of the machine in [`super`].

use super::{Action, Membership, Proc, Role};
use crate::ended::Ended;
use crate::message::StartFailure;
use crate::quantity::Pe;

impl Membership {
    /// Handles a process that reports why it cannot become a PE, and will end. If its substitute
    /// would fail likewise, or no PE can be replaced yet, the job ends with that report.
    pub(super) fn cannot_start(
        &mut self,
        role: Role,
        cause: StartFailure,
        (status, words): (i32, &str),
    ) {
        let (Role::Pe(pe) | Role::Substitute(pe)) = role else { return };
        let line = format!("PE {pe} cannot start: {words}");
        if cause.lasts() || !self.started {
            return self.end(status, Some(line));
        }
        self.out.push(Action::Say(line));
    }

    /// Returns true if the process ended as a shell or the loader ends it when the program, or one
    /// of its libraries, is missing or not executable.
    pub(super) fn is_missing(proc: &Proc, how: Ended) -> bool {
        !proc.hello && matches!(how, Ended::Exited(126 | 127))
    }

    /// Ends the job: every substitute would end likewise.
    pub(super) fn program_is_missing(&mut self, pe: Pe, how: Ended) {
        let why = "the program or a library of it is missing";
        let words = format!("PE {pe} cannot start: its process {how} before shmem_init: {why}");
        self.end(how.status(), Some(words));
    }

    /// Handles the end of a process before the job is complete; this is valid if the program never
    /// calls `shmem_init`.
    pub(super) fn ended_at_start(&mut self, pe: Pe, hello: bool, how: Ended) {
        if how != Ended::Exited(0) || hello {
            let words = format!("PE {pe} {how} before shmem_init was complete");
            return self.end(if how.status() == 0 { 1 } else { how.status() }, Some(words));
        }
        self.pes[pe.at()].status = Some(how);
        self.refuse_part_of_a_job();
        self.end_if_all_over();
    }

    /// Ends the job if some PEs called `shmem_init` and one ended without: it can never be
    /// complete.
    pub(super) fn refuse_part_of_a_job(&mut self) {
        let gone = self.pes.iter().position(|pe| pe.status.is_some());
        let waits = self.procs.values().any(|proc| proc.hello && proc.role != Role::Spare);
        if let Some(pe) = gone.filter(|_| !self.started && waits) {
            let words = format!("PE {pe} exited without shmem_init, which other PEs called");
            self.end(1, Some(words));
        }
    }
}
