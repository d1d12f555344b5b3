//! Puts and gets of the program, with a fast path for one block of a mapped PE.
//!
//! There is one more per size of a single word, not per type, and the exported functions jump to
//! it. Whatever rules a fast path out (an invalid PE, an address that is not symmetric, mapped or
//! aligned, a log, a death, a call before initialisation) is detected and handled by the dispatch
//! (`issue.rs`).

use raidshmem_core::quantity::Pe;
use raidshmem_runtime::pgas::stream::Target;
use raidshmem_runtime::pgas::{self, World};

use super::address::{In, Out, Sym, SymIn};
use super::direct::copy;
use super::issue::issue;
use super::operation::Operation;
use super::strides::Strides;
use crate::openshmem::bits::Zero;
use crate::openshmem::check;

/// Returns the local address of a range of PE `pe`, if it can be read or written at once. The
/// dispatch handles all other cases.
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

/// Copies elements of a slice to a PE. With a `later` target, the caller keeps it unchanged until
/// the quiet.
#[inline]
pub fn put_slice<T>(call: &'static str, dest: Sym<T>, from: &[T], pe: impl Into<Target>) {
    put_elements(call, dest, In(from.as_ptr()), from.len(), pe);
}

/// Copies elements of a PE to a slice. With a `later` target, the caller leaves it untouched until
/// the quiet.
#[inline]
pub fn get_slice<T>(call: &'static str, to: &mut [T], source: SymIn<T>, pe: impl Into<Target>) {
    get_elements(call, Out(to.as_mut_ptr()), source, to.len(), pe);
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
    put_block(call, dest, source, BYTES, pe);
}

#[inline(never)]
fn get_word<const BYTES: usize>(call: &'static str, dest: Out<u8>, source: SymIn<u8>, pe: Target) {
    get_block(call, dest, source, BYTES, pe);
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
    put_block(call, dest, source, check::bytes_of(call, count, bytes), pe);
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
    get_block(call, dest, source, check::bytes_of(call, count, bytes), pe);
}

/// Copies a block of a caller's buffer to a PE, at once if it can.
#[inline(always)] // `bytes` may be a constant of the caller
fn put_block(call: &'static str, dest: Sym<u8>, source: In<u8>, bytes: usize, pe: Target) {
    if source.addr() != 0
        && let Some((world, pe, to)) = at_once(dest.addr(), bytes, pe)
    {
        // SAFETY: `to` is a range of a mapped segment; the caller guarantees its buffer.
        unsafe { copy(source.0, to, bytes) };
        return world.segments.ring(pe);
    }
    put_blocks(call, dest, source, Strides::one(bytes), pe);
}

/// Copies a block of a PE to a caller's buffer, at once if it can.
#[inline(always)] // `bytes` may be a constant of the caller
fn get_block(call: &'static str, dest: Out<u8>, source: SymIn<u8>, bytes: usize, pe: Target) {
    if dest.addr() != 0
        && let Some((world, pe, from)) = at_once(source.addr(), bytes, pe)
        && !world.in_prelude()
    {
        // SAFETY: `from` is a range of a mapped segment; the caller guarantees its buffer.
        unsafe { copy(from, dest.0, bytes) };
        world.loss_response().cut_short_at(pe); // the bytes may be leftovers of a lost node
        return;
    }
    get_blocks(call, dest, source, Strides::one(bytes), pe);
}

/// Copies blocks of a caller's buffer to a PE.
#[inline(never)] // keeps the fast paths small
pub fn put_blocks(call: &'static str, dest: Sym<u8>, source: In<u8>, by: Strides, pe: Target) {
    Operation::put(call, dest, source, by, pe).map(issue);
}

/// Copies blocks of a PE to a caller's buffer.
#[inline(never)] // keeps the fast paths small
pub fn get_blocks(call: &'static str, dest: Out<u8>, source: SymIn<u8>, by: Strides, pe: Target) {
    Operation::get(call, dest, source, by, pe).map(issue);
}
