//! The events of a job: the one stream that feeds the log lines, the file of `--events`, the record
//! of `--report` and the metrics.
//!
//! A new kind does not compile until its readers, and the PEs and nodes that it names, are listed
//! here or with [`ProgressReport`]; a reader that ignores a kind of its own fails in tests.
//!
//! Invariant: as JSON an event is one object, `{"time": seconds, "event": name, ...}`, without
//! fields that have no value; times are seconds with six digits. docs/report.md lists the names and
//! their fields.

use std::time::Duration;

use raidshmem_core::message::{ProgressReport, Reader};
use raidshmem_core::placement::survival::Survival;
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::seconds;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::job::JobRecord;

/// An event of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "Flat", try_from = "Flat")]
pub struct Event {
    /// Time since the job began.
    pub time: Duration,
    /// The event.
    pub what: What,
}

/// The kinds of events: those of the launcher, and the reports of PEs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the comment of each variant covers its fields
pub enum What {
    /// The job begins.
    Began { job: Box<JobRecord> },
    /// Every PE runs.
    Started,
    /// A checkpoint is on disk at `place`: `bytes` of files, `raw` bytes without compression, and
    /// `spill` bytes that were spilled in memory before they were written.
    Stored {
        checkpoint: CheckpointNumber,
        place: String,
        bytes: u64,
        raw: Option<u64>,
        #[serde(rename = "aside")]
        spill: u64,
        #[serde(with = "seconds")]
        took: Duration,
    },
    /// A checkpoint that was due on disk could not be written completely.
    NotStored { checkpoint: CheckpointNumber },
    /// PEs were lost, with their node if one is named. `drained` if they move on request.
    Lost {
        pes: Vec<Pe>,
        node: Option<u32>,
        cause: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        drained: bool,
    },
    /// A node was drained on request after that checkpoint: each PE of `pes` is now on the node of
    /// `to` at its place. `repeats` if PEs may compute again what followed the checkpoint.
    Drained { node: u32, checkpoint: CheckpointNumber, pes: Vec<Pe>, to: Vec<u32>, repeats: bool },
    /// A host joined the running job, as that node.
    Joined { node: u32, name: String },
    /// PEs moved to that node, which had joined, after that checkpoint: like `Drained`.
    Moved { node: u32, checkpoint: CheckpointNumber, pes: Vec<Pe>, to: Vec<u32>, repeats: bool },
    /// Another process took over that PE, on this node.
    Replaced { pe: Pe, node: u32, incarnation: u32 },
    /// More was lost than the parity covers, for the reason `why`: all PEs begin again from that
    /// set, with the files of the PEs in `rebuilt` decoded from parity.
    FellBack { checkpoint: CheckpointNumber, set: u64, why: String, rebuilt: Vec<Pe> },
    /// The single losses that would end the job have changed.
    Survives(Survival),
    /// A line that oshrun printed.
    Said { line: String },
    /// Earlier events were dropped because no reader took them.
    LeftOut { count: u64 },
    /// The job is over.
    Ended { status: i32, words: Option<String> },
    /// A PE reported progress.
    #[serde(untagged)]
    Report(ProgressReport),
}

impl What {
    /// Returns the readers of this kind of event.
    pub fn readers(&self) -> &'static [Reader] {
        use Reader::{Lines, Metrics, Recovery, Statistics, Story};
        match self {
            What::Lost { .. } => &[Recovery, Story, Statistics, Metrics],
            What::Started | What::Replaced { .. } => &[Story],
            What::Survives(_) => &[Story, Metrics],
            What::Drained { .. } | What::Moved { .. } => &[Statistics],
            What::Stored { .. } => &[Statistics, Metrics, Lines],
            What::NotStored { .. } => &[Metrics],
            What::FellBack { .. } => &[Story, Statistics, Metrics],
            What::Report(report) => report.readers(),
            What::Began { .. }
            | What::Joined { .. }
            | What::Said { .. }
            | What::LeftOut { .. }
            | What::Ended { .. } => &[],
        }
    }

    /// Checks, in tests, that `reader` may ignore this event.
    pub fn ignored_by(&self, reader: Reader) {
        debug_assert!(!self.readers().contains(&reader), "{reader:?} ignores {self:?}");
    }

    /// Returns the PEs that it names.
    pub fn pes(&self) -> Vec<Pe> {
        match self {
            What::Lost { pes, .. } | What::Drained { pes, .. } | What::Moved { pes, .. } => {
                pes.clone()
            }
            What::Survives(survival) => survival.fatal_pes.clone(),
            What::Replaced { pe, .. } => vec![*pe],
            What::FellBack { rebuilt, .. } => rebuilt.clone(),
            What::Report(report) => report.pes(),
            What::Began { .. }
            | What::Started
            | What::Joined { .. }
            | What::Stored { .. }
            | What::NotStored { .. }
            | What::Said { .. }
            | What::LeftOut { .. }
            | What::Ended { .. } => Vec::new(),
        }
    }

    /// Returns the node that it names.
    pub fn node(&self) -> Option<u32> {
        match self {
            What::Lost { node, .. } => *node,
            What::Replaced { node, .. }
            | What::Drained { node, .. }
            | What::Joined { node, .. }
            | What::Moved { node, .. } => Some(*node),
            What::Began { .. }
            | What::Started
            | What::Stored { .. }
            | What::NotStored { .. }
            | What::FellBack { .. }
            | What::Survives(_)
            | What::Said { .. }
            | What::LeftOut { .. }
            | What::Ended { .. }
            | What::Report(_) => None,
        }
    }
}

impl From<ProgressReport> for What {
    fn from(report: ProgressReport) -> What {
        What::Report(report)
    }
}

/// The form of an event as JSON.
#[derive(Serialize, Deserialize)]
struct Flat {
    #[serde(with = "seconds")]
    time: Duration,
    event: String,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl From<Event> for Flat {
    fn from(Event { time, what }: Event) -> Flat {
        let (event, fields) = match serde_json::to_value(what) {
            Ok(Value::Object(named)) => named.into_iter().next().unwrap_or_default(),
            Ok(Value::String(name)) => (name, Value::Null),
            _ => unreachable!("an event has a name, and fields that are JSON"),
        };
        let mut fields = if let Value::Object(fields) = fields { fields } else { Map::new() };
        fields.retain(|_, value| !value.is_null());
        Flat { time, event, fields }
    }
}

impl TryFrom<Flat> for Event {
    type Error = serde_json::Error;

    fn try_from(Flat { time, event, fields }: Flat) -> Result<Event, serde_json::Error> {
        let what = match fields.is_empty() {
            true => Value::String(event),
            false => Map::from_iter([(event, Value::Object(fields))]).into(),
        };
        Ok(Event { time, what: serde_json::from_value(what)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidshmem_core::message::{ChangedTiles, FoundBy};
    use raidshmem_core::quantity::ViewNumber;

    fn json(seconds: f64, what: What) -> String {
        let event = Event { time: Duration::from_secs_f64(seconds), what };
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event, "{text}");
        text
    }

    #[test]
    fn an_event_is_one_flat_object() {
        let lost = What::Lost {
            pes: vec![Pe(1), Pe(2)],
            node: None,
            cause: "gone".to_owned(),
            drained: false,
        };
        let text = json(1.25, lost);
        assert_eq!(text, r#"{"time":1.25,"event":"lost","cause":"gone","pes":[1,2]}"#);
        assert_eq!(json(0.5, What::Started), r#"{"time":0.5,"event":"started"}"#);
        let changed = Some(ChangedTiles { changed: 3, of: 9, by: FoundBy::Pages });
        let (number, places, bytes, kept) = (CheckpointNumber(7), ViewNumber(0), 30, 10);
        let [took, protects] = [Duration::from_micros(1500); 2];
        let report =
            ProgressReport::Checkpoint { number, places, bytes, kept, took, protects, changed };
        let text = json(2.0, report.into());
        let wanted = concat!(
            r#"{"time":2.0,"event":"checkpoint","bytes":30,"#,
            r#""changed":{"blocks":3,"by":"pages","of":9},"kept":10,"number":7,"places":0,"#,
            r#""protects":0.0015,"took":0.0015}"#
        );
        assert_eq!(text, wanted);
        let rebuilt = ProgressReport::Rebuilt {
            pe: Pe(1),
            checkpoint: CheckpointNumber(7),
            bytes: 8,
            from: vec![Pe(0), Pe(3)],
            took: Duration::from_micros(9),
        };
        let text = json(3.0, rebuilt.into());
        assert!(text.contains(r#""event":"rebuilt","bytes":8,"checkpoint":7,"from":[0,3],"pe":1"#));
    }

    #[test]
    fn an_invalid_time_is_refused() {
        for time in ["-1", "1e11", "1e300", "null"] {
            let text = format!(r#"{{"time":{time},"event":"note","line":""}}"#);
            assert!(serde_json::from_str::<Event>(&text).is_err(), "{text}");
        }
    }
}
