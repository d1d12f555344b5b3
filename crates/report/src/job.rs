//! The description of a job at its start, for its events and its record.

use raidshmem_core::quantity::Pe;
use serde::{Deserialize, Serialize};

/// The description of a job at its start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Version of the library.
    pub raidshmem: String,
    /// The program with its arguments.
    pub program: String,
    /// The host of `oshrun`.
    pub host: String,
    /// Process id of `oshrun`.
    pub launcher: u32,
    /// Start time in RFC 3339 format.
    pub since: String,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Node of each PE at the start.
    pub node_of: Vec<u32>,
    /// Spare processes at the start.
    pub spares: u32,
    /// The mode, as `SHMEM_FT_BACKUP_MODE` spells it.
    pub mode: String,
    /// Losses that a group survives.
    pub parity: u32,
    /// Snapshots of its own memory that a PE keeps.
    pub snapshots: u32,
    /// Slots of the data that a PE keeps for others.
    pub slots: u32,
    /// PEs of each parity group, in the order of their places; empty in mode `none`.
    pub groups: Vec<Vec<Pe>>,
    /// The survivable losses, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survives: Option<String>,
    /// Bytes of the symmetric heap of a PE.
    pub heap: u64,
    /// The fabric that carries data between nodes.
    pub fabric: String,
    /// The settings in force.
    pub settings: Vec<SettingValue>,
}

/// A setting in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingValue {
    /// The variable.
    pub name: String,
    /// None if it is unset.
    pub value: Option<String>,
    /// True if no user set it.
    pub default: bool,
    /// Its documentation.
    pub doc: String,
}
