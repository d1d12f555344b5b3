//! Who goes back after a loss where logs are kept: the lost PEs alone, or all.
//!
//! Part of the machine in [`super`]. A view says which of the two it is, so all PEs see the same.
//! It begins with the lost PE alone. Any PE that finds a reason against it says so, and all go back
//! from the next view on. After the loss of a node that is the substitute if no copy of its log is
//! left; while a PE goes back it reads the logs of all, so all go back if a node is lost then.
//!
//! Invariant: once all go back they do, until that recovery is over.

use super::{Action, Membership};
use crate::quantity::Pe;
use crate::replay::decide::Reason;
use crate::view::State;

impl Membership {
    /// PEs are lost: whether they go back alone in the view that shows it.
    pub(super) fn decide_alone(&mut self, lost: &[Pe], state: State) {
        if !self.local {
            return;
        }
        let all_go_back = !self.lost.is_empty() && !self.view.alone;
        self.view.alone = !all_go_back;
        if self.engine {
            self.cannot_go_alone(&Reason::NotMapped, lost[0]);
        } else if state == State::NodeDead && !self.lost.is_empty() {
            self.cannot_go_alone(&Reason::NodeLostThen, lost[0]);
        }
    }

    /// There is a reason for all to go back, which the next view shows.
    pub(super) fn cannot_go_alone(&mut self, reason: &Reason, pe: Pe) {
        if std::mem::replace(&mut self.view.alone, false) {
            self.out.push(Action::Say(format!("all PEs go back: PE {pe}: {reason}")));
        }
    }

    /// A PE found a reason for all to go back.
    pub(super) fn take_all_back(&mut self, why: &str) {
        if std::mem::replace(&mut self.view.alone, false) {
            self.out.push(Action::Say(format!("all PEs go back: {why}")));
            self.show();
        }
    }

    /// PE `pe` has gone back alone, and has caught up with the others.
    pub(super) fn caught_up(&mut self, pe: Pe) {
        self.lost.remove(&pe);
        self.pes[pe.at()].crashes.resume(self.checkpoint);
        if self.lost.is_empty() {
            (self.view.alone, self.corrupt) = (false, 0);
        }
    }
}
