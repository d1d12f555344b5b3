//! Losses in the explorer, the choice of a substitute, and its start.
//!
//! The next PE keeps a replica of a PE's log, and the owner writes the replica first: it holds
//! everything that peers see of the log. Once all nodes show the loss, the memory of a lost node is
//! wiped and a substitute is chosen; then its log is restored. The substitute looks for reasons
//! against a local rollback before it restores its memory (`replay/look.rs`).

use super::broken::Broken;
use super::model::{At, JobState, NO_VIEW, ReplayModel, Sight, WORDS};
use super::port::Caller;
use crate::quantity::{CheckpointNumber, Pe};
use crate::replay::decide::Reason;
use crate::replay::log::{Kind, Stage};
use crate::replay::look::look;
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
        (pe.time, pe.joined, pe.met, pe.registers) = (0, NO_VIEW, 0, [0; 2]);
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
        // Its phase is lost: the log tells the checkpoint.
        (pe.has_log, pe.at, pe.copied) = (true, At::Begins, pe.interval);
    }

    /// Restores the memory of a substitute when its look allows it; returns false if it has to
    /// wait.
    pub(super) fn begins(&self, s: &mut JobState, me: usize) -> Result<bool, String> {
        if !s.shows(me, me).lives() || s.shows(me, me) != s.life(me) {
            return Ok(false); // its page does not show it yet
        }
        let mut caller = Caller::new(self, s, me);
        let result = look(&mut caller);
        let (is_new, script) = (caller.is_new, caller.into_script());
        match result {
            Ok(number) => {
                s.pes[me].script.clear();
                if self.is(Broken::EventsLost) {
                    s.pes[me].log.clear();
                }
                self.restores(s, me, number);
                Ok(true)
            }
            Err(_) if s.global.is_some() => self.is_allowed(s, me),
            Err(_) => {
                s.pes[me].script = script;
                Ok(is_new)
            }
        }
    }

    fn restores(&self, s: &mut JobState, me: usize, number: CheckpointNumber) {
        let (memory, call) = s.pes[me].saved[number.0 as usize];
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
        pe.rounds = (0, 0);
        pe.at = At::Replays;
    }
}
