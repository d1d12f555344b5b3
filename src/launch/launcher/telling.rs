//! What the launcher says of a job: as it goes, and at its end.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::chronicle::Chronicle;
use super::report::{never_due, tell};
use crate::launch::dump::text;
use crate::launch::lines::{news, say};
use raidshmem_core::inject::Rule;
use raidshmem_core::message::{Report, Traced};
use raidshmem_core::settings::{BackupMode, Settings};

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

    /// What a PE did last whose process died.
    pub fn last_of(&self, events: Vec<Traced>) {
        if self.verbose && self.verdict.is_none() {
            text(&[], events).lines().for_each(|line| news(&format!("  {line}")));
        }
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

    /// The last lines of a job: what happened, and rules of injection that were `not_due` by the
    /// last checkpoint.
    pub fn sum_up<'a>(&mut self, now: Duration, not_due: (impl Iterator<Item = &'a Rule>, u64)) {
        let (rules, last) = not_due;
        let lines = self.chronicle.summary(now).into_iter().chain(never_due(rules, last));
        lines.for_each(|line| news(&line));
    }
}
