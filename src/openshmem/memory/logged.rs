//! Puts, gets, atomic operations and waits of a job with logs (`pgas/local.rs`): each call's bytes
//! and location, for the log.
//!
//! Invariant: only PEs that map each other come here, so an operation is complete when its call
//! returns, in any context. A call through the Rust interface is not logged.

use raidshmem_core::quantity::Pe;
use raidshmem_core::update::{Change, Update, WordAt};

use super::address::{In, Out, Sym, SymIn};
use super::place::SegmentRange;
use super::rma::copy;
use super::strides::Strides;
use super::word::Word;
use raidshmem_runtime::pgas::atomics::AtomicCall;
use raidshmem_runtime::pgas::local::{Call, RemotePlace};
use raidshmem_runtime::pgas::{self, World};

/// Returns true if calls are logged.
#[inline]
pub fn applies() -> bool {
    pgas::try_world().is_some_and(World::logs)
}

/// Records that a call was not logged.
#[inline]
pub fn unlogged(routine: &'static str) {
    pgas::try_world().into_iter().for_each(|world| world.unlogged(routine));
}

fn place_of(range: &SegmentRange, block: (usize, usize)) -> RemotePlace {
    RemotePlace { pe: range.pe, at: range.offset, block }
}

/// Copies a buffer of `bytes`, which fit the range.
pub fn put(call: &'static str, range: SegmentRange, source: In<u8>, bytes: usize) {
    // SAFETY: the caller guarantees `bytes` readable bytes at `source` that do not change
    // meanwhile.
    let from = unsafe { std::slice::from_raw_parts(source.0, bytes) };
    let carry_out = || {
        // SAFETY: `range` holds `bytes` bytes of a mapped segment; the caller guarantees as many.
        unsafe { copy(source.0, range.now().at(), bytes) };
    };
    let call = Call { name: call, with: 0 };
    range.world.put_logged(call, place_of(&range, (bytes, bytes)), from, carry_out);
}

/// Copies blocks of a caller's buffer; `range` holds their extent.
pub fn put_blocks(call: &'static str, range: SegmentRange, source: In<u8>, by: Strides) {
    let mut packed = Vec::with_capacity(by.blocks * by.block_bytes);
    for block in 0..by.blocks {
        let from = source.0.wrapping_add(block * by.source_bytes);
        // SAFETY: the caller guarantees every block of the shape.
        packed.extend_from_slice(unsafe { std::slice::from_raw_parts(from, by.block_bytes) });
    }
    let carry_out = || {
        let to = range.now().at();
        for (block, from) in packed.chunks_exact(by.block_bytes).enumerate() {
            let to = to.wrapping_add(block * by.dest_bytes);
            // SAFETY: inside the extent that `range` was checked for.
            unsafe { copy(from.as_ptr(), to, by.block_bytes) };
        }
    };
    let place = place_of(&range, (by.block_bytes, by.dest_bytes));
    range.world.put_logged(Call { name: call, with: 0 }, place, &packed, carry_out);
}

/// Copies to a buffer of `bytes`, which fit the range.
pub fn get(call: &'static str, range: SegmentRange, dest: Out<u8>, bytes: usize) {
    let read = || {
        // SAFETY: `range` holds `bytes` bytes of a mapped segment; the caller guarantees space for
        // as many, untouched by other threads.
        unsafe {
            copy(range.now().at(), dest.0, bytes);
            std::slice::from_raw_parts(dest.0, bytes)
        }
    };
    let place = place_of(&range, (bytes, bytes));
    let by = Strides::one(bytes);
    let instead = range.world.get_logged(Call { name: call, with: bytes as u64 }, place, read);
    instead.into_iter().for_each(|bytes| fill_blocks(dest, by, bytes));
}

/// Copies blocks to a caller's buffer; `range` holds their extent.
pub fn get_blocks(call: &'static str, range: SegmentRange, dest: Out<u8>, by: Strides) {
    let all = by.blocks * by.block_bytes;
    let read = || {
        let (mut packed, base) = (vec![0u8; all], range.now().at());
        for (block, to) in packed.chunks_exact_mut(by.block_bytes).enumerate() {
            let from = base.wrapping_add(block * by.source_bytes);
            // SAFETY: inside the extent that `range` was checked for.
            unsafe { copy(from, to.as_mut_ptr(), by.block_bytes) };
        }
        fill_blocks(dest, by, &packed);
        packed
    };
    let place = place_of(&range, (by.block_bytes, by.source_bytes));
    let instead = range.world.get_logged(Call { name: call, with: all as u64 }, place, read);
    instead.into_iter().for_each(|bytes| fill_blocks(dest, by, bytes));
}

/// Copies packed bytes to the blocks of a caller's buffer; writes zeroes if the sizes differ.
fn fill_blocks(dest: Out<u8>, by: Strides, packed: &[u8]) {
    let all = by.blocks * by.block_bytes;
    let zeroes = if packed.len() == all { Vec::new() } else { vec![0; all] };
    let packed = if packed.len() == all { packed } else { &zeroes };
    for (block, from) in packed.chunks_exact(by.block_bytes).enumerate() {
        let to = dest.0.wrapping_add(block * by.dest_bytes);
        // SAFETY: the caller guarantees every block of the shape.
        unsafe { copy(from.as_ptr(), to, by.block_bytes) };
    }
}

/// Puts `bytes`, one or more, if the call is logged; returns false if it must take the general
/// path.
pub fn takes_put(call: &'static str, range: &SegmentRange, source: In<u8>, bytes: usize) -> bool {
    let takes = is_logged(call, range);
    if takes {
        put(call, *range, source, bytes);
    }
    takes
}

/// Gets `bytes`, one or more, if the call is logged; returns false if it must take the general
/// path.
pub fn takes_get(call: &'static str, range: &SegmentRange, dest: Out<u8>, bytes: usize) -> bool {
    let takes = is_logged(call, range);
    if takes {
        get(call, *range, dest, bytes);
    }
    takes
}

/// Returns true if an operation on a range is logged; constants are not, as they never change.
pub fn is_logged(call: &'static str, range: &SegmentRange) -> bool {
    if !applies() {
        return false;
    }
    if range.is_remote() {
        unlogged(call);
    }
    range.world.logs() && !range.is_remote() && !range.constant
}

/// Changes a word if calls are logged; returns its previous value, or zero if all PEs roll back.
/// Returns None if the word is remote, or a constant, which has the same value in a replay.
#[inline(never)]
pub fn changed(
    call: &'static str,
    word: &Word,
    (how, operand): (Update, u64),
    fetches: bool,
) -> Option<u64> {
    let place = word.place();
    if place.is_remote() {
        unlogged(call);
    }
    if place.is_remote() || place.constant {
        return None;
    }
    if how == Update::Load {
        let call = Call { name: call, with: 0 };
        let load = || word.now().apply(Update::Load, 0);
        return Some(place.world.fetch_logged(call, place_of(&place, (word.bytes(), 0)), load));
    }
    // Note the overwritten value too: the order of changes follows from the values that each found.
    let how = if how == Update::Store { Update::Swap } else { how };
    let call = AtomicCall { name: call, change: Change { how, operand }, fetches };
    let on = WordAt { offset: place.offset, bytes: word.bytes() };
    let carry_out = || word.now().apply(how, operand);
    Some(place.world.atomic_logged(call, (place.pe, on), carry_out))
}

/// Returns the value of a local word that other PEs change.
pub fn look(call: &'static str, word: &Word) -> u64 {
    let world = word.world();
    if !world.logs() {
        return word.load();
    }
    let place = place_of(&word.place(), (word.bytes(), 0));
    world.fetch_logged(Call { name: call, with: 0 }, place, || word.load())
}

/// Returns true if a test of local words, which may be repeated, succeeds.
pub fn tells(call: &'static str, with: u64, look: impl FnOnce() -> bool) -> bool {
    let look = || [u8::from(look())];
    pgas::world().answer_logged(Call { name: call, with }, look) == [1]
}

/// Returns the indices that a call finds in a set of local words.
pub fn indices(call: &'static str, with: u64, find: impl FnOnce() -> Vec<usize>) -> Vec<usize> {
    let look = || -> Vec<u8> { find().iter().flat_map(|index| index.to_ne_bytes()).collect() };
    let bytes = pgas::world().answer_logged(Call { name: call, with }, look);
    let words = bytes.chunks_exact(size_of::<usize>());
    words.map(|word| usize::from_ne_bytes(word.try_into().unwrap_or_default())).collect()
}

/// Stores to a local word that other PEs change too, but not concurrently.
pub fn assign(word: &Word, value: u64) {
    word.world().assigns(word.place().offset, word.bytes());
    word.store(value);
}

/// Waits for a local word by `until`.
pub fn wait(
    call: &'static str,
    word: &Word,
    with: u64,
    holds: impl Fn(u64) -> bool,
    until: impl FnOnce() -> u64,
) -> u64 {
    let place = word.place();
    let call = Call { name: call, with };
    place.world.wait_logged(call, (place.offset, word.bytes()), holds, until)
}

/// Reads elements of a PE's contribution to a meeting, from byte `at` of its segment.
pub fn elements<T: Copy>(world: &World, pe: Pe, at: usize, into: &mut [T]) {
    let bytes = size_of_val(into);
    let mapped = world.segments.if_mapped(pe).unwrap_or_else(|| world.segments.own());
    let from = mapped.bytes(at, bytes);
    // SAFETY: as many bytes on both sides, which do not overlap: the log is the library's; an
    // element may have any bytes that an equal element of a peer has.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), into.as_mut_ptr().cast(), bytes) };
}

/// Returns the bytes of a local source, for a meeting.
pub fn source<'a>(call: &'static str, source: SymIn<u8>, bytes: usize) -> &'a [u8] {
    if bytes == 0 {
        return &[];
    }
    let own = pgas::world().me().0 as i32;
    let range = SegmentRange::source(call, source, bytes, own);
    // SAFETY: the range is `bytes` bytes of the local segment, which is never unmapped; the program
    // leaves a source unchanged while a collective uses it.
    unsafe { std::slice::from_raw_parts(range.at(), bytes) }
}

/// Writes to the local destination of a collective.
pub fn fill(call: &'static str, dest: Sym<u8>, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let own = pgas::world().me().0 as i32;
    let range = SegmentRange::new(call, "dest", dest, bytes.len(), own);
    // SAFETY: the range is as many bytes of the local segment, and the log is elsewhere.
    unsafe { copy(bytes.as_ptr(), range.at(), bytes.len()) };
}
