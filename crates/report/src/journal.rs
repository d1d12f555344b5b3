//! The journal of a job: keeps its events for the record, in bounded memory however long it runs.
//!
//! Invariants: sums stay exact. When there are more than [`SPANS`] checkpoints, neighbors are
//! merged, those on both sides of a loss last. Of other events the first and the last [`EVENTS`]
//! are kept, and those between are counted.

use std::collections::{BTreeMap, VecDeque};

use raidshmem_core::message::ProgressReport;
use raidshmem_core::quantity::Pe;

use crate::event::{Event, What};
use crate::job::JobRecord;
use crate::record::{AtEnd, End, Record, Span, Totals, VERSION};

/// Maximum number of spans of checkpoints kept.
pub const SPANS: usize = 2048;
/// Maximum number of events kept from the beginning, and before the end.
pub const EVENTS: usize = 2048;

/// The events of a job so far.
#[derive(Debug, Default)]
pub struct Journal {
    spans: Vec<Kept>,
    first: Vec<Event>,
    last: VecDeque<Event>,
    left_out: u64,
    at_end: BTreeMap<Pe, AtEnd>,
    /// True if there was a loss since the last checkpoint.
    lost: bool,
}

#[derive(Debug)]
struct Kept {
    span: Span,
    /// True if it is the first since a loss.
    after_loss: bool,
}

impl Journal {
    /// Records an event.
    pub fn keep(&mut self, event: &Event) {
        match &event.what {
            What::Report(report) => self.keep_report(event, report),
            What::Began { .. } => {}
            What::Lost { .. } => {
                self.lost = true;
                self.push(event.clone());
            }
            _ => self.push(event.clone()), // nothing is lost by default
        }
    }

    fn keep_report(&mut self, event: &Event, report: &ProgressReport) {
        match report {
            ProgressReport::Checkpoint { number, took, .. } => {
                let (count, longest) = (1, *took);
                let (first, last) = (number.program(), number.program());
                let (begin, end) = (event.time.saturating_sub(*took), event.time);
                let span = Span { count, first, last, begin, end, took: *took, longest };
                let after_loss = std::mem::take(&mut self.lost);
                self.spans.push(Kept { span, after_loss });
                if self.spans.len() > SPANS {
                    self.halve();
                }
            }
            ProgressReport::Memory { pe, bytes } => self.at_end(*pe).memory = Some(*bytes),
            ProgressReport::Logged { pe, bytes, records } => {
                self.at_end(*pe).logged = Some((*bytes, *records));
            }
            ProgressReport::Scrubbed { pe, bytes, damaged, repaired } => {
                self.at_end(*pe).scrubbed = Some((*bytes, *damaged, *repaired));
            }
            ProgressReport::Rebuilding { .. } => {}
            _ => self.push(event.clone()),
        }
    }

    fn at_end(&mut self, pe: Pe) -> &mut AtEnd {
        self.at_end.entry(pe).or_insert_with(|| AtEnd { pe, ..AtEnd::default() })
    }

    fn push(&mut self, event: Event) {
        if self.first.len() < EVENTS {
            return self.first.push(event);
        }
        self.last.push_back(event);
        if self.last.len() > EVENTS {
            self.last.pop_front();
            self.left_out += 1;
        }
    }

    /// Merges neighbors in pairs; if too many spans remain, also across losses.
    fn halve(&mut self) {
        for over_losses in [false, true] {
            if self.spans.len() <= SPANS * 3 / 4 {
                return;
            }
            let mut spans: Vec<Kept> = Vec::with_capacity(SPANS + 1);
            let mut is_pair = true;
            for next in std::mem::take(&mut self.spans) {
                match spans.last_mut() {
                    Some(one) if !is_pair && (over_losses || !next.after_loss) => {
                        one.span.join(&next.span);
                        is_pair = true;
                    }
                    _ => {
                        spans.push(next);
                        is_pair = false;
                    }
                }
            }
            self.spans = spans;
        }
    }

    /// Returns the record of a job that is over.
    pub fn record(self, job: JobRecord, end: End, totals: Totals) -> Record {
        Record {
            raidshmem_report: VERSION,
            job,
            end,
            totals,
            checkpoints: self.spans.into_iter().map(|kept| kept.span).collect(),
            events: self.first.into_iter().chain(self.last).collect(),
            left_out: self.left_out,
            at_end: self.at_end.into_values().collect(),
        }
    }
}

impl Span {
    /// Appends the following span to this one.
    fn join(&mut self, next: &Span) {
        self.count += next.count;
        (self.last, self.end) = (next.last, next.end);
        self.took += next.took;
        self.longest = self.longest.max(next.longest);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use raidshmem_core::quantity::{CheckpointNumber, ViewNumber};

    fn checkpoint(number: u64, seconds: u64) -> Event {
        let ([took, protects], changed) = ([Duration::from_millis(number % 7 + 1); 2], None);
        let (number, places, bytes, kept) = (CheckpointNumber(number), ViewNumber(0), 1, 1);
        let report =
            ProgressReport::Checkpoint { number, places, bytes, kept, took, protects, changed };
        Event { time: Duration::from_secs(seconds), what: report.into() }
    }

    fn lost(seconds: u64) -> Event {
        let what =
            What::Lost { pes: vec![Pe(0)], node: None, cause: String::new(), drained: false };
        Event { time: Duration::from_secs(seconds), what }
    }

    fn record(journal: Journal) -> Record {
        journal.record(JobRecord::default(), End::default(), Totals::default())
    }

    #[test]
    fn a_checkpoint_a_second_for_weeks_stays_small_and_sums_stay_exact() {
        let mut journal = Journal::default();
        let count: u64 = 2_000_000;
        for number in 1..=count {
            journal.keep(&checkpoint(number, number));
            if number == 1_000_000 {
                journal.keep(&lost(number));
            }
        }
        let spans = record(journal).checkpoints;
        assert!(spans.len() <= SPANS && spans.len() > SPANS / 4, "{} spans", spans.len());
        assert_eq!(spans.iter().map(|span| span.count).sum::<u64>(), count);
        let took: Duration = spans.iter().map(|span| span.took).sum();
        let wanted: u64 = (1..=count).map(|number| number % 7 + 1).sum();
        assert_eq!(took, Duration::from_millis(wanted));
        assert!(spans.iter().all(|span| span.count < 7 || span.longest.as_millis() == 7));
        let follows =
            |pair: &[Span]| pair[0].last + 1 == pair[1].first && pair[0].end < pair[1].end;
        assert!(spans.windows(2).all(follows));
        assert!(spans.iter().any(|span| span.last == 1_000_000), "no span goes over the loss");
    }

    #[test]
    fn losses_without_end_stay_small_too() {
        let mut journal = Journal::default();
        for number in 1..=100_000 {
            journal.keep(&checkpoint(number, number));
            journal.keep(&lost(number));
        }
        let record = record(journal);
        assert!(record.checkpoints.len() <= SPANS, "{}", record.checkpoints.len());
        assert_eq!(record.events.len(), 2 * EVENTS);
        assert_eq!(record.left_out, 100_000 - 2 * EVENTS as u64);
        let seconds = |at: usize| record.events[at].time.as_secs();
        assert_eq!((seconds(0), seconds(EVENTS - 1)), (1, EVENTS as u64));
        assert_eq!(seconds(2 * EVENTS - 1), 100_000);
    }

    #[test]
    fn final_reports_are_kept_per_pe() {
        let mut journal = Journal::default();
        let keep = |journal: &mut Journal, report: ProgressReport| {
            journal.keep(&Event { time: Duration::ZERO, what: report.into() });
        };
        keep(
            &mut journal,
            ProgressReport::Scrubbed { pe: Pe(1), bytes: 9, damaged: 1, repaired: 1 },
        );
        keep(&mut journal, ProgressReport::Memory { pe: Pe(1), bytes: 5 });
        keep(&mut journal, ProgressReport::Logged { pe: Pe(1), bytes: 96, records: 2 });
        keep(&mut journal, ProgressReport::Memory { pe: Pe(0), bytes: 4 });
        keep(&mut journal, ProgressReport::Rebuilding { pe: Pe(0), bytes: 4, of: 9 });
        let record = record(journal);
        assert!(record.events.is_empty());
        let all: Vec<_> = record.at_end.iter().map(|end| (end.pe, end.memory)).collect();
        assert_eq!(all, [(Pe(0), Some(4)), (Pe(1), Some(5))]);
        assert_eq!(record.at_end[1].scrubbed, Some((9, 1, 1)));
        assert_eq!(record.at_end[1].logged, Some((96, 2)));
    }
}
