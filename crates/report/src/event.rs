//! The events of a job: the one stream that feeds the log lines, the file of `--events`, the record
//! of `--report` and the metrics.
//!
//! Invariant: as JSON an event is one object, `{"time": seconds, "event": name, ...}`; times are
//! seconds with six digits. docs/report.md lists the names and their fields.

use std::time::Duration;

use raidshmem_core::message::{ChangedTiles, ProgressReport, RecoveryStep};
use raidshmem_core::placement::survival::Survival;
use raidshmem_core::quantity::Pe;
use serde::{Deserialize, Serialize};

use crate::job::JobRecord;
use crate::seconds;

/// An event of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Time since the job began.
    #[serde(with = "seconds")]
    pub time: Duration,
    /// The event.
    #[serde(flatten)]
    pub what: What,
}

/// The kinds of events. Bytes are per PE.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs)] // the comment of each variant covers its fields
pub enum What {
    /// The job begins.
    Began { job: Box<JobRecord> },
    /// Every PE runs.
    Started,
    /// A checkpoint was agreed: `bytes` of data, protected by `kept` bytes that a PE keeps for
    /// others.
    Checkpoint {
        number: u64,
        bytes: u64,
        kept: u64,
        #[serde(with = "seconds")]
        took: Duration,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changed: Option<Changed>,
    },
    /// New parity groups from that checkpoint on, because PEs had moved: the group of each PE, and
    /// a description of the losses that they survive.
    Regrouped { checkpoint: u64, group_of: Vec<u32>, survives: String },
    /// From this checkpoint on, `bytes` of a PE are read-only, in addition to the data that
    /// checkpoints save. They are protected by `kept` bytes that a PE keeps for other PEs.
    Readonly { bytes: u64, kept: u64 },
    /// A checkpoint is on disk at `place`: `bytes` of files, `raw` bytes without compression, and
    /// `spill` bytes that were spilled in memory before they were written.
    Stored {
        checkpoint: u64,
        place: String,
        bytes: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<u64>,
        #[serde(rename = "aside")]
        spill: u64,
        #[serde(with = "seconds")]
        took: Duration,
    },
    /// PEs were lost, with their node if one is named.
    Lost {
        pes: Vec<Pe>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<u32>,
        cause: String,
    },
    /// Another process took over that PE, on this node.
    Replaced { pe: Pe, node: u32, incarnation: u32 },
    /// The single losses that would end the job have changed.
    Survives {
        #[serde(flatten)]
        survival: Survival,
    },
    /// The recovery has reached a step: verify, rebuild, restore or reencode.
    Step { step: RecoveryStep },
    /// The progress of rebuilding a PE, in bytes; a few times a second.
    Rebuilding { pe: Pe, bytes: u64, of: u64 },
    /// The memory of a dead process was adopted unchanged.
    Adopted {
        pe: Pe,
        checkpoint: u64,
        bytes: u64,
        #[serde(with = "seconds")]
        took: Duration,
    },
    /// Lost data was rebuilt from data of other PEs.
    Rebuilt {
        pe: Pe,
        checkpoint: u64,
        bytes: u64,
        from: Vec<Pe>,
        #[serde(with = "seconds")]
        took: Duration,
    },
    /// All PEs have restarted from a checkpoint.
    Resumed {
        checkpoint: u64,
        #[serde(with = "seconds")]
        took: Duration,
    },
    /// One PE rolled back to a checkpoint and has caught up, with `calls` of its calls from logs.
    Replayed {
        pe: Pe,
        checkpoint: u64,
        calls: u64,
        #[serde(with = "seconds")]
        took: Duration,
    },
    /// One PE restarted from a checkpoint while the others are in `shmem_finalize`.
    Alone {
        pe: Pe,
        checkpoint: u64,
        #[serde(with = "seconds")]
        took: Duration,
    },
    /// A part of a PE's stored data was damaged; `from` lists the PEs that repaired it, if it was.
    Damaged {
        pe: Pe,
        checkpoint: u64,
        part: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Vec<Pe>>,
    },
    /// The amount of checkpoint data that a PE had scrubbed by its end.
    Scrubbed { pe: Pe, bytes: u64, damaged: u64, repaired: u64 },
    /// Memory of a PE at its end, including its share of shared memory.
    Memory { pe: Pe, bytes: u64 },
    /// The longest log of a PE between two checkpoints.
    Logged { pe: Pe, bytes: u64, records: u64 },
    /// A line of a PE to print.
    Note { line: String },
    /// A line that oshrun printed.
    Said { line: String },
    /// Earlier events were dropped because no reader took them.
    LeftOut { count: u64 },
    /// The job is over.
    Ended {
        status: i32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        words: Option<String>,
    },
}

/// The changes since the previous checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Blocks that changed.
    pub blocks: u64,
    /// The total number of blocks.
    pub of: u64,
    /// The method that found them: `pages` or `digests`.
    pub by: String,
}

impl From<&ChangedTiles> for Changed {
    fn from(found: &ChangedTiles) -> Changed {
        let by = if found.by_pages { "pages" } else { "digests" };
        Changed { blocks: found.changed, of: found.of, by: by.to_owned() }
    }
}

impl From<&ProgressReport> for What {
    fn from(report: &ProgressReport) -> What {
        let took = |micros: &u64| Duration::from_micros(*micros);
        match report.clone() {
            ProgressReport::Checkpoint { number, bytes, parity_bytes: kept, micros, found } => {
                let changed = found.as_ref().map(Changed::from);
                What::Checkpoint { number: number.0, bytes, kept, took: took(&micros), changed }
            }
            ProgressReport::Regrouped { number, group_of, words } => {
                What::Regrouped { checkpoint: number.0, group_of, survives: words }
            }
            ProgressReport::ReadOnly { bytes, parity_bytes: kept } => {
                What::Readonly { bytes, kept }
            }
            ProgressReport::Adopted { pe, number, bytes, micros } => {
                What::Adopted { pe, checkpoint: number.0, bytes, took: took(&micros) }
            }
            ProgressReport::Rebuilt { pe, number, bytes, from, micros } => {
                What::Rebuilt { pe, checkpoint: number.0, bytes, from, took: took(&micros) }
            }
            ProgressReport::Step(step) => What::Step { step },
            ProgressReport::Rebuilding { pe, bytes, of } => What::Rebuilding { pe, bytes, of },
            ProgressReport::Resumed { number, micros } => {
                What::Resumed { checkpoint: number.0, took: took(&micros) }
            }
            ProgressReport::Replayed { pe, number, micros, calls } => {
                What::Replayed { pe, checkpoint: number.0, calls, took: took(&micros) }
            }
            ProgressReport::LocalRollback { pe, number, micros } => {
                What::Alone { pe, checkpoint: number.0, took: took(&micros) }
            }
            ProgressReport::Damaged { pe, number, part, from } => {
                What::Damaged { pe, checkpoint: number.0, part, from }
            }
            ProgressReport::Scrubbed { pe, counts } => What::Scrubbed {
                pe,
                bytes: counts.bytes,
                damaged: counts.damaged,
                repaired: counts.repaired,
            },
            ProgressReport::Memory { pe, bytes } => What::Memory { pe, bytes },
            ProgressReport::Logged { pe, bytes, records } => What::Logged { pe, bytes, records },
            ProgressReport::Note(line) => What::Note { line },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidshmem_core::quantity::CheckpointNumber;

    fn json(seconds: f64, what: What) -> String {
        let event = Event { time: Duration::from_secs_f64(seconds), what };
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event, "{text}");
        text
    }

    #[test]
    fn an_event_is_one_flat_object() {
        let lost = What::Lost { pes: vec![Pe(1), Pe(2)], node: None, cause: "gone".to_owned() };
        let text = json(1.25, lost);
        assert_eq!(text, r#"{"time":1.25,"event":"lost","pes":[1,2],"cause":"gone"}"#);
        let found = Some(ChangedTiles { changed: 3, of: 9, by_pages: true });
        let (number, bytes, parity_bytes, micros) = (7, 30, 10, 1500);
        let report = ProgressReport::Checkpoint {
            number: CheckpointNumber(number),
            bytes,
            parity_bytes,
            micros,
            found,
        };
        let text = json(2.0, What::from(&report));
        let wanted = concat!(
            r#"{"time":2.0,"event":"checkpoint","number":7,"bytes":30,"kept":10,"took":0.0015,"#,
            r#""changed":{"blocks":3,"of":9,"by":"pages"}}"#
        );
        assert_eq!(text, wanted);
        let rebuilt = ProgressReport::Rebuilt {
            pe: Pe(1),
            number: CheckpointNumber(7),
            bytes: 8,
            from: vec![Pe(0), Pe(3)],
            micros: 9,
        };
        let text = json(3.0, What::from(&rebuilt));
        assert!(text.contains(r#""event":"rebuilt","pe":1,"checkpoint":7,"bytes":8,"from":[0,3]"#));
    }

    #[test]
    fn an_invalid_time_is_refused() {
        for time in ["-1", "1e11", "1e300", "null"] {
            let text = format!(r#"{{"time":{time},"event":"note","line":""}}"#);
            assert!(serde_json::from_str::<Event>(&text).is_err(), "{text}");
        }
    }
}
