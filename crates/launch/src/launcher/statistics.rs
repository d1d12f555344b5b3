//! Statistics of a job, from its events: lines on losses and recoveries, and a summary at the end.
//!
//! Pure. Every figure of the summary is a sum over events:
//!
//! ```text
//! repeated work      from the last checkpoint, or restart, to the death, for losses that were
//!                    recovered
//! recovery           from the first death until all PEs run again; includes the restart, once all
//!                    have entered it, or the replay of a PE in local rollback
//! ```
//!
//! A substitute reports how a lost PE was restored, and PE 0 that all PEs have resumed. Reports of
//! several nodes arrive in any order, so the line waits for both.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use raidshmem_core::message::{Past, ProgressReport, Reader};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::settings::{BackupMode, Rollback, Settings};
use raidshmem_report::event::{Event, What};
use raidshmem_report::progress::{OpenRecovery, RebuildProgress, Turn};
use raidshmem_report::record::Totals;
use raidshmem_report::words::{bytes, count, losses, time};

/// A restart whose line still lacks some reports.
#[derive(Debug)]
struct Restart {
    checkpoint: CheckpointNumber,
    after: String,
    /// True after the next checkpoint: a report from another node may come that late, not later.
    overdue: bool,
}

/// Formats the duration of a recovery and of one part of it; of the part alone if other PEs are not
/// back yet.
fn after(recovery: Option<Duration>, part: Duration, name: &str) -> String {
    match recovery {
        Some(recovery) => format!("after {} ({} of it the {name})", time(recovery), time(part)),
        None => format!("after {} of {name}", time(part)),
    }
}

/// Formats the line of a job that begins again from a set.
fn line_of_fall((checkpoint, set): (CheckpointNumber, u64), why: &str, rebuilt: &[Pe]) -> String {
    let verb = if rebuilt.len() == 1 { "is" } else { "are" };
    let rebuilt = match rebuilt {
        [] => String::new(),
        pes => format!("; {} {verb} rebuilt from the parity there", Pe::names(pes)),
    };
    format!("{why}: all PEs begin again from set {set} on disk, checkpoint {checkpoint}{rebuilt}")
}

/// Formats the moves of PEs to these nodes; `repeats` if PEs may compute again what followed.
fn line_of_moves(pes: &[Pe], to: &[u32], repeats: bool) -> String {
    let mut on: BTreeMap<u32, Vec<Pe>> = BTreeMap::new();
    pes.iter().zip(to).for_each(|(&pe, &node)| on.entry(node).or_default().push(pe));
    let each = on.iter().map(|(node, pes)| format!("{} moved to node {node}", Pe::names(pes)));
    let rest = if repeats { "" } else { "; nothing was computed again" };
    each.collect::<Vec<_>>().join(", ") + rest
}

/// Formats the line of a drained node, whose PEs are now on these nodes.
fn line_of_drain(node: u32, (pes, to): (&[Pe], &[u32]), repeats: bool) -> String {
    match pes.is_empty() {
        true => format!("node {node} is drained; it carried no PE"),
        false => format!("node {node} is drained: {}", line_of_moves(pes, to, repeats)),
    }
}

/// The statistics so far, as numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    pub checkpoints: u64,
    /// Number and time of the last checkpoint.
    pub last: Option<(u64, Duration)>,
    /// The average interval of recent checkpoints.
    pub every: Option<Duration>,
    /// The average duration of a checkpoint.
    pub took: Option<Duration>,
    pub processes: u64,
    pub nodes: u64,
    pub drained: u64,
    /// The number of PEs that are lost now.
    pub lost: usize,
    /// The first death since all PEs last resumed, and the progress of its recovery.
    pub recovery: Option<(Duration, RebuildProgress)>,
}

/// The number of checkpoints whose times are kept.
const RECENT: usize = 8;

/// The statistics of a job.
#[derive(Debug, Default)]
pub struct JobStatistics {
    mode: BackupMode,
    /// True in shrink mode: no PE rolls back after a loss.
    goes_on: bool,
    snapshots: u64,
    checkpoints: u64,
    /// Number of the last checkpoint, bytes of its data, and bytes that PE 0 keeps for peers.
    last: (u64, u64, u64),
    saving: Duration,
    /// Bytes that are read-only, and bytes that protect them.
    readonly: (u64, u64),
    /// The maximum number of spilled bytes of a set on disk.
    spill: u64,
    /// Times of the last few checkpoints since a loss.
    recent: VecDeque<Duration>,
    made: Option<Duration>,
    /// Times of checkpoints, from the one before the newest on disk.
    times: BTreeMap<CheckpointNumber, Duration>,
    /// The time of the state to which a loss would roll back the program.
    base: Duration,
    open: OpenRecovery,
    processes: u64,
    nodes: u64,
    drained: u64,
    again: Duration,
    /// The repeated work after the last recovery, which counts in `again`.
    last_again: Duration,
    /// Lost work, which counts once the recovery completes.
    pending: Duration,
    recovery: Duration,
    recoveries: u32,
    /// Lost PEs, and the way each was restored, once reported.
    back: BTreeMap<Pe, Option<String>>,
    restart: Option<Restart>,
}

impl JobStatistics {
    /// Creates the statistics of a job with these settings, which has not begun.
    pub fn new(settings: &Settings) -> JobStatistics {
        let (mode, snapshots) = (settings.backup_mode, settings.snapshots as u64);
        let goes_on = settings.rollback == Rollback::None;
        JobStatistics { mode, goes_on, snapshots, ..JobStatistics::default() }
    }

    /// Adds an event. Returns the line to print even without `--verbose`, if any.
    pub fn add(&mut self, event: &Event) -> Option<String> {
        let now = event.time;
        let recovery = match self.open.hear(event) {
            Turn::Stays => None,
            Turn::Begins => {
                self.pending = now.saturating_sub(self.base);
                None
            }
            Turn::Ends(begun) => self.is_back(now, begun),
        };
        match &event.what {
            What::Lost { pes, node, drained, .. } => {
                match (node, drained) {
                    (None, true) => {} // they only move
                    (None, false) => self.processes += pes.len() as u64,
                    (Some(_), true) => self.drained += 1,
                    (Some(_), false) => self.nodes += 1,
                }
                self.lost(pes)
            }
            What::Report(report) => self.add_report(now, report, recovery),
            What::FellBack { checkpoint, set, why, rebuilt } => {
                self.fell_back(*checkpoint);
                Some(line_of_fall((*checkpoint, *set), why, rebuilt))
            }
            What::Drained { node, pes, to, repeats, .. } => {
                self.note_move(*repeats);
                Some(line_of_drain(*node, (pes, to), *repeats))
            }
            What::Moved { pes, to, repeats, .. } => {
                self.note_move(*repeats);
                Some(line_of_moves(pes, to, *repeats))
            }
            What::Stored { spill, checkpoint, .. } => {
                let before = self.times.keys().rev().find(|&number| number < checkpoint).copied();
                self.times = self.times.split_off(&before.unwrap_or(*checkpoint));
                self.spill = self.spill.max(*spill);
                None
            }
            other => {
                other.ignored_by(Reader::Statistics);
                None
            }
        }
    }

    /// Takes note of a planned move; the work since the checkpoint is lost only if it `repeats`.
    fn note_move(&mut self, repeats: bool) {
        if !repeats {
            self.again -= std::mem::take(&mut self.last_again);
        }
    }

    /// Adds a report, which ended a recovery of that duration, if any.
    fn add_report(
        &mut self,
        now: Duration,
        report: &ProgressReport,
        recovery: Option<Duration>,
    ) -> Option<String> {
        match report {
            ProgressReport::Checkpoint { number, bytes, kept, took, .. } => {
                let late = self.overdue();
                self.checkpoints += 1;
                self.last = (number.program(), *bytes, *kept);
                self.saving += *took;
                (self.base, self.made) = (now, Some(now));
                self.times.insert(*number, now);
                self.recent.truncate(RECENT - 1);
                self.recent.push_front(now);
                late
            }
            ProgressReport::Regrouped { checkpoint, survives, .. } => {
                Some(format!("parity groups change from checkpoint {checkpoint} on: {survives}"))
            }
            ProgressReport::Readonly { bytes, kept } => {
                self.readonly = (*bytes, *kept);
                None
            }
            ProgressReport::Adopted { pe, from_disk, .. } => {
                let how = if *from_disk { "read from disk" } else { "adopted" };
                self.came_back(*pe, how.to_owned())
            }
            ProgressReport::Rebuilt { pe, from, .. } => {
                self.came_back(*pe, format!("rebuilt from {}", Pe::names(from)))
            }
            ProgressReport::Resumed { checkpoint, took, .. } => {
                let after = after(recovery, *took, "restart");
                self.restart = Some(Restart { checkpoint: *checkpoint, after, overdue: false });
                let known = self.back.values().all(Option::is_some);
                if known { self.restarted() } else { None }
            }
            ProgressReport::Replayed { pe, checkpoint, calls, took } => {
                self.back.remove(pe);
                Some(format!(
                    "PE {pe} rolled back locally to checkpoint {checkpoint} and has caught up \
                     {}: {} from logs, no other PE rolled back",
                    after(recovery, *took, "replay"),
                    count(*calls, "call")
                ))
            }
            ProgressReport::Alone { pe, checkpoint, took } => {
                self.back.clear();
                Some(format!(
                    "PE {pe} continues alone from checkpoint {checkpoint} {}: the others are in \
                     shmem_finalize",
                    after(recovery, *took, "restart")
                ))
            }
            other => {
                other.ignored_by(Reader::Statistics);
                None
            }
        }
    }

    /// Adds the work from that checkpoint to the last one to the work that is lost.
    fn fell_back(&mut self, checkpoint: CheckpointNumber) {
        let since = self.times.get(&checkpoint).or_else(|| self.times.values().next());
        self.pending += self.base.saturating_sub(since.copied().unwrap_or(self.base));
        self.times.split_off(&checkpoint.next());
    }

    fn lost(&mut self, pes: &[Pe]) -> Option<String> {
        let late = self.restarted();
        self.back.extend(pes.iter().map(|&pe| (pe, None)));
        self.recent.clear();
        late
    }

    /// Returns the totals so far; unfinished recoveries do not count.
    pub fn totals(&self) -> Totals {
        let (_, data, kept) = self.last;
        Totals {
            checkpoints: self.checkpoints,
            saving: self.saving,
            again: self.again,
            recovery: self.recovery,
            processes: self.processes,
            nodes: self.nodes,
            drained: self.drained,
            data,
            kept,
        }
    }

    /// Returns the statistics at `now`.
    pub fn figures(&self, now: Duration) -> Figures {
        let spans = self.recent.len().saturating_sub(1) as u32;
        let ends = self.recent.front().zip(self.recent.back());
        let made = self.checkpoints.max(1).try_into().unwrap_or(u32::MAX);
        Figures {
            checkpoints: self.checkpoints,
            last: self.made.map(|made| (self.last.0, made)),
            every: ends.filter(|_| spans > 0).map(|(last, first)| (*last - *first) / spans),
            took: self.made.map(|_| self.saving / made),
            processes: self.processes,
            nodes: self.nodes,
            drained: self.drained,
            lost: self.open.lost().len(),
            recovery: self.begun().map(|begun| (begun, self.open.progress(now))),
        }
    }

    /// Returns the job's running time at `now` and its number of recoveries.
    pub fn past(&self, now: Duration) -> Past {
        Past { ran: now, recoveries: self.recoveries }
    }

    /// Returns the time of the first death since all PEs last resumed; in shrink mode none do.
    fn begun(&self) -> Option<Duration> {
        self.open.begun().filter(|_| !self.goes_on)
    }

    /// Completes the recovery since `begun`, if there was one; returns its duration.
    fn is_back(&mut self, now: Duration, begun: Option<Duration>) -> Option<Duration> {
        self.base = now;
        let took = now.saturating_sub(begun?);
        self.recovery += took;
        self.last_again = std::mem::take(&mut self.pending);
        self.again += self.last_again;
        self.recoveries += 1;
        Some(took)
    }

    fn came_back(&mut self, pe: Pe, how: String) -> Option<String> {
        *self.back.get_mut(&pe)? = Some(how);
        let known = self.back.values().all(Option::is_some);
        if known && self.restart.is_some() { self.restarted() } else { None }
    }

    /// Returns the line of a restart that waited for reports through a whole interval.
    fn overdue(&mut self) -> Option<String> {
        let waited = std::mem::replace(&mut self.restart.as_mut()?.overdue, true);
        waited.then(|| self.restarted()).flatten()
    }

    /// Returns the line of a pending restart, with the reports received so far.
    fn restarted(&mut self) -> Option<String> {
        let Restart { checkpoint, after, .. } = self.restart.take()?;
        let back = std::mem::take(&mut self.back);
        let how = back.iter().filter_map(|(pe, how)| Some(format!("PE {pe} {}", how.as_ref()?)));
        let how: Vec<String> = how.collect();
        let how = if how.is_empty() { String::new() } else { format!(" ({})", how.join("; ")) };
        Some(format!("all PEs resume from checkpoint {checkpoint}{how} {after}"))
    }

    /// Returns the last lines of a job that ran for `total`.
    pub fn summary(&mut self, total: Duration) -> Vec<String> {
        let mut lines: Vec<String> = self.restarted().into_iter().collect();
        if self.checkpoints > 0 {
            let share = self.saving.as_secs_f64() / total.as_secs_f64().max(1e-9) * 100.0;
            lines.push(format!(
                "{} took {}, {share:.1} % of the {} of this job",
                count(self.checkpoints, "checkpoint"),
                time(self.saving),
                time(total)
            ));
            lines.push(self.memory());
        }
        lines.extend(self.losses());
        lines
    }

    fn losses(&self) -> Option<String> {
        let lost = losses(self.processes, self.nodes, self.drained);
        let made_good = || {
            let (again, recovery) = (time(self.again), time(self.recovery));
            format!("{again} of repeated work, {recovery} until all PEs resumed")
        };
        let end = match (self.recoveries, self.begun()) {
            (_, None) => made_good(),
            (0, Some(_)) => "the job ended before all PEs resumed".to_owned(),
            (_, Some(_)) => {
                format!("{}; after the last loss the job ended before that", made_good())
            }
        };
        lost.filter(|_| self.mode.protects()).map(|lost| format!("{lost}: {end}"))
    }

    /// Describes the memory that protects the data of each PE.
    fn memory(&self) -> String {
        let (_, data, kept) = self.last;
        let own = if self.mode.keeps_snapshot() { self.snapshots } else { 0 };
        let all = own * data + self.mode.slots() as u64 * kept;
        let spill = match self.spill {
            0 => String::new(),
            most => format!("; up to {} more in total for checkpoints on disk", bytes(most)),
        };
        let readonly = match self.readonly {
            (0, _) => String::new(),
            (data, kept) => format!(", and {} for {} read-only", bytes(kept), bytes(data)),
        };
        let (all, data) = (bytes(all), bytes(data));
        format!("each PE needed {all} of memory to protect {data} of data{readonly}{spill}")
    }
}

#[cfg(test)]
mod tests;
