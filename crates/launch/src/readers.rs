//! The machine-readable outputs of a job: a file for the record, a file for events, and an endpoint
//! for metrics. All are opened before anything starts, so that an unusable one is rejected early.
//!
//! Left out: the content written to them.

#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use raidshmem_report::record::Record;

use super::lines::say;

/// The machine-readable outputs of a job.
#[derive(Debug, Default)]
pub struct Readers {
    /// The file for the record.
    pub report: Option<OutputFile>,
    /// The file for events.
    pub events: Option<OutputFile>,
    /// The endpoint for metrics.
    pub metrics: Option<Endpoint>,
}

/// An open file that an option names.
#[derive(Debug)]
pub struct OutputFile {
    /// The option with its value, for messages.
    pub name: String,
    /// The file, empty.
    pub file: File,
}

impl OutputFile {
    /// Creates or truncates the file. If it is a FIFO without a reader, prints a line and waits for
    /// one.
    ///
    /// # Errors
    /// An error from the kernel.
    pub fn create(option: &str, path: &Path) -> io::Result<OutputFile> {
        let name = format!("{option} {}", path.display().to_string().escape_debug());
        let is_fifo = path.metadata().is_ok_and(|meta| meta.file_type().is_fifo());
        // Stays open until the second open succeeds; closing it earlier would show the reader EOF.
        let tried = is_fifo
            .then(|| OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path));
        if let Some(Err(error)) = &tried
            && error.raw_os_error() == Some(libc::ENXIO)
        {
            say(&format!("{name}: a FIFO without a reader: the job starts once one opens it"));
        }
        Ok(OutputFile { name, file: File::create(path)? })
    }

    /// Opens standard output.
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn stdout(option: &str) -> io::Result<OutputFile> {
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(OutputFile { name: format!("{option} -"), file })
    }

    /// Writes the record of a job.
    pub fn write(mut self, record: &Record) {
        let text = record.to_json().map_err(io::Error::from);
        if let Err(error) = text.and_then(|text| self.file.write_all(text.as_bytes())) {
            say(&format!("{}: {error}", self.name));
        }
    }
}

/// An endpoint that serves metrics.
#[derive(Debug)]
pub enum Endpoint {
    /// A TCP port.
    Port(TcpListener),
    /// A named socket, which is removed when this value is dropped.
    Socket(UnixListener, PathBuf),
}

impl Endpoint {
    /// Listens at `PORT` of this machine only, at `ADDRESS:PORT`, or at a path that contains a `/`.
    /// Returns None if `text` has none of these forms.
    ///
    /// # Errors
    /// An error from the kernel.
    pub fn open(text: &str) -> Option<io::Result<Endpoint>> {
        if text.contains('/') {
            let path = PathBuf::from(text);
            return Some(listen(&path).map(|listener| Endpoint::Socket(listener, path)));
        }
        let own = |port| SocketAddr::from((IpAddr::from(Ipv4Addr::LOCALHOST), port));
        let address = match text.parse::<u16>() {
            Ok(port) => own(port),
            Err(_) => {
                let (_, port) = text.rsplit_once(':')?;
                port.parse::<u16>().ok()?;
                match text.to_socket_addrs() {
                    Ok(mut all) => all.next()?,
                    Err(error) => return Some(Err(error)),
                }
            }
        };
        Some(TcpListener::bind(address).map(Endpoint::Port))
    }

    /// Returns the name that users enter to connect.
    pub fn name(&self) -> String {
        match self {
            Endpoint::Port(listener) => match listener.local_addr() {
                Ok(address) => format!("http://{address}/metrics"),
                Err(error) => error.to_string(),
            },
            Endpoint::Socket(_, path) => path.display().to_string(),
        }
    }
}

/// Listens at `path`, replacing a socket there that has no listener.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let is_socket = path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if is_socket && UnixStream::connect(path).is_err_and(refused) {
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if let Endpoint::Socket(_, path) = self {
            let _ = std::fs::remove_file(path); // it may be gone already
        }
    }
}
