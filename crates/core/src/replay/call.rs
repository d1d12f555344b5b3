//! The calls of a job with logs: the record of each call, and its replay.
//!
//! ```text
//!          logged                                    replayed
//! put      a record, then `origin`                   skipped if done there; else repeated
//! atomic   a record, then `origin`, then the value   returns the value found before; applies other
//!          found                                     PEs' operations up to that time
//! get      the bytes read                            returns the bytes of the log
//! wait     the value found, and the time             applies other PEs' operations up to that
//!                                                    time, and checks the value of the word
//! answer   the result, and the time; consecutive     applies other PEs' operations up to that
//!          equal answers share a record              time; returns the result of the log
//! event    the bytes that the program drew           returns the bytes of the log
//! ```
//!
//! The first call without a record is one that the predecessor did not make: the substitute catches
//! up ([`super::handover`]) before it makes that call.
//!
//! Each function is a sequence of accesses to a [`CallPort`]: mapped shared memory, or the model
//! checker's, which may schedule another PE before each access. All functions fail for one reason:
//! a global rollback, which makes an access fail and ends the call.

use super::decide::Reason;
use super::handover::catch_up;
use super::log::{AtomicOutcome, Carried, Kind, Located, LogRecord, Logs};
use super::origin;
use super::own::LoggedCall;
use super::port::{CallPort, LogMode};
use crate::mutant::Mutant;

/// Returns the next record in the replay if it matches the call; else all PEs roll back.
pub(super) fn next<P: CallPort>(
    port: &mut P,
    is_it: impl FnOnce(&P::Logs, &Located) -> bool,
) -> Result<LoggedCall, P::Cut> {
    match port.next(is_it)? {
        Some(call) => Ok(call),
        None => Err(port.roll_all_back(Reason::Differs)),
    }
}

/// Like [`next`], for a call with this record and payload.
pub(super) fn next_with<P: CallPort>(
    port: &mut P,
    record: &LogRecord,
    brings: &[u8],
) -> Result<LoggedCall, P::Cut> {
    let me = port.me();
    next(port, |logs, found| {
        found.record.is_of_one_call(record) && logs.payload(me, found) == brings
    })
}

/// Like [`next`], for a call whose result is taken from the log: its length is not compared.
fn next_of<P: CallPort>(port: &mut P, record: &LogRecord) -> Result<LoggedCall, P::Cut> {
    next(port, |_, found| {
        found.record.is_of_one_call(&LogRecord { len: found.record.len, ..*record })
    })
}

/// Logs and executes a put of `bytes`, which `carry_out` copies to the target.
///
/// # Errors
/// Fails if all PEs roll back.
#[inline]
pub fn put<P: CallPort>(
    port: &mut P,
    record: LogRecord,
    bytes: &[u8],
    carry_out: impl FnOnce(&mut P) -> Result<(), P::Cut>,
) -> Result<(), P::Cut> {
    if port.way() == LogMode::Replayed {
        return put_again(port, record, bytes, carry_out);
    }
    if port.breaks(Mutant::LoggedAfter) {
        origin::deliver(port, record.target(), None, carry_out)?;
        let from = port.append(record, bytes)?;
        return from.map_or(Ok(()), |from| port.set_state(from, Carried::Done));
    }
    let from = port.append(record, bytes)?;
    origin::deliver(port, record.target(), from, carry_out)
}

fn put_again<P: CallPort>(
    port: &mut P,
    record: LogRecord,
    bytes: &[u8],
    carry_out: impl FnOnce(&mut P) -> Result<(), P::Cut>,
) -> Result<(), P::Cut> {
    let from = next_with(port, &record, bytes)?.from;
    if record.target() == port.me() {
        port.assigns_own(from)?;
        if !port.breaks(Mutant::OwnSkipped) {
            carry_out(port)?;
        }
    } else if port.is_far(record.target()) || is_left(port, from)? {
        origin::deliver(port, record.target(), Some(from), carry_out)?;
    }
    catch_up(port)
}

/// Returns true if the target lacks the operation of the own record at `from`.
fn is_left<P: CallPort>(port: &mut P, from: usize) -> Result<bool, P::Cut> {
    Ok(match port.state(from)? {
        Carried::Done => port.breaks(Mutant::NotSkipped),
        Carried::Underway => !port.breaks(Mutant::BegunSkipped),
        Carried::Begun | Carried::Logged => true,
    })
}

/// Executes an atomic operation by `carry_out`, and returns the old value of the word. `fetches` is
/// true if the program gets that value.
///
/// # Errors
/// Fails if all PEs roll back.
#[inline]
pub fn change<P: CallPort>(
    port: &mut P,
    record: LogRecord,
    (compares_with, fetches): (Option<u64>, bool),
    carry_out: impl FnMut(&mut P) -> Result<u64, P::Cut>,
) -> Result<u64, P::Cut> {
    if port.way() == LogMode::Replayed {
        return change_again(port, record, (compares_with, fetches), carry_out);
    }
    let from = port.append_change(record, compares_with)?;
    origin::change(port, (record.target(), from), fetches, carry_out)
}

fn change_again<P: CallPort>(
    port: &mut P,
    record: LogRecord,
    (compares_with, fetches): (Option<u64>, bool),
    carry_out: impl FnMut(&mut P) -> Result<u64, P::Cut>,
) -> Result<u64, P::Cut> {
    let (me, to) = (port.me(), record.target());
    let same = |logs: &P::Logs, found: &Located| {
        logs.compared(me, found.from) == compares_with.unwrap_or_default()
    };
    let is_it =
        |logs: &P::Logs, found: &Located| found.record.is_of_one_call(&record) && same(logs, found);
    let from = next(port, is_it)?.from;
    if port.state(from)? != Carried::Done {
        // This is the last record. Catch up first: an operation on the own memory must find all
        // operations of other PEs, and a fetching one may wait for a PE that waits for this PE.
        if fetches && port.is_far(to) {
            // If it was lost with this one, it may need the record to catch up itself.
            let number = port.send_far(record, compares_with.unwrap_or_default(), true)?;
            catch_up(port)?;
            let old = port.await_far(to, number)?;
            origin::note_found(port, Some(from), (old, true))?;
            return Ok(old);
        }
        if to == me || fetches {
            catch_up(port)?;
        }
        let old = origin::change(port, (to, Some(from)), fetches, carry_out)?;
        catch_up(port)?;
        return Ok(old);
    }
    if port.is_far(to) {
        port.send_far(record, compares_with.unwrap_or_default(), false)?;
    }
    let AtomicOutcome { old, seen } = port.found(from)?;
    if fetches && !port.breaks(Mutant::FoundNotApplied) {
        apply_before(port, seen + 1)?;
    }
    if to == me && !port.breaks(Mutant::OwnSkipped) {
        port.change_own(from, old)?;
    }
    catch_up(port)?;
    Ok(old)
}

/// Gets bytes by `read`, which returns them. In a replay, returns the record of the bytes that the
/// call got before.
///
/// # Errors
/// Fails if all PEs roll back.
pub fn get<P: CallPort, B: AsRef<[u8]>>(
    port: &mut P,
    record: LogRecord,
    read: impl FnMut(&mut P) -> Result<B, P::Cut>,
) -> Result<Option<usize>, P::Cut> {
    if port.way() == LogMode::Replayed && !port.breaks(Mutant::ReadAgain) {
        let from = next_of(port, &record)?.from;
        catch_up(port)?;
        return Ok(Some(from));
    }
    let got = origin::read_there(port, record.target(), read)?;
    let len = got.as_ref().len() as u32;
    if port.way() == LogMode::Replayed {
        next_of(port, &record)?;
        catch_up(port)?;
        return Ok(None);
    }
    port.append(LogRecord { len, ..record }, got.as_ref())?;
    Ok(None)
}

/// Waits for an own word by `until`, and returns the value found.
///
/// # Errors
/// Fails if all PEs roll back.
pub fn wait<P: CallPort>(
    port: &mut P,
    record: LogRecord,
    holds: impl Fn(u64) -> bool,
    until: impl FnOnce(&mut P) -> Result<u64, P::Cut>,
) -> Result<u64, P::Cut> {
    if port.way() == LogMode::Replayed {
        return wait_again(port, &record, holds);
    }
    let found = until(port)?;
    if port.way() == LogMode::Logged {
        let bytes = found.to_ne_bytes();
        port.append(LogRecord { len: bytes.len() as u32, ..record }, &bytes)?;
    }
    Ok(found)
}

fn wait_again<P: CallPort>(
    port: &mut P,
    record: &LogRecord,
    holds: impl Fn(u64) -> bool,
) -> Result<u64, P::Cut> {
    let from = next_of(port, record)?.from;
    apply_to(port, from)?;
    let value = own_bytes(port, from).try_into().map_or(0, u64::from_ne_bytes);
    let is_so = holds(value)
        && (port.may_have_changed(record.at as usize)? || holds(port.own_word(record, value)?));
    if !is_so {
        return Err(port.roll_all_back(Reason::Differs));
    }
    catch_up(port)?;
    Ok(value)
}

/// Applies the operations of other PEs up to the time of the own record at `from`.
fn apply_to<P: CallPort>(port: &mut P, from: usize) -> Result<(), P::Cut> {
    let time = port.logs().read(port.me(), from).map_or(0, |found| found.record.time);
    apply_before(port, time + 1)
}

/// Applies the operations of other PEs before `until`.
pub(super) fn apply_before<P: CallPort>(port: &mut P, until: u64) -> Result<(), P::Cut> {
    if !port.breaks(Mutant::FarNotAwaited) {
        port.await_records(until)?;
    }
    port.apply(until)
}

/// Returns the payload of an own record.
pub fn own_bytes<P: CallPort>(port: &P, from: usize) -> &[u8] {
    let found = port.logs().read(port.me(), from);
    found.map_or(&[], |found| port.logs().payload(port.me(), &found))
}

/// Returns the result of `look` at own words. In a replay, returns the record of its earlier
/// result.
///
/// # Errors
/// Fails if all PEs roll back.
#[inline]
pub fn answer<P: CallPort, B: AsRef<[u8]>>(
    port: &mut P,
    record: LogRecord,
    look: impl FnOnce(&mut P) -> Result<B, P::Cut>,
) -> Result<Result<B, usize>, P::Cut> {
    if port.way() == LogMode::Replayed {
        return answer_again(port, &record).map(Err);
    }
    let found = look(port)?;
    if port.way() == LogMode::Logged {
        let len = found.as_ref().len() as u32;
        note_answer(port, LogRecord { len, ..record }, found.as_ref())?;
    }
    Ok(Ok(found))
}

/// Appends the record of an answer, or counts one more repeat of an equal last answer.
#[inline(always)] // the length is a constant in the caller
fn note_answer<P: CallPort>(port: &mut P, record: LogRecord, bytes: &[u8]) -> Result<(), P::Cut> {
    let last = port.last_answer()?;
    let me = port.me();
    let is_same = |last: &Located| {
        last.record.is_of_one_call(&record) && port.logs().payload(me, last) == bytes
    };
    match last.filter(is_same) {
        Some(last) => port.repeat(last.from),
        None => port.append(record, bytes).map(|_| ()),
    }
}

/// Replays an answer. Only the first and the last of equal answers cost anything: a program may
/// poll very often.
fn answer_again<P: CallPort>(port: &mut P, record: &LogRecord) -> Result<usize, P::Cut> {
    let call = next_of(port, record)?;
    if call.is_first {
        apply_to(port, call.from)?;
    }
    if call.is_last {
        catch_up(port)?;
    }
    Ok(call.from)
}

/// Logs `bytes` that the program drew by itself. In a replay, returns the record of those it drew
/// before.
///
/// # Errors
/// Fails if all PEs roll back.
pub fn draw<P: CallPort>(
    port: &mut P,
    record: LogRecord,
    bytes: &[u8],
) -> Result<Option<usize>, P::Cut> {
    debug_assert_eq!(record.kind, Kind::Event);
    if port.way() == LogMode::Logged {
        port.append(record, bytes)?;
        return Ok(None);
    }
    let from = next_of(port, &record)?.from;
    catch_up(port)?;
    Ok(Some(from))
}
