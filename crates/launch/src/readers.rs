//! What reads the events of a job, beside people: a file for its record, one for its events, and
//! an endpoint for metrics. Opened before anything starts, so that what cannot be had is refused.
//!
//! Left out: what they read.

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

/// The readers of a job.
#[derive(Debug, Default)]
pub struct Readers {
    /// For the record.
    pub report: Option<OutputFile>,
    /// For events.
    pub events: Option<OutputFile>,
    /// For metrics.
    pub metrics: Option<Endpoint>,
}

/// A file that an option names, open.
#[derive(Debug)]
pub struct OutputFile {
    /// The option with its value, for what is said of it.
    pub name: String,
    /// Empty, to be written from its beginning.
    pub file: File,
}

impl OutputFile {
    /// Makes the file, or empties it. A FIFO that nobody reads is waited for, after a line.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn create(option: &str, path: &Path) -> io::Result<OutputFile> {
        let name = format!("{option} {}", path.display().to_string().escape_debug());
        let is_fifo = path.metadata().is_ok_and(|meta| meta.file_type().is_fifo());
        // Kept until it is open: a reader would take the end of this for the end of all.
        let tried = is_fifo
            .then(|| OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path));
        if let Some(Err(error)) = &tried
            && error.raw_os_error() == Some(libc::ENXIO)
        {
            say(&format!(
                "{name}: it is a FIFO that nobody reads: the job begins once somebody does"
            ));
        }
        Ok(OutputFile { name, file: File::create(path)? })
    }

    /// Standard output.
    ///
    /// # Errors
    /// It is closed.
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

/// Where metrics are asked for.
#[derive(Debug)]
pub enum Endpoint {
    /// A port.
    Port(TcpListener),
    /// A socket with a name, which goes with this value.
    Socket(UnixListener, PathBuf),
}

impl Endpoint {
    /// Listens at `PORT` of this machine only, at `ADDRESS:PORT`, or at a path with a `/` in it.
    /// None if it is none of these.
    ///
    /// # Errors
    /// What the kernel says.
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

    /// As users write it.
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

/// At a path where nobody listens any more a new socket takes the place of the old one.
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
            let _ = std::fs::remove_file(path); // somebody else may have done so
        }
    }
}
