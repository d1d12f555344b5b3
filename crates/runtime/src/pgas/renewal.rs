//! The port by which a substitute on another host gets the log of its predecessor back
//! (`core/replay/far/renewal.rs`).
//!
//! Invariant: each wait ends when all PEs roll back.

#![forbid(unsafe_code)]

use raidshmem_core::replay::decide::Reason;
use raidshmem_core::replay::far::renewal::{RenewalPort, renew};
use raidshmem_core::replay::far::replica::LogReplica;
use raidshmem_core::view::{State, View};

use super::World;
use super::far::FarCalls;
use super::gathering::LogMeetings;
use super::world::far::FarLogs;

/// A substitute whose log was lost with its host.
struct FarRenewal<'a> {
    world: &'a World,
    calls: FarCalls<'a>,
    far: &'a FarLogs,
}

impl LogMeetings<'_> {
    /// Restores the log that was lost with its host, in a job on several hosts. Returns the
    /// checkpoint that it begins at; the log does not show it yet. The error is the reason for a
    /// global rollback.
    pub(crate) fn renew_between_hosts(self) -> Option<Result<u64, Reason>> {
        let (world, calls) = (self.world, self.world.far_calls());
        let far = calls.mirrors()?;
        let renewed = renew(&mut FarRenewal { world, calls, far });
        Some(renewed.map(|()| far.links().interval().checkpoint))
    }
}

impl RenewalPort for FarRenewal<'_> {
    type Cut = Reason;

    fn fetch(&mut self) -> Result<(), Reason> {
        self.far.links().begin_fetch();
        self.calls.tell_new_processes();
        Ok(())
    }

    fn await_answers(&mut self) -> Result<(), Reason> {
        let has_all = |view: &View| {
            let links = self.far.links();
            let mut others = self.calls.pes().filter(|pe| view.pes[pe.at()].state == State::Alive);
            others.all(|pe| links.has_answered(pe, view.pes[pe.at()].incarnation))
        };
        let is_local = self.world.call_log().wait("a local rollback", has_all);
        if is_local { Ok(()) } else { Err(Reason::NodeLost) } // the reason was reported
    }

    fn newest(&mut self) -> Result<Option<LogReplica>, Reason> {
        Ok(self.far.links().newest_replica())
    }

    fn restore(&mut self, replica: &LogReplica) -> Result<(), Reason> {
        if self.far.restore(replica) { Ok(()) } else { Err(Reason::NodeLost) }
    }

    fn resend(&mut self, replica: LogReplica) -> Result<(), Reason> {
        let answers = self.far.begin_restore(replica, self.calls.pes());
        self.calls.tell_new_processes();
        self.calls.pass_answers(self.far, answers);
        Ok(())
    }

    fn give_up(&mut self, why: Reason) -> Reason {
        why
    }
}
