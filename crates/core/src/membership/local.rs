//! The choice of rollback with logs: local (only the lost PEs) or global (all PEs).
//!
//! Part of the machine in [`super`]. The view states the choice, so all PEs see the same one. It
//! starts as local. Any PE that finds a reason for global rollback reports it, and all roll back
//! from the next view on. After the loss of a node the substitute reports that no copy of its log
//! is left, if so; between hosts a PE that others map never has one. A PE that rolls back
//! reads the logs of all PEs, so all roll back if a node is lost before others reach it.
//!
//! Invariant: once the choice is global, it stays so until that recovery is over.

use super::decisions::Decisions;
use super::members::Members;
use super::nodes::LivingNodes;
use crate::quantity::Pe;
use crate::replay::decide::Reason;
use crate::view::State;

impl Members {
    /// Chooses local or global rollback for the view that shows these PEs as lost. Others may have
    /// been lost `before`, and of these, some may be `away`: not reached yet.
    pub(super) fn decide_local(
        &mut self,
        lost: &[Pe],
        state: State,
        (before, away): (bool, bool),
        out: &mut Decisions,
    ) {
        if !self.local {
            return;
        }
        let all_roll_back = before && !self.view.local;
        self.view.local = !all_roll_back;
        if state == State::NodeDead && !self.may_have_replicas(lost) {
            self.cannot_roll_back_locally(&Reason::MappedLogsLost, lost[0], out);
        } else if state == State::NodeDead && away {
            self.cannot_roll_back_locally(&Reason::NodeLostThen, lost[0], out);
        }
    }

    /// Switches to global rollback, which the next view shows.
    pub(super) fn cannot_roll_back_locally(
        &mut self,
        reason: &Reason,
        pe: Pe,
        out: &mut Decisions,
    ) {
        if std::mem::replace(&mut self.view.local, false) {
            out.say(format!("all PEs roll back: PE {pe}: {reason}"));
        }
    }

    /// Switches to global rollback for a reason that a PE reported, and publishes a new view.
    pub(super) fn roll_all_back(&mut self, why: &str, nodes: &LivingNodes, out: &mut Decisions) {
        if std::mem::replace(&mut self.view.local, false) {
            out.say(format!("all PEs roll back: {why}"));
            self.show(nodes, out);
        }
    }
}
