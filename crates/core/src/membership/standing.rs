//! How far the machine says each PE is.
//!
//! Part of the machine in [`super`].

use super::{Membership, Pe, Stage};
use crate::stall::Standing;
use crate::view::{Member, State};

impl Membership {
    /// True once every PE has come to `shmem_init`.
    pub fn has_started(&self) -> bool {
        self.started
    }

    /// How far each PE is.
    pub fn standing(&self) -> Vec<Standing> {
        let of = |(pe, member): (&Pe, &Member)| match pe.stage {
            Stage::Finalized => Standing::Ended,
            _ if pe.status.is_some() => Standing::Ended,
            _ if member.state != State::Alive => Standing::Lost,
            Stage::Starting => match pe.proc.and_then(|proc| self.procs.get(&proc)) {
                Some(proc) if proc.hello => Standing::Joining,
                _ => Standing::Starting,
            },
            Stage::Running | Stage::Unrecoverable => Standing::Running,
            Stage::Finalizing => Standing::Finalizing,
        };
        self.pes.iter().zip(&self.view.pes).map(of).collect()
    }
}
