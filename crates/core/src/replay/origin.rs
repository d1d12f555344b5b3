//! The origin's side of an operation on another PE, which may be lost at any moment.
//!
//! The origin appends the record to its log. Then:
//!
//! ```text
//! fly      publishes that a write to the target may follow
//! look     target reached: execute, unless it has taken the operation over; lost: leave the
//!          operation in the log; draining: wait
//! mark     underway: if the origin dies here, an operation that must happen once is in doubt
//! write
//! mark     done, with the value found
//! land     publishes that no write of this PE to the target is pending
//! ```
//!
//! Writes happen only during a flight. A substitute that finds no flight to its place after the
//! loss was published therefore knows that no origin unaware of the loss writes there any more. A
//! fetching operation waits until the target is reached.
//!
//! None of this concerns PEs that are not mapped: an operation there is a message, which its target
//! takes once ([`super::far`]).
//!
//! A node that has not published the loss yet lets its PEs read the memory of the dead PE. An
//! operation is therefore left in the log only after every node has published the loss.

use super::decide::Reason;
use super::log::{AtomicOutcome, Carried, Stage};
use super::port::CallPort;
use crate::mutant::Mutant;
use crate::quantity::Pe;

/// The way in which an operation on another PE takes effect.
enum Delivery {
    /// The origin executes it now.
    CarryOut,
    /// The target takes it from the log.
    Leave,
    /// The target has taken it from the log.
    TakenOver,
}

/// Looks at the target, after the record is visible, and decides on the delivery.
#[inline(always)]
fn way_to<P: CallPort>(port: &mut P, to: Pe, from: Option<usize>) -> Result<Delivery, P::Cut> {
    let there = loop {
        if !port.breaks(Mutant::FlightNotShown) {
            port.fly(to)?;
        }
        port.order()?; // the record and the flight are visible before the look
        if let Some(there) = port.reached(to)? {
            break there;
        }
        if let Some(delivery) = not_reached(port, to, from)? {
            return Ok(delivery);
        }
    };
    if let Some(from) = from
        && !port.breaks(Mutant::TakenTwice)
        && port.has_taken(there, from)?
    {
        port.land()?;
        return Ok(Delivery::TakenOver);
    }
    Ok(Delivery::CarryOut)
}

/// Decides on the delivery to a target that was not reached; None: look again.
#[cold]
fn not_reached<P: CallPort>(
    port: &mut P,
    to: Pe,
    from: Option<usize>,
) -> Result<Option<Delivery>, P::Cut> {
    port.land()?;
    port.adopt_view()?;
    let Some(from) = from else {
        return Err(port.has_no_record());
    };
    if !port.breaks(Mutant::ReleasedEarly) {
        port.await_shown(to)?;
    }
    if !port.stage(to)?.is_some_and(Stage::is_past_replay) {
        port.set_state(from, Carried::Logged)?;
        return Ok(Some(Delivery::Leave));
    }
    port.await_drained(to)?;
    Ok(None)
}

/// Executes the operation whose record begins at `from`, or leaves it in the log.
#[inline(always)]
pub(super) fn deliver<P: CallPort>(
    port: &mut P,
    to: Pe,
    from: Option<usize>,
    carry_out: impl FnOnce(&mut P) -> Result<(), P::Cut>,
) -> Result<(), P::Cut> {
    if port.is_far(to) {
        return carry_out(port);
    }
    match way_to(port, to, from)? {
        Delivery::CarryOut => {
            mark_underway(port, from)?;
            carry_out(port)?;
            if let Some(from) = from {
                port.set_state(from, Carried::Done)?;
            }
            port.ring(to)?;
            port.land()
        }
        Delivery::TakenOver => from.map_or(Ok(()), |from| port.set_state(from, Carried::Done)),
        Delivery::Leave => Ok(()),
    }
}

#[inline(always)]
fn mark_underway<P: CallPort>(port: &mut P, from: Option<usize>) -> Result<(), P::Cut> {
    let Some(from) = from else { return Ok(()) };
    if port.breaks(Mutant::DoneBefore) {
        return port.set_state(from, Carried::Done);
    }
    if port.breaks(Mutant::NotUnderway) {
        return Ok(());
    }
    port.set_state(from, Carried::Underway)
}

/// Executes the atomic operation whose record begins at `from`, or leaves it to its target. Returns
/// the value found.
#[inline(always)]
pub(super) fn change<P: CallPort>(
    port: &mut P,
    (to, from): (Pe, Option<usize>),
    fetches: bool,
    mut carry_out: impl FnMut(&mut P) -> Result<u64, P::Cut>,
) -> Result<u64, P::Cut> {
    if port.is_far(to) {
        let old = carry_out(port)?;
        if fetches {
            note_found(port, from, (old, fetches))?;
        }
        return Ok(old);
    }
    loop {
        match way_to(port, to, from)? {
            Delivery::CarryOut => {
                mark_underway(port, from)?;
                let old = carry_out(port)?;
                if port.is_wiped(to)? && !port.breaks(Mutant::FoundInWiped) {
                    return Err(in_wiped(port));
                }
                note_found(port, from, (old, fetches))?;
                port.ring(to)?;
                port.land()?;
                return Ok(old);
            }
            Delivery::Leave if fetches && !port.breaks(Mutant::AnswerNotAwaited) => {
                port.await_reached(to)?;
            }
            Delivery::TakenOver => {
                let taken = from.map(|from| port.taken_by(to, from)).transpose()?;
                let old = taken.flatten().unwrap_or_default();
                if !port.is_wiped(to)? {
                    note_found(port, from, (old, fetches))?;
                    return Ok(old);
                }
            }
            Delivery::Leave => return Ok(0),
        }
    }
}

/// Requests a global rollback: the operation may have happened before the memory was wiped, and the
/// lost PE may have seen it. No substitute begins or catches up before the flight ends.
#[cold]
fn in_wiped<P: CallPort>(port: &mut P) -> P::Cut {
    let cut = port.roll_all_back(Reason::LostMeanwhile);
    match port.land() {
        Ok(()) => cut,
        Err(cut) => cut,
    }
}

/// Records the value found. Its time is drawn after the read.
#[inline(always)]
pub(super) fn note_found<P: CallPort>(
    port: &mut P,
    from: Option<usize>,
    (old, fetches): (u64, bool),
) -> Result<(), P::Cut> {
    let Some(from) = from else { return Ok(()) };
    let seen = if fetches { port.tick()? } else { 0 };
    port.set_found(from, AtomicOutcome { old, seen })
}

/// Reads from a PE that is reached, and repeats the read if that changed meanwhile.
///
/// # Errors
/// Fails if all PEs roll back.
pub fn read_there<P: CallPort, T>(
    port: &mut P,
    of: Pe,
    mut read: impl FnMut(&mut P) -> Result<T, P::Cut>,
) -> Result<T, P::Cut> {
    if port.is_far(of) {
        return read(port);
    }
    loop {
        let member = port.await_reached(of)?;
        let found = read(port)?;
        if port.is_still(of, &member)? || port.breaks(Mutant::ReadInWiped) {
            return Ok(found);
        }
    }
}
