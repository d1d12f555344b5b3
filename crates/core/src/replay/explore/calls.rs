//! The calls of a live PE in the explorer: an entry, a check, a write, a mark.

use super::broken::Broken;
use super::model::{At, Bytes, JobState, Model};
use super::program::{Op, Value};
use crate::replay::handover::{Delivery, Stage, deliver};
use crate::replay::log::{Asked, Effect, EntryProgress, Event, LogEntry, Time};

impl Model {
    /// Starts a call of a live PE.
    pub(super) fn calls(&self, s: &mut JobState, me: usize, op: Op) -> bool {
        if let Some((to, effect)) = self.effect(s, me, op) {
            if self.breaks(Broken::LoggedAfter) {
                return self.writes_before_logging(s, me, to, effect);
            }
            let (time, index) = (s.next(me), s.pes[me].chains[to].len());
            let mut entry = LogEntry::new(time, effect);
            if self.breaks(Broken::DoneBefore) {
                let old = match entry.effect {
                    Effect::Atomic { at, .. } => s.memory(to)[at],
                    _ => 0,
                };
                entry.progress = EntryProgress::Done { old };
            }
            s.pes[me].chains[to].push(entry);
            s.pes[me].at = At::Logged { to, index };
            return true;
        }
        match op {
            Op::Get { from, .. } => {
                let on = if from == me { s.incarnation(me) } else { s.pes[me].shown[from] };
                if from != me && s.pes[from].stages[on] != Stage::Direct {
                    return false;
                }
                s.pes[me].at = At::Reads { from, on };
            }
            Op::Wait { .. } if self.breaks(Broken::TimeBeforeLook) => {
                let time = s.learns(me);
                s.pes[me].at = At::Drew { time };
            }
            Op::Wait { .. } | Op::Test { .. } => return self.sees(s, me, op, None),
            Op::Store { .. } | Op::Load { .. } => self.uses_own(s, me, op),
            Op::Quiet | Op::Barrier | Op::Checkpoint => return self.releases(s, me, op),
            Op::Broadcast { .. } | Op::Sum { .. } => return self.releases(s, me, op),
            _ => unreachable!("operations are above"),
        }
        true
    }

    /// Makes a plain access of the program.
    pub(super) fn uses_own(&self, s: &mut JobState, me: usize, op: Op) {
        let found = match op {
            Op::Store { at, value } => {
                let value = match value {
                    Value::Just(value) => value,
                    Value::Of { register, plus } => s.pes[me].registers[register] + plus,
                };
                s.memory(me)[at] = value;
                0
            }
            Op::Load { at, .. } => s.memory(me)[at],
            _ => unreachable!("a plain access"),
        };
        s.returns(me, op, found);
    }

    /// Checks the word of a wait or a test.
    pub(super) fn sees(&self, s: &mut JobState, me: usize, op: Op, drawn: Option<Time>) -> bool {
        let (asked, at, least) = match op {
            Op::Wait { at, least } => (Asked::Wait, at, least),
            Op::Test { at, least, .. } => (Asked::Test, at, least),
            _ => unreachable!("it looks at a word"),
        };
        let satisfied = s.memory(me)[at] >= least;
        if asked == Asked::Wait && !satisfied {
            return false;
        }
        let until = match self.breaks(Broken::ClockIgnored) {
            true => s.next(me),
            false => drawn.unwrap_or_else(|| s.learns(me)),
        };
        let outcome = u64::from(satisfied);
        s.pes[me].events.push(Event { asked, outcome, until });
        s.returns(me, op, outcome);
        true
    }

    /// Makes a call that releases other PEs, or arrives at a meeting.
    pub(super) fn releases(&self, s: &mut JobState, me: usize, op: Op) -> bool {
        if s.pes[me].owes && !s.all_show() && !self.breaks(Broken::ReleasedEarly) {
            return false;
        }
        s.pes[me].owes = false;
        if op == Op::Quiet {
            s.returns(me, op, 0);
            return true;
        }
        let what = s.brings(me, op);
        let number = s.arrives(me, what);
        s.pes[me].at = match op {
            Op::Checkpoint => At::Query { number },
            _ => At::Meets { number },
        };
        true
    }

    /// Lets an origin check the stage of the target, and handle its entry accordingly.
    pub(super) fn looks(
        &self,
        s: &mut JobState,
        me: usize,
        op: Op,
        (to, index): (usize, usize),
        first: bool,
    ) -> bool {
        let on = if to == me { s.incarnation(me) } else { s.pes[me].shown[to] };
        let progress = match self.breaks(Broken::MarkIgnored) {
            true => EntryProgress::Begun,
            false => s.pes[me].chains[to][index].progress,
        };
        let delivery = match to == me || self.breaks(Broken::DoneBefore) {
            true => Delivery::CarryOut,
            false => deliver(s.pes[to].stages[on], progress),
        };
        let fetches = matches!(op, Op::Atomic { into: Some(_), .. });
        match delivery {
            Delivery::CarryOut => {
                if !self.breaks(Broken::DoneBefore) {
                    let underway = match self.breaks(Broken::NotUnderway) {
                        true => EntryProgress::Begun,
                        false => EntryProgress::Underway,
                    };
                    s.pes[me].chains[to][index].progress = underway;
                }
                s.pes[me].at = At::Writes { to, index, on, half: false };
            }
            Delivery::TakenOver { old } => {
                s.pes[me].chains[to][index].seen = s.learns(me);
                s.returns(me, op, old);
            }
            Delivery::Log if !fetches => {
                s.pes[me].chains[to][index].progress = EntryProgress::Logged;
                s.pes[me].owes = true;
                s.returns(me, op, 0);
            }
            Delivery::Log | Delivery::Wait => {
                if first {
                    s.pes[me].chains[to][index].progress = EntryProgress::Logged;
                    s.pes[me].owes = true;
                    s.pes[me].at = At::Waits { to, index };
                }
                return first;
            }
        }
        true
    }

    /// Returns the incarnation whose memory is used; always the latest if memory is restored in
    /// place.
    pub(super) fn incarnation_used(&self, s: &JobState, pe: usize, on: usize) -> usize {
        if self.breaks(Broken::InPlace) { s.incarnation(pe) } else { on }
    }

    pub(super) fn writes(
        &self,
        s: &mut JobState,
        me: usize,
        (to, index): (usize, usize),
        on: usize,
        half: bool,
    ) -> bool {
        let effect = s.pes[me].chains[to][index].effect.clone();
        if let (Effect::Bulk { at, bytes }, false) = (&effect, half) {
            let used = self.incarnation_used(s, to, on);
            s.pes[to].memories[used][*at] = bytes[0];
            s.pes[me].at = At::Writes { to, index, on, half: true };
            return true;
        }
        let old = self.writes_all(s, to, on, &effect);
        s.pes[me].at = At::Wrote { to, index, on, old };
        true
    }

    /// Writes the rest of an effect, and returns the old value.
    fn writes_all(&self, s: &mut JobState, to: usize, on: usize, effect: &Effect<Bytes>) -> u64 {
        let used = self.incarnation_used(s, to, on);
        let memory = &mut s.pes[to].memories[used];
        match *effect {
            Effect::Bulk { at, bytes } => (memory[at], memory[at + 1]) = (bytes[0], bytes[1]),
            Effect::Assign { at, value } => memory[at] = value,
            Effect::Atomic { at, change } => {
                let old = memory[at];
                memory[at] = change.of(old);
                return old;
            }
        }
        0
    }

    fn writes_before_logging(
        &self,
        s: &mut JobState,
        me: usize,
        to: usize,
        effect: Effect<Bytes>,
    ) -> bool {
        let on = if to == me { s.incarnation(me) } else { s.pes[me].shown[to] };
        if to != me && s.pes[to].stages[on] != Stage::Direct {
            return false;
        }
        let old = self.writes_all(s, to, on, &effect);
        s.pes[me].at = At::LogsLate { to, effect, old };
        true
    }
}
