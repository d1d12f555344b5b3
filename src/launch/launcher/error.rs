//! Why a job does not start, and the signals that stop it.

use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags};

use crate::sys::signals;
use crate::sys::socket::ChannelError;

/// Why a job could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The control connection failed.
    #[error("{0}")]
    Channel(#[from] ChannelError),
    /// No route tells under which address the hosts reach this machine.
    #[error("no host has an address that can be looked up; give --listen ADDRESS")]
    NoAddress,
    /// It cannot listen there.
    #[error("--listen {address}: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The command that starts an agent is not there.
    #[error("{host}: {means} cannot be started: {error}")]
    Starter {
        /// The host.
        host: String,
        /// The command.
        means: String,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// No agent came up there.
    #[error("{name}: no agent: {why}")]
    NoAgent {
        /// The node and its host.
        name: String,
        /// What the command that starts it said.
        why: String,
    },
    /// No agent came in time.
    #[error("{name}: no agent after {limit} s; does its host reach this one?")]
    Late {
        /// The node and its host.
        name: String,
        /// The limit in seconds.
        limit: u64,
    },
    /// Another build.
    #[error("{name}: its oshrun is build {theirs}, this one is {ours}; install one on all hosts")]
    Build {
        /// The node and its host.
        name: String,
        /// Its build.
        theirs: String,
        /// The build of this program.
        ours: String,
    },
    /// A signal came before the job was started.
    #[error("stopped by signal {0} before the job was started")]
    Signal(i32),
}

impl LaunchError {
    /// Exit status of the launcher.
    pub fn status(&self) -> i32 {
        match self {
            LaunchError::Build { .. } | LaunchError::NoAddress => 2,
            LaunchError::Signal(signal) => 128 + signal,
            _ => 1,
        }
    }
}

/// The signals that end a job, each with the socket that its handler writes to.
pub struct Signals(Vec<(i32, UnixStream)>);

impl Signals {
    /// Catches them from now on; not a hangup that is ignored, as under `nohup`.
    pub fn catch() -> std::io::Result<Signals> {
        let catch = |signal| {
            let (receiver, sender) = UnixStream::pair()?;
            receiver.set_nonblocking(true)?;
            signal_hook::low_level::pipe::register(signal, sender)?;
            Ok((signal, receiver))
        };
        let hangup = (!signals::ignores(libc::SIGHUP)).then_some(libc::SIGHUP);
        let all = [libc::SIGINT, libc::SIGTERM].into_iter().chain(hangup);
        Ok(Signals(all.map(catch).collect::<std::io::Result<_>>()?))
    }

    /// What to poll.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.0.iter().map(|(_, receiver)| PollFd::new(receiver, PollFlags::IN))
    }

    /// The first that has arrived.
    pub fn arrived(&self) -> Option<i32> {
        let there = |(_, receiver): &&(i32, UnixStream)| {
            let mut receiver = receiver;
            matches!(receiver.read(&mut [0; 8]), Ok(1..))
        };
        self.0.iter().find(there).map(|(signal, _)| *signal)
    }
}
