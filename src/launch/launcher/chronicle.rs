//! What happened in a job, as lines for people: losses, recoveries, and a summary at the end.
//!
//! Pure: times come in as seconds of the job. Every figure of the summary is a sum of what was told
//! before:
//!
//! ```text
//! work to do again   from the last checkpoint, or restart, to the death
//! recovery           from the first death to the restart
//! ```
//!
//! How a lost PE came back is told by its substitute, that all are back by PE 0, and nodes are not
//! heard in order: the line waits for both.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use super::words::{bytes, count, millis, time};
use raidshmem_core::message::Report;
use raidshmem_core::settings::{BackupMode, Settings};

/// A restart of which not everything is known yet.
#[derive(Debug)]
struct Restart {
    number: u64,
    micros: u64,
}

/// What is known of the job so far.
#[derive(Debug, Default)]
pub struct Chronicle {
    mode: BackupMode,
    snapshots: u64,
    checkpoints: u64,
    /// Number, bytes of data and of what PE 0 keeps for others.
    last: (u64, u64, u64),
    saving: Duration,
    /// When the program was last where all would go back to.
    base: Duration,
    /// When the first of those died who are not back yet.
    died: Option<Duration>,
    processes: usize,
    nodes: usize,
    again: Duration,
    recovery: Duration,
    /// Lost PEs, and how each came back, once that was told.
    back: BTreeMap<u32, Option<String>>,
    restart: Option<Restart>,
}

impl Chronicle {
    /// Of a job with these settings, which has not begun.
    pub fn new(settings: &Settings) -> Chronicle {
        let (mode, snapshots) = (settings.backup_mode, settings.snapshots as u64);
        Chronicle { mode, snapshots, ..Chronicle::default() }
    }

    /// PEs were lost, by a node or not.
    pub fn lost(&mut self, now: Duration, pes: &[u32], with_node: bool) -> Option<String> {
        let late = self.restarted();
        self.processes += if with_node { 0 } else { pes.len() };
        self.nodes += usize::from(with_node);
        if self.died.is_none() {
            self.died = Some(now);
            self.again += now.saturating_sub(self.base);
        }
        self.back.extend(pes.iter().map(|&pe| (pe, None)));
        late
    }

    /// A PE reports. A line if people should hear of it in any case.
    pub fn hear(&mut self, now: Duration, report: &Report) -> Option<String> {
        match report {
            Report::Checkpoint { number, bytes, parity_bytes, micros, .. } => {
                let late = self.restarted();
                self.checkpoints += 1;
                self.last = (*number, *bytes, *parity_bytes);
                self.saving += Duration::from_micros(*micros);
                self.base = now;
                late
            }
            Report::Adopted { pe, .. } => self.came_back(*pe, "adopted".to_owned()),
            Report::Rebuilt { pe, from, .. } => {
                let from = from.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
                self.came_back(*pe, format!("rebuilt from {from}"))
            }
            Report::Resumed { number, micros } => {
                self.restart = Some(Restart { number: *number, micros: *micros });
                self.is_back(now);
                let known = self.back.values().all(Option::is_some);
                if known { self.restarted() } else { None }
            }
            Report::Alone { pe, number, micros } => {
                self.is_back(now);
                self.back.clear();
                Some(format!(
                    "PE {pe} goes on alone from checkpoint {number} after {}: the others are in \
                     shmem_finalize",
                    millis(*micros)
                ))
            }
            _ => None,
        }
    }

    fn is_back(&mut self, now: Duration) {
        if let Some(died) = self.died.take() {
            self.recovery += now.saturating_sub(died);
        }
        self.base = now;
    }

    fn came_back(&mut self, pe: u32, how: String) -> Option<String> {
        *self.back.get_mut(&pe)? = Some(how);
        let known = self.back.values().all(Option::is_some);
        if known && self.restart.is_some() { self.restarted() } else { None }
    }

    /// The line of a restart, with what is known of it.
    fn restarted(&mut self) -> Option<String> {
        let Restart { number, micros } = self.restart.take()?;
        let back = std::mem::take(&mut self.back);
        let how = back.iter().filter_map(|(pe, how)| Some(format!("PE {pe} {}", how.as_ref()?)));
        let how: Vec<String> = how.collect();
        let how = if how.is_empty() { String::new() } else { format!(" ({})", how.join("; ")) };
        Some(format!("all PEs resume from checkpoint {number}{how} after {}", millis(micros)))
    }

    /// The lines at the end of a job that ran for `total`.
    pub fn summary(&mut self, total: Duration) -> Vec<String> {
        let mut lines: Vec<String> = self.restarted().into_iter().collect();
        if self.checkpoints > 0 {
            let share = self.saving.as_secs_f64() / total.as_secs_f64().max(1e-9) * 100.0;
            lines.push(format!(
                "{} took {}, {share:.1} % of {}",
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
        let each = [(self.processes, "PE"), (self.nodes, "node")];
        let each = each.iter().filter(|(number, _)| *number > 0);
        let each: Vec<String> = each.map(|&(number, what)| count(number as u64, what)).collect();
        (!each.is_empty() && self.mode.protects()).then(|| {
            format!(
                "lost {}: {} of work done again, {} until all were back",
                each.join(" and "),
                time(self.again),
                time(self.recovery)
            )
        })
    }

    /// What checkpoints keep, beside what copies would.
    fn memory(&self) -> String {
        let (_, data, kept) = self.last;
        let own = if self.mode.keeps_snapshot() { self.snapshots } else { 0 };
        let all = own * data + self.mode.slots() as u64 * kept;
        let than = |mode: BackupMode, copies: u64| {
            (self.mode != mode).then(|| format!("{} {}", mode.name(), bytes(copies * data)))
        };
        let others = [than(BackupMode::Single, 1), than(BackupMode::Double, 2)];
        let others: Vec<String> = others.into_iter().flatten().collect();
        format!("a PE keeps {} for {} of data ({})", bytes(all), bytes(data), others.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chronicle(mode: BackupMode) -> Chronicle {
        Chronicle::new(&Settings { backup_mode: mode, ..Settings::default() })
    }

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn checkpoint(number: u64) -> Report {
        let (bytes, parity_bytes, micros) = (3 << 20, 1 << 20, 500_000);
        Report::Checkpoint { number, bytes, parity_bytes, micros, found: None }
    }

    fn adopted(pe: u32) -> Report {
        Report::Adopted { pe, number: 2, bytes: 1, micros: 1 }
    }

    fn rebuilt(pe: u32) -> Report {
        Report::Rebuilt { pe, number: 2, bytes: 1, from: vec![0, 3], micros: 1 }
    }

    const RESUMED: Report = Report::Resumed { number: 2, micros: 12_340 };

    #[test]
    fn what_was_lost_and_what_it_cost_is_summed_up() {
        let mut job = chronicle(BackupMode::Raid5);
        assert_eq!(job.hear(at(1.0), &checkpoint(1)), None);
        assert_eq!(job.hear(at(2.0), &checkpoint(2)), None);
        assert_eq!(job.lost(at(3.0), &[1], false), None);
        assert_eq!(job.hear(at(3.2), &adopted(1)), None);
        let line = job.hear(at(3.5), &RESUMED).unwrap();
        assert_eq!(line, "all PEs resume from checkpoint 2 (PE 1 adopted) after 12.3 ms");
        // A second loss before the next checkpoint: what was done since the restart is done again.
        assert_eq!(job.lost(at(4.0), &[1, 2], true), None);
        assert_eq!(job.lost(at(4.1), &[3], false), None);
        for report in [rebuilt(1), rebuilt(2), adopted(3)] {
            assert_eq!(job.hear(at(4.5), &report), None);
        }
        let line = job.hear(at(5.0), &RESUMED).unwrap();
        assert!(line.contains("(PE 1 rebuilt from 0,3; PE 2 rebuilt from 0,3; PE 3 adopted)"));
        let lines = job.summary(at(10.0));
        assert_eq!(
            lines,
            [
                "2 checkpoints took 1.00 s, 10.0 % of 10.00 s",
                "a PE keeps 5.0 MiB for 3.0 MiB of data (single 3.0 MiB, double 6.0 MiB)",
                "lost 2 PEs and 1 node: 1.50 s of work done again, 1.50 s until all were back",
            ]
        );
    }

    #[test]
    fn a_restart_waits_for_how_each_came_back_and_not_for_ever() {
        let mut job = chronicle(BackupMode::Raid5);
        job.lost(at(1.0), &[1, 2], false);
        job.hear(at(1.1), &adopted(1));
        assert_eq!(job.hear(at(1.2), &RESUMED), None);
        let line = job.hear(at(1.3), &rebuilt(2)).unwrap();
        assert!(line.contains("(PE 1 adopted; PE 2 rebuilt from 0,3)"), "{line}");
        job.lost(at(2.0), &[1], false);
        assert_eq!(job.hear(at(2.1), &RESUMED), None);
        let line = job.hear(at(2.2), &checkpoint(3)).unwrap();
        assert_eq!(line, "all PEs resume from checkpoint 2 after 12.3 ms");
        job.lost(at(3.0), &[1], false);
        assert_eq!(job.hear(at(3.1), &RESUMED), None);
        assert!(job.summary(at(4.0))[0].starts_with("all PEs resume from checkpoint 2"));
    }

    #[test]
    fn memory_is_that_of_the_table_of_modes() {
        for (mode, kept) in [
            (BackupMode::Single, "a PE keeps 1.0 MiB for"),
            (BackupMode::Double, "a PE keeps 4.0 MiB for"),
            (BackupMode::Rs, "a PE keeps 5.0 MiB for"),
        ] {
            let mut job = chronicle(mode);
            job.hear(at(1.0), &checkpoint(1));
            let line = job.summary(at(2.0)).swap_remove(1);
            assert!(line.starts_with(kept), "{line}");
            let itself = format!("{} ", mode.name());
            assert!(!line.contains(&itself), "{line}");
        }
        let mut job = chronicle(BackupMode::Raid5);
        assert_eq!(job.summary(at(1.0)), [""; 0], "nothing happened");
        let mut job = chronicle(BackupMode::None);
        job.lost(at(1.0), &[0], false);
        assert_eq!(job.summary(at(1.0)), [""; 0], "its last words say it");
    }
}
