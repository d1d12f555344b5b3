//! A meeting in the tree: every PE contributes a value, and continues once it has the combined
//! value.
//!
//! ```text
//! gathers   until each child has posted the contributions of its subtree; posts their sum up
//! waits     until the parent has posted the total; posts it down
//! over
//! ```
//!
//! The root has no PE above it: its sum is the combined value of all PEs. A PE that has left the
//! view, or died, posts nothing, so the meeting does not end for PEs that still wait. A view
//! without that PE interrupts it; the caller must check for one.
//!
//! Invariants: at the end of the meeting a PE knows the sum of all PEs of the tree, each counted
//! once; the sum is equal on all PEs that reach the end. A PE posts at most once per direction in a
//! meeting, and a post never overwrites one still needed: a PE that has posted up has read all PEs
//! below, and a PE that posts again has been read by all.

use super::Tree;
use super::post::Way;
use crate::mutant::{Mutant, breaks};
use crate::quantity::Pe;

/// A value that PEs combine.
pub trait Sum: Clone {
    /// Adds the value of other PEs.
    fn add(&mut self, other: &Self);
    /// Marks the value as complete for the PEs of this machine: none of them will be added later.
    fn close(&mut self);
}

/// The progress of a PE in a meeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    Gathers,
    Waits,
    Over,
}

/// The next action of a PE in a meeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeetingStep {
    /// Wait for a post of another PE.
    Wait,
    /// Post [`Meeting::sum`] in this direction; then call [`Meeting::advance`] again, unless the
    /// meeting is over.
    Post(Way),
}

/// The state of one PE in one meeting.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Meeting<S> {
    at: At,
    sum: S,
    /// PEs directly below that have not posted yet.
    awaited: Vec<Pe>,
}

impl<S: Sum> Meeting<S> {
    /// Starts a meeting with the PE's own value.
    pub fn begin(tree: &Tree, own: S) -> Meeting<S> {
        let awaited =
            if breaks(Mutant::ChildrenNotAwaited) { Vec::new() } else { tree.children.clone() };
        Meeting { at: At::Gathers, sum: own, awaited }
    }

    /// Returns the combined value: of this PE and those below, or, once the meeting is over, of all
    /// PEs.
    pub fn sum(&self) -> &S {
        &self.sum
    }

    /// True if the meeting is over.
    pub fn is_over(&self) -> bool {
        self.at == At::Over
    }

    /// Advances as far as posts allow. `read` returns the value that a PE has posted in this
    /// meeting.
    pub fn advance(
        &mut self,
        tree: &Tree,
        mut read: impl FnMut(Pe, Way) -> Option<S>,
    ) -> MeetingStep {
        if self.at == At::Gathers {
            let sum = &mut self.sum;
            self.awaited.retain(|&pe| read(pe, Way::Up).inspect(|post| sum.add(post)).is_none());
            if !self.awaited.is_empty() {
                return MeetingStep::Wait;
            }
            if tree.leads {
                self.sum.close();
            }
            self.at = if tree.parent.is_some() { At::Waits } else { At::Over };
            let way = if tree.parent.is_some() { Way::Up } else { Way::Down };
            return MeetingStep::Post(way);
        }
        let above = tree.parent.filter(|_| self.at == At::Waits);
        match above.and_then(|pe| read(pe, Way::Down)) {
            Some(all) => {
                (self.sum, self.at) = (all, At::Over);
                MeetingStep::Post(Way::Down)
            }
            None => MeetingStep::Wait,
        }
    }
}
