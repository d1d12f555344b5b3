//! Errors in finding the executable's statics.

#![forbid(unsafe_code)]

use thiserror::Error;

/// The reasons why the statics cannot be used as symmetric memory.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StaticsError {
    /// The loader lists no executable.
    #[error("the loader lists no executable")]
    NoExecutable,
    /// A table of the executable is not where its own headers place it.
    #[error("the executable's {table} ({len} bytes at {address:#x}) is outside its segments")]
    Outside {
        /// The name of the table.
        table: &'static str,
        /// Its address.
        address: usize,
        /// Its length in bytes.
        len: usize,
    },
    /// A table of the executable is announced without its address or with an unknown entry size.
    #[error("the executable's {table} is incomplete or of an unknown format")]
    Format {
        /// The name of the table.
        table: &'static str,
    },
}
