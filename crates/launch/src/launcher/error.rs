//! Why a job does not start.

use std::net::SocketAddr;

use raidshmem_core::signals::name;
use raidshmem_core::store::protection::ProtectionError;
use raidshmem_sys::socket::ChannelError;

use crate::cli::refused::Refused;

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
    /// The groups cannot be made.
    #[error("{0}")]
    Protection(#[from] ProtectionError),
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
        ours: &'static str,
    },
    /// The file of failure domains does not fit the hosts in their new order.
    #[error("{0}")]
    Domains(#[from] Box<Refused>),
    /// No set on the disks of the nodes fits.
    #[error("--resume {}: {why}", .given.escape_debug())]
    Resume {
        /// What was given.
        given: String,
        /// What does not fit.
        why: String,
    },
    /// A signal came before the job was started.
    #[error("stopped by {} before the job was started", name(*.0))]
    Signal(i32),
}

impl LaunchError {
    /// Exit status of the launcher.
    pub fn status(&self) -> i32 {
        match self {
            LaunchError::Build { .. } | LaunchError::NoAddress => 2,
            LaunchError::Resume { .. } | LaunchError::Domains(_) => 2,
            LaunchError::Signal(signal) => 128 + signal,
            _ => 1,
        }
    }
}
