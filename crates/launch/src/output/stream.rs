//! The two output streams of this process, and a check for blocked writers.

#![forbid(unsafe_code)]

use std::io::{IsTerminal, Write, stderr, stdout};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::live;

/// An output stream of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Threads of this process that are writing, or blocked in a write.
static WRITING: AtomicUsize = AtomicUsize::new(0);

/// Returns true if a write is in progress. Once output has ended, this shows a slow reader.
pub fn is_held_up() -> bool {
    WRITING.load(Ordering::Relaxed) > 0
}

impl Stream {
    /// Writes to the stream, blocking if necessary. Above a view, ends an unfinished line.
    pub fn write(self, bytes: &[u8]) {
        let whole = bytes.ends_with(b"\n") || !live::is_shown();
        let line = if whole { Vec::new() } else { [bytes, b"\n"].concat() };
        let bytes = if whole { bytes } else { &line };
        WRITING.fetch_add(1, Ordering::Relaxed);
        // There may be no reader left; the programs must not suffer for it.
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
