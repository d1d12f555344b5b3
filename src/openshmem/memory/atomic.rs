//! Atomic operations on words of PEs, of any type that is moved as bits.
//!
//! On a mapped PE an operation is one processor instruction on the word itself, complete when the
//! call returns. On other PEs a fetching operation waits for the answer, a non-fetching one is
//! complete with the next quiet, and the non-blocking ones go out together (`pgas::stream`).
//! Between a death and the restart updates are dropped and fetches return zero.

use raidshmem_core::update::Update;

use super::address::{Out, Sym, SymIn};
use super::word::Word;
use super::{logged, prelude};
use crate::openshmem::bits::Bits;
use raidshmem_runtime::pgas::stream::Target;

/// Updates a word through the log and returns its previous value; None if the unlogged path must be
/// used.
#[inline(always)]
fn logged(call: &'static str, word: &Word, change: (Update, u64), fetches: bool) -> Option<u64> {
    if word.world().logs() { logged::changed(call, word, change, fetches) } else { None }
}

/// Updates a word through the log, or else by `otherwise`; returns its previous value.
#[inline(always)]
pub fn logged_or(
    call: &'static str,
    word: Word,
    change: (Update, u64),
    fetches: bool,
    otherwise: impl FnOnce(Word) -> u64,
) -> u64 {
    logged(call, &word, change, fetches).unwrap_or_else(|| otherwise(word))
}

/// Updates a word without waiting for completion.
#[inline(always)]
pub fn change_word(call: &'static str, word: Word, how: Update, operand: u64) {
    logged_or(call, word, (how, operand), false, |word| {
        word.change(how, operand);
        0
    });
}

/// Returns what `find` reads in a word, or the recorded value in a substitute that repeats the
/// call.
#[inline(always)]
fn found<T: Bits>(call: &'static str, word: &Word, find: impl FnOnce() -> u64) -> T {
    if !word.world().in_prelude() {
        return T::of(find());
    }
    let place = word.place();
    let with = prelude::with([place.offset as u64, u64::from(place.pe.0)]);
    T::of(prelude::value(call, with, find))
}

/// Returns the value of a word.
#[inline]
pub fn fetch<T: Bits>(call: &'static str, source: SymIn<T>, pe: impl Into<Target>) -> T {
    let word = Word::source(call, source, pe);
    let load = (Update::Load, 0);
    found(call, &word, || logged_or(call, word, load, true, |word| word.fetch()))
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
    let (word, operand) = (Word::new(call, "dest", dest, pe), value.bits());
    let update = || logged_or(call, word, (how, operand), true, |word| word.update(how, operand));
    found(call, &word, update)
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

#[inline]
fn later<T: Bits>(call: &'static str, word: Word, (how, operand): (Update, u64), before: Out<T>) {
    if word.world().in_prelude() {
        let change =
            || logged_or(call, word, (how, operand), true, |word| word.update(how, operand));
        return before.write(found(call, &word, change));
    }
    match logged(call, &word, (how, operand), true) {
        Some(found) => before.write(T::of(found)),
        None => word.update_later(how, operand, before),
    }
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
