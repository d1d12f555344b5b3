//! Signals as descriptors for `poll`.

#![forbid(unsafe_code)]

use std::io;
use std::os::unix::net::UnixStream;

/// Catches `signal` from now on. The returned socket becomes readable when the signal arrives;
/// reading it never blocks.
pub(super) fn caught(signal: i32) -> io::Result<UnixStream> {
    let (bell, ring) = UnixStream::pair()?;
    bell.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(signal, ring)?;
    Ok(bell)
}
