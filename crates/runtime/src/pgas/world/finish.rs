//! The state of a PE on its way to the end; the rules are in `pgas/finish.rs`.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU8};

/// The PE takes part with all others.
pub const TOGETHER: u8 = 0;
/// The PE continues alone.
pub const ALONE: u8 = 1;
/// The PE continues alone, and barriers pass.
pub const ALONE_AND_FREE: u8 = 2;

/// The state of a PE on its way to the end.
#[derive(Debug, Default)]
pub struct Finish {
    /// True if a call did less than it should since the last restart.
    pub(in crate::pgas) cut: AtomicBool,
    /// One of [`TOGETHER`], [`ALONE`] and [`ALONE_AND_FREE`].
    pub(in crate::pgas) company: AtomicU8,
    /// True once the checkpoint call after the restart was made.
    pub(in crate::pgas) passed: AtomicBool,
}
