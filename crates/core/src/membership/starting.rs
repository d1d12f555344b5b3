//! Processes that cannot become PEs, and ends before the job is whole, when nobody can be replaced
//! yet.
//!
//! Part of the machine in [`super`].

use super::{Action, Membership, Proc, Role};
use crate::ended::Ended;
use crate::message::StartFailure;
use crate::quantity::Pe;

impl Membership {
    /// A process says why it cannot become a PE, and will end. If its substitute would fail alike,
    /// or nobody can be replaced yet, the job ends with that line.
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

    /// A process ended as a shell or the loader ends it where the program or a library of it is
    /// missing or is no executable.
    pub(super) fn is_missing(proc: &Proc, how: Ended) -> bool {
        !proc.hello && matches!(how, Ended::Exited(126 | 127))
    }

    /// Every substitute would end alike.
    pub(super) fn program_is_missing(&mut self, pe: Pe, how: Ended) {
        let why = "the program or a library of it is missing";
        let words = format!("PE {pe} cannot start: its process {how} before shmem_init: {why}");
        self.end(how.status(), Some(words));
    }

    /// A process ended before the job was whole: a program that never calls `shmem_init` may.
    pub(super) fn ended_at_start(&mut self, pe: Pe, hello: bool, how: Ended) {
        if how != Ended::Exited(0) || hello {
            let words = format!("PE {pe} {how} before shmem_init was complete");
            return self.end(if how.status() == 0 { 1 } else { how.status() }, Some(words));
        }
        self.pes[pe.at()].status = Some(how);
        self.refuse_part_of_a_job();
        self.end_if_all_over();
    }

    /// Some PEs called `shmem_init` and one ended without: the job will never be whole.
    pub(super) fn refuse_part_of_a_job(&mut self) {
        let gone = self.pes.iter().position(|pe| pe.status.is_some());
        let waits = self.procs.values().any(|proc| proc.hello && proc.role != Role::Spare);
        if let Some(pe) = gone.filter(|_| !self.started && waits) {
            let words = format!("PE {pe} exited without shmem_init, which other PEs called");
            self.end(1, Some(words));
        }
    }
}
