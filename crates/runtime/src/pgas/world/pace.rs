//! The pace of waiting on this machine, with these settings.

#![forbid(unsafe_code)]

use std::sync::atomic::AtomicU32;

/// The pace of waiting.
#[derive(Debug)]
pub struct Pace {
    /// True if there are more PEs than processors.
    pub oversubscribed: bool,
    /// True if each PE has its own processor, and one thread that waits.
    pub spreads: bool,
    /// The number of times the processor was yielded.
    pub offers: AtomicU32,
}
