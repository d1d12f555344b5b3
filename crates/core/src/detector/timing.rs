//! Time, limits and leases.

use std::time::Duration;

use crate::mutant::{Mutant, breaks};

/// Time of the machine's monotonic clock, including suspend.
pub type MachineTime = Duration;

/// The heartbeat period and the lease limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Time between two heartbeats.
    pub period: Duration,
    /// Time without an answer from the launcher after which a node ends itself.
    pub limit: Duration,
}

impl Timing {
    /// Returns the silence after which the launcher asks for a second opinion.
    pub(super) fn doubt(&self) -> Duration {
        self.limit / 2
    }

    /// Returns the time allowed for a second opinion.
    pub(super) fn opinion(&self) -> Duration {
        self.limit / 4
    }

    /// Returns the silence after which a lease has expired and its holder has had time to exit.
    pub(super) fn over(&self) -> Duration {
        if breaks(Mutant::DeclaredTooEarly) { self.doubt() } else { self.limit * 5 / 4 }
    }

    /// Returns the silence after which a node is declared lost regardless of second opinions.
    pub(super) fn last(&self) -> Duration {
        self.limit * 7 / 5
    }

    /// Returns the silence of its parent after which a node turns to the launcher itself.
    pub(super) fn orphaned(&self) -> Duration {
        self.limit / 4
    }

    /// Returns the longest gap between two ticks of a process that was running all the time.
    pub(super) fn away(&self) -> Duration {
        self.period * 2
    }
}

/// A node's right to keep running, renewed by every answer of the launcher or of its parent.
#[derive(Debug, Clone, Copy)]
pub struct Lease {
    limit: Duration,
    contact: MachineTime,
}

impl Lease {
    /// Starts a lease at `now`.
    pub fn new(now: MachineTime, limit: Duration) -> Lease {
        Lease { limit, contact: now }
    }

    /// Renews the lease: the ping sent at `stamp` was answered.
    pub fn renew(&mut self, stamp: MachineTime) {
        self.contact = self.contact.max(stamp);
    }

    /// Renews the lease for `left` only, which the parent that answered the ping sent at `stamp`
    /// grants.
    pub fn renew_for(&mut self, stamp: MachineTime, left: Duration) {
        let end = stamp.saturating_add(left.min(self.limit));
        self.contact = self.contact.max(end.saturating_sub(self.limit));
    }

    /// Returns when the launcher was last known to be reachable.
    pub(super) fn contact(&self) -> MachineTime {
        self.contact
    }

    /// Returns when the lease ends unless it is renewed.
    pub fn end(&self) -> MachineTime {
        self.contact + self.limit
    }

    /// Returns true once the lease has expired.
    pub fn is_over(&self, now: MachineTime) -> bool {
        now >= self.end() && !breaks(Mutant::LeaseWithoutEnd)
    }
}
