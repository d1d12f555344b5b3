//! The few system calls that raidshmem makes, as safe functions with named errors: memory and its
//! mappings, processes, sockets, futexes, and properties of the machine.
//!
//! Invariant: crates above this one make no raw system calls. Unsafe code here is unsafe because
//! the kernel call is; each block proves that it is sound. Nothing here knows PEs, views or
//! checkpoints.
//!
//! Left out: anything that a well-kept crate already offers as safe code, which is called directly.
//! The items are public only for the programs and tests of this workspace, and may change at any
//! time.
//!
//! Layers, each importing only from those above it or to the left of it:
//!
//! ```text
//! exit  futex  forbidden  inherited          process exit, sleeping, inherited descriptors
//! cgroup  limits  memory  huge               memory: limits, mappings, huge pages
//! fork  written  writeback                   forks; written pages; writeback to disk
//! caller  site  startup  tasks               caller and call site; load address of the program;
//!                                            tasks of other launchers
//! machine  threads  process  pool  numa      processors, threads, processes, worker pool; NUMA
//! socket  input                              messages between processes of one machine; files
//! ```

// Links to private items explain modules to their maintainers.
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
pub mod numa;
pub mod pool;
pub mod process;
pub mod site;
pub mod socket;
pub mod startup;
pub mod tasks;
pub mod threads;
pub mod writeback;
pub mod written;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose data stays valid even if a holder panics.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the environment as text. Invalid bytes become replacement characters, so that a setting
/// with such bytes is rejected for its value rather than skipped.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    let text = |word: std::ffi::OsString| word.to_string_lossy().into_owned();
    std::env::vars_os().map(move |(name, value)| (text(name), text(value)))
}

/// Reports that the calling test is skipped, because this machine lacks `need` (`.ci/sums` lists
/// the known needs). Bypasses the harness, which hides the output of passing tests.
#[cfg(test)]
pub fn skip(need: &str, why: &str) {
    let thread = std::thread::current();
    let line = format!("SKIPPED: {}: {need}: {why}\n", thread.name().unwrap_or("a test"));
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}

/// Returns true if this process has an open descriptor with this number.
pub fn is_open(fd: i32) -> bool {
    std::fs::symlink_metadata(format!("/proc/self/fd/{fd}")).is_ok()
}
