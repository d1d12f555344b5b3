//! Who is dead, between nodes: time and messages in, verdicts out; no clock, no socket.
//!
//! Two machines. A [`Watch`] runs in every agent, the [`Court`] in the launcher.
//!
//! ```text
//! every period   agent --ping--> launcher --pong--> agent      renews the agent's lease
//!                agent --ping--> its successor in the ring --pong--> agent
//!                  (with RDMA also: its counter, which was read, has moved)
//! lease over     the agent ends its PEs, says so where that still arrives, and ends itself
//! launcher hears nothing for
//!   limit / 2    asks another node for a second opinion
//!   1.25 limits  that node hears nothing either, or nobody can be asked: declared lost
//!   1.4 limits   declared lost whatever others hear: its lease is over
//! ring silent    the watcher accuses; if another node hears nothing either, the node is cut off
//!                from its peers and is told to end, though the launcher hears it
//! ```
//!
//! Invariants:
//! - a lease is counted from when its ping was sent, by the clock of who holds it, and the launcher
//!   counts from when it heard that ping, which is later: so nobody is declared lost by silence
//!   before its lease is over, and of the sides of a partition only the launcher's goes on;
//! - nobody is declared lost while pings and pongs arrive within the limit;
//! - whoever was away itself (stopped, not scheduled) judges nobody by that time: it extends the
//!   others' time, never its own lease;
//! - who was declared lost is never answered again.
//!
//! All time counts, also that in which a machine sleeps: others do not wait for it. Only nodes that
//! are all on the launcher's machine sleep with it, and their leases do.
//!
//! Left out: deaths that are known (a pidfd, a keeper's exit status): they are told as such and
//! need no time.

#![forbid(unsafe_code)]
#![allow(missing_docs)] // the sentence of each event and action speaks of its fields

mod court;
mod watch;

use std::time::Duration;

pub use court::{Court, Evidence, Sentence};
pub use watch::{Act, News, Watch};

/// Time of the machine's own clock, which never goes back.
pub type Time = Duration;

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
    fn doubt(&self) -> Duration {
        self.limit / 2
    }

    /// How long a second opinion may take.
    fn opinion(&self) -> Duration {
        self.limit / 4
    }

    /// Silence after which a lease has run out, with time to end what it held.
    fn over(&self) -> Duration {
        self.limit * 5 / 4
    }

    /// Silence after which no opinion counts any more.
    fn last(&self) -> Duration {
        self.limit * 7 / 5
    }

    /// Between two looks at a clock more time than this does not pass unless one was away.
    fn away(&self) -> Duration {
        self.period * 2
    }
}

/// The right of a node to go on, renewed by every answer of the launcher.
#[derive(Debug, Clone, Copy)]
pub struct Lease {
    limit: Duration,
    contact: Time,
}

impl Lease {
    /// Begins at `now`.
    pub fn new(now: Time, limit: Duration) -> Lease {
        Lease { limit, contact: now }
    }

    /// The ping that was sent at `stamp` was answered.
    pub fn renew(&mut self, stamp: Time) {
        self.contact = self.contact.max(stamp);
    }

    /// When it ends unless it is renewed.
    pub fn end(&self) -> Time {
        self.contact + self.limit
    }

    /// True when it has run out.
    pub fn is_over(&self, now: Time) -> bool {
        now >= self.end()
    }
}

#[cfg(test)]
mod tests;
