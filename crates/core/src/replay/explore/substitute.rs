//! The steps of a substitute in the explorer: death, replay, hand-over, and the checkpoint.

use super::broken::Broken;
use super::model::{At, Bytes, Came, Chain, JobState, LogState, Model, PeState, Words};
use super::program::Op;
use crate::quantity::Pe;
use crate::replay::decide::{Decision, Finding, Reason};
use crate::replay::handover::{self, Stage};
use crate::replay::log::{Asked, Change, Effect, EntryProgress, LogEntry, Time};
use crate::replay::merge::{Merge, SubstituteMemory};
use crate::replay::own::{Differs, Disposition, Replay};

impl SubstituteMemory<Bytes> for Words {
    fn load(&self, at: usize) -> u64 {
        self[at]
    }

    fn store(&mut self, at: usize, value: u64) {
        self[at] = value;
    }

    fn copy(&mut self, at: usize, bytes: &Bytes) {
        self[at..at + 2].copy_from_slice(bytes);
    }
}

impl Model {
    /// Kills the process of a PE, takes the decision, and starts a substitute.
    pub(super) fn kill(&self, s: &mut JobState, me: usize) {
        s.deaths -= 1;
        let in_doubt = s.pes[me].chains.iter().flatten().any(LogEntry::is_in_doubt);
        let ignored = self.breaks(Broken::DoubtDoneAgain) || self.breaks(Broken::DoubtSkipped);
        let reason = (in_doubt && !ignored).then_some(Reason::InDoubt);
        if Finding::of(Pe::of(me), reason).decide() != Decision::Local {
            s.global = true;
            return;
        }
        let (n_pes, agreed) = (s.pes.len(), s.pes[me].interval);
        let copied = |pe: &PeState| pe.saved.len() > agreed + 1;
        let forward = s.pes.iter().all(copied) || s.pes.iter().any(|pe| pe.interval > agreed);
        let pe = &mut s.pes[me];
        match (forward, &pe.at) {
            (true, _) => {}
            (false, At::Closes { .. }) => {
                pe.meetings.pop();
                pe.at = At::Ready;
            }
            (false, _) => pe.at = At::Ready,
        }
        let target = if forward { agreed + 1 } else { agreed };
        pe.saved.truncate(target + 1);
        let (memory, call) = pe.saved[target];
        // The checkpoint call is left in a separate step, when all have arrived.
        pe.call = if forward { call - 1 } else { call };
        match self.breaks(Broken::InPlace) {
            true => pe.memories = vec![memory; pe.memories.len() + 1],
            false => pe.memories.push(memory),
        }
        pe.stages.push(Stage::Replaying);
        (pe.registers, pe.time) = ([0; 2], Time(0));
        (pe.owes, pe.took_over, pe.has_begun) = (false, false, false);
        pe.shown[me] = pe.memories.len() - 1;
        if self.breaks(Broken::EventsLost) {
            pe.events.clear();
        }
        pe.replay = Some((Replay::begin(me, n_pes), Merge::begin(me, n_pes)));
    }

    /// Handles a PE that has made all its calls.
    pub(super) fn end(&self, s: &mut JobState, me: usize) -> Result<bool, String> {
        match s.pes[me].replay {
            Some(_) => self.hands_over(s, me),
            None => Ok(false),
        }
    }

    /// Returns the chains to a PE, of its current interval.
    fn chains(&self, s: &JobState, to: usize) -> Vec<Chain> {
        let same = |pe: &PeState| pe.interval == s.pes[to].interval && pe.log != LogState::Wiped;
        let chain = |pe: &PeState| if same(pe) { pe.chains[to].clone() } else { Vec::new() };
        s.pes.iter().map(chain).map(|chain| self.spoil(chain)).collect()
    }

    /// Changes entries as a broken rule would read them.
    fn spoil(&self, mut chain: Chain) -> Chain {
        for entry in &mut chain {
            if let (Effect::Atomic { at, change }, EntryProgress::Done { old }) =
                (&entry.effect, entry.progress)
            {
                let at = *at;
                match change {
                    _ if self.breaks(Broken::PendingIgnored) => {
                        entry.effect = Effect::Assign { at, value: change.of(old) };
                    }
                    Change::CompareSwap(_, new) if self.breaks(Broken::FailedApplied) => {
                        entry.effect = Effect::Atomic { at, change: Change::Set(*new) };
                    }
                    _ => {}
                }
            }
        }
        chain
    }

    /// Applies the entries that the PE may know; false if an origin is in the midst of an
    /// operation.
    fn apply(&self, s: &mut JobState, me: usize, until: Time) -> bool {
        let chains = self.chains(s, me);
        let Some((replay, mut merge)) = s.pes[me].replay.take() else { return true };
        let memory = s.memory(me);
        let mut over = true;
        let each = if self.breaks(Broken::ByOrigin) { chains.len() } else { 1 };
        for only in 0..each {
            let of = |(origin, chain): (usize, &Chain)| match each > 1 && origin > only {
                true => Vec::new(),
                false => chain.clone(),
            };
            let shown: Vec<Chain> = chains.iter().enumerate().map(of).collect();
            over &= merge.apply(&shown, until, memory).is_ok();
        }
        s.pes[me].replay = Some((replay, merge));
        over
    }

    /// Handles a call of a substitute that replays.
    pub(super) fn replays(&self, s: &mut JobState, me: usize, op: Op) -> Result<bool, String> {
        if let Some((to, effect)) = self.effect(s, me, op) {
            return self.operates(s, me, op, to, &effect);
        }
        match op {
            Op::Get { .. } => self.learns(s, me, op, Asked::Get),
            Op::Wait { .. } => self.learns(s, me, op, Asked::Wait),
            Op::Test { .. } => self.learns(s, me, op, Asked::Test),
            Op::Store { at, .. } | Op::Load { at, .. } => {
                let pending = |(_, merge): &(Replay, Merge)| merge.is_pending(at);
                if s.pes[me].replay.as_ref().is_some_and(pending) {
                    return Err(format!("PE {me} looks at a word that is not known"));
                }
                self.uses_own(s, me, op);
                Ok(true)
            }
            Op::Quiet => Ok(self.releases(s, me, op)),
            Op::Barrier | Op::Checkpoint | Op::Broadcast { .. } | Op::Sum { .. } => {
                let what = s.brings(me, op);
                let pe = &mut s.pes[me];
                let Some((replay, _)) = pe.replay.as_mut() else { unreachable!("it replays") };
                let known = replay.meeting(&what, &pe.meetings);
                let known = known.map_err(|Differs| format!("PE {me} meets otherwise"))?;
                let Some(number) = known else { return self.hands_over(s, me) };
                let number = pe.met + number;
                pe.at = match op {
                    Op::Checkpoint => At::Query { number },
                    _ => At::Meets { number },
                };
                Ok(true)
            }
            _ => unreachable!("operations are above"),
        }
    }

    fn operates(
        &self,
        s: &mut JobState,
        me: usize,
        op: Op,
        to: usize,
        effect: &Effect<Bytes>,
    ) -> Result<bool, String> {
        let pe = &mut s.pes[me];
        let Some((replay, _)) = pe.replay.as_mut() else { unreachable!("it replays") };
        let before = replay.clone();
        match replay.operation(to, effect, &pe.chains[to]) {
            Disposition::New => return self.hands_over(s, me),
            Disposition::Late => {
                pe.chains[to].pop(); // it is new, as if it had not been announced
                return self.hands_over(s, me);
            }
            Disposition::Differs => return Err(format!("PE {me} does something else than before")),
            Disposition::Own { progress } => {
                let number = before.made(to);
                let seen = pe.chains[to][number].seen;
                if !self.knows(s, me, op, seen, before) {
                    return Ok(false);
                }
                self.operates_on_itself(s, me, effect, number);
                let old = match progress {
                    EntryProgress::Done { old } => old,
                    _ => 0,
                };
                s.returns(me, op, old);
            }
            Disposition::Skip { .. } if self.breaks(Broken::NotSkipped) => {
                let same = |entry: &LogEntry<Bytes>| entry.effect == *effect;
                let index = pe.chains[to].iter().position(same).unwrap_or(0);
                pe.chains[to][index].progress = EntryProgress::Begun;
                pe.at = At::Logged { to, index };
            }
            Disposition::Skip { old } => {
                let seen = pe.chains[to][before.made(to)].seen;
                if !self.knows(s, me, op, seen, before) {
                    return Ok(false);
                }
                s.returns(me, op, old);
            }
            // Its result implies operations of other PEs: all of them must be applied before it
            // returns.
            Disposition::Again { .. } if matches!(op, Op::Atomic { into: Some(_), .. }) => {
                pe.chains[to].pop();
                pe.replay.as_mut().expect("it replays").0 = before;
                return self.hands_over(s, me);
            }
            Disposition::Again { number } => {
                let underway = pe.chains[to][number].progress == EntryProgress::Underway;
                let exact = effect.is_exact();
                if underway && !exact && self.breaks(Broken::BegunSkipped)
                    || exact && self.breaks(Broken::DoubtSkipped)
                {
                    pe.chains[to][number].progress = EntryProgress::Done { old: 0 };
                    s.returns(me, op, 0);
                } else {
                    pe.at = At::Logged { to, index: number };
                }
            }
        }
        Ok(true)
    }

    /// Applies the operations of other PEs that the result of an operation implies; false if they
    /// are not known yet.
    fn knows(&self, s: &mut JobState, me: usize, op: Op, seen: Time, before: Replay) -> bool {
        let fetches = matches!(op, Op::Atomic { into: Some(_), .. });
        if !fetches || self.breaks(Broken::FoundLocal) || self.apply(s, me, seen) {
            return true;
        }
        if let Some((replay, _)) = s.pes[me].replay.as_mut() {
            *replay = before; // retried when it is known
        }
        false
    }

    fn operates_on_itself(
        &self,
        s: &mut JobState,
        me: usize,
        effect: &Effect<Bytes>,
        number: usize,
    ) {
        let pe = &mut s.pes[me];
        let Some((_, merge)) = pe.replay.as_mut() else { unreachable!("it replays") };
        let entry = &mut pe.chains[me][number];
        let progress = entry.progress;
        if !matches!(progress, EntryProgress::Done { .. }) {
            entry.progress = EntryProgress::Done { old: 0 };
        }
        if !self.breaks(Broken::OwnSkipped) {
            let memory = pe.memories.last_mut().expect("there is the first");
            merge.carry_out(effect, progress, memory);
        }
    }

    fn learns(&self, s: &mut JobState, me: usize, op: Op, asked: Asked) -> Result<bool, String> {
        let pe = &mut s.pes[me];
        let Some((replay, _)) = pe.replay.as_mut() else { unreachable!("it replays") };
        let before = replay.clone();
        let event =
            replay.event(asked, &pe.events).map_err(|Differs| "another question".to_owned())?;
        let Some(event) = event.cloned() else { return self.hands_over(s, me) };
        if let (Op::Get { from, at, .. }, true) = (op, self.breaks(Broken::ReadAgain)) {
            let value = s.memory(from)[at];
            s.returns(me, op, value);
            return Ok(true);
        }
        if self.apply(s, me, event.until) {
            s.returns(me, op, event.outcome);
            return Ok(true);
        }
        if let Some((replay, _)) = s.pes[me].replay.as_mut() {
            *replay = before; // retried when it is known
        }
        Ok(false)
    }

    /// True if the PE replays, and is in the last call that its predecessor made.
    pub(super) fn is_at_last(&self, s: &JobState, me: usize) -> bool {
        let pe = &s.pes[me];
        let is_over = |(replay, _): &(Replay, Merge)| {
            replay.is_over(&pe.chains, &pe.events, pe.meetings.len())
        };
        pe.replay.as_ref().is_some_and(is_over)
    }

    /// Leaves a meeting, if all have arrived.
    pub(super) fn leaves(
        &self,
        s: &mut JobState,
        me: usize,
        op: Op,
        number: usize,
    ) -> Result<bool, String> {
        let replays = s.pes[me].replay.is_some();
        // The predecessor may have died here: other PEs may need this PE before they arrive.
        if self.is_at_last(s, me) && !(self.breaks(Broken::LastMeetingTrusted) && s.all_met(number))
        {
            return self.hands_over(s, me);
        }
        if !s.all_met(number) {
            return if replays { Err(format!("PE {me} left a meeting alone")) } else { Ok(false) };
        }
        Ok(self.takes_part(s, me, op, number))
    }

    /// Takes all contributions; false if an origin is in the midst of an operation on this PE.
    pub(super) fn takes_part(&self, s: &mut JobState, me: usize, op: Op, number: usize) -> bool {
        let replays = s.pes[me].replay.is_some();
        let arrival = |pe: &PeState| pe.meetings.get(number - pe.met).map(|arrival| arrival.time);
        let shown = s.pes.iter().filter(|pe| pe.log != LogState::Wiped);
        let until = shown.filter_map(arrival).max().unwrap_or_default();
        let applies = replays && !self.breaks(Broken::MeetingBringsNothing);
        if applies && !self.apply(s, me, until) {
            return false;
        }
        if !self.breaks(Broken::MeetingTimesIgnored) {
            s.pes[me].time = s.pes[me].time.max(until);
        }
        if let Some((at, value)) = self.result(s, op, number, replays) {
            s.memory(me)[at] = value;
            if replays && self.breaks(Broken::WritesOthers) {
                (0..s.pes.len()).for_each(|pe| s.memory(pe)[at] = value);
            }
        }
        s.returns(me, op, 0);
        true
    }

    /// Returns the word that a collective writes, and its value.
    fn result(&self, s: &JobState, op: Op, number: usize, replays: bool) -> Option<(usize, u64)> {
        let again = replays && self.breaks(Broken::SourceReadAgain);
        let brought = |pe: &PeState, from: usize| match pe.meetings[number - pe.met].what {
            _ if pe.log == LogState::Wiped => 0,
            _ if again => pe.memories.last().map_or(0, |memory| memory[from]),
            Came::Broadcast(value) | Came::Sum(value) => value,
            other => unreachable!("{other:?} in a collective"),
        };
        match op {
            Op::Broadcast { root, from, at } => Some((at, brought(&s.pes[root], from))),
            Op::Sum { from, at } => Some((at, s.pes.iter().map(|pe| brought(pe, from)).sum())),
            _ => None,
        }
    }

    /// Makes a step of a checkpoint.
    pub(super) fn checkpoints(&self, s: &mut JobState, me: usize) -> Result<bool, String> {
        match s.pes[me].at {
            At::Query { .. } if s.pes[me].replay.is_some() => return self.hands_over(s, me),
            At::Query { number } if s.all_met(number) => {
                let memory = *s.memory(me);
                let pe = &mut s.pes[me];
                pe.saved.push((memory, pe.call + 1));
                pe.at = At::Copied;
                if self.breaks(Broken::DroppedEarly) {
                    self.drops(pe);
                }
            }
            At::Copied => {
                let number = s.arrives(me, Came::Copied);
                s.pes[me].at = At::Closes { number };
            }
            At::Closes { number } if s.all_met(number) => {
                let pe = &mut s.pes[me];
                pe.met += pe.meetings.len();
                pe.meetings.clear();
                pe.interval += 1;
                pe.has_replica = self.nodes;
                self.drops(pe);
                pe.registers = [0; 2];
                s.returns(me, Op::Checkpoint, 0);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Drops the logs of a finished interval.
    fn drops(&self, pe: &mut PeState) {
        pe.chains.iter_mut().for_each(Vec::clear);
        pe.events.clear();
    }

    /// Makes one step from replay to live.
    fn hands_over(&self, s: &mut JobState, me: usize) -> Result<bool, String> {
        let stage = *s.pes[me].stages.last().expect("there is the first");
        let all_show = s.all_show() || self.breaks(Broken::HandedOverEarly);
        match handover::next(stage, all_show) {
            handover::Next::AwaitNodes => return Ok(false),
            handover::Next::Drain if self.breaks(Broken::NoSecondLook) => {
                if !self.takes_over(s, me)? {
                    return Ok(false);
                }
                s.pes[me].at = At::TookOver(Box::new(s.pes[me].at.clone()));
            }
            handover::Next::Drain => {
                *s.pes[me].stages.last_mut().expect("there is the first") = Stage::Draining;
            }
            handover::Next::TakeOver if s.pes[me].took_over => self.goes_live(s, me),
            handover::Next::TakeOver => {
                s.pes[me].took_over = self.takes_over(s, me)?;
                return Ok(s.pes[me].took_over);
            }
            handover::Next::Live => unreachable!("a substitute that replays is not direct"),
        }
        Ok(true)
    }

    pub(super) fn goes_live(&self, s: &mut JobState, me: usize) {
        s.learns(me);
        let pe = &mut s.pes[me];
        *pe.stages.last_mut().expect("there is the first") = Stage::Direct;
        (pe.replay, pe.took_over) = (None, false);
    }

    /// Applies all chains, and marks the entries that it took over; false if an origin is in the
    /// midst of an operation.
    fn takes_over(&self, s: &mut JobState, me: usize) -> Result<bool, String> {
        let mut chains = self.chains(s, me);
        let Some((_, merge)) = s.pes[me].replay.as_mut() else { unreachable!("it replays") };
        let mut merge = merge.clone();
        let over = merge.finish(&mut chains, s.memory(me)).is_ok();
        let same = s.pes[me].interval;
        for (origin, chain) in chains.into_iter().enumerate() {
            let pe = &mut s.pes[origin];
            if origin == me || pe.interval != same || self.breaks(Broken::NotMarked) {
                continue;
            }
            for (own, taken) in pe.chains[me].iter_mut().zip(chain) {
                own.progress = taken.progress;
            }
        }
        let pending = (0..super::model::WORDS).any(|at| merge.is_pending(at));
        if let Some((_, own)) = s.pes[me].replay.as_mut() {
            *own = merge;
        }
        match over && pending {
            true => Err(format!("PE {me} goes live with a word that is not known")),
            false => Ok(over),
        }
    }
}
