//! The execution of operations in a job with logs (`pgas/local.rs`): each call's bytes and
//! location, for the log; and waits for local words, which are logged too.
//!
//! An operation on a PE that is mapped is complete when its call returns, in any context. One on
//! another PE is a message (`pgas/far.rs`).

use std::borrow::Cow;

use raidshmem_core::quantity::Pe;
use raidshmem_core::update::{Change, Update, WordAt};
use raidshmem_runtime::pgas::atomics::AtomicCall;
use raidshmem_runtime::pgas::local::{Call, RemotePlace};
use raidshmem_runtime::pgas::{self, World};

use super::address::{In, Out, Sym, SymIn};
use super::direct::copy;
use super::operation::{Operation, OperationKind, PreviousValue};
use super::place::SegmentRange;
use super::strides::Strides;
use super::word::Word;

/// Records that a call was not logged.
#[inline]
pub fn unlogged(routine: &'static str) {
    pgas::try_world().into_iter().for_each(|world| world.call_log().unlogged(routine));
}

fn place_of(range: &SegmentRange, block: (usize, usize)) -> RemotePlace {
    RemotePlace { pe: range.pe, at: range.offset, block }
}

/// Executes an operation through the log. Returns the value of a word that the call returns, or
/// else zero; zero too if all PEs roll back. None if it reads a constant, which has the same value
/// in a replay.
#[inline(never)]
pub fn execute(operation: &Operation) -> Option<u64> {
    let (call, place) = (operation.call, operation.place());
    if place.constant {
        return None;
    }
    match operation.kind {
        OperationKind::Put { to, source, by } => put(call, to, source, by),
        OperationKind::Get { from, dest, by } => get(call, from, dest, by),
        OperationKind::Look { word } => return Some(load(call, &word, || word.load())),
        OperationKind::Update { word, change, previous } => {
            let found = update(call, &word, change, !matches!(previous, PreviousValue::Unused));
            if let PreviousValue::Later(before) = previous {
                before.write_word(word.bytes(), found);
            }
            return Some(found);
        }
    }
    Some(0)
}

#[inline]
fn put(call: &'static str, range: SegmentRange, source: In<u8>, by: Strides) {
    let bytes = packed(source, by);
    let carry_out = || {
        let to = range.now().at();
        for (block, from) in bytes.chunks_exact(by.block_bytes).enumerate() {
            let to = to.wrapping_add(block * by.dest_bytes);
            // SAFETY: inside the extent that `range` was checked for.
            unsafe { copy(from.as_ptr(), to, by.block_bytes) };
        }
    };
    let place = place_of(&range, (by.block_bytes, by.dest_bytes));
    range.world.call_log().put_logged(Call { name: call, with: 0 }, place, &bytes, carry_out);
}

/// Returns the blocks of a caller's buffer, one after another.
fn packed<'a>(source: In<u8>, by: Strides) -> Cow<'a, [u8]> {
    let block = |block: usize| {
        let from = source.0.wrapping_add(block * by.source_bytes);
        // SAFETY: the caller guarantees every block of the shape, readable and unchanged meanwhile.
        unsafe { std::slice::from_raw_parts(from, by.block_bytes) }
    };
    match by.blocks {
        1 => Cow::Borrowed(block(0)),
        blocks => Cow::Owned((0..blocks).flat_map(block).copied().collect()),
    }
}

fn get(call: &'static str, range: SegmentRange, dest: Out<u8>, by: Strides) {
    let read = |far: Option<&[u8]>| {
        if let Some(bytes) = far {
            fill_blocks(dest, by, bytes);
            return Cow::Owned(bytes.to_vec());
        }
        let base = range.now().at();
        if by.blocks == 1 {
            // SAFETY: `range` holds as many bytes of a mapped segment; the caller guarantees space
            // for them, untouched by other threads.
            return unsafe {
                copy(base, dest.0, by.block_bytes);
                Cow::Borrowed(std::slice::from_raw_parts(dest.0, by.block_bytes))
            };
        }
        let mut packed = vec![0u8; by.bytes()];
        for (block, to) in packed.chunks_exact_mut(by.block_bytes).enumerate() {
            let from = base.wrapping_add(block * by.source_bytes);
            // SAFETY: inside the extent that `range` was checked for.
            unsafe { copy(from, to.as_mut_ptr(), by.block_bytes) };
        }
        fill_blocks(dest, by, &packed);
        Cow::Owned(packed)
    };
    let place = place_of(&range, (by.block_bytes, by.source_bytes));
    let call = Call { name: call, with: by.bytes() as u64 };
    let instead = range.world.call_log().get_logged(call, (place, by.blocks), read);
    instead.into_iter().for_each(|bytes| fill_blocks(dest, by, bytes));
}

/// Copies packed bytes to the blocks of a caller's buffer; writes zeroes if the sizes differ.
fn fill_blocks(dest: Out<u8>, by: Strides, packed: &[u8]) {
    let all = by.bytes();
    let zeroes = if packed.len() == all { Vec::new() } else { vec![0; all] };
    let packed = if packed.len() == all { packed } else { &zeroes };
    for (block, from) in packed.chunks_exact(by.block_bytes).enumerate() {
        let to = dest.0.wrapping_add(block * by.dest_bytes);
        // SAFETY: the caller guarantees every block of the shape.
        unsafe { copy(from.as_ptr(), to, by.block_bytes) };
    }
}

fn load(call: &'static str, word: &Word, load: impl Fn() -> u64) -> u64 {
    let place = word.place();
    let call = Call { name: call, with: 0 };
    place.world.call_log().fetch_logged(call, place_of(&place, (word.bytes(), 0)), load)
}

#[inline]
fn update(call: &'static str, word: &Word, change: Change, fetches: bool) -> u64 {
    let (place, Change { how, operand }) = (word.place(), change);
    if how == Update::Load {
        return load(call, word, || word.now().apply(Update::Load, 0));
    }
    // Note the overwritten value too: the order of changes follows from the values that each found.
    let how = if how == Update::Store { Update::Swap } else { how };
    let call = AtomicCall { name: call, change: Change { how, operand }, fetches };
    let on = WordAt { offset: place.offset, bytes: word.bytes() };
    let carry_out = || word.now().apply(how, operand);
    place.world.call_log().atomic_logged(call, (place.pe, on), carry_out)
}

/// Returns true if a test of local words, which may be repeated, succeeds.
pub fn tells(call: &'static str, with: u64, look: impl FnOnce() -> bool) -> bool {
    let look = || [u8::from(look())];
    pgas::world().call_log().answer_logged(Call { name: call, with }, look) == [1]
}

/// Returns true if an attempt must be made: without a log always, otherwise if `look` finds it
/// promising. Repeated vain attempts must not fill a log.
pub fn may_try(call: &'static str, look: impl FnOnce() -> bool) -> bool {
    !pgas::world().logs() || tells(call, 0, look)
}

/// Returns the result of `find` at a set of local words: an index and a value. None if all PEs roll
/// back.
pub fn found(
    world: &World,
    call: &'static str,
    with: u64,
    find: impl FnOnce() -> Option<(usize, u64)>,
) -> Option<(usize, u64)> {
    let words = |found: Option<(usize, u64)>| {
        let words = found.into_iter().flat_map(|(index, value)| [index, value as usize]);
        words.collect()
    };
    let of = |words: Vec<usize>| match words[..] {
        [index, value] => Some((index, value as u64)),
        _ => None,
    };
    indices(world, call, || with, find, (words, of))
}

/// Returns the result of `find` at a set of local words, through the log, which holds it as the
/// indices that `show` makes of it.
pub fn indices<R>(
    world: &World,
    call: &'static str,
    with: impl FnOnce() -> u64,
    find: impl FnOnce() -> R,
    (show, read): (impl Fn(R) -> Vec<usize>, impl Fn(Vec<usize>) -> R),
) -> R {
    if !world.logs() {
        return find();
    }
    let look =
        || -> Vec<u8> { show(find()).iter().flat_map(|index| index.to_ne_bytes()).collect() };
    let bytes = world.call_log().answer_logged(Call { name: call, with: with() }, look);
    let words = bytes.chunks_exact(size_of::<usize>());
    read(words.map(|word| usize::from_ne_bytes(word.try_into().unwrap_or_default())).collect())
}

/// Stores to a local word that other PEs change too, but not concurrently.
pub fn assign(word: &Word, value: u64) {
    word.world().call_log().assigns(word.place().offset, word.bytes());
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
    place.world.call_log().wait_logged(call, (place.offset, word.bytes()), holds, until)
}

/// Reads elements of a PE's contribution to a meeting, from byte `at` of its segment.
pub fn elements<T: Copy>(world: &World, pe: Pe, at: usize, into: &mut [T]) {
    let bytes = size_of_val(into);
    let from = world.segments.bytes_of(pe, at, bytes);
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
