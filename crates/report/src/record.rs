//! The record of a whole job, in the format of the `--report` file.
//!
//! Invariants: the first field of the file is the version of this format; a file of another version
//! is rejected for that, whatever else it contains. The result of [`Record::read`] is consistent:
//! every PE and node that it names exists.

use std::time::Duration;

use raidshmem_core::quantity::Pe;
use raidshmem_core::seconds;
use raidshmem_core::view::PES_MAX;
use serde::{Deserialize, Serialize};

use crate::event::{Event, What};
use crate::job::JobRecord;

/// Version of the format.
pub const VERSION: u64 = 1;

/// Consecutive checkpoints, merged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// The number of checkpoints.
    pub count: u64,
    /// Number of the first.
    pub first: u64,
    /// Number of the last.
    pub last: u64,
    /// Time at which the first of them began.
    #[serde(with = "seconds")]
    pub begin: Duration,
    /// Time at which the last was complete.
    #[serde(with = "seconds")]
    pub end: Duration,
    /// Their total duration.
    #[serde(with = "seconds")]
    pub took: Duration,
    /// The longest duration.
    #[serde(with = "seconds")]
    pub longest: Duration,
}

/// The totals of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Checkpoints.
    pub checkpoints: u64,
    /// The total duration of checkpoints.
    #[serde(with = "seconds")]
    pub saving: Duration,
    /// Time of repeated work: from the last checkpoint, or restart, to the death.
    #[serde(with = "seconds")]
    pub again: Duration,
    /// Time from the first death to the restart.
    #[serde(with = "seconds")]
    pub recovery: Duration,
    /// PEs that were lost, except those lost with their node.
    pub processes: u64,
    /// Nodes that were lost, except those that were drained.
    pub nodes: u64,
    /// Nodes that were drained.
    #[serde(default)]
    pub drained: u64,
    /// Bytes of data of PE 0 in the last checkpoint.
    pub data: u64,
    /// Bytes that it kept for others, in one slot.
    pub kept: u64,
}

/// The figures that a PE reported at its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AtEnd {
    /// Its number.
    pub pe: Pe,
    /// Its memory in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Bytes of checkpoints that it scrubbed, damaged parts, and repaired parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrubbed: Option<(u64, u64, u64)>,
    /// Bytes and records of its longest log between two checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logged: Option<(u64, u64)>,
}

/// The outcome of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Exit status of `oshrun`.
    pub status: i32,
    /// The reason why it could not continue, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// Its duration.
    #[serde(with = "seconds")]
    pub ran: Duration,
}

/// The record of a job that is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`VERSION`].
    pub raidshmem_report: u64,
    /// Its description.
    pub job: JobRecord,
    /// Its outcome.
    pub end: End,
    /// Its totals.
    pub totals: Totals,
    /// Its checkpoints, in order; many are merged.
    pub checkpoints: Vec<Span>,
    /// Its other events, in order.
    pub events: Vec<Event>,
    /// The number of events omitted in the middle because there were too many.
    pub left_out: u64,
    /// The figures that PEs reported at their end, if requested (`--verbose`).
    pub at_end: Vec<AtEnd>,
}

/// The reasons why a text is not a record.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The text is empty.
    #[error("empty; oshrun writes the report at the end of a job, and was killed before it")]
    Empty,
    /// The text is not JSON, or is truncated.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// The text is some other JSON.
    #[error("not a report: expected what oshrun --report writes, which begins with its version")]
    NotReport,
    /// Another version wrote it.
    #[error(
        "a report of version {got}; expected version {VERSION}: use the oshreport installed \
         with the oshrun that wrote it"
    )]
    OtherVersion {
        /// Its version.
        got: u64,
    },
    /// A field is missing or invalid.
    #[error("a report of version {VERSION} that is damaged: {0}")]
    Damaged(String),
}

/// The first field of every version.
#[derive(Deserialize)]
struct Head {
    raidshmem_report: Option<u64>,
}

impl Record {
    /// Reads the output of [`Record::to_json`].
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(text: &str) -> Result<Record, ReadError> {
        if text.trim_start().is_empty() {
            return Err(ReadError::Empty);
        }
        let head = match serde_json::from_str::<Head>(text) {
            Ok(head) => head,
            Err(error) if error.is_data() => return Err(ReadError::NotReport),
            Err(error) => return Err(ReadError::NotJson(error.to_string())),
        };
        match head.raidshmem_report {
            None => return Err(ReadError::NotReport),
            Some(VERSION) => {}
            Some(got) => return Err(ReadError::OtherVersion { got }),
        }
        let record: Record =
            serde_json::from_str(text).map_err(|error| ReadError::Damaged(error.to_string()))?;
        match record.unsound() {
            None => Ok(record),
            Some(what) => Err(ReadError::Damaged(what)),
        }
    }

    /// Encodes the record as JSON, a single line with a line end.
    ///
    /// # Errors
    /// None is known.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// Returns the name of a node, which may have joined the running job.
    pub fn name_of(&self, node: u32) -> Option<String> {
        let joined = || {
            self.events.iter().find_map(|event| match &event.what {
                What::Joined { node: of, name } if *of == node => Some(name.clone()),
                _ => None,
            })
        };
        self.job.nodes.get(node as usize).cloned().or_else(joined)
    }

    /// Returns a description of a name that does not exist.
    fn unsound(&self) -> Option<String> {
        let joined = self.events.iter().filter_map(|event| match event.what {
            What::Joined { node, .. } => Some(node as usize + 1),
            _ => None,
        });
        let nodes = joined.max().unwrap_or_default().max(self.job.nodes.len());
        let pes = self.job.node_of.len();
        if pes == 0 || pes > PES_MAX {
            return Some(format!("{pes} PEs; expected 1 to {PES_MAX}"));
        }
        let node = |node: u32| (node as usize >= nodes).then(|| format!("there is no node {node}"));
        let pe = |pe: Pe| (pe.at() >= pes).then(|| format!("there is no PE {pe}"));
        let named = self.job.groups.iter().flatten().copied();
        let named = named.chain(self.events.iter().flat_map(|event| event.what.pes()));
        let of_nodes = self.events.iter().filter_map(|event| event.what.node());
        let members: usize = self.job.groups.iter().map(Vec::len).sum();
        if members > pes {
            return Some(format!("{members} members of groups; there are {pes} PEs"));
        }
        let mut of_nodes = self.job.node_of.iter().copied().chain(of_nodes);
        named.chain(self.at_end.iter().map(|end| end.pe)).find_map(pe).or(of_nodes.find_map(node))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a job of four PEs on four nodes that lost nothing.
    pub(crate) fn record() -> Record {
        let job = JobRecord {
            program: "./jacobi 64".to_owned(),
            nodes: (0..4).map(|node| format!("node{node}")).collect(),
            node_of: vec![0, 1, 2, 3],
            mode: "raid5".to_owned(),
            parity: 1,
            snapshots: 1,
            slots: 2,
            groups: vec![vec![Pe(0), Pe(1), Pe(2), Pe(3)]],
            ..JobRecord::default()
        };
        Record {
            raidshmem_report: VERSION,
            job,
            end: End { ran: Duration::from_secs(10), ..End::default() },
            totals: Totals::default(),
            checkpoints: Vec::new(),
            events: Vec::new(),
            left_out: 0,
            at_end: Vec::new(),
        }
    }

    #[test]
    fn a_report_survives_a_round_trip() {
        let mut record = record();
        let lost = What::Lost {
            pes: vec![Pe(3)],
            node: Some(3),
            cause: "lost".to_owned(),
            drained: false,
        };
        record.events.push(Event { time: Duration::from_millis(1500), what: lost });
        let text = record.to_json().unwrap();
        assert!(text.starts_with(r#"{"raidshmem_report":1,"#) && text.ends_with("}\n"), "{text}");
        assert_eq!(Record::read(&text), Ok(record));
    }

    #[test]
    fn an_invalid_record_is_refused_by_name() {
        let why = |text: &str| Record::read(text).unwrap_err().to_string();
        assert!(why(" \n").starts_with("empty; "));
        assert!(why("<html>").starts_with("not JSON: expected value at line 1"));
        assert!(why(r#"{"raidshmem_report":1,"job"#).starts_with("not JSON: EOF"));
        for other in ["[]", "7", "{}", r#"{"a":1}"#, r#"{"raidshmem_report":"1"}"#] {
            assert!(why(other).starts_with("not a report: "), "{other}: {}", why(other));
        }
        let other = why(r#"{"raidshmem_report":2,"job":7}"#);
        assert!(other.starts_with("a report of version 2; expected version 1"), "{other}");
        let damaged = why(r#"{"raidshmem_report":1}"#);
        assert!(damaged.starts_with("a report of version 1 that is damaged: missing field"));
    }

    #[test]
    fn named_items_must_exist() {
        let why = |change: fn(&mut Record)| {
            let mut record = record();
            change(&mut record);
            Record::read(&record.to_json().unwrap()).unwrap_err().to_string()
        };
        assert!(why(|record| record.job.node_of[1] = 9).ends_with("there is no node 9"));
        assert!(why(|record| record.job.groups[0][1] = Pe(4)).ends_with("there is no PE 4"));
        assert!(why(|record| record.job.groups.push(vec![Pe(0)])).ends_with("there are 4 PEs"));
        assert!(why(|record| record.job.node_of.clear()).contains(": 0 PEs; expected 1 to"));
        let replaced = |record: &mut Record| {
            let what = What::Replaced { pe: Pe(1), node: 4, incarnation: 1 };
            record.events.push(Event { time: Duration::ZERO, what });
        };
        assert!(why(replaced).ends_with("there is no node 4"));
    }
}
