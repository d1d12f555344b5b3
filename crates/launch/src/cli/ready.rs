//! A checked job that can be started.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use raidshmem_core::disk::Resume;
use raidshmem_core::membership::Shape;
use raidshmem_core::placement::Domains;
use raidshmem_core::settings::Settings;
use raidshmem_core::store::protection::Protection;

use super::outputs::Outputs;
use super::protected::ProtectionTable;
use super::starter::Means;

/// A job ready to start.
#[derive(Debug)]
pub struct Ready {
    /// Nodes, PEs and spares.
    pub shape: Shape,
    /// The other hosts; None for nodes on this machine.
    pub cluster: Option<Cluster>,
    /// The settings in force.
    pub settings: Settings,
    /// The protection of the PEs.
    pub protected: ProtectionTable,
    /// Bytes of each symmetric heap.
    pub heap_len: u64,
    /// The checkpoint on disk to resume from.
    pub resume: Option<Resume>,
    /// The set to resume from, if it must first be found on the nodes' disks.
    pub disks: Option<Disks>,
    /// The node on which each PE starts; None if all start on their home nodes.
    pub starts: Option<Vec<u32>>,
    /// True if the placement should be printed.
    pub report_placement: bool,
    /// True if the job should only be described.
    pub dry_run: bool,
    /// The program, with its path resolved, and its arguments.
    pub program: Vec<OsString>,
    /// The programs' environment and the handling of their output.
    pub programs: Programs,
    /// The time limit of the job.
    pub timeout: Option<Duration>,
    /// A signal that stops the job instead of being passed on to PEs.
    pub stop_signal: Option<i32>,
    /// True if only errors should be printed.
    pub quiet: bool,
    /// True if a view should be drawn on the terminal.
    pub live: bool,
    /// Notices printed at the start.
    pub notes: Vec<String>,
    /// The machine-readable outputs of the job, not opened yet.
    pub outputs: Outputs,
}

impl Ready {
    /// Returns the protection of the PEs; None in mode `none`.
    pub fn protection(&self) -> Option<Protection> {
        self.protection_in(&self.protected.site.domains)
    }

    /// Like [`Ready::protection`], but for nodes in these failure domains.
    pub fn protection_in(&self, domains: &Domains) -> Option<Protection> {
        let places: Vec<usize> = self.shape.node_of.iter().map(|&node| node as usize).collect();
        Protection::new(&self.settings, &places, domains).ok().flatten()
    }
}

/// Returns the names of simulated nodes on one machine.
pub fn local_names(nodes: u32) -> Vec<String> {
    (0..nodes).map(|node| format!("node{node}")).collect()
}

/// A set on the nodes' disks.
#[derive(Debug, Clone)]
pub struct Disks {
    /// The argument of `--resume`.
    pub given: String,
    /// The folder on each node.
    pub folder: String,
    /// The number of the set; None for the newest.
    pub set: Option<u64>,
    /// True if `--resume-rebuilt` is given.
    pub rebuilt: bool,
}

/// The programs' environment and the handling of their output.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    /// The folder to run in; None for the folder of `oshrun`.
    pub folder: Option<PathBuf>,
    /// Variables that override those of `oshrun`.
    pub variables: Vec<(String, String)>,
    /// True if PE 0 reads the standard input of `oshrun`.
    pub stdin: bool,
    /// True if lines begin with the number of their PE.
    pub tag: bool,
    /// True if lines begin with the time.
    pub stamp: bool,
    /// The folder for one output file per PE.
    pub output: Option<PathBuf>,
}

/// The other hosts, and the way agents are started there.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The name of each node's host.
    pub names: Vec<String>,
    /// The command that starts an agent.
    pub means: Means,
    /// The path of `oshrun` on the hosts; None for the path of this one.
    pub oshrun: Option<PathBuf>,
    /// The address to listen at; None to derive it from the routes to the hosts.
    pub listen: Option<SocketAddr>,
}
