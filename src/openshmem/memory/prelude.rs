//! Results of the calls that a program makes before its first checkpoint call, as bytes
//! (`pgas/prelude.rs`).
//!
//! ```text
//! get, fetch           the data read
//! wait, test, look     the result of the call, and the words that it inspected
//! collective, split    the contents of the destination; the outcome of the agreement
//! ```
//!
//! Results that lie in symmetric memory are restored before the call returns, though the restart
//! would restore them anyway: a program may copy them to private variables.
//!
//! Invariant: a call is identified by its name and by arguments that are alike in each process;
//! private addresses are not.

use super::address::{Out, Sym};
use super::logged::fill;
use super::rma::copy;
use super::strides::Strides;
use super::word::Word;
use raidshmem_runtime::pgas::local::Call;
use raidshmem_runtime::pgas::{self, World};

/// Returns true while results of calls are recorded or replayed.
#[inline]
pub fn applies() -> bool {
    pgas::try_world().is_some_and(World::in_prelude)
}

/// Returns a hash of arguments.
pub fn with<const N: usize>(arguments: [u64; N]) -> u64 {
    arguments
        .iter()
        .fold(0, |all, one| (all ^ one).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23))
}

/// Returns the offset of a symmetric object in each segment.
pub fn offset<T>(of: Sym<T>) -> u64 {
    pgas::world().segments.offset_of(of.addr(), 1).map_or(0, |offset| offset as u64)
}

/// Copies blocks to a caller's buffer by `read`, or from the record.
pub fn read(call: &'static str, with: u64, (dest, by): (Out<u8>, Strides), read: impl FnOnce()) {
    let at = |block: usize| dest.0.wrapping_add(block * by.dest_bytes);
    let show = |(): &()| {
        let mut bytes = vec![0; by.blocks * by.block_bytes];
        for (block, into) in bytes.chunks_exact_mut(by.block_bytes).enumerate() {
            // SAFETY: the caller guarantees every block of the shape, and `read` has just written
            // it.
            unsafe { copy(at(block), into.as_mut_ptr(), into.len()) };
        }
        bytes
    };
    let give = |bytes: Vec<u8>| {
        for (block, from) in bytes.chunks_exact(by.block_bytes).take(by.blocks).enumerate() {
            // SAFETY: the caller guarantees every block of the shape.
            unsafe { copy(from.as_ptr(), at(block), from.len()) };
        }
    };
    pgas::world().result_of(Call { name: call, with }, read, show, give);
}

/// Returns a number found by `act`, or the recorded one.
pub fn value(call: &'static str, with: u64, act: impl FnOnce() -> u64) -> u64 {
    if !applies() {
        return act();
    }
    let show = |value: &u64| value.to_le_bytes().to_vec();
    let give = |bytes: Vec<u8>| bytes.try_into().map_or(0, u64::from_le_bytes);
    pgas::world().result_of(Call { name: call, with }, act, show, give)
}

/// Returns true if `act` does, or did when it was recorded.
pub fn tells(call: &'static str, with: u64, act: impl FnOnce() -> bool) -> bool {
    value(call, with, || u64::from(act())) == 1
}

/// Returns numbers that `act` finds in local words, or the recorded ones; then restores the words
/// too.
pub fn looks(
    call: &'static str,
    with: u64,
    words: &[Word],
    act: impl FnOnce() -> Vec<u64>,
) -> Vec<u64> {
    let show = |found: &Vec<u64>| {
        let held = words.iter().map(|word| word.load());
        held.chain(found.iter().copied()).flat_map(u64::to_le_bytes).collect()
    };
    let give = |bytes: Vec<u8>| {
        let (all, _) = bytes.as_chunks();
        let mut all = all.iter().map(|word| u64::from_le_bytes(*word));
        words.iter().zip(&mut all).for_each(|(word, value)| word.put_own(value));
        all.collect()
    };
    pgas::world().result_of(Call { name: call, with }, act, show, give)
}

/// Fills the local destination of a collective by `act`, which returns the bytes filled, or from
/// the record.
pub fn made<E>(
    call: &'static str,
    with: u64,
    dest: Sym<u8>,
    act: impl FnOnce() -> Result<usize, E>,
) -> Result<usize, E> {
    if !applies() {
        return act();
    }
    let show = |made: &Result<usize, E>| {
        let mut bytes = vec![0; *made.as_ref().unwrap_or(&0)];
        // SAFETY: the collective has checked and written as many bytes of the local segment.
        unsafe { copy(dest.as_out().pointer(), bytes.as_mut_ptr(), bytes.len()) };
        bytes
    };
    let give = |bytes: Vec<u8>| {
        fill(call, dest, &bytes);
        Ok(bytes.len())
    };
    pgas::world().result_of(Call { name: call, with }, act, show, give)
}
