//! The end of this process by `exit`, or by returning from `main`.
//!
//! Uses `on_exit` of the GNU C library, which passes the status; `atexit` does not. Both kinds of
//! handlers, and C++ destructors, are in one list that is processed from its end: handlers that the
//! program registered, and objects that it constructed, before this one come after it. `_exit`,
//! `quick_exit`, signals and [`end`] call no handler.

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
        handler(status & 0xff); // the status that the parent will see
    }
}

/// Registers `handler` to be called with the status when this process exits. Only the first call
/// counts.
///
/// # Errors
/// Out of memory.
pub fn at_exit(handler: fn(i32)) -> io::Result<()> {
    if HANDLER.set(handler).is_err() {
        return Ok(());
    }
    // SAFETY: a function with the signature of such a handler, which does not use the pointer and
    // stays in place: the library is never unloaded, as threads of it may run.
    match unsafe { on_exit(call, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::ErrorKind::OutOfMemory.into()),
    }
}

/// Flushes the program's standard output. Other streams are left alone: one that a thread reads
/// from is locked for as long as it waits.
pub fn flush_output() {
    use std::io::Write;
    let _ = std::io::stdout().flush();
    // SAFETY: the C library's own stream, which it locks; detecting errors is left to the program.
    unsafe { libc::fflush(stdout) };
}

/// Flushes standard output, then all other streams.
pub fn flush_streams() {
    flush_output();
    // SAFETY: the C library iterates over its own list of streams.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}

/// Ends this process with that status, without exit handlers: those of the program and of this
/// library may wait for a lock that the caller holds.
pub fn end(status: i32) -> ! {
    flush_output();
    // SAFETY: ends the process.
    unsafe { libc::_exit(status) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// The variable that marks the second process of the test.
    const SECOND: &str = "RAIDSHMEM_TEST_OF_END";
    const NAME: &str = "exit::tests::streams_are_written_and_no_handler_runs";

    extern "C" fn handler() {
        // SAFETY: ends the process, with a status that identifies this handler.
        unsafe { libc::_exit(9) };
    }

    #[test]
    fn streams_are_written_and_no_handler_runs() {
        if std::env::var_os(SECOND).is_some() {
            // SAFETY: a handler without state, and text that ends with a zero byte.
            unsafe {
                libc::atexit(handler);
                libc::printf(c"without a newline".as_ptr());
            }
            super::end(7);
        }
        let own = std::env::current_exe().expect("a test is a file");
        let mut second = Command::new(own);
        second.args(["--exact", NAME, "--nocapture", "--test-threads=1"]).env(SECOND, "1");
        let output = second.output().expect("it starts");
        assert_eq!(output.status.code(), Some(7));
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.ends_with("without a newline"), "{said}");
    }
}
