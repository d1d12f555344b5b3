//! Atomic operations on words of PEs, of any type that is moved as bits.
//!
//! On a mapped PE an operation is one processor instruction on the word itself, complete when the
//! call returns. On other PEs a fetching operation waits for the answer, a non-fetching one is
//! complete with the next quiet, and the non-blocking ones go out together (`pgas::stream`).
//! Between a death and the restart updates are dropped and fetches return zero.

use raidshmem_core::update::Update;
use raidshmem_runtime::pgas::stream::Target;

use super::address::{Out, Sym, SymIn};
use super::issue::issue;
use super::operation::{Operation, PreviousValue};
use super::word::Word;
use crate::openshmem::bits::Bits;

/// Updates a word without waiting for completion.
#[inline(always)]
pub fn change_word(call: &'static str, word: Word, how: Update, operand: u64) {
    issue(Operation::update(call, word, (how, operand), PreviousValue::Unused));
}

/// Updates a word, and returns its previous value.
#[inline(always)]
fn found<T: Bits>(call: &'static str, word: Word, change: (Update, u64)) -> T {
    T::of(issue(Operation::update(call, word, change, PreviousValue::Returned)))
}

/// Updates a word; its previous value is written to `before` by the next quiet.
#[inline(always)]
fn later<T: Bits>(call: &'static str, word: Word, change: (Update, u64), before: Out<T>) {
    issue(Operation::update(call, word, change, PreviousValue::Later(before.erase())));
}

/// Returns the value of a word.
#[inline]
pub fn fetch<T: Bits>(call: &'static str, source: SymIn<T>, pe: impl Into<Target>) -> T {
    found(call, Word::source(call, source, pe), (Update::Load, 0))
}

/// Stores a value.
#[inline]
pub fn set<T: Bits>(call: &'static str, dest: Sym<T>, value: T, pe: impl Into<Target>) {
    change_word(call, Word::new(call, "dest", dest, pe), Update::Store, value.bits());
}

/// Updates a word; returns its previous value.
#[inline]
pub fn update<T: Bits>(
    call: &'static str,
    how: Update,
    dest: Sym<T>,
    value: T,
    pe: impl Into<Target>,
) -> T {
    found(call, Word::new(call, "dest", dest, pe), (how, value.bits()))
}

/// Updates a word without waiting for completion.
#[inline]
pub fn change<T: Bits>(call: &'static str, how: Update, dest: Sym<T>, value: T, pe: Target) {
    change_word(call, Word::new(call, "dest", dest, pe), how, value.bits());
}

/// Updates a word; its previous value is written to `before` by the next quiet.
#[inline]
pub fn update_later<T: Bits>(
    call: &'static str,
    how: Update,
    (dest, value): (Sym<T>, T),
    before: Out<T>,
    pe: Target,
) {
    later(call, Word::new(call, "dest", dest, pe), (how, value.bits()), before);
}

/// Reads a word; the value is written to `into` by the next quiet.
#[inline]
pub fn fetch_later<T: Bits>(call: &'static str, source: SymIn<T>, into: Out<T>, pe: Target) {
    later(call, Word::source(call, source, pe), (Update::Load, 0), into);
}

/// Stores `value` if the word equals `cond`; returns its previous value.
#[inline]
pub fn compare_swap<T: Bits>(
    call: &'static str,
    dest: Sym<T>,
    cond: T,
    value: T,
    pe: impl Into<Target>,
) -> T {
    update(call, Update::CompareSwap(cond.bits()), dest, value, pe)
}
