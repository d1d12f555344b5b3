//! A job that was checked and can be started.

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

use super::protected::ProtectionTable;
use super::starter::Means;
use crate::readers::Readers;

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
    pub protected: ProtectionTable,
    /// Bytes of each symmetric heap.
    pub heap_len: u64,
    /// The checkpoint on disk that it begins from.
    pub resume: Option<Resume>,
    /// That has to be found on the disks of the nodes first.
    pub disks: Option<Disks>,
    /// Where PEs begin that do not begin on their nodes; None if all do.
    pub starts: Option<Vec<u32>>,
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

impl Ready {
    /// How the PEs are protected; None in mode `none`.
    pub fn protection(&self) -> Option<Protection> {
        self.protection_in(&self.protected.site.domains)
    }

    /// The same if the nodes lie in these failure domains.
    pub fn protection_in(&self, domains: &Domains) -> Option<Protection> {
        let places: Vec<usize> = self.shape.node_of.iter().map(|&node| node as usize).collect();
        Protection::new(&self.settings, &places, domains).ok().flatten()
    }
}

/// What nodes of one machine are called.
pub fn local_names(nodes: u32) -> Vec<String> {
    (0..nodes).map(|node| format!("node{node}")).collect()
}

/// A set on the disks of the nodes.
#[derive(Debug, Clone)]
pub struct Disks {
    /// What `--resume` says.
    pub given: String,
    /// The folder on each node.
    pub folder: String,
    /// Which set; None for the newest.
    pub set: Option<u64>,
    /// `--resume-rebuilt`.
    pub rebuilt: bool,
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
