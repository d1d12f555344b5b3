//! The execution of an operation without a log: the copies and the atomic instructions themselves,
//! or their requests to an engine.
//!
//! Invariants: an operation lies inside the segment of its PE. Peers may write these bytes
//! concurrently. Words are therefore accessed as atomics. Longer ranges are copied as the caller's
//! own code would copy them, and the specification makes it the caller's duty not to race on them.
//!
//! Between a death and the restart (`Membership::faulted`) writes are dropped and reads return
//! zeroes; in shrink mode those at lost PEs.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use raidshmem_core::update::{Change, Update};
use raidshmem_fabric::Read;

use super::address::{In, Out};
use super::operation::{Operation, OperationKind, PreviousValue};
use super::place::SegmentRange;
use super::strides::Strides;

/// Blocks of a strided get in flight at a time.
const READS: usize = 64;

/// Executes an operation; returns the value of a word that the call returns, or else zero.
#[inline(always)] // the kind is a constant of the caller
pub fn execute(operation: Operation) -> u64 {
    match operation.kind {
        OperationKind::Put { to, source, by } => put_to(to, source, by),
        OperationKind::Get { from, dest, by } => get_from(from, dest, by),
        OperationKind::Look { word } => return word.load(),
        OperationKind::Update { word, change: Change { how, operand }, previous } => match previous
        {
            PreviousValue::Unused => word.change(how, operand),
            PreviousValue::Returned if how == Update::Load => return word.fetch(),
            PreviousValue::Returned => return word.update(how, operand),
            PreviousValue::Later(before) => word.update_later(how, operand, before),
        },
    }
    0
}

/// Copies blocks of the caller's buffer to a place of their extent.
#[inline]
pub fn put_to(place: SegmentRange, source: In<u8>, by: Strides) {
    if place.world.loss_response().drops_at(place.pe) {
        return;
    }
    let block =
        |block: usize| (source.0.wrapping_add(block * by.source_bytes), block * by.dest_bytes);
    let blocks = (0..by.blocks).map(block);
    if place.is_remote() {
        // SAFETY: the caller guarantees every block of its buffer, unchanged until the operation is
        // complete.
        return blocks.for_each(|(from, at)| unsafe {
            place.put_remote(place.offset + at, from, by.block_bytes);
        });
    }
    // SAFETY: inside the extent of the place, in a mapped segment; the caller guarantees every
    // block of its buffer.
    blocks
        .for_each(|(from, at)| unsafe { copy(from, place.at().wrapping_add(at), by.block_bytes) });
    place.world.segments.ring(place.pe);
}

/// Copies blocks of a place of their extent to the caller's buffer.
#[inline]
pub fn get_from(place: SegmentRange, dest: Out<u8>, by: Strides) {
    let is_void = place.world.loss_response().cut_short_at(place.pe);
    if place.is_remote() && !is_void {
        return get_remote(place, dest, by);
    }
    for block in 0..by.blocks {
        let (to, at) = (dest.0.wrapping_add(block * by.dest_bytes), block * by.source_bytes);
        if is_void {
            // SAFETY: the caller guarantees one writable block at `to`.
            unsafe { to.write_bytes(0, by.block_bytes) };
        } else {
            // SAFETY: inside the extent of the place, in a mapped segment; the caller guarantees
            // one writable block at `to`.
            unsafe { copy(place.at().wrapping_add(at), to, by.block_bytes) };
        }
    }
    if !is_void {
        // The bytes may be leftovers of a lost node.
        place.world.loss_response().cut_short_at(place.pe);
    }
}

/// Copies blocks of a PE that is not mapped, many at a time.
fn get_remote(place: SegmentRange, dest: Out<u8>, by: Strides) {
    if place.later && by.blocks == 1 {
        let (id, pe, offset) = (place.stream, place.pe, place.offset);
        // SAFETY: the caller guarantees one writable block at `dest`, unused before the next quiet.
        return unsafe {
            place.world.transfers().later_get(id, pe, offset, dest.0, by.block_bytes)
        };
    }
    for first in (0..by.blocks).step_by(READS) {
        let read = |block: usize| {
            let to = dest.0.wrapping_add(block * by.dest_bytes);
            // SAFETY: the caller guarantees one writable block at `to`, unused meanwhile; blocks do
            // not overlap, since strides are no shorter.
            let into = unsafe { std::slice::from_raw_parts_mut(to, by.block_bytes) };
            Read { pe: place.pe, offset: place.offset + block * by.source_bytes, into }
        };
        let mut reads: Vec<Read> = (first..by.blocks.min(first + READS)).map(read).collect();
        place.world.transfers().pull(&mut reads);
    }
}

/// The C library's routine, which tolerates concurrent changes to the bytes it moves.
const MOVE: unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void = libc::memmove;

/// Copies `bytes` to `to`; the ranges may overlap.
///
/// Aligned words are stored whole, because a peer may be polling them.
///
/// # Safety
///
/// - `from` is readable and `to` writable for `bytes` bytes;
/// - nothing in this process holds a reference to either range.
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: this function has the same contract.
    if !unsafe { copy_word(from, to, bytes) } {
        // SAFETY: by the contract; `memmove` allows overlap. The compiler must not see the callee:
        // it would assume that no other process writes there, and with the safe API peers may.
        unsafe { std::hint::black_box(MOVE)(to.cast(), from.cast(), bytes) };
    }
}

/// Copies an aligned word of 1, 2, 4 or 8 bytes whole; returns false if size or alignment differ.
///
/// # Safety
///
/// As for [`copy`].
#[inline(always)]
pub(super) unsafe fn copy_word(from: *const u8, to: *mut u8, bytes: usize) -> bool {
    macro_rules! word {
        ($atomic:ty) => {{
            // SAFETY: readable by the contract, aligned by the match; a shared word is only ever
            // accessed as an atomic.
            let value = unsafe { <$atomic>::from_ptr(from.cast_mut().cast()) };
            let value = value.load(Ordering::Relaxed);
            // SAFETY: writable by the contract, aligned by the match.
            let target = unsafe { <$atomic>::from_ptr(to.cast()) };
            // Relaxed: fence and quiet (`order.rs`) order puts, not the puts themselves.
            target.store(value, Ordering::Relaxed);
            true
        }};
    }
    let aligned = |to_bytes: usize| (from.addr() | to.addr()) & (to_bytes - 1) == 0;
    match bytes {
        1 => word!(AtomicU8),
        2 if aligned(2) => word!(AtomicU16),
        4 if aligned(4) => word!(AtomicU32),
        8 if aligned(8) => word!(AtomicU64),
        _ => false,
    }
}
