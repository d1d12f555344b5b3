//! The port of a call in the explorer, and its steps.
//!
//! Each step executes the call from its beginning: earlier accesses return their results from a
//! script and change nothing; then one further visible access takes effect, and the invisible ones
//! after it. So the replay code runs unchanged, with any steps of peers between two accesses.

use super::model::{JobState, LONGEST, LogEntry, Nodes, PeState, ReplayModel, Sight, WORD};
use super::script::Visibility::{self, Private, Shared};
use super::script::{Answer, Stop};
use crate::quantity::{Pe, ViewNumber};
use crate::replay::decide::Reason;
use crate::replay::log::{AtomicOutcome, Carried, Kind, Located, LogRecord, Logs, Stage, taken_by};
use crate::replay::meeting::together;
use crate::replay::merge::{Merge, SubstitutePort};
use crate::replay::own::LoggedCall;
use crate::replay::port::{CallPort, LogMode, MeetingPort, UnloggedPort};
use crate::replay::unlogged;
use crate::update::WordAt;

/// A call of a PE of the model.
pub(super) struct Caller<'a> {
    pub sight: Sight<'a>,
    script: Vec<u64>,
    /// Accesses that were made in this step, or were in the script.
    made: usize,
    /// True if this step has made a visible access.
    stepped: bool,
    /// True if this step has made an access.
    pub is_new: bool,
    /// The memory of the target that was reached last.
    on: usize,
}

impl<'a> Caller<'a> {
    pub(super) fn new(model: &'a ReplayModel, s: &'a mut JobState, me: usize) -> Caller<'a> {
        let script = s.pes[me].script.clone();
        let sight = Sight { model, s, me };
        Caller { sight, script, made: 0, stepped: false, is_new: false, on: 0 }
    }

    /// Returns the results of the accesses so far.
    pub(super) fn into_script(self) -> Vec<u64> {
        self.script
    }

    /// Makes an access.
    pub(super) fn access<A: Answer>(
        &mut self,
        visibility: Visibility,
        act: impl FnOnce(&mut Sight) -> Result<A, Stop>,
    ) -> Result<A, Stop> {
        if let Some(word) = self.script.get(self.made) {
            self.made += 1;
            return Ok(A::of(*word));
        }
        if visibility == Shared && self.stepped {
            return Err(Stop::Later);
        }
        let answer = act(&mut self.sight)?;
        self.stepped |= visibility == Shared;
        self.is_new = true;
        self.script.push(answer.word());
        self.made += 1;
        Ok(answer)
    }

    /// Waits until `is_so` holds.
    pub(super) fn wait(&mut self, is_so: impl FnOnce(&Sight) -> bool) -> Result<(), Stop> {
        self.access(Shared, |sight| if is_so(sight) { Ok(()) } else { Err(Stop::Blocked) })
    }

    /// Writes a part of an effect to the memory of a reached PE; returns the old value.
    pub(super) fn write(
        &mut self,
        to: usize,
        at: usize,
        change: impl FnOnce(u64) -> u64,
    ) -> Result<u64, Stop> {
        let on = self.memory_of(to);
        self.access(Shared, |sight| {
            let word = &mut sight.s.pes[to].memories[on][at];
            let old = *word;
            *word = change(old);
            Ok(old)
        })
    }

    /// Reads a word of a PE that was reached.
    pub(super) fn read_word(&mut self, of: usize, at: usize) -> Result<u64, Stop> {
        let on = self.memory_of(of);
        self.access(Shared, |sight| Ok(sight.s.pes[of].memories[on][at]))
    }

    /// Returns the memory that an access reaches; that of the own PE is always the last.
    fn memory_of(&self, pe: usize) -> usize {
        if pe == self.sight.me { self.sight.s.pes[pe].memories.len() - 1 } else { self.on }
    }
}

impl Sight<'_> {
    fn own(&mut self, from: usize) -> &mut LogEntry {
        &mut self.s.pes[self.me].log[from]
    }

    /// Returns the memory of a PE that is reached, as the own node shows it.
    pub(super) fn reached(&self, to: usize) -> Option<usize> {
        let life = self.s.shows(self.me, to);
        let is_direct = self.s.pes[to].stage == (life.number / 2, Stage::Direct);
        (to == self.me || life.lives() && is_direct).then_some(life.nodes_lost)
    }

    fn stage_of(&self, to: usize) -> Option<Stage> {
        let (incarnation, stage) = self.s.pes[to].stage;
        (incarnation == self.s.shows(self.me, to).number.div_ceil(2)).then_some(stage)
    }

    fn merging(&mut self, run: impl FnOnce(&mut Merge, &mut Self) -> bool) -> bool {
        let mut merge = std::mem::take(&mut self.s.pes[self.me].replay.merge);
        let result = run(&mut merge, self);
        self.s.pes[self.me].replay.merge = merge;
        result
    }
}

impl<'a> CallPort for Caller<'a> {
    type Cut = Stop;
    type Logs = Sight<'a>;
    type There = usize;
    type Member = usize;

    fn me(&self) -> Pe {
        Pe::of(self.sight.me)
    }

    fn logs(&self) -> &Sight<'a> {
        &self.sight
    }

    fn way(&mut self) -> LogMode {
        let way = self.access(Private, |sight| Ok(sight.s.pes[sight.me].way));
        way.unwrap_or(LogMode::Plain)
    }

    fn append(&mut self, record: LogRecord, payload: &[u8]) -> Result<Option<usize>, Stop> {
        if payload.len() > LONGEST && self.keeps_records()? {
            unlogged::end_records(self, &Reason::Overflow { bytes: 0 })?;
            return Ok(None);
        }
        self.access(Shared, |sight| Ok(sight.append_if_kept(record, payload, 0)))
    }

    fn append_change(
        &mut self,
        record: LogRecord,
        compares_with: Option<u64>,
    ) -> Result<Option<usize>, Stop> {
        let compared = compares_with.unwrap_or_default();
        self.access(Shared, |sight| Ok(sight.append_if_kept(record, &[], compared)))
    }

    fn state(&mut self, from: usize) -> Result<Carried, Stop> {
        self.access(Private, |sight| Ok(sight.own(from).state))
    }

    fn set_state(&mut self, from: usize, state: Carried) -> Result<(), Stop> {
        let visibility = if state == Carried::Done { Shared } else { Private };
        self.access(visibility, |sight| {
            sight.own(from).state = state;
            Ok(())
        })
    }

    fn found(&mut self, from: usize) -> Result<AtomicOutcome, Stop> {
        self.access(Private, |sight| Ok(sight.own(from).found))
    }

    fn set_found(&mut self, from: usize, found: AtomicOutcome) -> Result<(), Stop> {
        self.access(Private, |sight| {
            let entry = sight.own(from);
            (entry.found, entry.state) = (found, Carried::Done);
            Ok(())
        })
    }

    fn last_answer(&mut self) -> Result<Option<Located>, Stop> {
        let last = self.access(Private, |sight| {
            let log = &sight.s.pes[sight.me].log;
            let is_answer = |entry: &LogEntry| entry.record.kind == Kind::Answer;
            Ok(log.last().filter(|last| is_answer(last)).map(|_| log.len() - 1))
        });
        Ok(last?.and_then(|from| self.sight.read(self.me(), from)))
    }

    fn repeat(&mut self, from: usize) -> Result<(), Stop> {
        self.access(Shared, |sight| {
            sight.own(from).repeats += 1;
            Ok(())
        })
    }

    fn tick(&mut self) -> Result<u64, Stop> {
        self.access(Private, |sight| Ok(sight.s.tick(sight.me)))
    }

    fn know(&mut self, time: u64) -> Result<(), Stop> {
        self.access(Private, |sight| {
            let known = &mut sight.s.pes[sight.me].time;
            *known = time.max(*known);
            Ok(())
        })
    }

    fn fly(&mut self, to: Pe) -> Result<(), Stop> {
        self.access(Private, |sight| {
            sight.s.pes[sight.me].flight = Some(to.at());
            Ok(())
        })
    }

    fn land(&mut self) -> Result<(), Stop> {
        self.access(Private, |sight| {
            sight.s.pes[sight.me].flight = None;
            Ok(())
        })
    }

    fn order(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    fn reached(&mut self, to: Pe) -> Result<Option<usize>, Stop> {
        let on = self.access(Shared, |sight| Ok(sight.reached(to.at())))?;
        self.on = on.unwrap_or(self.on);
        Ok(on.map(|_| to.at()))
    }

    fn has_taken(&mut self, there: usize, from: usize) -> Result<bool, Stop> {
        self.access(Private, |sight| {
            let (own, there) = (&sight.s.pes[sight.me], &sight.s.pes[there]);
            Ok(there.interval == own.interval && from < there.taken[sight.me])
        })
    }

    fn adopt_view(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    fn has_no_record(&mut self) -> Stop {
        self.roll_all_back(Reason::Overflow { bytes: 0 })
    }

    fn await_shown(&mut self, to: Pe) -> Result<(), Stop> {
        let one = self.sight.model.nodes == Nodes::One;
        self.wait(|sight| one || sight.s.shows(sight.me, to.at()).lives())
    }

    fn stage(&mut self, to: Pe) -> Result<Option<Stage>, Stop> {
        self.access(Private, |sight| Ok(sight.stage_of(to.at())))
    }

    fn await_drained(&mut self, to: Pe) -> Result<(), Stop> {
        self.wait(|sight| {
            let is_past = sight.stage_of(to.at()).is_some_and(Stage::is_past_replay);
            !is_past || sight.reached(to.at()).is_some()
        })
    }

    fn await_reached(&mut self, to: Pe) -> Result<usize, Stop> {
        let who = self.access(Shared, |sight| {
            let on = sight.reached(to.at()).ok_or(Stop::Blocked)?;
            Ok(on << 8 | sight.s.shows(sight.me, to.at()).number)
        })?;
        self.on = who >> 8;
        Ok(who)
    }

    fn is_still(&mut self, to: Pe, member: &usize) -> Result<bool, Stop> {
        self.access(Private, |sight| {
            let number = sight.s.shows(sight.me, to.at()).number;
            Ok(sight.reached(to.at()).is_some_and(|on| on << 8 | number == *member))
        })
    }

    fn is_wiped(&mut self, pe: Pe) -> Result<bool, Stop> {
        let on = self.on;
        self.access(Shared, |sight| {
            let life = sight.s.shows(sight.me, pe.at());
            Ok(pe.at() != sight.me && life.nodes_lost > on)
        })
    }

    fn taken_by(&mut self, pe: Pe, from: usize) -> Result<Option<u64>, Stop> {
        let me = self.me();
        self.access(Private, |sight| Ok(taken_by(sight, pe, (me, from))))
    }

    fn ring(&mut self, _: Pe) -> Result<(), Stop> {
        Ok(())
    }

    fn roll_all_back(&mut self, why: Reason) -> Stop {
        self.sight.s.global = Some(why);
        self.is_new = true;
        Stop::Cut
    }

    fn next(
        &mut self,
        is_it: impl FnOnce(&Sight<'a>, &Located) -> bool,
    ) -> Result<Option<LoggedCall>, Stop> {
        if let Some(word) = self.script.get(self.made) {
            self.made += 1;
            return Ok(Answer::of(*word));
        }
        let me = self.sight.me;
        let mut replay = std::mem::take(&mut self.sight.s.pes[me].replay);
        let call = replay.next(&self.sight, |found| is_it(&self.sight, found));
        self.sight.s.pes[me].replay = replay;
        self.access(Private, |_| Ok(call))
    }

    fn is_over(&mut self) -> Result<bool, Stop> {
        self.access(Private, |sight| Ok(sight.s.pes[sight.me].replay.is_over()))
    }

    fn apply(&mut self, until: u64) -> Result<(), Stop> {
        self.access(Private, |sight| {
            sight.merging(|merge, sight| {
                merge.apply(sight, until);
                true
            });
            Ok(())
        })
    }

    fn apply_all(&mut self) -> Result<bool, Stop> {
        self.access(Shared, |sight| Ok(sight.merging(|merge, sight| merge.apply_all(sight))))
    }

    fn is_certain(&mut self) -> Result<bool, Stop> {
        self.access(Private, |sight| Ok(sight.s.pes[sight.me].replay.merge.is_certain()))
    }

    fn change_own(&mut self, from: usize, old: u64) -> Result<(), Stop> {
        let me = self.me();
        self.access(Private, |sight| {
            let found = sight.read(me, from).expect("an own record");
            sight.merging(|merge, sight| {
                merge.change(sight, (me, &found), old);
                true
            });
            Ok(())
        })
    }

    fn assigns_own(&mut self, from: usize) -> Result<(), Stop> {
        let me = self.me();
        self.access(Private, |sight| {
            let found = sight.read(me, from).expect("an own record");
            sight.s.pes[sight.me].replay.merge.assigns_blocks(&found);
            Ok(())
        })
    }

    fn may_have_changed(&mut self, at: usize) -> Result<bool, Stop> {
        self.access(Private, |sight| Ok(sight.s.pes[sight.me].replay.merge.may_have_changed(at)))
    }

    fn own_word(&mut self, record: &LogRecord, otherwise: u64) -> Result<u64, Stop> {
        let word = WordAt { offset: record.at as usize, bytes: WORD };
        self.access(Private, |sight| Ok(sight.load(word).unwrap_or(otherwise)))
    }

    fn begin_handover(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    fn show(&mut self, stage: Stage) -> Result<(), Stop> {
        self.access(Shared, |sight| {
            let incarnation = sight.s.life(sight.me).number / 2;
            sight.s.pes[sight.me].stage = (incarnation, stage);
            Ok(())
        })
    }

    fn order_others(&mut self) -> Result<bool, Stop> {
        Ok(true)
    }

    fn publish_taken(&mut self) -> Result<(), Stop> {
        self.access(Private, |sight| {
            let pe = &mut sight.s.pes[sight.me];
            pe.taken = pe.replay.merge.taken().to_vec();
            Ok(())
        })
    }

    fn log_again(&mut self) -> Result<(), Stop> {
        self.access(Private, |sight| {
            sight.s.pes[sight.me].way = LogMode::Logged;
            Ok(())
        })
    }

    fn wake_others(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    fn check_findings(&mut self) -> Result<(), Stop> {
        match self.has_findings()? {
            true => Err(self.roll_all_back(Reason::Overflow { bytes: 0 })),
            false => Ok(()),
        }
    }
}

impl MeetingPort for Caller<'_> {
    fn next_meeting(&mut self) -> Result<u64, Stop> {
        self.access(Private, |sight| Ok(sight.s.pes[sight.me].met + 1))
    }

    fn come(&mut self, number: u64, _: Option<usize>) -> Result<(), Stop> {
        self.access(Shared, |sight| {
            let pe = &mut sight.s.pes[sight.me];
            (pe.met, pe.said_met) = (number, number);
            Ok(())
        })
    }

    fn has_arrived(&mut self, number: u64, _: usize) -> Result<(), Stop> {
        self.access(Private, |sight| {
            sight.s.pes[sight.me].met = number;
            Ok(())
        })
    }

    fn await_all(&mut self, number: u64) -> Result<(), Stop> {
        self.wait(|sight| sight.s.pes.iter().all(|pe| pe.said_met >= number))
    }

    fn view(&mut self) -> Result<ViewNumber, Stop> {
        self.access(Private, |sight| Ok(ViewNumber(sight.s.pes[sight.me].shown as u64)))
    }

    fn has_all_logs(&mut self) -> Result<bool, Stop> {
        self.access(Private, |sight| {
            Ok((0..sight.s.pes.len()).all(|pe| sight.s.has_log(sight.me, pe)))
        })
    }

    fn await_logs(&mut self) -> Result<(), Stop> {
        self.wait(|sight| (0..sight.s.pes.len()).all(|pe| sight.s.has_log(sight.me, pe)))
    }

    fn gather(&mut self, number: u64) -> Result<Option<u64>, Stop> {
        let pes = self.sight.s.pes.len();
        let is_lost = self.sight.model.nodes == Nodes::Lost;
        self.access(if is_lost { Shared } else { Private }, |sight| {
            let ends = |pe: &PeState| pe.ended.is_some_and(|(from, _)| from <= number);
            if sight.s.pes.iter().any(ends) {
                return Ok(None);
            }
            let part = |pe: usize| sight.part(pe, number);
            let parts: Option<Vec<Located>> = (0..pes).map(part).collect();
            Ok(parts.as_deref().and_then(together))
        })
    }

    fn keep_parts(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    fn is_any_log_later(&mut self) -> Result<bool, Stop> {
        self.access(Private, |sight| {
            let own = sight.s.pes[sight.me].interval;
            Ok(sight.s.pes.iter().any(|pe| pe.has_log && pe.interval > own))
        })
    }
}

impl Sight<'_> {
    /// Returns the contribution of a PE to a meeting.
    pub(super) fn part(&self, pe: usize, number: u64) -> Option<Located> {
        let all = std::iter::successors(self.read(Pe::of(pe), 0), |found| {
            self.read(Pe::of(pe), found.next)
        });
        let is_it = |record: &LogRecord| record.kind == Kind::Meeting && record.at == number;
        all.into_iter().find(|found| is_it(&found.record))
    }
}
