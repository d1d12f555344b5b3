//! Atomic operations on words of PEs, of any type that is moved as bits.
//!
//! On a mapped PE an operation is one instruction of the processor on the word itself, and done
//! when the call returns. Elsewhere one that fetches waits for the answer, one that fetches nothing
//! is complete with the next quiet, and the non-blocking ones go out together (`pgas::stream`).
//! Between a death and the restart updates are dropped and what is fetched is zero.

use raidshmem_segment::update::Update;

use super::address::{Out, Sym, SymIn};
use super::word::Word;
use crate::openshmem::bits::Bits;
use crate::pgas::stream::Target;

/// The value of a word.
#[inline]
pub fn fetch<T: Bits>(call: &'static str, source: SymIn<T>, pe: impl Into<Target>) -> T {
    let word = Word::new(call, "source", source.as_sym(), pe);
    T::of(word.fetch())
}

/// Stores a value.
#[inline]
pub fn set<T: Bits>(call: &'static str, dest: Sym<T>, value: T, pe: impl Into<Target>) {
    Word::new(call, "dest", dest, pe).store(value.bits());
}

/// Updates a word; what was there before.
#[inline]
pub fn update<T: Bits>(
    call: &'static str,
    how: Update,
    dest: Sym<T>,
    value: T,
    pe: impl Into<Target>,
) -> T {
    T::of(Word::new(call, "dest", dest, pe).update(how, value.bits()))
}

/// Updates a word without waiting for it.
#[inline]
pub fn change<T: Bits>(call: &'static str, how: Update, dest: Sym<T>, value: T, pe: Target) {
    Word::new(call, "dest", dest, pe).change(how, value.bits());
}

/// Updates a word; what was there goes to `before`, as late as the next quiet.
#[inline]
pub fn update_later<T: Bits>(
    call: &'static str,
    how: Update,
    (dest, value): (Sym<T>, T),
    before: Out<T>,
    pe: Target,
) {
    Word::new(call, "dest", dest, pe).update_later(how, value.bits(), before);
}

/// Stores `value` where `cond` is; what was there before.
#[inline]
pub fn compare_swap<T: Bits>(
    call: &'static str,
    dest: Sym<T>,
    cond: T,
    value: T,
    pe: impl Into<Target>,
) -> T {
    T::of(Word::new(call, "dest", dest, pe).compare_swap(cond.bits(), value.bits()))
}
