//! Why statics cannot be had.

#![forbid(unsafe_code)]

use std::ops::Range;

use thiserror::Error;

/// Why the statics cannot be taken as one symmetric range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StaticsError {
    /// The loader lists no executable.
    #[error("the loader lists no executable")]
    NoExecutable,
    /// A table of the executable is not where its own headers say.
    #[error("the executable's {table} ({len} bytes at {address:#x}) is outside its segments")]
    Outside {
        /// What was looked for.
        table: &'static str,
        /// Its address.
        address: usize,
        /// Its length in bytes.
        len: usize,
    },
    /// A table of the executable is announced without its address or with an unknown entry size.
    #[error("the executable's {table} is incomplete or of an unknown format")]
    Format {
        /// Which table.
        table: &'static str,
    },
    /// There are other pages between the writable ones.
    #[error(
        "the executable's variables are not in one piece: {:#x}..{:#x} and {:#x}..{:#x}; \
         link it with the default linker script",
        first.start, first.end, second.start, second.end
    )]
    Apart {
        /// Addresses of the first piece.
        first: Range<usize>,
        /// Addresses of the second piece.
        second: Range<usize>,
    },
}
