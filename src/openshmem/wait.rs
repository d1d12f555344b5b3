//! Waiting for a local word to change, and testing it. Sets of words are in `wait_set.rs`.
//!
//! A wait returns as soon as a death is known, satisfied or not. A test returns true between a
//! death and the restart, so that a loop around it ends; the restart undoes the program's reaction.

use raidshmem_segment::waits::Waiting;

use super::bits::Bits;
use super::memory::address::Sym;
use super::memory::word::Word;
use super::memory::{logged, prelude};

/// A comparison of a word with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cmp {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `<`
    Lt,
    /// `<=`
    Le,
}

impl Cmp {
    /// Returns true if `value` satisfies the comparison with `than`.
    #[inline]
    pub fn holds<T: Bits>(self, value: T, than: T) -> bool {
        match self {
            Cmp::Eq => value == than,
            Cmp::Ne => value != than,
            Cmp::Gt => value > than,
            Cmp::Ge => value >= than,
            Cmp::Lt => value < than,
            Cmp::Le => value <= than,
        }
    }
}

/// Waits; returns the value that satisfied the condition, or the value at a death.
pub fn until<T: Bits>(call: &'static str, ivar: Sym<T>, cmp: Cmp, value: T) -> T {
    let word = Word::own(call, "ivar", ivar);
    if !prelude::applies() {
        return until_seen(call, word, (cmp, value));
    }
    let wait = || vec![until_seen(call, word, (cmp, value)).bits()];
    let found = prelude::looks(call, with_place(&word, value, cmp), &[word], wait);
    T::of(found.first().copied().unwrap_or_default())
}

fn until_seen<T: Bits>(call: &'static str, word: Word, (cmp, value): (Cmp, T)) -> T {
    let holds = |seen: u64| cmp.holds(T::of(seen), value);
    let wait = || until_now(call, &word, (cmp, value)).bits();
    T::of(logged::wait(call, &word, with(value, cmp), holds, wait))
}

fn until_now<T: Bits>(call: &'static str, word: &Word, (cmp, value): (Cmp, T)) -> T {
    let mut seen = T::of(word.load());
    if !cmp.holds(seen, value) {
        // A death ends the wait: the caller learns of it at its next checkpoint call.
        let _ = word.world().wait_until(
            || Waiting::anyone(call),
            || {
                seen = T::of(word.load());
                cmp.holds(seen, value)
            },
        );
    }
    seen
}

/// Returns true if a word satisfies the condition now.
pub fn test<T: Bits>(call: &'static str, ivar: Sym<T>, cmp: Cmp, value: T) -> bool {
    let word = Word::own(call, "ivar", ivar);
    if !prelude::applies() {
        return test_now(call, &word, (cmp, value));
    }
    let test = || vec![u64::from(test_now(call, &word, (cmp, value)))];
    prelude::looks(call, with_place(&word, value, cmp), &[word], test) == [1]
}

fn test_now<T: Bits>(call: &'static str, word: &Word, (cmp, value): (Cmp, T)) -> bool {
    word.world().call_sites().waits(); // it may be called again and again
    let look = || cmp.holds(T::of(word.load()), value) || word.world().loss_response().ends_tests();
    logged::tells(call, with_place(word, value, cmp), look)
}

fn with_place<T: Bits>(word: &Word, value: T, cmp: Cmp) -> u64 {
    with(value, cmp).wrapping_add(word.place().offset() as u64)
}

/// Returns a hash of the arguments, by which a replay identifies the call.
fn with<T: Bits>(value: T, cmp: Cmp) -> u64 {
    value.bits() ^ (cmp as u64) << 56
}
