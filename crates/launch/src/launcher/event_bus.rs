//! The event bus of a job: lines for users, events (`--events`), the record (`--report`) and
//! metrics (`--metrics`).
//!
//! All reports, including lines for users, pass through one function as events, so every output has
//! identical content.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use rustix::event::PollFd;

use super::metrics::Metrics;
use super::report::{line_of, never_due};
use super::statistics::{Figures, JobStatistics};
use crate::dump::text;
use crate::feed::Feed;
use crate::lines::{self, Tone};
use crate::readers::Readers;
use raidshmem_core::inject::InjectedFault;
use raidshmem_core::message::{Past, ProgressReport, Traced};
use raidshmem_core::placement::survival::Survival;
use raidshmem_core::quantity::{CheckpointNumber, Incarnation, Pe, ViewNumber};
use raidshmem_core::settings::{BackupMode, Settings};
use raidshmem_core::view::{State, View};
use raidshmem_report::event::{Event, What};
use raidshmem_report::job::JobRecord;
use raidshmem_report::journal::Journal;
use raidshmem_report::record::End;

/// The outputs for events, and the state of the job that they need.
pub struct EventBus {
    begun: Instant,
    verbose: bool,
    /// The name of the data that a PE keeps for peers in this job's mode.
    kept: &'static str,
    statistics: JobStatistics,
    verdict: Option<String>,
    /// Number of the last view seen, and the incarnations in it.
    view: (ViewNumber, Vec<Incarnation>),
    started: bool,
    surveyed: bool,
    job: JobRecord,
    readers: Readers,
    journal: Journal,
    feed: Option<Feed>,
    metrics: Option<Metrics>,
}

impl EventBus {
    /// Creates the event bus of a job with these settings, which begins now.
    ///
    /// # Errors
    /// Too few threads or descriptors.
    pub fn new(
        settings: &Settings,
        job: JobRecord,
        mut readers: Readers,
    ) -> std::io::Result<EventBus> {
        let kept = match settings.backup_mode {
            BackupMode::Single | BackupMode::Double => "copies",
            _ => "parity",
        };
        let feed = readers.events.take().map(Feed::begin).transpose()?;
        let metrics = readers.metrics.take().map(|at| Metrics::begin(at, &job)).transpose()?;
        let view = (ViewNumber(0), vec![Incarnation::FIRST; job.node_of.len()]);
        let mut bus = EventBus {
            begun: Instant::now(),
            verbose: settings.report,
            kept,
            statistics: JobStatistics::new(settings),
            verdict: None,
            view,
            started: false,
            surveyed: false,
            job,
            readers,
            journal: Journal::default(),
            feed,
            metrics,
        };
        bus.happened(What::Began { job: Box::new(bus.job.clone()) });
        let at = bus.metrics.as_ref().map(Metrics::address);
        at.into_iter().for_each(|at| bus.news(&format!("metrics are at {at}")));
        Ok(bus)
    }

    /// Returns the time for which the job has run.
    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Publishes an event to every output.
    pub fn happened(&mut self, what: What) {
        let event = Event { time: self.now(), what };
        let verbose = line_of(&event.what, self.kept).filter(|_| {
            // Damage is always reported.
            self.verbose || matches!(event.what, What::Report(ProgressReport::Damaged { .. }))
        });
        let in_any_case = self.statistics.add(&event);
        if self.readers.report.is_some() {
            self.journal.keep(&event);
        }
        self.feed.iter_mut().for_each(|feed| feed.write(&event));
        if let Some(metrics) = &mut self.metrics {
            metrics.update(&event, &self.statistics);
        }
        verbose.iter().for_each(|line| self.news(line));
        in_any_case.iter().for_each(|line| self.tell(Tone::Recovery, line));
    }

    /// Prints a line that is not an error, and publishes it.
    pub fn news(&mut self, line: &str) {
        self.tell(Tone::Plain, line);
    }

    /// Prints and publishes an error that does not end the job.
    pub fn error(&mut self, line: &str) {
        self.tell(Tone::Error, line);
    }

    /// Prints a line and publishes it.
    pub fn tell(&mut self, tone: Tone, line: &str) {
        lines::tell(tone, line);
        self.happened(What::Said { line: line.to_owned() });
    }

    /// Publishes a change in the single losses that would end the job. The first survey prints no
    /// line, since the line at the start says more.
    pub fn survives(&mut self, survival: Survival) {
        if self.surveyed {
            let tone = if survival.is_whole() { Tone::Recovery } else { Tone::Loss };
            self.tell(tone, &format!("the job now {survival}"));
        }
        self.surveyed = true;
        self.happened(What::Survives(survival));
    }

    /// Prints the last events of a PE whose process died.
    pub fn last_of(&mut self, events: Vec<Traced>) {
        if self.verbose && self.verdict.is_none() {
            text(events).lines().for_each(|line| self.news(&format!("  {line}")));
        }
    }

    /// Publishes the changes of a new view.
    pub fn see(&mut self, view: &View, has_started: bool) {
        if has_started && !std::mem::replace(&mut self.started, true) {
            self.happened(What::Started);
        }
        if view.number == self.view.0 {
            return;
        }
        self.view.0 = view.number;
        for (pe, member) in view.pes.iter().enumerate() {
            let known = &mut self.view.1[pe];
            if member.state == State::Alive && *known != member.incarnation {
                *known = member.incarnation;
                let (node, incarnation) = (member.node, member.incarnation);
                self.happened(What::Replaced { pe: Pe::of(pe), node, incarnation: incarnation.0 });
            }
        }
    }

    /// Returns the job's running time and number of recoveries.
    pub fn past(&self) -> Past {
        self.statistics.past(self.now())
    }

    /// Returns the current statistics.
    pub fn figures(&self) -> Figures {
        self.statistics.figures(self.now())
    }

    /// Prints why the job cannot continue. All PEs report one agreed error, which is printed once.
    pub fn print_verdict(&mut self, words: &str) {
        if self.verdict.as_deref() != Some(words) {
            self.verdict = Some(words.to_owned());
            self.error(words);
        }
    }

    /// Prints the last lines of a job: the summary, and injection rules that were `not_due` by the
    /// last checkpoint.
    pub fn sum_up<'a>(
        &mut self,
        not_due: (impl Iterator<Item = &'a InjectedFault>, CheckpointNumber),
    ) {
        let (rules, last) = not_due;
        let lines = self.statistics.summary(self.now()).into_iter().chain(never_due(rules, last));
        lines.collect::<Vec<_>>().iter().for_each(|line| self.news(line));
    }

    /// Ends the job's reports: writes the record, and waits until the reader of events has them
    /// all, for at most `limit` if given. Returns early if one of `stops`, which signals make
    /// readable, is readable.
    pub fn end<'a>(
        mut self,
        status: i32,
        limit: Option<Duration>,
        stops: impl Iterator<Item = PollFd<'a>>,
    ) {
        let (ran, words) = (self.now(), self.verdict.clone());
        self.happened(What::Ended { status, words: words.clone() });
        let totals = self.statistics.totals();
        let end = End { status, words, ran };
        if let Some(report) = self.readers.report.take() {
            report.write(&self.journal.record(self.job, end, totals));
        }
        if let Some(feed) = self.feed {
            feed.finish(limit, stops);
        }
    }
}
