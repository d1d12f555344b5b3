//! Metrics of a job, served while it runs (`--metrics`).
//!
//! docs/report.md lists them.
//!
//! Left out: serving them over HTTP.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use raidshmem_core::quantity::Pe;

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

use crate::readers::Endpoint;
use crate::scrape;

/// One label with its value.
type Label = [(&'static str, &'static str); 1];

/// The metrics of a job.
pub struct Metrics {
    at: Endpoint,
    values: Values,
    pes: i64,
    lost: BTreeSet<Pe>,
    /// The current value of the metric of the same name.
    again: Duration,
    /// The time of the first loss since all PEs last resumed.
    died: Option<Duration>,
    /// Bytes that PEs have rebuilt, and their totals.
    rebuilding: BTreeMap<Pe, (u64, u64)>,
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
        let (lost, again, died, rebuilding) = Default::default();
        let pes = job.node_of.len() as i64;
        Ok(Metrics { at, values, pes, lost, again, died, rebuilding })
    }

    /// Returns the address of the metrics.
    pub fn address(&self) -> String {
        self.at.name()
    }

    /// Updates the metrics after an event; `totals` includes it.
    pub fn hear(&mut self, event: &Event, totals: &Totals) {
        let values = &self.values;
        match &event.what {
            What::Started => self.show_pes(),
            What::Checkpoint { number, took, bytes, kept, .. } => {
                values.checkpoint.observe(took.as_secs_f64());
                values.number.set(*number as i64);
                values.made.set(since_1970());
                values.bytes.get_or_create(&[("kind", "data")]).set(*bytes as i64);
                values.bytes.get_or_create(&[("kind", "kept")]).set(*kept as i64);
            }
            What::Lost { pes, node, .. } => {
                let (kind, count) = match node {
                    Some(_) => ("node", 1),
                    None => ("process", pes.len() as u64),
                };
                values.losses.get_or_create(&[("kind", kind)]).inc_by(count);
                self.died.get_or_insert(event.time);
                self.lost.extend(pes);
                self.rebuilding.clear();
                self.show_pes();
            }
            What::Rebuilding { pe, bytes, of } => {
                self.rebuilding.insert(*pe, (*bytes, *of));
                self.show_rebuild();
            }
            What::Replayed { pe, .. } => {
                self.lost.remove(pe);
                match self.lost.is_empty() {
                    true => self.all_are_back(event.time, totals),
                    false => self.show_pes(),
                }
            }
            What::Survives { survival } => {
                values.survives.set(i64::from(survival.survives("node")));
            }
            What::Resumed { .. } | What::Alone { .. } => self.all_are_back(event.time, totals),
            What::Damaged { from, .. } => {
                let repaired = if from.is_some() { "yes" } else { "no" };
                values.damaged.get_or_create(&[("repaired", repaired)]).inc();
            }
            _ => {}
        }
    }

    fn all_are_back(&mut self, now: Duration, totals: &Totals) {
        if let Some(died) = self.died.take() {
            self.values.recovery.observe(now.saturating_sub(died).as_secs_f64());
        }
        self.values.again.inc_by((totals.again - self.again).as_secs_f64());
        self.again = totals.again;
        self.lost.clear();
        self.rebuilding.clear();
        self.show_pes();
        self.show_rebuild();
    }

    fn show_pes(&self) {
        let lost = self.lost.len() as i64;
        self.values.pes.get_or_create(&[("state", "running")]).set(self.pes - lost);
        self.values.pes.get_or_create(&[("state", "lost")]).set(lost);
    }

    fn show_rebuild(&self) {
        let all = self.rebuilding.values();
        let (done, of) = all.fold((0, 0), |sum, pe| (sum.0 + pe.0, sum.1 + pe.1));
        self.values.rebuild.get_or_create(&[("what", "done")]).set(done as i64);
        self.values.rebuild.get_or_create(&[("what", "all")]).set(of as i64);
    }
}

impl Values {
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
        for kind in ["process", "node"] {
            drop(values.losses.get_or_create(&[("kind", kind)]));
        }
        to.register("losses", "Processes and nodes that were lost", values.losses.clone());
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
        let (lost, again, died, rebuilding) = Default::default();
        let mut metrics = Metrics { at, values, pes: 4, lost, again, died, rebuilding };
        let mut hear = |seconds: u64, what| {
            let totals = Totals { again: Duration::from_secs(2), ..Totals::default() };
            metrics.hear(&Event { time: Duration::from_secs(seconds), what }, &totals);
        };
        hear(1, What::Started);
        hear(1, What::Survives { survival: Survival::default() });
        let took = Duration::from_millis(3);
        hear(2, What::Checkpoint { number: 7, bytes: 30, kept: 10, took, changed: None });
        hear(4, What::Lost { pes: vec![Pe(1), Pe(2)], node: Some(0), cause: String::new() });
        hear(5, What::Rebuilding { pe: Pe(1), bytes: 5, of: 9 });
        let text = |registry: &Registry| {
            let mut text = String::new();
            encode(&mut text, registry).unwrap();
            text
        };
        let during = text(&registry);
        for line in [
            "raidshmem_job_info{program=\"a \\\"b\\\"\\n\",host=\"\",mode=\"\",version=\"\"} 1",
            "raidshmem_pes{state=\"running\"} 2",
            "raidshmem_pes{state=\"lost\"} 2",
            "raidshmem_survives_node 1",
            "raidshmem_losses_total{kind=\"node\"} 1",
            "raidshmem_losses_total{kind=\"process\"} 0",
            "raidshmem_checkpoint_seconds_count 1",
            "raidshmem_checkpoint_seconds_bucket{le=\"0.002\"} 0",
            "raidshmem_checkpoint_seconds_bucket{le=\"0.004\"} 1",
            "raidshmem_checkpoint_number 7",
            "raidshmem_checkpoint_size_bytes{kind=\"data\"} 30",
            "raidshmem_again_seconds_total 0.0",
            "raidshmem_rebuild_bytes{what=\"done\"} 5",
        ] {
            assert!(during.lines().any(|other| other == line), "`{line}` is not in\n{during}");
        }
        assert!(during.ends_with("# EOF\n"), "{during}");
        hear(6, What::Resumed { checkpoint: 7, took });
        let after = text(&registry);
        for line in [
            "raidshmem_pes{state=\"running\"} 4",
            "raidshmem_recovery_seconds_sum 2.0",
            "raidshmem_again_seconds_total 2.0",
            "raidshmem_rebuild_bytes{what=\"all\"} 0",
        ] {
            assert!(after.lines().any(|other| other == line), "`{line}` is not in\n{after}");
        }
    }
}
