//! Puts and gets. Here, and for words in `word.rs`, an address becomes an access.
//!
//! A symmetric claim (`address.rs`) becomes a [`SegmentRange`], which proves that the PE exists and
//! the range lies inside its segment, before anything is read or written. The caller is responsible
//! for its own buffers, as the specification says.
//!
//! Invariants: a `SegmentRange` lies inside the segment of `pe`. Peers may write these bytes
//! concurrently. Words are therefore accessed as atomics. Longer ranges are copied as the caller's
//! own code would copy them, and the specification makes it the caller's duty not to race on them.
//!
//! Between a death and the restart (`World::faulted`) writes are dropped and reads return zeroes.
//!
//! Left out: single words of a mapped PE, which take a fast path (`elements.rs`).

use std::ffi::c_void;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use raidshmem_fabric::Read;

use super::address::{In, Out, Sym, SymIn};
use super::place::SegmentRange;
use super::strides::Strides;
use crate::openshmem::bits::Zero;
use crate::openshmem::check::{self, misuse};
use raidshmem_runtime::pgas::stream::Target;
use raidshmem_runtime::pgas::{self, World};

/// Blocks of a strided get in flight at a time.
const READS: usize = 64;

/// Rejects a null buffer of the caller, with checks on.
#[inline]
pub(super) fn check_buffer(call: &'static str, name: &str, addr: usize, world: &World) {
    if addr == 0 && world.checks() {
        misuse(call, format_args!("{name} is NULL"));
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

/// Copies a caller's buffer to a PE.
#[inline]
pub fn put(call: &'static str, dest: Sym<u8>, source: In<u8>, bytes: usize, pe: impl Into<Target>) {
    let pe = pe.into();
    if bytes == 0 {
        check::pe(call, pgas::world_for(call), pe.pe);
        return;
    }
    let place = SegmentRange::new(call, "dest", dest, bytes, pe);
    check_buffer(call, "source", source.addr(), place.world);
    put_to(place, source, bytes);
}

/// Copies a buffer of `bytes`, which fit the place.
#[inline]
pub(super) fn put_to(place: SegmentRange, source: In<u8>, bytes: usize) {
    if place.world.drops_at(place.pe) {
        return;
    }
    if place.is_remote() {
        // SAFETY: the caller guarantees `bytes` readable, unchanging bytes at `source`.
        return unsafe { place.put_remote(place.offset, source.0, bytes) };
    }
    // SAFETY: `place` holds `bytes` bytes of a mapped segment; the caller guarantees as many at
    // `source`.
    unsafe { copy(source.0, place.at(), bytes) };
    place.world.segments.ring(place.pe);
}

/// Copies from a PE to a caller's buffer.
#[inline]
pub fn get(
    call: &'static str,
    dest: Out<u8>,
    source: SymIn<u8>,
    bytes: usize,
    pe: impl Into<Target>,
) {
    let pe = pe.into();
    if bytes == 0 {
        check::pe(call, pgas::world_for(call), pe.pe);
        return;
    }
    let place = SegmentRange::source(call, source, bytes, pe);
    check_buffer(call, "dest", dest.addr(), place.world);
    get_from(place, dest, bytes);
}

/// Copies to a buffer of `bytes`, which fit the place.
#[inline]
pub(super) fn get_from(place: SegmentRange, dest: Out<u8>, bytes: usize) {
    if place.world.cut_short_at(place.pe) {
        // SAFETY: the caller guarantees `bytes` writable bytes at `dest`.
        unsafe { dest.0.write_bytes(0, bytes) };
        return;
    }
    if place.is_remote() && place.later {
        let (id, pe, offset) = (place.stream, place.pe, place.offset);
        // SAFETY: the caller guarantees `bytes` writable bytes, unused before the next quiet.
        return unsafe { place.world.later_get(id, pe, offset, dest.0, bytes) };
    }
    if place.is_remote() {
        // SAFETY: the caller guarantees `bytes` writable bytes at `dest`, unused meanwhile.
        let into = unsafe { std::slice::from_raw_parts_mut(dest.0, bytes) };
        return place.world.remote_get(place.pe, place.offset, into);
    }
    // SAFETY: `place` holds `bytes` bytes of a mapped segment; the caller guarantees as many at
    // `dest`.
    unsafe { copy(place.at(), dest.0, bytes) };
    place.world.cut_short_at(place.pe); // the bytes may be leftovers of a lost node
}

/// Reads elements of a PE. With a `later` target, the caller leaves `into` untouched until the
/// quiet.
pub fn fetch<T: Copy + Zero>(
    call: &'static str,
    into: &mut [T],
    source: SymIn<T>,
    pe: impl Into<Target>,
) {
    let bytes = size_of_val(into);
    get(call, Out(into.as_mut_ptr()).erase(), source.erase(), bytes, pe);
}

/// Reads elements of several PEs, `into.len() / pes.len()` of each; those of unmapped PEs
/// concurrently.
pub fn fetch_from_each<T: Copy + Zero>(
    call: &'static str,
    into: &mut [T],
    source: SymIn<T>,
    pes: &[i32],
) {
    let bytes = into.len() / pes.len() * size_of::<T>();
    let place = |&pe| SegmentRange::source(call, source.erase(), bytes, pe);
    fetch_from_places(into, pes.iter().map(place));
}

/// Reads elements of several places, with an equal share of `into` for each.
pub fn fetch_from_places<T: Copy + Zero>(
    into: &mut [T],
    places: impl ExactSizeIterator<Item = SegmentRange>,
) {
    let each = into.len() / places.len().max(1);
    let bytes = each * size_of::<T>();
    let mut reads = Vec::new();
    for (part, place) in into.chunks_exact_mut(each.max(1)).zip(places) {
        let at = part.as_mut_ptr().cast();
        if !place.is_remote() || place.world.cut_short_at(place.pe) {
            get_from(place, Out(at), bytes);
            continue;
        }
        // SAFETY: the bytes of `part`, which is borrowed as long; an element may have any bytes
        // that an equal element of a peer has.
        let into = unsafe { std::slice::from_raw_parts_mut(at, bytes) };
        reads.push(Read { pe: place.pe, offset: place.offset, into });
    }
    if !reads.is_empty() {
        pgas::world().pull(&mut reads);
    }
}

/// Stores elements on a PE. With a `later` target, the caller keeps `from` unchanged until the
/// quiet.
pub fn send<T: Copy + Zero>(call: &'static str, dest: Sym<T>, from: &[T], pe: impl Into<Target>) {
    put(call, dest.erase(), In(from.as_ptr()).erase(), size_of_val(from), pe);
}

/// Copies blocks of a caller's buffer to a PE.
pub fn put_blocks(
    call: &'static str,
    dest: Sym<u8>,
    source: In<u8>,
    by: Strides,
    pe: impl Into<Target>,
) {
    match by.blocks {
        0 => return,
        1 => return put(call, dest, source, by.block_bytes, pe),
        _ => {}
    }
    let place = SegmentRange::new(call, "dest", dest, by.extent(call, by.dest_bytes), pe);
    by.extent(call, by.source_bytes);
    if place.world.drops_at(place.pe) {
        return;
    }
    check_buffer(call, "source", source.addr(), place.world);
    for block in 0..by.blocks {
        // SAFETY: the caller guarantees every block of the shape, and its extent does not overflow.
        let from = unsafe { source.0.add(block * by.source_bytes) };
        if place.is_remote() {
            let offset = place.offset + block * by.dest_bytes;
            // SAFETY: one block of the caller's.
            unsafe { place.put_remote(offset, from, by.block_bytes) };
            continue;
        }
        // SAFETY: inside the extent that `place` was checked for.
        let to = unsafe { place.at().add(block * by.dest_bytes) };
        // SAFETY: as above; one block lies within each extent.
        unsafe { copy(from, to, by.block_bytes) };
    }
    place.world.segments.ring(place.pe);
}

/// Copies blocks from a PE to a caller's buffer.
pub fn get_blocks(
    call: &'static str,
    dest: Out<u8>,
    source: SymIn<u8>,
    by: Strides,
    pe: impl Into<Target>,
) {
    let pe = Target { later: false, ..pe.into() };
    match by.blocks {
        0 => return,
        1 => return get(call, dest, source, by.block_bytes, pe),
        _ => {}
    }
    let extent = by.extent(call, by.source_bytes);
    let place = SegmentRange::source(call, source, extent, pe);
    by.extent(call, by.dest_bytes);
    check_buffer(call, "dest", dest.addr(), place.world);
    let faulted = place.world.cut_short_at(place.pe);
    if place.is_remote() && !faulted {
        return get_blocks_remote(place, dest, by);
    }
    for block in 0..by.blocks {
        let from = place.at().wrapping_add(block * by.source_bytes);
        // SAFETY: the caller guarantees every block of the shape, and its extent does not overflow.
        let to = unsafe { dest.0.add(block * by.dest_bytes) };
        if faulted {
            // SAFETY: the caller guarantees one writable block at `to`.
            unsafe { to.write_bytes(0, by.block_bytes) };
        } else {
            // SAFETY: as above; one block lies within each extent.
            unsafe { copy(from, to, by.block_bytes) };
        }
    }
    place.world.cut_short_at(place.pe); // the bytes may be leftovers of a lost node
}

/// Copies blocks from a PE that is not mapped, many at a time.
fn get_blocks_remote(place: SegmentRange, dest: Out<u8>, by: Strides) {
    for first in (0..by.blocks).step_by(READS) {
        let read = |block: usize| {
            // SAFETY: the caller guarantees every block of the shape, and its extent does not
            // overflow.
            let to = unsafe { dest.0.add(block * by.dest_bytes) };
            // SAFETY: one writable block; blocks do not overlap, since strides are no shorter.
            let into = unsafe { std::slice::from_raw_parts_mut(to, by.block_bytes) };
            Read { pe: place.pe, offset: place.offset + block * by.source_bytes, into }
        };
        let mut reads: Vec<Read> = (first..by.blocks.min(first + READS)).map(read).collect();
        place.world.pull(&mut reads);
    }
}

/// Fills symmetric memory of this PE with zeroes.
pub fn zero(call: &'static str, own: *mut u8, bytes: usize) {
    let place = SegmentRange::new(call, "block", Sym(own), bytes, pgas::world().me().0 as i32);
    // SAFETY: the place is `bytes` bytes of this PE's own segment, just allocated by this call.
    unsafe { place.at().write_bytes(0, bytes) };
}
