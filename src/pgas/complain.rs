//! The words of this library to people: lines on standard error.

#![forbid(unsafe_code)]

use std::io::Write;
use std::sync::OnceLock;

use raidshmem_core::quantity::Pe;

/// The number of this PE, once it has one.
static PE: OnceLock<Pe> = OnceLock::new();

/// From now on lines begin with this number.
pub fn speak_as(pe: Pe) {
    PE.get_or_init(|| pe);
}

/// One line on standard error, with the PE's number where it is known.
pub fn complain(words: &str) {
    let line = match PE.get() {
        Some(pe) => format!("raidshmem: PE {pe}: {words}\n"),
        None => format!("raidshmem: {words}\n"),
    };
    // One write, so that the lines of several PEs do not mix. Nothing can be done if it fails.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
