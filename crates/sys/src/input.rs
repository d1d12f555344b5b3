//! Reading files that a user names, in whole: with a size limit, and without waiting for a writer.
//!
//! A setting or an option may name anything: an endless device, a FIFO without a writer, a folder.
//! An unnamed pipe, such as a shell's `<(command)`, ends with its command, and is accepted if only
//! one process reads it.
//!
//! Left out: the meaning of the bytes, and files that only the library names.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_setfl, fstatfs};

/// Maximum size of a file that a setting or an option of a job names, in bytes.
pub const FILE_MAX: u64 = 16 << 20;

/// The file system of unnamed pipes (`PIPEFS_MAGIC`).
const PIPES: u64 = 0x5049_5045;

/// The handling of unnamed pipes in place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pipes {
    /// Rejected: several processes read the file, so each would get a part.
    Refused,
    /// Accepted: one process reads it.
    Read,
}

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// Any I/O error; a file that is too long, or a FIFO or pipe.
pub fn bytes(path: &Path, most: u64, pipes: Pipes) -> io::Result<Vec<u8>> {
    all(open(path, pipes)?, most)
}

/// Reads a UTF-8 text of at most `most` bytes.
///
/// # Errors
/// Like [`bytes`], or the text is not valid UTF-8.
pub fn text(path: &Path, most: u64, pipes: Pipes) -> io::Result<String> {
    let no_text = |_| io::Error::new(ErrorKind::InvalidData, "not a text in UTF-8");
    String::from_utf8(bytes(path, most, pipes)?).map_err(no_text)
}

/// Reads a source of at most `most` bytes to its end.
///
/// # Errors
/// Any I/O error, or more bytes.
pub fn all(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match from.take(most + 1).read_to_end(&mut bytes)? as u64 {
        len if len > most => Err(ErrorKind::FileTooLarge.into()),
        _ => Ok(bytes),
    }
}

/// Opens a file without waiting for a writer.
fn open(path: &Path, pipes: Pipes) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.file_type().is_fifo() {
        let is_unnamed = fstatfs(&file)?.f_type as u64 == PIPES;
        if !is_unnamed || pipes == Pipes::Refused {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is a FIFO or a pipe"));
        }
        fcntl_setfl(&file, OFlags::empty())?; // from now on, wait for its writer
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn endless_files_are_not_read_to_their_end() {
        for device in ["/dev/zero", "/dev/urandom"] {
            let error = bytes(Path::new(device), 1 << 20, Pipes::Read).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::FileTooLarge, "{device}");
        }
        assert_eq!(bytes(Path::new("/dev/null"), 0, Pipes::Refused).unwrap(), []);
    }

    #[test]
    fn the_bound_is_the_last_length_that_is_read() {
        assert_eq!(all(&b"four"[..], 4).unwrap(), b"four");
        assert_eq!(all(&b"four"[..], 3).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_folder_and_a_fifo_are_refused() {
        let folder = std::env::temp_dir().join(format!("raidshmem-input-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let fifo = folder.join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        for pipes in [Pipes::Read, Pipes::Refused] {
            assert_eq!(bytes(&folder, 9, pipes).unwrap_err().kind(), ErrorKind::IsADirectory);
            let error = bytes(&fifo, 9, pipes).unwrap_err();
            assert_eq!(error.to_string(), "it is a FIFO or a pipe");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_pipe_without_a_name_is_read_to_its_end_where_one_process_reads_it() {
        let (from, mut to) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", from.as_raw_fd());
        let refused = bytes(Path::new(&path), 9, Pipes::Refused).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        let reader = std::thread::spawn(move || text(Path::new(&path), 9, Pipes::Read));
        to.write_all(b"hosts").unwrap();
        drop(to);
        assert_eq!(reader.join().unwrap().unwrap(), "hosts");
    }
}
