//! The progress of a PE, as it reports it: the part of a job's events that PEs know of.
//!
//! Invariant: one type is both the message and the event; names and fields as JSON are those in
//! docs/report.md.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::quantity::{CheckpointNumber, Pe, ViewNumber};
use crate::seconds;
use crate::step::RecoveryStep;

/// Progress worth reporting to people and tests. Bytes are per PE.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgressReport {
    /// A checkpoint was agreed: `bytes` of data, protected by `kept` bytes that a PE keeps for
    /// others, in the groups that `places` names. One PE sends it.
    Checkpoint {
        number: CheckpointNumber,
        places: ViewNumber,
        bytes: u64,
        kept: u64,
        /// Time that the program waited in the call.
        #[serde(with = "seconds")]
        took: Duration,
        /// Time from the call on until the checkpoint protected.
        #[serde(with = "seconds")]
        protects: Duration,
        changed: Option<ChangedTiles>,
    },
    /// No PE could make a checkpoint; the previous one remains valid. One PE sends it.
    Refused { why: String },
    /// New parity groups from that checkpoint on, because PEs had moved: the group of each PE, and
    /// a description of the losses that they survive. Earlier groups are obsolete. One PE sends it.
    Regrouped { checkpoint: CheckpointNumber, group_of: Vec<u32>, survives: String },
    /// From this checkpoint on, `bytes` of a PE are read-only, in addition to the data that
    /// checkpoints save. They are protected by `kept` bytes that a PE keeps for other PEs.
    Readonly { bytes: u64, kept: u64 },
    /// The memory of a dead process was adopted unchanged, or read from a set on disk.
    Adopted {
        pe: Pe,
        checkpoint: CheckpointNumber,
        bytes: u64,
        from_disk: bool,
        #[serde(with = "seconds")]
        took: Duration,
    },
    /// Lost data was rebuilt from data of other PEs.
    Rebuilt {
        pe: Pe,
        checkpoint: CheckpointNumber,
        bytes: u64,
        from: Vec<Pe>,
        #[serde(with = "seconds")]
        took: Duration,
    },
    /// The recovery has reached this step (sent by PE 0).
    Step { step: RecoveryStep },
    /// PE `pe` has rebuilt `bytes` of `of` bytes; sent a few times per second at most.
    Rebuilding { pe: Pe, bytes: u64, of: u64 },
    /// All PEs have restarted from a checkpoint (sent by PE 0).
    Resumed {
        checkpoint: CheckpointNumber,
        /// The view that all have joined.
        #[serde(default)]
        view: ViewNumber,
        #[serde(with = "seconds")]
        took: Duration,
    },
    /// PE `pe` rolled back locally and caught up; `calls` of its calls were answered from logs.
    Replayed {
        pe: Pe,
        checkpoint: CheckpointNumber,
        calls: u64,
        #[serde(with = "seconds")]
        took: Duration,
    },
    /// PE `pe` rolled back to a checkpoint while other PEs are in `shmem_finalize`.
    Alone {
        pe: Pe,
        checkpoint: CheckpointNumber,
        #[serde(with = "seconds")]
        took: Duration,
    },
    /// The scrub found a damaged `part` of the store; `from` are the PEs that repaired it, if it
    /// was.
    Damaged { pe: Pe, checkpoint: CheckpointNumber, part: String, from: Option<Vec<Pe>> },
    /// The scrub results of one PE at `shmem_finalize`.
    Scrubbed { pe: Pe, bytes: u64, damaged: u64, repaired: u64 },
    /// Proportional share of memory of one PE at `shmem_finalize`.
    Memory { pe: Pe, bytes: u64 },
    /// The longest log of one PE between two checkpoints, at `shmem_finalize`.
    Logged { pe: Pe, bytes: u64, records: u64 },
    /// A free-form line.
    Note { line: String },
}

/// A reader of a job's events. Each kind of event names its readers at its definition, so that a
/// new kind does not compile until that is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// The membership machine.
    Membership,
    /// The course of a recovery under way.
    Recovery,
    /// The recoveries in a report.
    Story,
    /// The figures of a job, and lines that are always printed.
    Statistics,
    /// The metrics.
    Metrics,
    /// The lines of `--verbose`.
    Lines,
}

impl ProgressReport {
    /// Returns the readers of this kind of report.
    pub fn readers(&self) -> &'static [Reader] {
        use Reader::{Lines, Membership, Metrics, Recovery, Statistics, Story};
        match self {
            ProgressReport::Checkpoint { .. } => &[Membership, Statistics, Metrics, Lines],
            ProgressReport::Regrouped { .. } => &[Membership, Statistics],
            ProgressReport::Readonly { .. } => &[Statistics, Lines],
            ProgressReport::Adopted { .. } | ProgressReport::Rebuilt { .. } => {
                &[Story, Statistics, Lines]
            }
            ProgressReport::Step { .. } => &[Recovery, Story],
            ProgressReport::Rebuilding { .. } => &[Recovery],
            ProgressReport::Resumed { .. }
            | ProgressReport::Replayed { .. }
            | ProgressReport::Alone { .. } => &[Membership, Recovery, Story, Statistics],
            ProgressReport::Damaged { .. } => &[Metrics, Lines],
            ProgressReport::Refused { .. } => &[Metrics],
            ProgressReport::Scrubbed { .. }
            | ProgressReport::Memory { .. }
            | ProgressReport::Logged { .. }
            | ProgressReport::Note { .. } => &[Lines],
        }
    }

    /// Checks, in tests, that `reader` may ignore this report.
    pub fn ignored_by(&self, reader: Reader) {
        debug_assert!(!self.readers().contains(&reader), "{reader:?} ignores {self:?}");
    }

    /// Returns the PEs that it names.
    pub fn pes(&self) -> Vec<Pe> {
        match self {
            ProgressReport::Rebuilt { pe, from, .. } => [&[*pe], from.as_slice()].concat(),
            ProgressReport::Damaged { pe, from, .. } => {
                from.iter().flatten().copied().chain([*pe]).collect()
            }
            ProgressReport::Adopted { pe, .. }
            | ProgressReport::Rebuilding { pe, .. }
            | ProgressReport::Replayed { pe, .. }
            | ProgressReport::Alone { pe, .. }
            | ProgressReport::Scrubbed { pe, .. }
            | ProgressReport::Memory { pe, .. }
            | ProgressReport::Logged { pe, .. } => vec![*pe],
            ProgressReport::Checkpoint { .. }
            | ProgressReport::Refused { .. }
            | ProgressReport::Regrouped { .. }
            | ProgressReport::Readonly { .. }
            | ProgressReport::Step { .. }
            | ProgressReport::Resumed { .. }
            | ProgressReport::Note { .. } => Vec::new(),
        }
    }
}

/// A PE's changed tiles since the previous checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedTiles {
    /// Tiles that changed.
    #[serde(rename = "blocks")]
    pub changed: u64,
    /// Number of tiles in total.
    pub of: u64,
    /// The method that found them.
    pub by: FoundBy,
}

/// The method of finding changed tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FoundBy {
    /// The kernel noted which pages were written.
    Pages,
    /// Digests were compared.
    Digests,
}

/// The results so far of scrubbing a PE's store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes that were checked and found intact.
    pub bytes: u64,
    /// Tiles and headers found damaged.
    pub damaged: u64,
    /// Damaged tiles that were repaired.
    pub repaired: u64,
}

impl fmt::Display for FoundBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FoundBy::Pages => "pages",
            FoundBy::Digests => "digests",
        })
    }
}

/// Formats the report in a few words, for traces.
impl fmt::Display for ProgressReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgressReport::Checkpoint { number, .. } => write!(f, "checkpoint {number} is agreed"),
            ProgressReport::Regrouped { checkpoint, survives, .. } => {
                write!(f, "new groups at checkpoint {checkpoint}: {survives}")
            }
            ProgressReport::Refused { why } => f.write_str(why),
            ProgressReport::Readonly { bytes, .. } => write!(f, "{bytes} bytes are read-only"),
            ProgressReport::Adopted { pe, checkpoint, from_disk, .. } => {
                let how = if *from_disk { "read from disk" } else { "adopted" };
                write!(f, "memory of PE {pe} {how} with checkpoint {checkpoint}")
            }
            ProgressReport::Rebuilt { pe, checkpoint, from, .. } => {
                let from = Pe::names(from);
                write!(f, "checkpoint {checkpoint} of PE {pe} rebuilt from {from}")
            }
            ProgressReport::Step { step } => write!(f, "recovery: {}", step.name()),
            ProgressReport::Rebuilding { pe, bytes, of } => {
                write!(f, "{bytes} of {of} bytes of PE {pe} rebuilt")
            }
            ProgressReport::Resumed { checkpoint, .. } => {
                write!(f, "all PEs have restored checkpoint {checkpoint}")
            }
            ProgressReport::Replayed { pe, calls, .. } => {
                write!(f, "PE {pe} has caught up, with {calls} calls from logs")
            }
            ProgressReport::Alone { pe, checkpoint, .. } => {
                write!(f, "PE {pe} rolls back alone, to checkpoint {checkpoint}")
            }
            ProgressReport::Damaged { pe, checkpoint, part, .. } => {
                write!(f, "damage in the {part} of PE {pe}, checkpoint {checkpoint}")
            }
            ProgressReport::Scrubbed { pe, bytes, .. } => {
                write!(f, "{bytes} bytes of PE {pe} scrubbed")
            }
            ProgressReport::Memory { pe, bytes } => {
                write!(f, "PE {pe} has {bytes} bytes of memory")
            }
            ProgressReport::Logged { pe, bytes, records } => {
                write!(f, "PE {pe} has logged {bytes} bytes in {records} records")
            }
            ProgressReport::Note { line } => f.write_str(line),
        }
    }
}
