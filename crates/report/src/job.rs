//! What a job is from its beginning on, as its events and its record say it.

use raidshmem_core::quantity::Pe;
use serde::{Deserialize, Serialize};

/// What a job was from its beginning on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Version of the library.
    pub raidshmem: String,
    /// The program with its arguments.
    pub program: String,
    /// Where `oshrun` ran.
    pub host: String,
    /// Process id of `oshrun`.
    pub launcher: u32,
    /// When it began, as of RFC 3339.
    pub since: String,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Node of each PE at the start.
    pub node_of: Vec<u32>,
    /// Sleeping processes at the start.
    pub spares: u32,
    /// As `SHMEM_FT_BACKUP_MODE` spells it.
    pub mode: String,
    /// Losses that a group survives.
    pub parity: u32,
    /// Copies of its own memory that a PE keeps.
    pub snapshots: u32,
    /// Slots of what a PE keeps for others.
    pub slots: u32,
    /// PEs of each parity group, in the order of their places; none in mode `none`.
    pub groups: Vec<Vec<Pe>>,
    /// What is survived, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survives: Option<String>,
    /// Bytes of the symmetric heap of a PE.
    pub heap: u64,
    /// What carries data between nodes.
    pub fabric: String,
    /// The settings in force.
    pub settings: Vec<SettingValue>,
}

/// A setting in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingValue {
    /// The variable.
    pub name: String,
    /// None where it is unset.
    pub value: Option<String>,
    /// True if it is so without anybody having said so.
    pub default: bool,
    /// What it does.
    pub doc: String,
}
