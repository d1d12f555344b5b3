//! The two streams of this process, and whether somebody reads them.

#![forbid(unsafe_code)]

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Which stream of this process the lines go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Threads of this process that write what they carry, or wait for room.
static WRITING: AtomicUsize = AtomicUsize::new(0);

/// True if lines wait for somebody who does not read: to be asked when nothing is said any more.
pub fn is_held_up() -> bool {
    WRITING.load(Ordering::Relaxed) > 0
}

impl Stream {
    /// Writes to it, and waits for room.
    pub fn write(self, bytes: &[u8]) {
        WRITING.fetch_add(1, Ordering::Relaxed);
        // Nobody may be reading any more; the programs are not to suffer for it.
        let _ = match self {
            Stream::Out => {
                let mut out = std::io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
            Stream::Err => std::io::stderr().lock().write_all(bytes),
        };
        WRITING.fetch_sub(1, Ordering::Relaxed);
    }
}
