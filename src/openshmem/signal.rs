//! Signals: words of PEs that are updated alone, or after data has arrived.
//!
//! The data is copied first and the signal word updated after it with release, so a PE that sees
//! the signal (`wait.rs` loads with acquire) sees the data. The signal operations are atomic with
//! respect to each other, to reads of the word and to the waits on signals.

use raidshmem_core::update::Update;

use super::memory::address::{In, Sym};
use super::memory::atomic::change_word;
use super::memory::elements::put_elements;
use super::memory::word::Word;
use super::memory::{logged, prelude};
use raidshmem_runtime::pgas::stream::Target;

/// An update of a signal word.
#[derive(Clone, Copy)]
pub struct Signal {
    /// The word.
    pub word: Sym<u64>,
    /// The operand.
    pub value: u64,
    /// `Store` or `Add`.
    pub how: Update,
}

impl Signal {
    fn on(self, call: &'static str, pe: Target) -> Word {
        Word::new(call, "sig_addr", self.word, pe)
    }
}

/// Copies bytes of a buffer to a PE, then signals; checks all arguments before data moves.
pub fn put(
    call: &'static str,
    (dest, source, bytes): (Sym<u8>, In<u8>, usize),
    signal: Signal,
    pe: Target,
) {
    let word = signal.on(call, pe);
    put_elements(call, dest, source, bytes, pe);
    change_word(call, word.after_puts(), signal.how, signal.value);
}

/// Signals a PE without waiting for completion.
pub fn send(call: &'static str, signal: Signal, pe: Target) {
    change_word(call, signal.on(call, pe), signal.how, signal.value);
}

/// Returns the value of a local signal word.
pub fn fetch(call: &'static str, word: Sym<u64>) -> u64 {
    let own = Word::own(call, "sig_addr", word);
    if !prelude::applies() {
        return logged::look(call, &own);
    }
    let look = || vec![logged::look(call, &own)];
    let found = prelude::looks(call, prelude::offset(word), &[own], look);
    found.first().copied().unwrap_or_default()
}
