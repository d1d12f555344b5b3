//! Messages of this library to the user, on standard error.

#![forbid(unsafe_code)]

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use raidshmem_core::quantity::Pe;

/// The number of this PE, once it has one.
static PE: OnceLock<Pe> = OnceLock::new();

/// Makes later messages begin with this PE number.
pub fn set_own_pe(pe: Pe) {
    PE.get_or_init(|| pe);
}

/// Prints a line on standard error, with the PE's number if it is known.
pub fn complain(words: &str) {
    let line = match PE.get() {
        Some(pe) => format!("raidshmem: PE {pe}: {words}\n"),
        None => format!("raidshmem: {words}\n"),
    };
    // One write, so that the lines of several PEs do not mix. A failure has no remedy.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The report of a full log, once for a process.
#[derive(Debug, Default)]
pub(super) struct FullLog(AtomicBool);

impl FullLog {
    /// Reports that the log of PE `me` needs `need` bytes so far, and the `loss` that now takes all
    /// PEs back.
    pub fn report(&self, me: Pe, need: u64, limit: u64, loss: &str) {
        if !self.0.swap(true, Ordering::Relaxed) {
            complain(&format!(
                "the log of PE {me} is full: it needs {need} bytes so far, and \
                 SHMEM_FT_LOG_LIMIT={limit}: {loss} rolls back all PEs until the next checkpoint"
            ));
        }
    }
}
