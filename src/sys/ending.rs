//! The end of a process in the middle of something: what its C streams hold is written out, and no
//! exit handler runs. Those of the program and of this library may wait for a lock that the caller
//! holds.

/// Ends this process with that status.
pub fn end(status: i32) -> ! {
    // SAFETY: writes out every C stream, and ends the process; neither touches a Rust object.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(status)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// What the second process of the test is told by.
    const SECOND: &str = "RAIDSHMEM_TEST_OF_ENDING";
    const NAME: &str = "sys::ending::tests::streams_are_written_and_no_handler_runs";

    extern "C" fn handler() {
        // SAFETY: ends the process, with a status that says who did.
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
