//! A signal as something that `poll` waits for.

#![forbid(unsafe_code)]

use std::io;
use std::os::unix::net::UnixStream;

/// Catches `signal` from now on. What it returns can be read when the signal has come, and reading
/// it does not block.
pub(super) fn caught(signal: i32) -> io::Result<UnixStream> {
    let (bell, ring) = UnixStream::pair()?;
    bell.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(signal, ring)?;
    Ok(bell)
}
