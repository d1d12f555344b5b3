//! The look of a substitute before it restores its memory: reasons against a local rollback.
//!
//! ```text
//! store      the predecessor was in no checkpoint, and its snapshot is valid
//! logs       each PE's log begins at that checkpoint, and none holds a reason
//! place      the checkpoint was made at this call
//! doubt      the predecessor was not killed during an operation that must happen once
//! quiet      no survivor is in a put to this PE that began before the loss was published
//! ```
//!
//! Invariant: this PE changes nothing before it has found no reason.

use super::decide::Reason;
use super::log::{holds_a_call, is_in_doubt};
use super::place::{CallPlace, speaks_against};
use super::port::CallPort;
use crate::mutant::Mutant;
use crate::quantity::CheckpointNumber;
use crate::store::phase::Phase;

/// The additional access that the look needs.
pub trait LookPort: CallPort {
    /// Returns the phase in the own store; None if it is unknown.
    fn phase(&mut self) -> Result<Option<Phase>, Self::Cut>;
    /// Returns true if the own store holds the snapshot of this checkpoint.
    fn holds_snapshot(&mut self, number: CheckpointNumber) -> Result<bool, Self::Cut>;
    /// Returns true if the own log begins at this checkpoint.
    fn begins_at(&mut self, number: CheckpointNumber) -> Result<bool, Self::Cut>;
    /// Waits until the logs of all PEs are present and begin at this checkpoint, in the era of the
    /// own log, which peers may not have come to yet. Returns false if one begins later.
    fn await_beginnings(&mut self, number: CheckpointNumber) -> Result<bool, Self::Cut>;
    /// Returns the place at which the checkpoint was made, and that of the present call.
    fn places(&mut self) -> Result<(CallPlace, CallPlace), Self::Cut>;
    /// Waits until no living PE has published that it may be writing to this one.
    fn await_quiet(&mut self) -> Result<(), Self::Cut>;
}

/// Returns the checkpoint that this PE restores, once it may.
///
/// # Errors
/// Fails if all PEs roll back.
pub fn look<P: LookPort>(port: &mut P) -> Result<CheckpointNumber, P::Cut> {
    let number = match port.phase()? {
        Some(Phase::Agreed(number)) => number,
        _ => return Err(port.roll_all_back(Reason::InCheckpoint)),
    };
    if !port.holds_snapshot(number)? {
        return Err(port.roll_all_back(Reason::NoCheckpoint));
    }
    // All had agreed, but its log had not begun.
    if !port.begins_at(number)? && !port.breaks(Mutant::OldLogReplayed) {
        return Err(port.roll_all_back(Reason::InCheckpoint));
    }
    // A log from a replica may be older than the last checkpoint, which others have left by now.
    if !port.breaks(Mutant::BeginningsNotAwaited) && !port.await_beginnings(number)? {
        return Err(port.roll_all_back(Reason::InCheckpoint));
    }
    port.await_records(0)?;
    port.check_findings()?;
    let (made, comes) = port.places()?;
    let is_checked = holds_a_call(port.logs(), port.me());
    if let Some(reason) = speaks_against(made, comes, is_checked) {
        return Err(port.roll_all_back(reason));
    }
    if is_in_doubt(port.logs(), port.me()) {
        return Err(port.roll_all_back(Reason::InDoubt));
    }
    if !port.order_others()? {
        return Err(port.roll_all_back(Reason::NoBarrier));
    }
    if !port.breaks(Mutant::QuietNotAwaited) {
        port.await_quiet()?;
    }
    Ok(number)
}
