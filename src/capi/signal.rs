//! Signals: put-with-signal, and signal words by themselves.
//!
//! The data is copied first and the signal word updated after it with release, so whoever sees the
//! signal (`wait.rs` loads with acquire) sees the data. The signal operations are atomic among
//! themselves and with `shmem_signal_fetch` and the waits on signals.

use std::ffi::c_int;

use super::constants::{SIGNAL_ADD, SIGNAL_SET};
use super::guard::{bytes_of, misuse};
use super::memory_ops::{self, In, Sym, SymIn, Update, Word};
use crate::pgas::stream::Target;

/// What a put-with-signal does when its data is there.
#[derive(Clone, Copy)]
struct Signal {
    word: Sym<u64>,
    value: u64,
    op: c_int,
}

impl Signal {
    /// Checks all of it before the data moves.
    fn prepare(self, call: &'static str, pe: Target) -> Word {
        if self.op != SIGNAL_SET && self.op != SIGNAL_ADD {
            let op = self.op;
            misuse(call, format_args!("sig_op {op}: allowed are SHMEM_SIGNAL_SET and _ADD"));
        }
        Word::new(call, "sig_addr", self.word, pe)
    }

    fn send(self, word: Word) {
        let how = if self.op == SIGNAL_SET { Update::Store } else { Update::Add };
        word.change(how, self.value);
    }
}

fn put(
    call: &'static str,
    dest: Sym<u8>,
    source: In<u8>,
    bytes: usize,
    signal: Signal,
    pe: Target,
) {
    let word = signal.prepare(call, pe);
    memory_ops::put(call, dest, source, bytes, pe);
    signal.send(word.after_puts());
}

fn send(call: &'static str, word: Sym<u64>, value: u64, op: c_int, pe: Target) {
    let signal = Signal { word, value, op };
    signal.send(signal.prepare(call, pe));
}

family! { SIGNAL: "Signaling (put-with-signal)";
    RMA "shmem_" "_put_signal" ctx("shmem_ctx_") [generic "shmem_put_signal"]
    (dest: Sym<T>, source: In<T>, nelems: usize, sig_addr: Sym<u64>, signal: u64, sig_op: c_int,
     pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        let bytes = bytes_of(NAME, nelems, size_of::<T>());
        let signal = Signal { word: sig_addr, value: signal, op: sig_op };
        put(NAME, dest.erase(), source.erase(), bytes, signal, pe)
    }
    SIZED "shmem_put" "_signal" ctx("shmem_ctx_put")
    (dest: Sym<T>, source: In<T>, nelems: usize, sig_addr: Sym<u64>, signal: u64, sig_op: c_int,
     pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        let bytes = bytes_of(NAME, nelems, size_of::<T>());
        let signal = Signal { word: sig_addr, value: signal, op: sig_op };
        put(NAME, dest.erase(), source.erase(), bytes, signal, pe)
    }
    RMA "shmem_" "_put_signal_nbi" ctx("shmem_ctx_") [generic "shmem_put_signal_nbi"]
    (dest: Sym<T>, source: In<T>, nelems: usize, sig_addr: Sym<u64>, signal: u64, sig_op: c_int,
     pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        let bytes = bytes_of(NAME, nelems, size_of::<T>());
        let signal = Signal { word: sig_addr, value: signal, op: sig_op };
        put(NAME, dest.erase(), source.erase(), bytes, signal, pe)
    }
    SIZED "shmem_put" "_signal_nbi" ctx("shmem_ctx_put")
    (dest: Sym<T>, source: In<T>, nelems: usize, sig_addr: Sym<u64>, signal: u64, sig_op: c_int,
     pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        let bytes = bytes_of(NAME, nelems, size_of::<T>());
        let signal = Signal { word: sig_addr, value: signal, op: sig_op };
        put(NAME, dest.erase(), source.erase(), bytes, signal, pe)
    }
    ONE "shmem_signal_add" "" ctx("shmem_ctx_signal_add")
    (sig_addr: Sym<u64>, signal: u64, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        send(NAME, sig_addr, signal, SIGNAL_ADD, pe)
    }
    ONE "shmem_signal_set" "" ctx("shmem_ctx_signal_set")
    (sig_addr: Sym<u64>, signal: u64, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        send(NAME, sig_addr, signal, SIGNAL_SET, pe)
    }
    ONE "shmem_signal_fetch" "" (sig_addr: SymIn<u64>) -> u64 {
        Word::own(NAME, "sig_addr", sig_addr.as_sym()).load()
    }
}
