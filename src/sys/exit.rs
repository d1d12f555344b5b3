//! What this process does when it ends by `exit`, or by returning from `main`.
//!
//! By `on_exit` of the GNU C library, which tells the status; `atexit` does not. Both kinds of
//! handlers, and the destructors of C++, are one list that is gone through from its end: what the
//! program registered or constructed before this comes after it. `_exit`, `quick_exit` and signals
//! call no handler.

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::OnceLock;

static HANDLER: OnceLock<fn(i32)> = OnceLock::new();

unsafe extern "C" {
    static stdout: *mut libc::FILE;
    fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

extern "C" fn call(status: c_int, _: *mut c_void) {
    if let Some(handler) = HANDLER.get() {
        handler(status & 0xff); // what the parent will see
    }
}

/// Has `handler` called with the status when this process exits. Only the first call counts.
///
/// # Errors
/// There is no memory for it.
pub fn at_exit(handler: fn(i32)) -> io::Result<()> {
    if HANDLER.set(handler).is_err() {
        return Ok(());
    }
    // SAFETY: a function that takes what such a handler is given, does not use the pointer, and
    // stays where it is: the library is never unloaded, as threads of it may run.
    match unsafe { on_exit(call, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::ErrorKind::OutOfMemory.into()),
    }
}

/// Writes what the program printed and is still in a buffer. Not the other streams: one that a
/// thread reads from is locked for as long as it waits.
pub fn flush_output() {
    use std::io::Write;
    let _ = std::io::stdout().flush();
    // SAFETY: the C library's own stream, which it locks; an error is the program's to find.
    unsafe { libc::fflush(stdout) };
}
