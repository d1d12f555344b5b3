//! Memory that the program declares read-only, and makes writable again: collective calls.
//!
//! ```text
//! declare   write-protect the range here; barrier: no PE writes there, all PEs name equal ranges
//!           seal the own tiles, encode parity over those of the group; barrier: all have
//! end       barrier: all PEs name equal ranges; one without memory for a copy reports it
//!           copy the own part to the copies area, and mark the copy valid; barrier: all have
//! ```
//!
//! The next checkpoint leaves the range out, or covers it again; until that is agreed a loss rolls
//! all PEs back to the previous one, with its read-only ranges. A loss during a call interrupts it,
//! and is reported by the next checkpoint.
//!
//! Invariant: a PE makes the range writable only once every PE has recorded that its copy is valid.

use std::sync::Arc;

use raidshmem_core::capability::Capability;
use raidshmem_core::inject::Point;
use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::quantity::Pe;
use raidshmem_core::store::protection::Protection;
use raidshmem_core::store::readonly::{RANGES, ReadOnly};
use raidshmem_segment::header::{HeldRange, RangeState};
use raidshmem_sys::memory::available;

use crate::checkpoint::readonly::{copy, encode, forget};
use crate::pgas::{World, complain, world};
use crate::recovery::readonly::said_by;

/// Declares `[addr, addr + len)`, in one block of the symmetric heap, read-only. Collective. From
/// then on a write there ends the process with an error message. Returns false if the memory is
/// treated like other memory; PE 0 then prints the reason.
///
/// # Errors
/// The misuse, for which the caller must end the job.
pub fn readonly(call: &'static str, addr: usize, len: usize) -> Result<bool, String> {
    let world = world();
    world.blocking().await_background();
    let range = world.memory.in_block(addr, len);
    let named = range.ok_or_else(|| format!("addr {addr:#x}, len {len}: {IN_BLOCK}"))?;
    let declared = world.memory.readonly();
    let meets = |other: &ReadOnly| named.start < other.range().end && other.at < named.end;
    if declared.iter().any(meets) {
        return Err(format!("addr {addr:#x}, len {len}: a part of it is read-only already"));
    }
    if world.loss_response().is_apart() {
        return Ok(true);
    }
    let records = &world.segments.own().header().readonly;
    let (range, protection) = match protected_separately(world, ReadOnly::within(&named)) {
        Ok(_) if records.held(world.job()).iter().any(|held| meets(&held.range)) => {
            return Ok(stays(
                world,
                call,
                "it was read-only at the last checkpoint: after the next",
            ));
        }
        Ok(kept) => kept,
        Err(why) => return Ok(stays(world, call, &why)),
    };
    let _turn = world.store.lock.lock();
    world.transfers().quiet_all();
    let guarded = declared.iter().chain([&range]).map(|range| range.range());
    world.segments.guard(guarded.collect());
    let number = world.store.agreed().next();
    let say = |state| records.set(world.job(), HeldRange { number, range, state });
    say(RangeState::Declared);
    world.members.point(Point::ReadOnly, number);
    if world.barriers().barrier(call).is_err() {
        return Ok(true);
    }
    compare(world, &protection, range, (addr, len))?;
    encode(world, &protection, range, number);
    say(RangeState::Kept);
    world.members.point(Point::ReadOnlyEncoded, number);
    if world.barriers().barrier(call).is_err() {
        return Ok(true);
    }
    world.memory.set_readonly(range, true);
    Ok(true)
}

/// Makes a declared read-only range writable again. Collective. Returns false if a PE has no memory
/// for a copy: it then stays read-only.
///
/// # Errors
/// As for [`readonly`].
pub fn writable(call: &'static str, addr: usize, len: usize) -> Result<bool, String> {
    let world = world();
    let range = world.memory.in_block(addr, len);
    let named = range.ok_or_else(|| format!("addr {addr:#x}, len {len}: {IN_BLOCK}"))?;
    let declared = world.memory.readonly();
    let meets = |other: &&ReadOnly| named.start < other.range().end && other.at < named.end;
    let Some(&range) = declared.iter().find(meets) else { return Ok(true) };
    if ReadOnly::within(&named) != Some(range) {
        return Err(format!("addr {addr:#x}, len {len}: expected the range that was declared"));
    }
    world.blocking().await_background();
    let Some(protection) = world.store.protection() else { return Ok(true) };
    // Until the rollback, the program's writes stay private to this process.
    let cut_short = || {
        world.segments.guarded().shadow(range.range());
        Ok(true)
    };
    if world.loss_response().is_apart() {
        return cut_short();
    }
    let _turn = world.store.lock.lock();
    let (records, job) = (&world.segments.own().header().readonly, world.job());
    let Some(held) = records.of(job, range) else {
        return Err(format!("addr {addr:#x}: its record is damaged"));
    };
    let say = |state| records.set(job, HeldRange { state, ..held });
    // A range that is in no checkpoint needs no copy.
    let is_saved = held.number <= world.store.agreed();
    let fits = !is_saved || has_memory(world, range);
    world.transfers().quiet_all();
    say(if fits { RangeState::Ending } else { RangeState::Short });
    let point = |point| world.members.point(point, world.store.agreed().next());
    point(Point::Writable);
    if world.barriers().barrier(call).is_err() {
        return cut_short();
    }
    compare(world, &protection, range, (addr, len))?;
    if Pe::all(world.n_pes()).any(|pe| is_short(world, pe, range)) {
        if world.barriers().barrier(call).is_ok() {
            say(RangeState::Kept);
        }
        return Ok(stays(world, call, "a PE has no memory for a copy of it"));
    }
    if is_saved && !breaks(Mutant::NoCopyBeforeWrites) {
        copy(world, range);
        say(RangeState::Copied);
    }
    point(Point::WritableCopied);
    if world.barriers().barrier(call).is_err() {
        return cut_short();
    }
    world.memory.set_readonly(range, false);
    world.segments.guard(world.memory.readonly().iter().map(|range| range.range()).collect());
    if !is_saved {
        forget(world, range);
    }
    Ok(true)
}

const IN_BLOCK: &str = "expected memory of one block of the symmetric heap";

/// Returns the part of a range that is protected separately, and its groups; or the reason why none
/// is.
fn protected_separately(
    world: &World,
    range: Option<ReadOnly>,
) -> Result<(ReadOnly, Arc<Protection>), String> {
    if let Some(row) = Capability::ReadOnly.fallback(world.settings(), world.topology().fabric()) {
        return Err(format!("with {}, {}", row.with, row.instead));
    }
    let protection = world.store.protection().ok_or("this job keeps no checkpoints")?;
    if world.segments.own().header().readonly.held(world.job()).len() >= RANGES {
        return Err(format!("expected at most {RANGES} ranges from one checkpoint to the next"));
    }
    match range.filter(|range| range.saves_memory(&protection)) {
        Some(range) => Ok((range, protection)),
        None => Err("it is too short for its parity to take less than a copy".to_owned()),
    }
}

/// Leaves the range unchanged on every PE; PE 0 prints the reason.
fn stays(world: &World, call: &str, why: &str) -> bool {
    if world.me() == Pe(0) {
        complain(&format!("{call}: the range stays as it is: {why}"));
    }
    false
}

/// Checks that the members of this PE's group declared an identical range.
fn compare(
    world: &World,
    protection: &Protection,
    range: ReadOnly,
    (addr, len): (usize, usize),
) -> Result<(), String> {
    let (shape, _) = protection.place(world.me());
    let names = |&pe: &Pe| said_by(world, pe).iter().any(|held| held.range == range);
    match shape.members.iter().find(|pe| !names(pe)) {
        Some(pe) if !world.members.faulted() => {
            Err(format!("addr {addr:#x}, len {len}: PE {pe} names another range"))
        }
        _ => Ok(()),
    }
}

fn is_short(world: &World, pe: Pe, range: ReadOnly) -> bool {
    said_by(world, pe).iter().any(|held| (held.range, held.state) == (range, RangeState::Short))
}

/// Returns true if the machine has memory for a copy of the range for each of its PEs.
fn has_memory(world: &World, range: ReadOnly) -> bool {
    let need = range.len() as u64 * world.topology().pes_of_machine() as u64;
    available().is_none_or(|available| available > need)
}
