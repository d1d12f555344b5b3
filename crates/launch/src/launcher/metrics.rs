//! Metrics of a job, served while it runs (`--metrics`).
//!
//! docs/report.md lists them.
//!
//! Left out: serving them over HTTP.

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use raidshmem_core::message::{ProgressReport, Reader};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use raidshmem_report::event::{Event, What};
use raidshmem_report::job::JobRecord;
use raidshmem_report::record::Totals;

use super::statistics::{Figures, JobStatistics};
use crate::readers::Endpoint;
use crate::scrape;

/// One label with its value.
type Label = [(&'static str, &'static str); 1];

/// The metrics of a job.
pub struct Metrics {
    at: Endpoint,
    values: Values,
    pes: i64,
    /// The time in recoveries, and of work done again, that metrics include.
    recovery: Duration,
    again: Duration,
}

struct Values {
    pes: Family<Label, Gauge>,
    /// Seconds since 1970.
    made: Gauge<f64, AtomicU64>,
    checkpoint: Histogram,
    number: Gauge,
    bytes: Family<Label, Gauge>,
    survives: Gauge,
    losses: Family<Label, Counter>,
    recovery: Histogram,
    again: Counter<f64, AtomicU64>,
    rebuild: Family<Label, Gauge>,
    damaged: Family<Label, Counter>,
    refused: Counter,
    sets: Family<Label, Counter>,
    falls: Counter,
}

impl Metrics {
    /// Starts serving the metrics.
    ///
    /// # Errors
    /// An error from the kernel: too few descriptors or threads.
    pub fn begin(at: Endpoint, job: &JobRecord) -> std::io::Result<Metrics> {
        let mut registry = Registry::with_prefix("raidshmem");
        let values = Values::new(&mut registry, job);
        let text = move || {
            let mut text = String::new();
            let _ = encode(&mut text, &registry); // writing to a string cannot fail
            text
        };
        scrape::begin(&at, Arc::new(text))?;
        let (recovery, again) = Default::default();
        let pes = job.node_of.len() as i64;
        Ok(Metrics { at, values, pes, recovery, again })
    }

    /// Returns the address of the metrics.
    pub fn address(&self) -> String {
        self.at.name()
    }

    /// Updates the metrics after an event, which the statistics include.
    pub fn update(&mut self, event: &Event, statistics: &JobStatistics) {
        let values = &self.values;
        match &event.what {
            What::Lost { pes, node, drained, .. } => {
                let (kind, count) = match node {
                    Some(_) if *drained => ("drained", 1),
                    Some(_) => ("node", 1),
                    None if *drained => ("process", 0),
                    None => ("process", pes.len() as u64),
                };
                values.losses.get_or_create(&[("kind", kind)]).inc_by(count);
            }
            What::Survives(survival) => {
                values.survives.set(i64::from(survival.survives("node")));
            }
            What::Stored { .. } => values.note_set("yes"),
            What::NotStored { .. } => values.note_set("no"),
            What::FellBack { .. } => _ = values.falls.inc(),
            What::Report(report) => values.update(report),
            What::Began { .. } => return,
            other => other.ignored_by(Reader::Metrics),
        }
        self.show(&statistics.figures(event.time), &statistics.totals());
    }

    /// Shows the state of the job.
    fn show(&mut self, figures: &Figures, totals: &Totals) {
        let (values, lost) = (&self.values, figures.lost as i64);
        values.pes.get_or_create(&[("state", "running")]).set(self.pes - lost);
        values.pes.get_or_create(&[("state", "lost")]).set(lost);
        let rebuilt = figures.recovery.and_then(|(_, progress)| progress.bytes);
        let (done, of) = rebuilt.unwrap_or_default();
        values.rebuild.get_or_create(&[("what", "done")]).set(done as i64);
        values.rebuild.get_or_create(&[("what", "all")]).set(of as i64);
        let recovery = totals.recovery - self.recovery;
        if !recovery.is_zero() {
            values.recovery.observe(recovery.as_secs_f64());
        }
        values.again.inc_by((totals.again - self.again).as_secs_f64());
        (self.recovery, self.again) = (totals.recovery, totals.again);
    }
}

impl Values {
    fn update(&self, report: &ProgressReport) {
        match report {
            ProgressReport::Checkpoint { number, took, bytes, kept, .. } => {
                self.checkpoint.observe(took.as_secs_f64());
                self.number.set(number.program() as i64);
                self.made.set(since_1970());
                self.bytes.get_or_create(&[("kind", "data")]).set(*bytes as i64);
                self.bytes.get_or_create(&[("kind", "kept")]).set(*kept as i64);
            }
            ProgressReport::Damaged { from, .. } => {
                let repaired = if from.is_some() { "yes" } else { "no" };
                self.damaged.get_or_create(&[("repaired", repaired)]).inc();
            }
            ProgressReport::Refused { .. } => _ = self.refused.inc(),
            other => other.ignored_by(Reader::Metrics),
        }
    }

    /// Counts a set that is complete on disk, or is not.
    fn note_set(&self, complete: &'static str) {
        self.sets.get_or_create(&[("complete", complete)]).inc();
    }

    /// Registers the metrics of a job that has not begun.
    fn new(to: &mut Registry, job: &JobRecord) -> Values {
        // Buckets from a millisecond to more than half an hour.
        let times = || Histogram::new((0..22).map(|power| 0.001 * f64::from(1 << power)));
        let values = Values {
            pes: Family::default(),
            made: Gauge::default(),
            checkpoint: times(),
            number: Gauge::default(),
            bytes: Family::default(),
            survives: Gauge::default(),
            losses: Family::default(),
            recovery: times(),
            again: Counter::default(),
            rebuild: Family::default(),
            damaged: Family::default(),
            refused: Counter::default(),
            sets: Family::default(),
            falls: Counter::default(),
        };
        let texts = [
            ("program", &job.program),
            ("host", &job.host),
            ("mode", &job.mode),
            ("version", &job.raidshmem),
        ];
        let texts = texts.map(|(name, text)| (name, text.clone()));
        to.register("job", "The job", Info::new(texts));
        let since: Gauge<f64, AtomicU64> = Gauge::default();
        since.set(since_1970());
        to.register_with_unit("start_time", "When the job began", Unit::Seconds, since);
        let nodes: Gauge = Gauge::default();
        nodes.set(job.nodes.len() as i64);
        to.register("nodes", "Nodes at the start", nodes);
        to.register("pes", "PEs by state", values.pes.clone());
        for kind in ["process", "node", "drained"] {
            drop(values.losses.get_or_create(&[("kind", kind)]));
        }
        let help = "Processes and nodes that were lost, and nodes that were drained of PEs";
        to.register("losses", help, values.losses.clone());
        let help = "1 if the job currently survives the loss of any one node";
        to.register("survives_node", help, values.survives.clone());
        let help = "Duration of checkpoints";
        to.register_with_unit("checkpoint", help, Unit::Seconds, values.checkpoint.clone());
        to.register("checkpoint_number", "Number of the last checkpoint", values.number.clone());
        let help = "When the last checkpoint was made";
        to.register_with_unit("checkpoint_time", help, Unit::Seconds, values.made.clone());
        let help = "Bytes of data of a PE, and of what it keeps for others, in the last checkpoint";
        to.register_with_unit("checkpoint_size", help, Unit::Bytes, values.bytes.clone());
        let help = "From a first loss until all PEs have resumed";
        to.register_with_unit("recovery", help, Unit::Seconds, values.recovery.clone());
        let help = "Work repeated after a loss, counted once all PEs have resumed";
        to.register_with_unit("again", help, Unit::Seconds, values.again.clone());
        let help = "Bytes that a recovery rebuilds: done, and all";
        to.register_with_unit("rebuild", help, Unit::Bytes, values.rebuild.clone());
        to.register("damaged", "Damaged parts of checkpoints", values.damaged.clone());
        let help = "Checkpoints that no PE could make";
        to.register("refused_checkpoints", help, values.refused.clone());
        to.register("sets", "Checkpoints that were due on disk", values.sets.clone());
        to.register("falls", "Falls back to a set on disk", values.falls.clone());
        values
    }
}

fn since_1970() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidshmem_core::placement::survival::Survival;
    use raidshmem_core::quantity::{CheckpointNumber, Pe, ViewNumber};
    use raidshmem_core::settings::Settings;

    const DURING: &[&str] = &[
        "raidshmem_job_info{program=\"a \\\"b\\\"\\n\",host=\"\",mode=\"\",version=\"\"} 1",
        "raidshmem_pes{state=\"running\"} 2",
        "raidshmem_pes{state=\"lost\"} 2",
        "raidshmem_survives_node 1",
        "raidshmem_losses_total{kind=\"node\"} 1",
        "raidshmem_losses_total{kind=\"drained\"} 1",
        "raidshmem_losses_total{kind=\"process\"} 0",
        "raidshmem_checkpoint_seconds_count 1",
        "raidshmem_checkpoint_seconds_bucket{le=\"0.002\"} 0",
        "raidshmem_checkpoint_seconds_bucket{le=\"0.004\"} 1",
        "raidshmem_checkpoint_number 7",
        "raidshmem_checkpoint_size_bytes{kind=\"data\"} 30",
        "raidshmem_again_seconds_total 0.0",
        "raidshmem_rebuild_bytes{what=\"done\"} 5",
        "raidshmem_refused_checkpoints_total 1",
        "raidshmem_sets_total{complete=\"no\"} 2",
        "raidshmem_falls_total 1",
    ];

    const AFTER: &[&str] = &[
        "raidshmem_pes{state=\"running\"} 4",
        "raidshmem_recovery_seconds_sum 2.0",
        "raidshmem_again_seconds_total 2.0",
        "raidshmem_rebuild_bytes{what=\"all\"} 0",
    ];

    #[track_caller]
    fn has_all(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(text.lines().any(|other| other == *line), "`{line}` is not in\n{text}");
        }
    }

    #[test]
    fn events_appear_in_the_text() {
        let mut registry = Registry::with_prefix("raidshmem");
        let job = JobRecord {
            node_of: vec![0; 4],
            program: "a \"b\"\n".to_owned(),
            ..JobRecord::default()
        };
        let values = Values::new(&mut registry, &job);
        let at = Endpoint::open("0").unwrap().unwrap();
        let (recovery, again) = Default::default();
        let mut metrics = Metrics { at, values, pes: 4, recovery, again };
        let mut statistics = JobStatistics::new(&Settings::default());
        let mut happen = |seconds: u64, what: What| {
            let event = Event { time: Duration::from_secs(seconds), what };
            statistics.add(&event);
            metrics.update(&event, &statistics);
        };
        happen(1, What::Started);
        happen(1, What::Survives(Survival::default()));
        let ([took, protects], changed) = ([Duration::from_millis(3); 2], None);
        let (number, places, bytes, kept) = (CheckpointNumber(7), ViewNumber(0), 30, 10);
        let report =
            ProgressReport::Checkpoint { number, places, bytes, kept, took, protects, changed };
        happen(2, report.into());
        for (pes, node, drained) in [(vec![Pe(1), Pe(2)], 0, false), (vec![Pe(1)], 1, true)] {
            let (node, cause) = (Some(node), String::new());
            happen(4, What::Lost { pes, node, cause, drained });
        }
        happen(5, ProgressReport::Rebuilding { pe: Pe(1), bytes: 5, of: 9 }.into());
        happen(5, ProgressReport::Refused { why: String::new() }.into());
        for checkpoint in [8, 9].map(CheckpointNumber) {
            happen(5, What::NotStored { checkpoint });
        }
        let (checkpoint, why, rebuilt) = (CheckpointNumber(7), String::new(), Vec::new());
        happen(5, What::FellBack { checkpoint, set: 1, why, rebuilt });
        let text = |registry: &Registry| {
            let mut text = String::new();
            encode(&mut text, registry).unwrap();
            text
        };
        let during = text(&registry);
        has_all(&during, DURING);
        assert!(during.ends_with("# EOF\n"), "{during}");
        let view = ViewNumber(2);
        happen(6, ProgressReport::Resumed { checkpoint: number, view, took }.into());
        let after = text(&registry);
        has_all(&after, AFTER);
    }
}
