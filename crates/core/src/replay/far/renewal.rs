//! The log of a PE that was lost with its node, and that no other PE maps: a substitute on another
//! node gets it back.
//!
//! ```text
//! fetch      requests the replica from all PEs, and takes the newest
//! restore    the own log has the records of the replica; times go on after those
//! resend     others send their records again: those that the predecessor had taken get the times
//!            and the values found of old, later ones wait for the end of the replay
//! ```
//!
//! A PE that was lost together with this one sends its records when its own replay comes to them.
//! So the replay begins at once, and [`await_records`](super::super::port::CallPort::await_records)
//! waits for those that it needs next. They were taken before the call that needs them, hence sent
//! before: of several lost PEs, one can always go on.
//!
//! Invariant: at the end of the replay the log and the mirrors are as at the last part of the
//! replica, which is as if a process had died then. Until then, a substitute of this process
//! begins anew.

use super::replica::LogReplica;
use crate::replay::decide::Reason;

/// The access of a substitute to other PEs, and to its log and mirrors. Each access fails if all
/// PEs roll back.
pub trait RenewalPort {
    /// The error of each access: all PEs roll back.
    type Cut;

    /// Requests the replica from all living PEs.
    fn fetch(&mut self) -> Result<(), Self::Cut>;
    /// Waits until all of them have answered.
    fn await_answers(&mut self) -> Result<(), Self::Cut>;
    /// Returns the newest replica among the answers.
    fn newest(&mut self) -> Result<Option<LogReplica>, Self::Cut>;
    /// Writes the records to the own log, which does not show its interval yet. Later times follow
    /// those of all records and arrivals.
    fn restore(&mut self, replica: &LogReplica) -> Result<(), Self::Cut>;
    /// Empties the mirrors, and requests all records of the replica's interval.
    fn resend(&mut self, replica: LogReplica) -> Result<(), Self::Cut>;
    /// Requests a global rollback, and waits until it begins.
    fn give_up(&mut self, why: Reason) -> Self::Cut;
}

/// Restores the own log and the mirrors.
///
/// # Errors
/// Fails if all PEs roll back.
pub fn renew<P: RenewalPort>(port: &mut P) -> Result<(), P::Cut> {
    port.fetch()?;
    port.await_answers()?;
    let Some(replica) = port.newest()? else { return Err(port.give_up(Reason::NodeLost)) };
    port.restore(&replica)?;
    port.resend(replica)
}
