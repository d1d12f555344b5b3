//! An operation on another PE: what its origin does while the target may be lost at any moment.
//!
//! The record is in the log. Then:
//!
//! ```text
//! fly      shows that this PE may be about to write there
//! look     reached: carried out, or taken over by then; away: left in the log; on its way back:
//!          waited for
//! mark     underway: who dies here leaves a doubt if the operation may happen once only
//! write
//! mark     done, with what was found
//! land     shows that nothing of this PE is on its way there
//! ```
//!
//! Carried out is what began while the flight showed: a substitute that finds no flight to its
//! place, after the loss was shown, knows that nothing more is written there by what has not seen
//! it. Who asks for what it finds waits until the target is reached.
//!
//! A node that does not show the loss yet lets its PEs read what the dead left. Therefore nothing
//! that was only logged is released before every node has shown the loss.

use super::decide::Reason;
use super::log::{AtomicOutcome, Carried, Stage};
use super::port::CallPort;
use crate::mutant::Mutant;
use crate::quantity::Pe;

/// What becomes of an operation on another PE.
enum Delivery {
    /// It is carried out now.
    CarryOut,
    /// The target takes it from the log.
    Leave,
    /// The target has taken it from the log.
    TakenOver,
}

/// Looks at the target after the record was shown.
#[inline(always)]
fn way_to<P: CallPort>(port: &mut P, to: Pe, from: Option<usize>) -> Result<Delivery, P::Cut> {
    let there = loop {
        if !port.breaks(Mutant::FlightNotShown) {
            port.fly(to)?;
        }
        port.order()?; // the record and the flight show before the look
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

/// The same where the target was not reached; None: look again.
#[cold]
fn not_reached<P: CallPort>(
    port: &mut P,
    to: Pe,
    from: Option<usize>,
) -> Result<Option<Delivery>, P::Cut> {
    port.land()?;
    port.goes_on()?;
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

/// Carries an operation out whose record begins at `from`, or leaves it in the log.
#[inline(always)]
pub(super) fn deliver<P: CallPort>(
    port: &mut P,
    to: Pe,
    from: Option<usize>,
    carry_out: impl FnOnce(&mut P) -> Result<(), P::Cut>,
) -> Result<(), P::Cut> {
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

/// Carries out the atomic operation whose record begins at `from`, or leaves it to its target; what
/// it found.
#[inline(always)]
pub(super) fn change<P: CallPort>(
    port: &mut P,
    (to, from): (Pe, Option<usize>),
    fetches: bool,
    mut carry_out: impl FnMut(&mut P) -> Result<u64, P::Cut>,
) -> Result<u64, P::Cut> {
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

/// It may have happened before the memory was wiped, and the lost PE seen it. No substitute begins,
/// or catches up, before that is decided.
#[cold]
fn in_wiped<P: CallPort>(port: &mut P) -> P::Cut {
    let cut = port.take_all_back(Reason::LostMeanwhile);
    match port.land() {
        Ok(()) => cut,
        Err(cut) => cut,
    }
}

/// The time of what was found is drawn after the look.
#[inline(always)]
fn note_found<P: CallPort>(
    port: &mut P,
    from: Option<usize>,
    (old, fetches): (u64, bool),
) -> Result<(), P::Cut> {
    let Some(from) = from else { return Ok(()) };
    let seen = if fetches { port.tick()? } else { 0 };
    port.set_found(from, AtomicOutcome { old, seen })
}

/// Reads from a PE when that is reached, and still is when all is read.
///
/// # Errors
/// All go back.
pub fn read_there<P: CallPort, T>(
    port: &mut P,
    of: Pe,
    mut read: impl FnMut(&mut P) -> Result<T, P::Cut>,
) -> Result<T, P::Cut> {
    loop {
        let member = port.await_reached(of)?;
        let found = read(port)?;
        if port.is_still(of, &member)? || port.breaks(Mutant::ReadInWiped) {
            return Ok(found);
        }
    }
}
