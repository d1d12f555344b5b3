//! Ends of processes before the job is whole, when nobody can be replaced yet.
//!
//! Part of the machine in [`super`].

use super::{Membership, Role};
use crate::ended::Ended;
use crate::quantity::Pe;

impl Membership {
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
