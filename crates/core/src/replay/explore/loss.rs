//! Losses in the explorer, the choice of a substitute, and its start.
//!
//! The next PE keeps a replica of a PE's log, and the owner writes the replica first: it holds
//! everything that peers see of the log. Once all nodes show the loss, the memory of a lost node is
//! wiped and a substitute is chosen; then its log is restored. The substitute looks for reasons
//! against a local rollback before it restores its memory (`recovery/local.rs`).

use super::broken::Broken;
use super::model::{At, JobState, ReplayModel, Sight, WORDS};
use crate::quantity::Pe;
use crate::replay::decide::Reason;
use crate::replay::log::{Kind, Stage, is_in_doubt};
use crate::replay::own::{Replay, met_before};
use crate::replay::port::LogMode;

impl ReplayModel {
    /// Kills the process of a PE.
    pub(super) fn kill(&self, s: &mut JobState, me: usize) {
        s.deaths -= 1;
        s.pes[me].script.clear();
        s.change_view(me, |life| {
            life.number += 1;
            life.with_node = false;
        });
    }

    /// Loses the node of a PE, with the replica that the PE kept for another one.
    pub(super) fn lose_node(&self, s: &mut JobState, me: usize) {
        let is_away = |pe: usize| !s.life(pe).lives() || s.pes[pe].way != LogMode::Logged;
        let away = (0..s.pes.len()).any(is_away);
        if away && !self.is(Broken::NodeLostThenIgnored) {
            s.deaths -= 1;
            s.global = Some(Reason::NodeLostThen);
            return;
        }
        self.kill(s, me);
        s.views.pop();
        s.change_view(me, |life| {
            life.number += 1;
            life.nodes_lost += 1;
            life.with_node = true;
        });
        let kept = (me + s.pes.len() - 1) % s.pes.len();
        s.pes[kept].has_replica = false;
        if self.is(Broken::WipedEarly) {
            self.wipe(s, me);
        }
    }

    fn wipe(&self, s: &mut JobState, me: usize) {
        s.memory(me).fill(0);
        s.pes[me].has_log = false;
    }

    /// Chooses a substitute if every node shows the loss; else returns false.
    pub(super) fn chooses(&self, s: &mut JobState, me: usize) -> bool {
        let life = s.life(me);
        if life.lives() || !s.all_show(me) && !self.is(Broken::ChosenEarly) {
            return false;
        }
        if life.with_node {
            self.wipe(s, me);
            s.pes[me].memories.push([0; WORDS]);
        }
        s.change_view(me, |life| life.number += 1);
        let (last, number) = (s.views.len() - 1, s.life(me).number);
        let pe = &mut s.pes[me];
        // The node of a dead process continues; a new node shows the latest view.
        if life.with_node {
            pe.shown = last;
        }
        (pe.time, pe.joined, pe.met, pe.registers) = (0, 0, 0, [0; 2]);
        (pe.flight, pe.stage) = (None, (number / 2, Stage::Replaying));
        pe.way = LogMode::Plain;
        pe.at = if pe.has_log { At::Begins } else { At::Renews };
        true
    }

    /// Restores the log from its replica.
    pub(super) fn renews(&self, s: &mut JobState, me: usize) {
        let pe = &mut s.pes[me];
        match pe.has_replica {
            true => {}
            false if self.is(Broken::NoReplicaNeeded) => pe.log.clear(),
            false => s.global = Some(Reason::NodeLost),
        }
        let pe = &mut s.pes[me];
        (pe.has_log, pe.at) = (true, At::Begins);
    }

    /// Restores the memory of a substitute when no PE is about to write there; returns false if it
    /// has to wait.
    pub(super) fn begins(&self, s: &mut JobState, me: usize) -> bool {
        if !s.shows(me, me).lives() || s.shows(me, me) != s.life(me) {
            return false; // its page does not show it yet
        }
        let interval = s.pes[me].interval;
        if s.pes[me].copied > interval {
            s.global = Some(Reason::InCheckpoint);
            return true;
        }
        let others = || (0..s.pes.len()).filter(|&pe| pe != me);
        let has_log = |pe: usize| s.has_log(me, pe);
        let begins = |pe: usize| s.pes[pe].interval == interval || self.is(Broken::LogsOfBefore);
        let awaits =
            others().any(|pe| !begins(pe) || !has_log(pe) && !self.is(Broken::LogsNotAwaited));
        if awaits {
            return false;
        }
        let sight = Sight { model: self, s, me };
        if is_in_doubt(&sight, Pe::of(me)) {
            s.global = Some(Reason::InDoubt);
            return true;
        }
        let flies = |pe: usize| s.pes[pe].flight == Some(me) && s.shows(me, pe).lives();
        if (0..s.pes.len()).filter(|&pe| pe != me).any(flies) && !self.is(Broken::QuietNotAwaited) {
            return false;
        }
        if self.is(Broken::EventsLost) {
            s.pes[me].log.clear();
        }
        self.restores(s, me);
        true
    }

    fn restores(&self, s: &mut JobState, me: usize) {
        let (memory, call) = s.pes[me].saved[s.pes[me].interval];
        *s.memory(me) = memory;
        let n_pes = s.pes.len();
        let mut meetings = None;
        let sight = Sight { model: self, s, me };
        let replay = Replay::begin(&sight, Pe::of(me), n_pes, |found| {
            if found.record.kind == Kind::Meeting {
                let (first, _) = meetings.unwrap_or((found.record.at, 0));
                meetings = Some((first, found.record.at));
            }
        });
        let pe = &mut s.pes[me];
        let (met, comes) = met_before(pe.said_met, meetings);
        pe.said_met = comes.unwrap_or(pe.said_met);
        (pe.met, pe.call, pe.replay, pe.way) = (met, call, replay, LogMode::Replayed);
        pe.at = At::Replays;
    }
}
