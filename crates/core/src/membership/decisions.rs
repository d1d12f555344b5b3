//! The actions decided so far, and the end of the job.
//!
//! Part of the machine in [`super`].

use super::event::Action;
use crate::message::{Down, StartFailure};
use crate::quantity::Pe;

/// The actions decided since the last event, and whether the job is over.
#[derive(Debug, Clone, Default)]
pub(super) struct Decisions {
    actions: Vec<Action>,
    ended: bool,
    /// The first report of a PE that the job cannot continue.
    verdict: Option<(i32, String)>,
}

impl Decisions {
    /// Adds an action.
    pub fn push(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Sends a message to the agent of a node.
    pub fn send(&mut self, node: u32, message: Down) {
        self.push(Action::Send { node, message });
    }

    /// Prints a line for the user.
    pub fn say(&mut self, line: impl Into<String>) {
        self.push(Action::Say(line.into()));
    }

    /// Ends the job, unless it is over.
    pub fn end(&mut self, status: i32, words: Option<String>) {
        if !self.ended {
            self.ended = true;
            self.push(Action::End { status, words });
        }
    }

    /// Returns true if the job is over.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Takes the actions.
    pub fn take(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Keeps the first report that the job cannot continue.
    pub fn keep_verdict(&mut self, status: i32, words: String) {
        self.verdict.get_or_insert((status, words));
    }

    /// Forgets the reports that the job cannot continue: it begins again from disk.
    pub fn forget_verdict(&mut self) {
        self.verdict = None;
    }

    /// Returns the first report that the job cannot continue.
    pub fn verdict(&self) -> Option<&(i32, String)> {
        self.verdict.as_ref()
    }

    /// Handles a process for `pe` that reports why it cannot become a PE, and will end. If its
    /// substitute would fail likewise, or no PE can be replaced yet, the job ends with that report.
    pub fn report_failure(
        &mut self,
        pe: Pe,
        (cause, has_started): (StartFailure, bool),
        (status, words): (i32, &str),
    ) {
        let line = format!("PE {pe} cannot start: {words}");
        match cause.lasts() || !has_started {
            true => self.end(status, Some(line)),
            false => self.say(line),
        }
    }
}
