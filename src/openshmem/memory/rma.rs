//! Puts and gets of the library itself, on behalf of collectives.
//!
//! They are described like those of the program, and executed directly: the call that needs them is
//! logged and recorded as a whole, if at all.

use raidshmem_fabric::Read;
use raidshmem_runtime::pgas;
use raidshmem_runtime::pgas::stream::Target;

use super::address::{In, Out, Sym, SymIn};
use super::direct::{self, get_from};
use super::operation::Operation;
use super::place::SegmentRange;
use super::strides::Strides;
use crate::openshmem::bits::Zero;

/// Copies a caller's buffer to a PE.
#[inline]
pub fn put(call: &'static str, dest: Sym<u8>, source: In<u8>, bytes: usize, pe: impl Into<Target>) {
    put_blocks(call, dest, source, Strides::one(bytes), pe);
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
    get_blocks(call, dest, source, Strides::one(bytes), pe);
}

/// Copies blocks of a caller's buffer to a PE.
#[inline]
pub fn put_blocks(
    call: &'static str,
    dest: Sym<u8>,
    source: In<u8>,
    by: Strides,
    pe: impl Into<Target>,
) {
    Operation::put(call, dest, source, by, pe).map(direct::execute);
}

/// Copies blocks from a PE to a caller's buffer.
#[inline]
pub fn get_blocks(
    call: &'static str,
    dest: Out<u8>,
    source: SymIn<u8>,
    by: Strides,
    pe: impl Into<Target>,
) {
    Operation::get(call, dest, source, by, pe).map(direct::execute);
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
        if !place.is_remote() || place.world.loss_response().cut_short_at(place.pe) {
            get_from(place, Out(at), Strides::one(bytes));
            continue;
        }
        // SAFETY: the bytes of `part`, which is borrowed as long; an element may have any bytes
        // that an equal element of a peer has.
        let into = unsafe { std::slice::from_raw_parts_mut(at, bytes) };
        reads.push(Read { pe: place.pe, offset: place.offset, into });
    }
    if !reads.is_empty() {
        pgas::world().transfers().pull(&mut reads);
    }
}

/// Stores elements on a PE. With a `later` target, the caller keeps `from` unchanged until the
/// quiet.
pub fn send<T: Copy + Zero>(call: &'static str, dest: Sym<T>, from: &[T], pe: impl Into<Target>) {
    put(call, dest.erase(), In(from.as_ptr()).erase(), size_of_val(from), pe);
}

/// Fills symmetric memory of this PE with zeroes.
pub fn zero(call: &'static str, own: *mut u8, bytes: usize) {
    let place = SegmentRange::new(call, "block", Sym(own), bytes, pgas::world().me().0 as i32);
    // SAFETY: the place is `bytes` bytes of this PE's own segment, just allocated by this call.
    unsafe { place.at().write_bytes(0, bytes) };
}
