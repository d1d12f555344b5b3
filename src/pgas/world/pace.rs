//! How a PE waits on this machine, with these settings.

#![forbid(unsafe_code)]

use std::sync::atomic::AtomicU32;

/// How a PE waits.
#[derive(Debug)]
pub struct Pace {
    /// There are more PEs than processors.
    pub oversubscribed: bool,
    /// Each PE has a processor of its own, and one thread that waits.
    pub spreads: bool,
    /// How often the processor was offered to others.
    pub offers: AtomicU32,
}
