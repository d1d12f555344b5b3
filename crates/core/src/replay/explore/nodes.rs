//! Lost nodes in the explorer: the state lost with them, the wipe, and the reaction of other PEs.
//!
//! Each PE is on a node of its own. The next PE keeps a replica of its log, which the owner writes
//! before the log. So everything that other PEs see of a log is in its replica. For the log, the
//! loss of a node is like the death of its process at most one step later. The memory of a lost
//! node is wiped when all nodes show the loss. Then its log is restored, and its substitute starts.

use super::broken::Broken;
use super::model::{At, JobState, LogState, Model, PeState, WORDS};
use super::program::Op;

impl JobState {
    pub(super) fn wipe(&mut self, me: usize) {
        let pe = &mut self.pes[me];
        pe.log = LogState::Wiped;
        pe.memories[..pe.lost_memories].fill([0; WORDS]);
    }

    /// True if the node of PE `me` shows that memory `on` of PE `of` was lost with its node: it may
    /// be wiped.
    pub(super) fn may_be_wiped(&self, me: usize, of: usize, on: usize) -> bool {
        let lost = self.pes[of].lost_memories;
        on < lost && lost <= self.pes[me].shown[of]
    }

    /// True if the node of PE `me` shows no loss of a node whose PE's log is not yet restored.
    pub(super) fn has_all_logs(&self, me: usize) -> bool {
        let shows = |of: usize| self.pes[me].shown[of] == self.incarnation(of);
        (0..self.pes.len()).all(|of| self.pes[of].log == LogState::There || !shows(of))
    }
}

impl Model {
    /// Loses the node of a PE, and with it the replica that the node kept for another PE.
    pub(super) fn lose_node(&self, s: &mut JobState, me: usize) {
        let away = s.pes.iter().any(|pe| pe.replay.is_some());
        let has_replica = s.pes[me].has_replica || self.breaks(Broken::NoReplicaNeeded);
        if away && !self.breaks(Broken::NodeLostThenIgnored) || !has_replica {
            s.deaths -= 1;
            s.global = true;
            return;
        }
        if !s.pes[me].has_replica {
            s.pes[me].chains.iter_mut().for_each(Vec::clear);
            s.pes[me].events.clear();
        }
        self.kill(s, me);
        s.pes[me].log = LogState::Lost;
        s.pes[me].lost_memories = s.incarnation(me);
        let kept = (me + s.pes.len() - 1) % s.pes.len();
        s.pes[kept].has_replica = false;
    }

    /// True if all nodes show the loss, so no PE starts to read memory that is being wiped.
    pub(super) fn may_wipe(&self, s: &JobState, me: usize) -> bool {
        let shows = |pe: &PeState| pe.shown[me] == s.incarnation(me);
        s.pes.iter().all(shows) || self.breaks(Broken::WipedEarly)
    }

    /// True if a substitute has its own log, and sees the logs of all other PEs.
    pub(super) fn has_its_logs(&self, s: &JobState, me: usize) -> bool {
        let all = || s.pes.iter().all(|pe| pe.log == LogState::There);
        s.pes[me].log == LogState::There && (all() || self.breaks(Broken::LogsNotAwaited))
    }

    /// Restores the log of a lost node's PE from its replica; false if that must wait.
    pub(super) fn log_comes_back(&self, s: &mut JobState, me: usize) -> bool {
        let is_wiped = s.pes[me].log == LogState::Wiped;
        if is_wiped {
            s.pes[me].log = LogState::There;
        }
        is_wiped
    }

    /// Gathers contributions in a meeting of a model with lost nodes, once all PEs have arrived and
    /// their logs are available.
    pub(super) fn gathers(
        &self,
        s: &mut JobState,
        me: usize,
        op: Op,
        number: usize,
    ) -> Result<bool, String> {
        let checks = !self.breaks(Broken::LogsNotChecked);
        if !s.all_met(number) || self.is_at_last(s, me) {
            return self.leaves(s, me, op, number);
        }
        if checks && !s.has_all_logs(me) {
            return Ok(false);
        }
        s.pes[me].at = At::Gathers { number, shown: s.pes[me].shown.clone() };
        Ok(true)
    }

    /// Reads all contributions, unless a loss was shown after the check of the logs.
    pub(super) fn reads_all(
        &self,
        s: &mut JobState,
        me: usize,
        op: Op,
        (number, shown): (usize, Vec<usize>),
    ) -> Result<bool, String> {
        if shown != s.pes[me].shown && !self.breaks(Broken::NotLookedAgain) {
            s.pes[me].at = At::Meets { number };
            return Ok(true);
        }
        Ok(self.takes_part(s, me, op, number))
    }
}
