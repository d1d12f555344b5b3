//! A meeting in the tree: every PE brings something, and goes on once it has what all brought.
//!
//! ```text
//! gathers   until each PE below has posted what it and those below it bring; posts the sum up
//! waits     until the PE above has posted what all bring; posts it down
//! over
//! ```
//!
//! The root has nobody above it: its sum is that of all. A PE that has left the view, or died,
//! posts nothing, so the meeting comes to no end for those that it has not ended for: a view that
//! shows it breaks it off, which is the business of who asks.
//!
//! Invariants: who is over knows what all PEs of the tree brought, each counted once, and all who
//! are over know the same. A PE posts at most once each way in a meeting, and a post is in nobody's
//! way: who has posted up has read all below, and who posts again has been read by all.

use super::Tree;
use super::post::Way;
use crate::mutant::{Mutant, breaks};
use crate::quantity::Pe;

/// What is added up.
pub trait Sum: Clone {
    /// Adds what other PEs bring.
    fn add(&mut self, other: &Self);
    /// All that the PEs of this machine bring is in it, and nothing of it comes any more.
    fn close(&mut self);
}

/// How far a PE is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    Gathers,
    Waits,
    Over,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeetingStep {
    /// A post of another PE.
    Wait,
    /// [`Meeting::sum`] is to be posted this way; then it is asked again, unless the meeting is
    /// over.
    Post(Way),
}

/// One meeting, for one PE.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Meeting<S> {
    at: At,
    sum: S,
    /// The PEs below that have not posted yet.
    awaited: Vec<Pe>,
}

impl<S: Sum> Meeting<S> {
    /// A PE comes to a meeting, and brings this.
    pub fn begin(tree: &Tree, own: S) -> Meeting<S> {
        let awaited =
            if breaks(Mutant::ChildrenNotAwaited) { Vec::new() } else { tree.children.clone() };
        Meeting { at: At::Gathers, sum: own, awaited }
    }

    /// What is known: of the PEs below, or, when it is over, of all.
    pub fn sum(&self) -> &S {
        &self.sum
    }

    /// True if all have come.
    pub fn is_over(&self) -> bool {
        self.at == At::Over
    }

    /// Goes on as far as posts let it. `read` gives what a PE has posted in this meeting.
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
