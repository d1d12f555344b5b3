//! Writeback: bytes of a file on their way from memory to its disk.
//!
//! Left out: durability of these bytes and the file's metadata, which `fsync` ensures.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::{Errno, Result};

/// Makes the kernel start writing `len` bytes from `at`.
///
/// # Errors
/// An error of the kernel.
pub fn begin(file: impl AsFd, at: u64, len: u64) -> Result<()> {
    range(file, at, len, libc::SYNC_FILE_RANGE_WRITE)
}

/// Waits until the writes that were started are done.
///
/// # Errors
/// A write failed. This is reported only once.
pub fn wait(file: impl AsFd, at: u64, len: u64) -> Result<()> {
    range(file, at, len, libc::SYNC_FILE_RANGE_WAIT_BEFORE)
}

fn range(file: impl AsFd, at: u64, len: u64, flags: libc::c_uint) -> Result<()> {
    if len == 0 {
        return Ok(()); // 0 would mean up to the end of the file
    }
    loop {
        // SAFETY: the call uses an open descriptor, and touches no memory of this process.
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
    fn writeback_can_be_awaited_and_needs_a_file() {
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
