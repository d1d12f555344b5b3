//! What the launcher says of a job: as it goes, and at its end.

#![forbid(unsafe_code)]

use super::Launcher;
use super::report::{not_due, tell};
use crate::control::message::{Down, Report};
use crate::launch::lines::{news, say};
use crate::sys::signal_names::name;

impl Launcher {
    /// A report of a PE. Damage is told in any case.
    pub(super) fn tell_of(&mut self, report: &Report) {
        let in_any_case = self.chronicle.hear(self.begun.elapsed(), report);
        if let Some(line) = tell(report, self.kept).filter(|_| self.report || report.is_alarm()) {
            news(&line);
        }
        in_any_case.iter().for_each(|line| news(line));
    }

    /// Why the job cannot go on. Every PE comes to the same words, which are said once.
    pub(super) fn say_verdict(&mut self, words: &str) {
        if self.verdict.as_deref() != Some(words) {
            say(words);
            self.verdict = Some(words.to_owned());
        }
    }

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
        let summary = self.chronicle.summary(self.begun.elapsed());
        summary.iter().chain(&left).for_each(|line| news(line));
    }
}
