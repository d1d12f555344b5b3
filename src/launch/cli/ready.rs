//! A job that was checked and can be started.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use raidshmem_core::disk::Resume;
use raidshmem_core::membership::Shape;
use raidshmem_core::settings::Settings;

use super::protected::Protected;
use super::starter::Means;
use crate::launch::readers::Readers;

/// A job ready to start.
#[derive(Debug)]
pub struct Ready {
    /// Nodes, PEs and spares.
    pub shape: Shape,
    /// Other hosts; None for nodes on this machine.
    pub cluster: Option<Cluster>,
    /// Settings in force.
    pub settings: Settings,
    /// Who protects whom.
    pub protected: Protected,
    /// Bytes of each symmetric heap.
    pub heap_len: u64,
    /// The checkpoint on disk that it begins from.
    pub resume: Option<Resume>,
    /// Whether the placement is to be printed.
    pub report_placement: bool,
    /// Program with its path resolved, and arguments.
    pub program: Vec<OsString>,
    /// What programs get, and what becomes of what they print.
    pub programs: Programs,
    /// When the job ends, whatever it does.
    pub timeout: Option<Duration>,
    /// A signal that stops the job, and is not passed on to PEs.
    pub stop_signal: Option<i32>,
    /// Nothing but errors is to be printed.
    pub quiet: bool,
    /// A view on the terminal is to be drawn.
    pub live: bool,
    /// Lines for the start.
    pub notes: Vec<String>,
    /// What reads the job's events, beside people.
    pub readers: Readers,
}

/// What programs get, and what becomes of what they print.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    /// Folder to run in; None for that of `oshrun`.
    pub folder: Option<PathBuf>,
    /// Variables, over those of `oshrun`.
    pub variables: Vec<(String, String)>,
    /// PE 0 reads the standard input of `oshrun`.
    pub stdin: bool,
    /// Lines begin with the number of their PE.
    pub tag: bool,
    /// Lines begin with the time.
    pub stamp: bool,
    /// Folder of a file for each PE.
    pub output: Option<PathBuf>,
}

/// Other hosts, and how agents are started there.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Name of each node's host.
    pub names: Vec<String>,
    /// What starts an agent.
    pub means: Means,
    /// Path of `oshrun` on the hosts; None for that of this one.
    pub oshrun: Option<PathBuf>,
    /// Where to listen; None for what the routes to the hosts say.
    pub listen: Option<SocketAddr>,
}
