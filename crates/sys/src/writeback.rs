//! Bytes of a file on their way from memory to its disk.
//!
//! Left out: that they are there to stay, with all that belongs to the file, which `fsync` says.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::{Errno, Result};

/// Has the kernel begin to write `len` bytes from `at` on.
///
/// # Errors
/// What the kernel says.
pub fn begin(file: impl AsFd, at: u64, len: u64) -> Result<()> {
    range(file, at, len, libc::SYNC_FILE_RANGE_WRITE)
}

/// Waits until those that were begun are written.
///
/// # Errors
/// They could not be. This is not said again.
pub fn wait(file: impl AsFd, at: u64, len: u64) -> Result<()> {
    range(file, at, len, libc::SYNC_FILE_RANGE_WAIT_BEFORE)
}

fn range(file: impl AsFd, at: u64, len: u64, flags: libc::c_uint) -> Result<()> {
    if len == 0 {
        return Ok(()); // to the kernel that is all of the file
    }
    loop {
        // SAFETY: the call looks at a descriptor that is open, and touches no memory of this
        // process.
        let done = unsafe {
            libc::sync_file_range(file.as_fd().as_raw_fd(), at as i64, len as i64, flags)
        };
        match std::io::Error::last_os_error() {
            _ if done == 0 => return Ok(()),
            error if error.kind() == std::io::ErrorKind::Interrupted => {}
            error => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_is_written_can_be_waited_for_and_what_is_no_file_is_an_error() {
        let name = format!("writeback-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut file = std::fs::File::create(&path).expect("a file");
        file.write_all(&[7; 10_000]).expect("written");
        assert_eq!(begin(&file, 0, 0), Ok(()));
        assert_eq!(begin(&file, 100, 5000).and_then(|()| wait(&file, 100, 5000)), Ok(()));
        std::fs::remove_file(&path).expect("removed");
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        assert_eq!(begin(&reader, 0, 1), Err(Errno::SPIPE));
    }
}
