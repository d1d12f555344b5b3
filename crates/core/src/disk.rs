//! What launcher and agents say to each other of checkpoints on disk. Pure data.
//!
//! Left out: what the files hold (the crate `raidshmem-archive`).

#![allow(missing_docs)] // the sentence of each variant speaks of its fields

use serde::{Deserialize, Serialize};

use crate::layout::TILE;
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
    /// It was overwritten before the node heard of it.
    Late,
    /// The next checkpoint overwrote more of the memory than there was room to copy aside.
    Overtaken,
    /// It was told to stop.
    Stopped,
    /// What a file, a folder or the memory did not allow.
    Refused(String),
}

/// What a file of a PE holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Content {
    /// Its own data.
    Data,
    /// The parity over others' data that it keeps.
    Parity,
}

/// How much parity a PE keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParityShare {
    pub pe: Pe,
    /// Chunks that each member of its group cuts its data into.
    pub chunks: u32,
    /// Chunks of parity that it keeps.
    pub held: u32,
}

impl ParityShare {
    /// Tiles of that parity over snapshots of `len` bytes.
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
    /// Bytes that they would have if nothing of them were compressed.
    pub raw: u64,
    /// The lowest number that a set there may get.
    pub next: u64,
    /// Bytes that were copied aside, since a checkpoint overwrote them before they were read.
    pub aside: u64,
}

/// The files of one checkpoint in one folder of a node's disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub folder: String,
    /// The job that wrote it.
    pub job: u64,
    pub number: CheckpointNumber,
    /// Its manifest and its number as a set, if it has become one; an empty manifest is that of
    /// another folder of that checkpoint, told before.
    pub set: Option<(u64, Vec<u8>)>,
    /// The files whose heads hold.
    pub files: Vec<(Content, Pe, Entry)>,
}

/// A file that was read and does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// The folder of a checkpoint that it is in.
    pub folder: String,
    pub content: Content,
    pub pe: Pe,
    /// Tiles in memory that it cannot fill, of `all`; None if it fills none.
    pub tiles: Option<Vec<u64>>,
    /// Tiles in memory that it would fill if it held.
    pub all: u64,
    /// The first thing that does not hold, and where, in words.
    pub why: String,
}

/// How files are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct How {
    /// Bytes that are read ahead and copied aside at most.
    pub memory: u64,
    /// Bytes that are written a second at most; 0: as many as the disk takes.
    pub rate: u64,
    /// The level at which tiles are compressed; 0: they are not.
    pub compress: u32,
    /// Tiles in memory have checksums.
    pub checksum: bool,
}

/// What an agent is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Have these PEs copy that checkpoint aside when it is overwritten, and their parity if that
    /// is written too: its files are to be written once it is there.
    Claim { number: CheckpointNumber, pes: Vec<Pe>, parity: bool, memory: u64 },
    /// Write the files of these PEs, and the parity that they keep, to a folder below `folder`.
    Write {
        number: CheckpointNumber,
        folder: String,
        pes: Vec<Pe>,
        parity: Vec<ParityShare>,
        how: How,
    },
    /// Every file is written: make them a set by this manifest, with `set` as its number or a
    /// higher one, and keep so many sets.
    Commit { number: CheckpointNumber, folder: String, manifest: Vec<u8>, set: u64, keep: u64 },
    /// Take back what was written of this checkpoint.
    Drop { number: CheckpointNumber, folder: String },
}

/// What became of that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiskOutcome {
    /// The files are on disk, or not.
    Written { number: CheckpointNumber, files: Result<Files, Failure> },
    /// The set is there and has this number, or is not.
    Committed { number: CheckpointNumber, set: Result<u64, Failure> },
}

/// The set that a job begins from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The job that wrote it.
    pub job: u64,
    /// Its checkpoint.
    pub number: CheckpointNumber,
    /// Where its files are.
    pub folders: Folders,
    /// Another build of the program takes what may be addresses in it as data.
    pub rebuilt: bool,
}

/// Where the files of a set are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Folders {
    /// All in one folder.
    Shared(String),
    /// In folders of each node. What is missing or damaged counts as lost; `parity`, if it fits
    /// this job, makes up for it.
    Local { of: Vec<Vec<String>>, parity: bool },
}

impl Folders {
    /// Where the files are for PEs on `node`.
    pub fn at(&self, node: u32) -> &[String] {
        match self {
            Folders::Shared(folder) => std::slice::from_ref(folder),
            Folders::Local { of, .. } => of.get(node as usize).map_or(&[], Vec::as_slice),
        }
    }
}
