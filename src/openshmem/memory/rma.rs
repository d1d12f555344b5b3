//! Puts and gets: here, and for words in `word.rs`, an address becomes an access.
//!
//! A symmetric claim (`address.rs`) becomes a [`SegmentRange`], that is a PE that exists and a
//! range inside its segment, before anything is read or written there. The caller answers for its
//! own buffers, as the specification says.
//!
//! Invariants: a `SegmentRange` lies inside the segment of `pe`. Peers may write the same bytes at
//! the same time. Words are therefore accessed as atomics. Longer ranges are copied as the caller's
//! own code would copy them, and the specification makes it the caller's duty not to race on them.
//!
//! Between a death and the restart (`World::faulted`) writes are dropped and reads give zeroes.
//!
//! Left out: single words of a mapped PE, which go a shorter way (`elements.rs`).

use std::ffi::c_void;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use raidshmem_fabric::Read;

use super::address::{In, Out, Sym, SymIn};
use super::place::SegmentRange;
use super::strides::Strides;
use crate::openshmem::bits::Zero;
use crate::openshmem::check::{self, misuse};
use crate::pgas::stream::Target;
use crate::pgas::{self, World};

/// Blocks of a strided get that are on their way at a time.
const READS: usize = 64;

/// A caller's buffer is null although bytes are to be moved.
#[inline]
pub(super) fn check_buffer(call: &'static str, name: &str, addr: usize, world: &World) {
    if addr == 0 && world.checks() {
        misuse(call, format_args!("{name} is NULL"));
    }
}

/// The C library's routine, which moves bytes whatever others do to them meanwhile.
const MOVE: unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void = libc::memmove;

/// Copies `bytes` to `to`; both ends may overlap.
///
/// Words on their boundary are stored whole, because a peer may be polling them.
///
/// # Safety
///
/// - `from` is readable and `to` writable for `bytes` bytes;
/// - nothing in this process holds a reference to either range.
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the same contract.
    if !unsafe { copy_word(from, to, bytes) } {
        // SAFETY: by the contract; this allows overlap. The compiler must not see what is called:
        // it would believe that nobody else writes there, and with the safe API peers may.
        unsafe { std::hint::black_box(MOVE)(to.cast(), from.cast(), bytes) };
    }
}

/// Copies a word of 1, 2, 4 or 8 bytes whole; false if it is none, or not on its boundary.
///
/// # Safety
///
/// As for [`copy`].
#[inline(always)]
pub(super) unsafe fn copy_word(from: *const u8, to: *mut u8, bytes: usize) -> bool {
    macro_rules! word {
        ($atomic:ty) => {{
            // SAFETY: readable by the contract, aligned by the match; a word is only ever
            // accessed as an atomic while it is shared.
            let value = unsafe { <$atomic>::from_ptr(from.cast_mut().cast()) };
            let value = value.load(Ordering::Relaxed);
            // SAFETY: writable by the contract, aligned by the match.
            let target = unsafe { <$atomic>::from_ptr(to.cast()) };
            // Relaxed: puts are ordered by fence and quiet (`order.rs`), not by themselves.
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

/// Copies a buffer of `bytes`, which the place holds too.
#[inline]
pub(super) fn put_to(place: SegmentRange, source: In<u8>, bytes: usize) {
    if place.world.drops_at(place.pe) {
        return;
    }
    if place.is_far() {
        // SAFETY: the caller owes `bytes` readable bytes at `source` that do not change meanwhile.
        return unsafe { place.put_far(place.offset, source.0, bytes) };
    }
    // SAFETY: `place` holds `bytes` bytes of a mapped segment; the caller owes as many at `source`.
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

/// Copies to a buffer of `bytes`, which the place holds too.
#[inline]
pub(super) fn get_from(place: SegmentRange, dest: Out<u8>, bytes: usize) {
    if place.world.cut_short_at(place.pe) {
        // SAFETY: the caller owes `bytes` writable bytes at `dest`.
        unsafe { dest.0.write_bytes(0, bytes) };
        return;
    }
    if place.is_far() && place.later {
        let (id, pe, offset) = (place.stream, place.pe, place.offset);
        // SAFETY: the caller owes `bytes` writable bytes that nobody uses before the next quiet.
        return unsafe { place.world.later_get(id, pe, offset, dest.0, bytes) };
    }
    if place.is_far() {
        // SAFETY: the caller owes `bytes` writable bytes at `dest` that nobody uses meanwhile.
        let into = unsafe { std::slice::from_raw_parts_mut(dest.0, bytes) };
        return place.world.far_get(place.pe, place.offset, into);
    }
    // SAFETY: `place` holds `bytes` bytes of a mapped segment; the caller owes as many at `dest`.
    unsafe { copy(place.at(), dest.0, bytes) };
    place.world.cut_short_at(place.pe); // it may be what is left of a lost node
}

/// Reads elements of a PE. For later: the caller keeps `into` from everybody until then.
pub fn fetch<T: Copy + Zero>(
    call: &'static str,
    into: &mut [T],
    source: SymIn<T>,
    pe: impl Into<Target>,
) {
    let bytes = size_of_val(into);
    get(call, Out(into.as_mut_ptr()).erase(), source.erase(), bytes, pe);
}

/// Reads the elements of several PEs, `into.len() / pes.len()` of each; those that are not mapped
/// at a time.
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

/// Reads elements of as many places, which hold an equal part of them each.
pub fn fetch_from_places<T: Copy + Zero>(
    into: &mut [T],
    places: impl ExactSizeIterator<Item = SegmentRange>,
) {
    let each = into.len() / places.len().max(1);
    let bytes = each * size_of::<T>();
    let mut reads = Vec::new();
    for (part, place) in into.chunks_exact_mut(each.max(1)).zip(places) {
        let at = part.as_mut_ptr().cast();
        if !place.is_far() || place.world.cut_short_at(place.pe) {
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

/// Stores elements on a PE. For later: the caller keeps `from` as it is until then.
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
        // SAFETY: the caller owes every block of the shape, and its extent does not overflow.
        let from = unsafe { source.0.add(block * by.source_bytes) };
        if place.is_far() {
            let offset = place.offset + block * by.dest_bytes;
            // SAFETY: one block of the caller's.
            unsafe { place.put_far(offset, from, by.block_bytes) };
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
    if place.is_far() && !faulted {
        return get_blocks_far(place, dest, by);
    }
    for block in 0..by.blocks {
        let from = place.at().wrapping_add(block * by.source_bytes);
        // SAFETY: the caller owes every block of the shape, and its extent does not overflow.
        let to = unsafe { dest.0.add(block * by.dest_bytes) };
        if faulted {
            // SAFETY: one block at `to` is the caller's to be written.
            unsafe { to.write_bytes(0, by.block_bytes) };
        } else {
            // SAFETY: as above; one block lies within each extent.
            unsafe { copy(from, to, by.block_bytes) };
        }
    }
    place.world.cut_short_at(place.pe); // it may be what is left of a lost node
}

/// Copies blocks from a PE that is not mapped, many at a time.
fn get_blocks_far(place: SegmentRange, dest: Out<u8>, by: Strides) {
    for first in (0..by.blocks).step_by(READS) {
        let read = |block: usize| {
            // SAFETY: the caller owes every block of the shape, and its extent does not overflow.
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
