//! Messages between the launcher and the agents about checkpoints on disk. Pure data.
//!
//! Left out: the contents of the files (the crate `raidshmem-archive`).

#![allow(missing_docs)] // the comment of each variant covers its fields

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::layout::TILE;
use crate::placement::pages::PageRuns;
use crate::quantity::{CheckpointNumber, Pe};

/// The file of a PE, as recorded in a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Bytes of the file.
    pub len: u64,
    /// The last four bytes of its header.
    pub sum: u32,
}

/// The reason why a node has not completed its task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// The checkpoint was overwritten before the node received the task.
    Late,
    /// The next checkpoint overwrote more memory than there was space to spill.
    Overtaken,
    /// The task was cancelled.
    Stopped,
    /// An error of a file, a folder or the memory.
    Refused(String),
}

/// The content of a PE's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Content {
    /// Its own data.
    Data,
    /// The parity that it keeps over other PEs' data.
    Parity,
}

/// The amount of parity that a PE keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParityShare {
    pub pe: Pe,
    /// Chunks into which each member of its group divides its data.
    pub chunks: u32,
    /// Chunks of parity that it keeps.
    pub held: u32,
}

impl ParityShare {
    /// Returns the number of tiles of this parity over snapshots of `len` bytes.
    pub fn tiles(&self, len: usize) -> usize {
        let chunk = len.div_ceil(self.chunks.max(1) as usize).div_ceil(TILE);
        chunk.saturating_mul(self.held as usize)
    }
}

/// The files that a node has written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    pub data: Vec<(Pe, Entry)>,
    pub parity: Vec<(Pe, Entry)>,
    /// Size of the files in bytes if they had all their tiles, and nothing were compressed.
    pub raw: u64,
    /// Lowest free set number.
    pub next: u64,
    /// Bytes that were spilled because a checkpoint overwrote them before they were read.
    pub spill: u64,
    /// The checkpoints that the files refer to, each once.
    pub bases: BTreeSet<CheckpointNumber>,
}

/// The files of one checkpoint in one folder of a node's disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub folder: String,
    /// The job that wrote it.
    pub job: u64,
    pub number: CheckpointNumber,
    /// Its manifest and its set number, if it has become a set. An empty manifest means that
    /// another folder of this checkpoint, listed before, has it.
    pub set: Option<(u64, Vec<u8>)>,
    /// The files whose headers are valid.
    pub files: Vec<(Content, Pe, Entry)>,
}

/// A file that was read and found damaged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// The folder of the checkpoint that contains it.
    pub folder: String,
    pub content: Content,
    pub pe: Pe,
    /// Tiles in memory that it cannot fill, out of `all`; None if it fills none.
    pub tiles: Option<Vec<u64>>,
    /// Tiles in memory that it would fill if it were intact.
    pub all: u64,
    /// The first error found and its position, in words.
    pub why: String,
}

/// Options for writing files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct How {
    /// Maximum bytes for reading ahead and spilling.
    pub memory: u64,
    /// Maximum bytes written per second; 0: unlimited.
    pub rate: u64,
    /// Compression level of tiles; 0: not compressed.
    pub compress: u32,
    /// True if tiles in memory have checksums.
    pub checksum: bool,
    /// True if the next set may refer to this one.
    pub incremental: bool,
    /// The set that this one may refer to: the last that was written, if that is on disk.
    pub base: Option<CheckpointNumber>,
}

/// A task for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Make these PEs keep that checkpoint, and their parity if `parity` is set, by spilling what
    /// is overwritten: its files are written once it is complete.
    Claim { number: CheckpointNumber, pes: Vec<Pe>, parity: bool, memory: u64 },
    /// Write the files of these PEs, and the parity that they keep, to a folder below `folder`.
    Write {
        number: CheckpointNumber,
        folder: String,
        pes: Vec<Pe>,
        parity: Vec<ParityShare>,
        how: How,
    },
    /// All files are written: turn them into a set with this manifest and the number `set` or a
    /// higher one, and keep the newest `keep` sets.
    Commit { number: CheckpointNumber, folder: String, manifest: Vec<u8>, set: u64, keep: u64 },
    /// Delete the files written of this checkpoint.
    Drop { number: CheckpointNumber, folder: String },
}

/// The result of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiskOutcome {
    /// The files were written, or not.
    Written { number: CheckpointNumber, files: Result<Files, Failure> },
    /// The set was committed with this number, or not.
    Committed { number: CheckpointNumber, set: Result<u64, Failure> },
}

/// The set that a job starts from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The job that wrote it.
    pub job: u64,
    /// The checkpoint that it holds.
    pub number: CheckpointNumber,
    /// The location of its files.
    pub folders: Folders,
    /// True if another build of the program restores it, treating possible addresses as plain data.
    pub rebuilt: bool,
    /// The NUMA nodes of each PE's pages, for the launcher; none if none are known.
    pub pages: Vec<PageRuns>,
}

/// The location of a set's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Folders {
    /// All in one folder.
    Shared(String),
    /// In folders of each node. Missing or damaged files count as lost; the parity over these
    /// groups of PEs makes up for them, unless it is of another mode than the job's (None).
    Local { of: Vec<Vec<String>>, groups: Option<Vec<Vec<Pe>>> },
}

impl Folders {
    /// Returns the groups of the set's parity, if this job can use it.
    pub fn groups(&self) -> Option<&[Vec<Pe>]> {
        match self {
            Folders::Local { groups: Some(groups), .. } => Some(groups),
            Folders::Local { groups: None, .. } | Folders::Shared(_) => None,
        }
    }

    /// Returns true if each of `pes` PEs is in one group, if groups are named.
    pub(crate) fn suit(&self, pes: usize) -> bool {
        let mut all: Vec<Pe> = self.groups().unwrap_or_default().concat();
        all.sort_unstable();
        self.groups().is_none() || all.into_iter().eq(Pe::all(pes))
    }

    /// Returns the folders for PEs on `node`.
    pub fn at(&self, node: u32) -> &[String] {
        match self {
            Folders::Shared(folder) => std::slice::from_ref(folder),
            Folders::Local { of, .. } => of.get(node as usize).map_or(&[], Vec::as_slice),
        }
    }
}
