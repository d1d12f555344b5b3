//! The few system calls that raidshmem makes, as safe functions with named errors: memory and its
//! mappings, processes, sockets, sleeping on a word, what the machine has.
//!
//! Invariant: whatever stands on this crate is free of raw system calls. What is unsafe here is
//! unsafe because the kernel call is; each block says why it is sound. Nothing here knows what a
//! PE, a view or a checkpoint is.
//!
//! Left out: anything a well-kept crate already offers as safe code is called where it is needed.
//! The items are public for the programs and tests of the workspace alone, and change at will.
//!
//! Layers, each importing only from those above it or to the left of it:
//!
//! ```text
//! exit  futex  forbidden  inherited          the end of a process, sleeping, what it began with
//! cgroup  limits  memory  huge               memory: limits, mappings, huge pages
//! fork  written  writeback                   forks; pages that were written; bytes for a disk
//! caller  site  startup                      who called, from where; where the program lies
//! machine  threads  process  pool            processors, threads, processes, shared work
//! socket  input                              messages between processes of one machine; files
//! ```

// Modules explain themselves by what is private to them.
#![allow(rustdoc::private_intra_doc_links)]

pub mod caller;
pub mod cgroup;
pub mod exit;
pub mod forbidden;
pub mod fork;
pub mod futex;
pub mod huge;
pub mod inherited;
pub mod input;
pub mod limits;
pub mod machine;
pub mod memory;
pub mod pool;
pub mod process;
pub mod site;
pub mod socket;
pub mod startup;
pub mod threads;
pub mod writeback;
pub mod written;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock whose data stays meaningful whatever a panicking holder did.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The environment as text. A byte that is none becomes a mark, so that a setting with one in it is
/// refused for its value, not skipped.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    let text = |word: std::ffi::OsString| word.to_string_lossy().into_owned();
    std::env::vars_os().map(move |(name, value)| (text(name), text(value)))
}

/// Says that the test that calls it does not run, since this machine lacks `need` (`.ci/sums` knows
/// what can be needed). Past the harness, which keeps what a test prints that passes.
#[cfg(test)]
pub fn skip(need: &str, why: &str) {
    let thread = std::thread::current();
    let line = format!("SKIPPED: {}: {need}: {why}\n", thread.name().unwrap_or("a test"));
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}

/// True if this process has an open descriptor of this number.
pub fn is_open(fd: i32) -> bool {
    std::fs::symlink_metadata(format!("/proc/self/fd/{fd}")).is_ok()
}
