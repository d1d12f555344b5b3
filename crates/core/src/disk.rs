//! What launcher and agents say to each other of checkpoints on disk. Pure data.
//!
//! Left out: what the files hold (the crate `raidshmem-archive`).

#![allow(missing_docs)] // the sentence of each variant speaks of its fields

use serde::{Deserialize, Serialize};

use crate::quantity::{CheckpointNumber, Pe};

/// The file of a PE, as a manifest knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Bytes of the file.
    pub len: u64,
    /// The last four bytes of its head.
    pub sum: u32,
}

/// Why a node has not done what it was told to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// The next checkpoint overwrote the memory before it was read.
    Overtaken,
    /// It was told to stop.
    Stopped,
    /// What a file, a folder or the memory did not allow.
    Refused(String),
}

/// How files are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct How {
    /// Bytes that are read ahead at most.
    pub memory: u64,
    /// Bytes that are written a second at most; 0: as many as the disk takes.
    pub rate: u64,
    /// Tiles in memory have checksums.
    pub checksum: bool,
}

/// What an agent is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Write the files of these PEs to a folder below `folder`.
    Write { number: CheckpointNumber, folder: String, pes: Vec<Pe>, how: How },
    /// Every file is written: make them a set by this manifest, and keep so many sets.
    Commit { number: CheckpointNumber, folder: String, manifest: Vec<u8>, keep: u64 },
    /// Take back what was written of this checkpoint.
    Drop { number: CheckpointNumber, folder: String },
}

/// What became of that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The files are on disk, or not.
    Written { number: CheckpointNumber, files: Result<Vec<(Pe, Entry)>, Failure> },
    /// The set is there and has this number, or is not.
    Committed { number: CheckpointNumber, set: Result<u64, Failure> },
}

/// The set that a job begins from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The folder of the set.
    pub folder: String,
    /// Its checkpoint.
    pub number: CheckpointNumber,
}
