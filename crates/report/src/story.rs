//! A record as a sequence of recoveries: the losses, the steps, and the restoration of each PE.
//!
//! Invariant: times inside a recovery are not before its beginning.

use std::collections::BTreeMap;
use std::time::Duration;

use raidshmem_core::message::{ProgressReport, Reader, RecoveryStep};
use raidshmem_core::quantity::{CheckpointNumber, Pe};

use crate::event::{Event, What};
use crate::progress::{OpenRecovery, Turn};
use crate::record::Record;

/// PEs that were lost together.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    pub time: Duration,
    pub pes: Vec<Pe>,
    pub node: Option<u32>,
    pub cause: String,
    /// True if the PEs moved on request, right after a checkpoint.
    pub planned: bool,
}

/// The restoration of a PE.
#[derive(Debug, Clone, PartialEq)]
pub struct Back {
    pub begin: Duration,
    pub end: Duration,
    pub bytes: u64,
    /// The PEs it was rebuilt from; None if its memory was adopted, or read from disk.
    pub from: Option<Vec<Pe>>,
    pub from_disk: bool,
}

/// A recovery, from a first loss until all PEs have restarted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recovery {
    pub losses: Vec<Loss>,
    pub begin: Duration,
    /// None if the job ended before.
    pub end: Option<Duration>,
    /// The time of the state that the program rolled back to; later work was repeated.
    pub base: Duration,
    pub checkpoint: Option<CheckpointNumber>,
    /// The set on disk from which all PEs began again, and why.
    pub fell: Option<(u64, String)>,
    /// The PE that continued alone.
    pub alone: Option<Pe>,
    pub steps: Vec<(Duration, RecoveryStep)>,
    /// The time and the node at which another process took over a PE.
    pub replaced: BTreeMap<Pe, (Duration, u32)>,
    pub back: BTreeMap<Pe, Back>,
}

impl Recovery {
    /// Returns true if its PEs moved on request, so that no work was lost.
    pub fn is_planned(&self) -> bool {
        !self.losses.is_empty() && self.losses.iter().all(|loss| loss.planned)
    }

    /// Returns every PE that was lost in it, in order.
    pub fn lost(&self) -> Vec<Pe> {
        let mut all: Vec<Pe> = self.losses.iter().flat_map(|loss| loss.pes.clone()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn came_back(&mut self, pe: Pe, mut back: Back) {
        back.begin = back.begin.max(self.begin);
        self.back.insert(pe, back);
    }
}

/// The displayed history of a job.
#[derive(Debug, Default)]
pub struct Story {
    /// The time at which every PE ran.
    pub started: Option<Duration>,
    pub recoveries: Vec<Recovery>,
    /// Spans in which one more loss would have ended the job, and why.
    pub fragile: Vec<Fragile>,
}

/// A span in which one more loss would have ended the job.
#[derive(Debug, Clone, PartialEq)]
pub struct Fragile {
    pub begin: Duration,
    pub end: Duration,
    pub why: String,
}

impl Story {
    /// Derives the story of a record.
    pub fn of(record: &Record) -> Story {
        let mut story = Story::default();
        let mut open = OpenRecovery::default();
        for event in &record.events {
            let (time, turn) = (event.time, open.hear(event));
            if turn == Turn::Begins {
                let base = story.base(record, time);
                story.recoveries.push(Recovery { begin: time, base, ..Recovery::default() });
            }
            story.hear(event, record.end.ran);
            if let (Turn::Ends(Some(_)), Some(last)) = (turn, story.recoveries.last_mut()) {
                last.end = Some(time);
            }
        }
        story
    }

    /// Adds an event; `over` is the end of the job.
    fn hear(&mut self, Event { time, what }: &Event, over: Duration) {
        match what {
            What::Started => self.started = Some(*time),
            What::Lost { pes, node, cause, drained } => {
                let (pes, cause, planned) = (pes.clone(), cause.clone(), *drained);
                let loss = Loss { time: *time, pes, node: *node, cause, planned };
                self.recoveries.last_mut().into_iter().for_each(|last| {
                    last.losses.push(loss.clone());
                });
            }
            What::Replaced { pe, node, .. } => {
                if let Some(last) = self.recoveries.last_mut() {
                    last.replaced.insert(*pe, (*time, *node));
                }
            }
            What::FellBack { set, why, .. } => {
                if let Some(last) = self.recoveries.last_mut() {
                    last.fell = Some((*set, why.clone()));
                }
            }
            What::Survives(survival) => {
                self.fragile.last_mut().into_iter().for_each(|last| last.until(*time));
                if !survival.is_whole() {
                    let (end, why) = (over, survival.to_string());
                    self.fragile.push(Fragile { begin: *time, end, why });
                }
            }
            What::Report(report) => {
                if let Some(last) = self.recoveries.last_mut() {
                    last.hear(*time, report);
                }
            }
            other => other.ignored_by(Reader::Story),
        }
    }

    /// Returns the time of the state that the program would roll back to.
    fn base(&self, record: &Record, lost: Duration) -> Duration {
        let checkpoints = record.checkpoints.iter().map(|span| span.end);
        let ends = self.recoveries.iter().filter_map(|recovery| recovery.end);
        let last = checkpoints.chain(ends).filter(|time| *time <= lost).max();
        last.or(self.started).unwrap_or_default()
    }
}

impl Fragile {
    fn until(&mut self, end: Duration) {
        self.end = self.end.min(end);
    }
}

impl Recovery {
    /// Adds a report that came after its beginning.
    fn hear(&mut self, time: Duration, report: &ProgressReport) {
        match report {
            ProgressReport::Step { step } if self.end.is_none() => self.steps.push((time, *step)),
            ProgressReport::Adopted { pe, bytes, from_disk, took, .. } => {
                let begin = time.saturating_sub(*took);
                self.came_back(
                    *pe,
                    Back { begin, end: time, bytes: *bytes, from: None, from_disk: *from_disk },
                );
            }
            ProgressReport::Rebuilt { pe, bytes, from, took, .. } => {
                let (begin, from) = (time.saturating_sub(*took), Some(from.clone()));
                self.came_back(
                    *pe,
                    Back { begin, end: time, bytes: *bytes, from, from_disk: false },
                );
            }
            ProgressReport::Resumed { checkpoint, .. }
            | ProgressReport::Replayed { checkpoint, .. } => self.goes_on_from(*checkpoint),
            ProgressReport::Alone { pe, checkpoint, .. } if self.end.is_none() => {
                self.alone = Some(*pe);
                self.goes_on_from(*checkpoint);
            }
            // After the end of the recovery.
            ProgressReport::Step { .. } | ProgressReport::Alone { .. } => {}
            other => other.ignored_by(Reader::Story),
        }
    }

    fn goes_on_from(&mut self, checkpoint: CheckpointNumber) {
        if self.end.is_none() {
            self.checkpoint = Some(checkpoint);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::tests::record;
    use crate::record::{Span, Totals};
    use raidshmem_core::placement::survival::Survival;
    use raidshmem_core::quantity::ViewNumber;

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Returns a job that lost a process, and later two nodes one after the other.
    pub(crate) fn eventful() -> Record {
        let mut record = record();
        let mut add = |time: f64, what: What| record.events.push(Event { time: at(time), what });
        add(0.5, What::Started);
        let cause = "was killed by SIGKILL".to_owned();
        add(3.0, What::Lost { pes: vec![Pe(2)], node: None, cause: cause.clone(), drained: false });
        add(3.2, What::Replaced { pe: Pe(2), node: 2, incarnation: 1 });
        add(3.3, ProgressReport::Step { step: RecoveryStep::Verify }.into());
        add(3.35, ProgressReport::Step { step: RecoveryStep::Restore }.into());
        let (checkpoint, view) = (CheckpointNumber(2), ViewNumber(3));
        add(3.4, ProgressReport::Resumed { checkpoint, view, took: at(0.1) }.into());
        // Reports of nodes arrive out of order.
        let (checkpoint, bytes) = (CheckpointNumber(2), 1 << 20);
        let adopted = ProgressReport::Adopted {
            pe: Pe(2),
            checkpoint,
            bytes,
            from_disk: false,
            took: at(9.0),
        };
        add(3.41, adopted.into());
        add(
            6.0,
            What::Lost { pes: vec![Pe(1)], node: Some(1), cause: cause.clone(), drained: false },
        );
        add(6.5, What::Lost { pes: vec![Pe(3)], node: None, cause, drained: false });
        add(7.0, What::Replaced { pe: Pe(1), node: 0, incarnation: 1 });
        add(7.1, ProgressReport::Step { step: RecoveryStep::Rebuild }.into());
        let (checkpoint, from) = (CheckpointNumber(5), [0, 2, 3].map(Pe).to_vec());
        let rebuilt = ProgressReport::Rebuilt { pe: Pe(1), checkpoint, bytes, from, took: at(0.3) };
        add(7.5, rebuilt.into());
        add(8.0, What::Said { line: "all <b>back</b>".to_owned() });
        let span = |number: u64, end| Span {
            count: 1,
            first: number,
            last: number,
            begin: at(end - 0.1),
            end: at(end),
            took: at(0.1),
            longest: at(0.1),
        };
        record.checkpoints = vec![span(1, 1.0), span(2, 2.0), span(5, 5.0)];
        let (data, kept) = (3 << 20, 1 << 20);
        record.totals =
            Totals { checkpoints: 3, processes: 2, nodes: 1, data, kept, ..record.totals };
        record
    }

    #[test]
    fn a_span_without_full_protection_ends_with_the_next_survey() {
        let mut record = eventful();
        let fatal_pes = vec![Pe(1)];
        let survival = Survival { fatal_pes, ..Survival::default() };
        let survey = |time, survival| Event { time: at(time), what: What::Survives(survival) };
        let surveys = [
            survey(1.0, Survival::default()),
            survey(2.0, survival.clone()),
            survey(4.0, Survival::default()),
            survey(6.0, survival),
        ];
        record.events.splice(0..0, surveys);
        let spans = Story::of(&record).fragile;
        let spans: Vec<_> = spans.iter().map(|span| (span.begin, span.end)).collect();
        assert_eq!(spans, [(at(2.0), at(4.0)), (at(6.0), record.end.ran)]);
    }

    #[test]
    fn losses_are_gathered_into_recoveries() {
        let story = Story::of(&eventful());
        let [first, second] = story.recoveries.as_slice() else { panic!("{story:?}") };
        assert_eq!((first.begin, first.end, first.base), (at(3.0), Some(at(3.4)), at(2.0)));
        assert_eq!((first.checkpoint, first.lost()), (Some(CheckpointNumber(2)), vec![Pe(2)]));
        assert_eq!(first.steps.len(), 2);
        let adopted = &first.back[&Pe(2)];
        assert_eq!((adopted.begin, adopted.from.as_ref()), (at(3.0), None), "not before the loss");
        assert_eq!((second.begin, second.end, second.base), (at(6.0), None, at(5.0)));
        assert_eq!((second.lost(), second.checkpoint), (vec![Pe(1), Pe(3)], None));
        assert_eq!(second.back[&Pe(1)].from, Some([0, 2, 3].map(Pe).to_vec()));
        assert_eq!(second.replaced[&Pe(1)], (at(7.0), 0));
    }
}
