//! What a PE knows of its way to the end; the rules are those of `pgas/finish.rs`.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU8};

/// It takes part with all others.
pub const TOGETHER: u8 = 0;
/// It goes on alone.
pub const ALONE: u8 = 1;
/// The same, and barriers pass.
pub const ALONE_AND_FREE: u8 = 2;

/// What is known of the way to the end.
#[derive(Debug, Default)]
pub struct Finish {
    /// A call did less than it should, since the last restart.
    pub(in crate::pgas) cut: AtomicBool,
    /// Whether it goes on with the others.
    pub(in crate::pgas) company: AtomicU8,
    /// The checkpoint call after the restart was made.
    pub(in crate::pgas) passed: AtomicBool,
}
