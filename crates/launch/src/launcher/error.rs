//! Errors at the start of a job.

use std::net::SocketAddr;

use raidshmem_core::signals::name;
use raidshmem_core::store::protection::ProtectionError;
use raidshmem_sys::socket::ChannelError;

use crate::cli::refused::Refused;

/// A reason why a job could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// The failed operation.
        what: &'static str,
        /// The kernel's error.
        error: std::io::Error,
    },
    /// The control connection failed.
    #[error("{0}")]
    Channel(#[from] ChannelError),
    /// The groups cannot be formed.
    #[error("{0}")]
    Protection(#[from] ProtectionError),
    /// No route shows an address at which the hosts reach this machine.
    #[error("no host has an address that can be looked up; give --listen ADDRESS")]
    NoAddress,
    /// The launcher cannot listen at this address.
    #[error("--listen {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        error: std::io::Error,
    },
    /// The command that starts an agent cannot be run.
    #[error("{host}: {means} cannot be started: {error}")]
    Starter {
        /// The host.
        host: String,
        /// The command.
        means: String,
        /// The kernel's error.
        error: std::io::Error,
    },
    /// The command that starts an agent ended without an agent.
    #[error("{name}: no agent: {why}")]
    NoAgent {
        /// The node and its host.
        name: String,
        /// The command's last line and exit status.
        why: String,
    },
    /// No agent connected in time.
    #[error("{name}: no agent after {limit} s; does its host reach this one?")]
    Late {
        /// The node and its host.
        name: String,
        /// The limit in seconds.
        limit: u64,
    },
    /// The agent is of another build.
    #[error("{name}: its oshrun is build {theirs}, this one is {ours}; install one on all hosts")]
    Build {
        /// The node and its host.
        name: String,
        /// Its build.
        theirs: String,
        /// The build of this program.
        ours: &'static str,
    },
    /// The file of failure domains does not fit the hosts in their new order.
    #[error("{0}")]
    Domains(#[from] Box<Refused>),
    /// No set on the nodes' disks fits.
    #[error("--resume {}: {why}", .given.escape_debug())]
    Resume {
        /// The argument of `--resume`.
        given: String,
        /// The mismatch.
        why: String,
    },
    /// A signal arrived before the job was started.
    #[error("stopped by {} before the job was started", name(*.0))]
    Signal(i32),
}

impl LaunchError {
    /// Returns the exit status of the launcher.
    pub fn status(&self) -> i32 {
        match self {
            LaunchError::Build { .. } | LaunchError::NoAddress => 2,
            LaunchError::Resume { .. } | LaunchError::Domains(_) => 2,
            LaunchError::Signal(signal) => 128 + signal,
            _ => 1,
        }
    }
}
