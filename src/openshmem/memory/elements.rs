//! Puts and gets of elements, with a fast path for a single word of a mapped PE.
//!
//! There is one fast path per word size, not per type, and the exported functions jump to it.
//! Whatever rules it out (an invalid PE, an address that is not symmetric, mapped or aligned, a
//! death, a call before initialisation) is detected and handled by the general path.

use raidshmem_core::quantity::Pe;

use super::address::{In, Out, Sym, SymIn};
use super::logged;
use super::place::SegmentRange;
use super::prelude;
use super::rma::{check_buffer, copy_word, get, put};
use super::strides::Strides;
use crate::openshmem::bits::Zero;
use crate::openshmem::check;
use raidshmem_runtime::pgas::stream::Target;
use raidshmem_runtime::pgas::{self, World};

/// Returns the local address of a range of PE `pe`, if it can be read or written at once. The
/// general path handles all other cases.
#[inline(always)]
fn at_once(addr: usize, bytes: usize, pe: Target) -> Option<(&'static World, Pe, *mut u8)> {
    let world = pgas::try_world()?;
    let pe = usize::try_from(pe.pe).ok().filter(|pe| *pe < world.n_pes()).map(Pe::of)?;
    let base = world.reach(pe);
    let at = base.wrapping_add(world.segments.offset_of(addr, bytes)?);
    let at_once = !base.is_null() && !world.local.is_on() && !world.members.faulted();
    at_once.then_some((world, pe, at))
}

macro_rules! by_size {
    ($bytes:expr, $nelems:ident, $word:ident $args:tt, $any:expr) => {
        match $bytes {
            1 if $nelems == 1 => $word::<1> $args,
            2 if $nelems == 1 => $word::<2> $args,
            4 if $nelems == 1 => $word::<4> $args,
            8 if $nelems == 1 => $word::<8> $args,
            _ => $any,
        }
    };
}

/// Copies elements of a caller's buffer to a PE; one word takes the fast path for its size.
#[inline(always)]
pub fn put_elements<T>(
    call: &'static str,
    dest: Sym<T>,
    source: In<T>,
    n: usize,
    pe: impl Into<Target>,
) {
    let (dest, source, bytes) = (dest.erase(), source.erase(), size_of::<T>());
    let pe = pe.into();
    by_size!(bytes, n, put_word(call, dest, source, pe), put_any(call, dest, source, n, bytes, pe))
}

/// Copies elements of a PE to a caller's buffer; one word takes the fast path for its size.
#[inline(always)]
pub fn get_elements<T>(
    call: &'static str,
    dest: Out<T>,
    source: SymIn<T>,
    n: usize,
    pe: impl Into<Target>,
) {
    let (dest, source, bytes) = (dest.erase(), source.erase(), size_of::<T>());
    let pe = pe.into();
    by_size!(bytes, n, get_word(call, dest, source, pe), get_any(call, dest, source, n, bytes, pe))
}

/// Stores one value on a PE.
#[inline]
pub fn put_value<T: Copy>(call: &'static str, dest: Sym<T>, value: T, pe: impl Into<Target>) {
    put_elements(call, dest, In(&raw const value), 1, pe);
}

/// Reads one value from a PE.
#[inline]
pub fn get_value<T: Copy + Zero>(call: &'static str, source: SymIn<T>, pe: impl Into<Target>) -> T {
    let mut value = T::zero();
    get_elements(call, Out(&raw mut value), source, 1, pe);
    value
}

#[inline(never)]
fn put_word<const BYTES: usize>(call: &'static str, dest: Sym<u8>, source: In<u8>, pe: Target) {
    if source.addr() != 0
        && let Some((world, pe, to)) = at_once(dest.addr(), BYTES, pe)
        // SAFETY: `to` is a place in a mapped segment; the caller guarantees one element at
        // `source`.
        && unsafe { copy_word(source.0, to, BYTES) }
    {
        return world.segments.ring(pe);
    }
    put_any(call, dest, source, 1, BYTES, pe)
}

#[inline(never)]
fn get_word<const BYTES: usize>(call: &'static str, dest: Out<u8>, source: SymIn<u8>, pe: Target) {
    if dest.addr() != 0
        && let Some((world, pe, from)) = at_once(source.addr(), BYTES, pe)
        && !world.in_prelude()
        // SAFETY: `from` is a place in a mapped segment; the caller guarantees one element at
        // `dest`.
        && unsafe { copy_word(from, dest.0, BYTES) }
    {
        world.cut_short_at(pe); // the bytes may be leftovers of a lost node
        return;
    }
    get_any(call, dest, source, 1, BYTES, pe)
}

#[inline(never)]
fn put_any(
    call: &'static str,
    dest: Sym<u8>,
    source: In<u8>,
    count: usize,
    bytes: usize,
    pe: Target,
) {
    let bytes = check::bytes_of(call, count, bytes);
    if bytes > 0 && logged::applies() {
        let range = SegmentRange::new(call, "dest", dest, bytes, pe);
        check_buffer(call, "source", source.addr(), range.world);
        if logged::takes_put(call, &range, source, bytes) {
            return;
        }
    }
    put(call, dest, source, bytes, pe);
}

#[inline(never)]
fn get_any(
    call: &'static str,
    dest: Out<u8>,
    source: SymIn<u8>,
    count: usize,
    bytes: usize,
    pe: Target,
) {
    let bytes = check::bytes_of(call, count, bytes);
    if bytes == 0 || !prelude::applies() {
        return get_now(call, dest, source, bytes, pe);
    }
    let range = SegmentRange::new(call, "source", source.as_sym(), bytes, pe);
    check_buffer(call, "dest", dest.addr(), range.world);
    let by = Strides::one(bytes);
    let with = prelude::with([bytes as u64, range.offset as u64, u64::from(range.pe.0)]);
    let at_once = Target { later: false, ..pe };
    prelude::read(call, with, (dest, by), || get_now(call, dest, source, bytes, at_once));
}

fn get_now(call: &'static str, dest: Out<u8>, source: SymIn<u8>, bytes: usize, pe: Target) {
    if bytes > 0 && logged::applies() {
        let range = SegmentRange::source(call, source, bytes, pe);
        check_buffer(call, "dest", dest.addr(), range.world);
        if logged::takes_get(call, &range, dest, bytes) {
            return;
        }
    }
    get(call, dest, source, bytes, pe);
}
