//! Signals: put-with-signal, and signal words by themselves.

use std::ffi::c_int;

use raidshmem_core::update::Update;

use super::constants::{SIGNAL_ADD, SIGNAL_SET};
use crate::openshmem::check::{bytes_of, misuse};
use crate::openshmem::memory::address::{In, Sym, SymIn};
use crate::openshmem::signal::{self, Signal};
use raidshmem_runtime::pgas::stream::Target;

/// Translates a C signal operation.
fn update(call: &'static str, op: c_int) -> Update {
    match op {
        SIGNAL_SET => Update::Store,
        SIGNAL_ADD => Update::Add,
        _ => misuse(call, format_args!("sig_op {op}: expected SHMEM_SIGNAL_SET or _ADD")),
    }
}

fn put(
    call: &'static str,
    data: (Sym<u8>, In<u8>, usize),
    (word, value, op): (Sym<u64>, u64, c_int),
    pe: Target,
) {
    signal::put(call, data, Signal { word, value, how: update(call, op) }, pe);
}

family! { SIGNAL: "Signaling (put-with-signal)";
    RMA "shmem_" "_put_signal" ctx("shmem_ctx_") [generic "shmem_put_signal"]
    (dest: Sym<T>, source: In<T>, nelems: usize, sig_addr: Sym<u64>, signal: u64, sig_op: c_int,
     pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        let bytes = bytes_of(NAME, nelems, size_of::<T>());
        put(NAME, (dest.erase(), source.erase(), bytes), (sig_addr, signal, sig_op), pe)
    }
    SIZED "shmem_put" "_signal" ctx("shmem_ctx_put")
    (dest: Sym<T>, source: In<T>, nelems: usize, sig_addr: Sym<u64>, signal: u64, sig_op: c_int,
     pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        let bytes = bytes_of(NAME, nelems, size_of::<T>());
        put(NAME, (dest.erase(), source.erase(), bytes), (sig_addr, signal, sig_op), pe)
    }
    RMA "shmem_" "_put_signal_nbi" ctx("shmem_ctx_") [generic "shmem_put_signal_nbi"]
    (dest: Sym<T>, source: In<T>, nelems: usize, sig_addr: Sym<u64>, signal: u64, sig_op: c_int,
     pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        let bytes = bytes_of(NAME, nelems, size_of::<T>());
        put(NAME, (dest.erase(), source.erase(), bytes), (sig_addr, signal, sig_op), pe)
    }
    SIZED "shmem_put" "_signal_nbi" ctx("shmem_ctx_put")
    (dest: Sym<T>, source: In<T>, nelems: usize, sig_addr: Sym<u64>, signal: u64, sig_op: c_int,
     pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        let bytes = bytes_of(NAME, nelems, size_of::<T>());
        put(NAME, (dest.erase(), source.erase(), bytes), (sig_addr, signal, sig_op), pe)
    }
    ONE "shmem_signal_add" "" ctx("shmem_ctx_signal_add") [generic "shmem_signal_add"]
    (sig_addr: Sym<u64>, signal: u64, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        signal::send(NAME, Signal { word: sig_addr, value: signal, how: Update::Add }, pe)
    }
    ONE "shmem_signal_set" "" ctx("shmem_ctx_signal_set") [generic "shmem_signal_set"]
    (sig_addr: Sym<u64>, signal: u64, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        signal::send(NAME, Signal { word: sig_addr, value: signal, how: Update::Store }, pe)
    }
    ONE "shmem_signal_fetch" "" (sig_addr: SymIn<u64>) -> u64 {
        signal::fetch(NAME, sig_addr.as_sym())
    }
}
