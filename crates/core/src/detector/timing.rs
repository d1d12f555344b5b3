//! Time, limits and leases.

use std::time::Duration;

use crate::mutant::{Mutant, breaks};

/// Time of the machine's own clock, which never goes back.
pub type MachineTime = Duration;

/// How often, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Between two heartbeats.
    pub period: Duration,
    /// After this without an answer of the launcher a node ends itself.
    pub limit: Duration,
}

impl Timing {
    /// Silence after which the launcher asks for a second opinion.
    pub(super) fn doubt(&self) -> Duration {
        self.limit / 2
    }

    /// How long a second opinion may take.
    pub(super) fn opinion(&self) -> Duration {
        self.limit / 4
    }

    /// Silence after which a lease has run out, with time to end what it held.
    pub(super) fn over(&self) -> Duration {
        if breaks(Mutant::DeclaredTooEarly) { self.doubt() } else { self.limit * 5 / 4 }
    }

    /// Silence after which no opinion counts any more.
    pub(super) fn last(&self) -> Duration {
        self.limit * 7 / 5
    }

    /// Silence of its parent after which a node turns to the launcher itself.
    pub(super) fn orphaned(&self) -> Duration {
        self.limit / 4
    }

    /// Between two looks at a clock more time than this does not pass unless one was away.
    pub(super) fn away(&self) -> Duration {
        self.period * 2
    }
}

/// The right of a node to go on, renewed by every answer of the launcher or of its parent.
#[derive(Debug, Clone, Copy)]
pub struct Lease {
    limit: Duration,
    contact: MachineTime,
}

impl Lease {
    /// Begins at `now`.
    pub fn new(now: MachineTime, limit: Duration) -> Lease {
        Lease { limit, contact: now }
    }

    /// The ping that was sent at `stamp` was answered.
    pub fn renew(&mut self, stamp: MachineTime) {
        self.contact = self.contact.max(stamp);
    }

    /// The ping that was sent at `stamp` was answered by a node that renews for so long.
    pub fn renew_for(&mut self, stamp: MachineTime, left: Duration) {
        let end = stamp.saturating_add(left.min(self.limit));
        self.contact = self.contact.max(end.saturating_sub(self.limit));
    }

    /// When the launcher was last known to be there.
    pub(super) fn contact(&self) -> MachineTime {
        self.contact
    }

    /// When it ends unless it is renewed.
    pub fn end(&self) -> MachineTime {
        self.contact + self.limit
    }

    /// True when it has run out.
    pub fn is_over(&self, now: MachineTime) -> bool {
        now >= self.end() && !breaks(Mutant::LeaseWithoutEnd)
    }
}
