//! What the launcher says of a job: as it goes, and at its end.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::Launcher;
use super::chronicle::Chronicle;
use super::report::{not_due, tell};
use crate::launch::lines::{news, say};
use raidshmem_core::message::{Down, Report};
use raidshmem_core::settings::{BackupMode, Settings};
use raidshmem_core::signals::name;

/// What was said, and what there is to say.
pub struct Telling {
    verbose: bool,
    /// What a PE keeps for others in this job's mode.
    kept: &'static str,
    chronicle: Chronicle,
    verdict: Option<String>,
}

impl Telling {
    /// Of a job with these settings.
    pub fn new(settings: &Settings) -> Telling {
        let kept = match settings.backup_mode {
            BackupMode::Single | BackupMode::Double => "copies",
            _ => "parity",
        };
        let (verbose, chronicle) = (settings.report, Chronicle::new(settings));
        Telling { verbose, kept, chronicle, verdict: None }
    }

    /// PEs were lost.
    pub fn lost(&mut self, now: Duration, pes: &[u32], with_node: bool) {
        self.chronicle.lost(now, pes, with_node).iter().for_each(|line| news(line));
    }

    /// A report of a PE. Damage is told in any case.
    pub fn hear(&mut self, now: Duration, report: &Report) {
        let in_any_case = self.chronicle.hear(now, report);
        if let Some(line) = tell(report, self.kept).filter(|_| self.verbose || report.is_alarm()) {
            news(&line);
        }
        in_any_case.iter().for_each(|line| news(line));
    }

    /// Why the job cannot go on. Every PE comes to the same words, which are said once.
    pub fn say_verdict(&mut self, words: &str) {
        if self.verdict.as_deref() != Some(words) {
            say(words);
            self.verdict = Some(words.to_owned());
        }
    }
}

impl Launcher {
    /// Signals that are not for this process.
    pub(super) fn pass_on_signals(&mut self) {
        while let Some(signal) = self.signals.passed() {
            news(&format!("{} is passed on to every PE", name(signal)));
            for node in self.nodes.keys().copied().collect::<Vec<u32>>() {
                self.tell(node, &Down::Signal { signal }, &[]);
            }
        }
    }

    /// The last lines of a job.
    pub(super) fn sum_up(&mut self) {
        let (left, last) = self.machine.not_due();
        let left = not_due(left, last);
        let summary = self.telling.chronicle.summary(self.begun.elapsed());
        summary.iter().chain(&left).for_each(|line| news(line));
    }
}
