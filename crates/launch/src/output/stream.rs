//! The two streams of this process, and whether somebody reads them.

#![forbid(unsafe_code)]

use std::io::{IsTerminal, Write, stderr, stdout};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::live;

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
    /// Writes to it, and waits for room. Above a view a line is ended.
    pub fn write(self, bytes: &[u8]) {
        let whole = bytes.ends_with(b"\n") || !live::is_shown();
        let line = if whole { Vec::new() } else { [bytes, b"\n"].concat() };
        let bytes = if whole { bytes } else { &line };
        WRITING.fetch_add(1, Ordering::Relaxed);
        // Nobody may be reading any more; the programs are not to suffer for it.
        let _ = match self {
            Stream::Out if !stdout().is_terminal() => print(bytes),
            Stream::Out => live::above(|| print(bytes)),
            Stream::Err => live::above(|| stderr().lock().write_all(bytes)),
        };
        WRITING.fetch_sub(1, Ordering::Relaxed);
    }
}

fn print(bytes: &[u8]) -> std::io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}
