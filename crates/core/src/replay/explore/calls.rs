//! The calls of a program, by the machine, and one step of a PE.

use super::broken::Broken;
use super::model::{At, JobState, Nodes, ReplayModel, Sight, WORD, WORDS, bytes, words};
use super::port::Caller;
use super::program::{Op, Value};
use super::script::{Stop, Visibility};
use crate::quantity::{Pe, ViewNumber};
use crate::replay::call::{self, own_bytes};
use crate::replay::decide::Reason;
use crate::replay::handover::catch_up;
use crate::replay::log::{Kind, LogRecord, is_in_doubt};
use crate::replay::meeting;
use crate::replay::port::{CallPort, LogMode, MeetingPort};
use crate::replay::rejoin::{self, RejoinRecords};
use crate::replay::unlogged;
use crate::update::{Update, WordAt};

/// The result of a call, for a register.
type CallOutcome = Result<Option<(usize, u64)>, Stop>;

fn record(kind: Kind, target: usize, at: usize, len: usize) -> LogRecord {
    let (target, at, len) = (target as u32, (at * WORD) as u64, len as u32);
    LogRecord { kind, target, time: 0, at, block: (len.max(8), u64::from(len)), len, digest: 0 }
}

/// Puts words, one after the other.
fn writes(caller: &mut Caller, (to, at): (usize, usize), all: &[u64]) -> Result<(), Stop> {
    let write = |caller: &mut Caller| {
        let mut words = all.iter().enumerate();
        words.try_for_each(|(nth, &word)| caller.write(to, at + nth, |_| word).map(|_| ()))
    };
    call::put(caller, record(Kind::Put, to, at, size_of_val(all)), &bytes(all), write)
}

impl ReplayModel {
    /// One step of a PE whose process lives; false if it has to wait.
    pub(super) fn step(&self, s: &mut JobState, me: usize) -> Result<bool, String> {
        match s.pes[me].at {
            At::Renews => {
                self.renews(s, me);
                return Ok(true);
            }
            At::Begins => return self.begins(s, me),
            At::Replays | At::Calls => {}
        }
        let begins = s.pes[me].at == At::Replays;
        let op = self.program.pes[me].get(s.pes[me].call).copied();
        if op.is_none() && s.pes[me].way == LogMode::Logged && !begins {
            return Ok(false);
        }
        if let (false, Some(op @ (Op::Store { .. } | Op::Load { .. }))) = (begins, op) {
            return self.uses_own(s, me, op);
        }
        let mut caller = Caller::new(self, s, me);
        let result = match op {
            _ if begins => catch_up(&mut caller).map(|()| None),
            Some(op) => self.call(&mut caller, op),
            None => catch_up(&mut caller).map(|()| None),
        };
        let (is_new, script) = (caller.is_new, caller.into_script());
        match result {
            Ok(found) => {
                let pe = &mut s.pes[me];
                found.into_iter().for_each(|(into, value)| pe.registers[into] = value);
                pe.script.clear();
                match begins {
                    true => pe.at = At::Calls,
                    false => pe.call += usize::from(op.is_some()),
                }
                Ok(true)
            }
            Err(_) if s.global.is_some() => self.is_allowed(s, me),
            Err(_) => {
                s.pes[me].script = script;
                Ok(is_new)
            }
        }
    }

    /// Checks the reason of a global rollback: a substitute must not differ from its predecessor,
    /// unless another lost PE has an operation in doubt, which takes all PEs back in any case.
    pub(super) fn is_allowed(&self, s: &mut JobState, me: usize) -> Result<bool, String> {
        let differs =
            matches!(s.global, Some(Reason::Differs | Reason::Uncertain | Reason::Unlike));
        if differs && !self.doubts(s, me) {
            return Err(format!("PE {me}: {:?}", s.global));
        }
        if matches!(s.global, Some(Reason::Overflow { .. })) && !s.is_lost_since_ended() {
            return Err(format!("PE {me}: all roll back for a loss before the records ended"));
        }
        Ok(true)
    }

    /// Returns true if a lost PE other than `me`, not yet restored, has an operation in doubt.
    fn doubts(&self, s: &mut JobState, me: usize) -> bool {
        (0..s.pes.len()).filter(|&pe| pe != me).any(|pe| {
            let is_away = !s.life(pe).lives() || matches!(s.pes[pe].at, At::Renews | At::Begins);
            is_away && is_in_doubt(&Sight { model: self, s, me }, Pe::of(pe))
        })
    }

    /// A plain access of the program.
    fn uses_own(&self, s: &mut JobState, me: usize, op: Op) -> Result<bool, String> {
        let pe = &mut s.pes[me];
        let at = match op {
            Op::Store { at, .. } | Op::Load { at, .. } => at,
            _ => unreachable!("a plain access"),
        };
        let is_load = matches!(op, Op::Load { .. });
        if is_load && pe.replay.merge.is_pending(&(at * WORD..at * WORD + 1)) {
            return Err(format!("PE {me} reads a word of unknown value"));
        }
        let memory = pe.memories.last_mut().expect("there is the first");
        match op {
            Op::Store { value, .. } => memory[at] = of(value, &pe.registers),
            Op::Load { into, .. } => pe.registers[into] = memory[at],
            _ => {}
        }
        pe.call += 1;
        Ok(true)
    }

    fn call(&self, caller: &mut Caller, op: Op) -> CallOutcome {
        let me = caller.sight.me;
        let value = |caller: &Caller, value| of(value, &caller.sight.s.pes[me].registers);
        match op {
            Op::Put { to, at, value: v } => {
                let v = value(caller, v);
                writes(caller, (to, at), &[v])?;
            }
            Op::Bulk { to, at, value: v } => {
                let v = value(caller, v);
                writes(caller, (to, at), &[v, v + 1])?;
            }
            Op::Large { to, value: v } => {
                let v = value(caller, v);
                writes(caller, (to, 0), &[v; WORDS])?;
            }
            Op::Atomic { to, at, change, value: v, into } => {
                let change = change.with(value(caller, v));
                let word = WordAt { offset: at * WORD, bytes: WORD };
                let (bytes, operand) = LogRecord::block_of_change(word, change);
                let block = (bytes as u32, operand as u64);
                let head = LogRecord { block, ..record(Kind::Atomic, to, at, 0) };
                let compares = match change.how {
                    Update::CompareSwap(with) => Some(with),
                    _ => None,
                };
                let write = |caller: &mut Caller| caller.write(to, at, |old| change.of(old, WORD));
                let found = call::change(caller, head, (compares, into.is_some()), write)?;
                return Ok(into.map(|into| (into, found)));
            }
            Op::Get { from, at, into } => {
                let mut got = 0;
                let read = |caller: &mut Caller| {
                    got = caller.read_word(from, at)?;
                    Ok(got.to_ne_bytes())
                };
                let before = call::get(caller, record(Kind::Get, from, at, 0), read)?;
                let found = before.map_or(got, |before| words(own_bytes(caller, before))[0]);
                return Ok(Some((into, found)));
            }
            Op::Wait { at, least } => {
                let until = |caller: &mut Caller| {
                    caller.access(Visibility::Shared, |sight| {
                        let value = sight.s.memory(sight.me)[at];
                        if value >= least { Ok(value) } else { Err(Stop::Blocked) }
                    })
                };
                call::wait(caller, record(Kind::Wait, me, at, 0), |value| value >= least, until)?;
            }
            Op::Test { at, least, into } => return self.tests(caller, (at, least), into),
            Op::Quiet => {}
            Op::Barrier => self.passes(caller)?,
            Op::Unlogged => {
                let why = Reason::NoRule { routine: String::new() };
                unlogged::end_records(caller, &why)?;
            }
            Op::Broadcast { root, from, at } => {
                let own = caller.own_or_before(root == me, from)?;
                self.makes(caller, (from, at), (2, own), |parts| parts[root])?;
            }
            Op::Sum { from, at } => {
                let own = caller.own_or_before(true, from)?;
                self.makes(caller, (from, at), (3, own), |parts| parts.iter().sum())?;
            }
            Op::Checkpoint | Op::Finish => self.agrees_then(caller, op)?,
            Op::Store { .. } | Op::Load { .. } => unreachable!("a plain access"),
        }
        Ok(None)
    }

    fn tests(&self, caller: &mut Caller, (at, least): (usize, u64), into: usize) -> CallOutcome {
        let me = caller.sight.me;
        let look = |caller: &mut Caller| {
            let says =
                caller.access(Visibility::Shared, |sight| Ok(sight.s.memory(me)[at] >= least));
            Ok([u8::from(says?)])
        };
        let found = call::answer(caller, record(Kind::Answer, me, at, 0), look)?;
        let says = found.unwrap_or_else(|before| [own_bytes(caller, before)[0]]);
        Ok(Some((into, u64::from(says[0]))))
    }

    /// A barrier, through the logs or without them.
    fn passes(&self, caller: &mut Caller) -> Result<(), Stop> {
        let head = LogRecord { digest: 1, ..record(Kind::Meeting, caller.sight.me, 0, 0) };
        let view = meeting::meet(caller, head, &[])?;
        catch_up(caller)?;
        if view.is_some() {
            return Ok(());
        }
        let number = caller.access(Visibility::Shared, |sight| {
            sight.s.pes[0].rounds.0 += 1;
            let own = &mut sight.s.pes[sight.me].rounds;
            own.1 += 1;
            Ok(own.1)
        })?;
        caller.access(Visibility::Shared, |sight| {
            let (s, me) = (&mut *sight.s, sight.me);
            if s.pes[0].rounds.0 >= number * s.pes.len() {
                return Ok(());
            }
            if s.pes[me].shown != s.pes[me].joined && !s.is_lost_since_ended() {
                s.wrong = Some("a PE leaves a barrier for a loss that is over");
                return Ok(());
            }
            Err(Stop::Blocked)
        })
    }

    fn meets(&self, caller: &mut Caller, digest: u64, what: &[u64]) -> Result<ViewNumber, Stop> {
        let me = caller.sight.me;
        let record = LogRecord { digest, ..record(Kind::Meeting, me, 0, what.len() * WORD) };
        let view = meeting::meet(caller, record, &bytes(what))?;
        view.ok_or_else(|| {
            caller.sight.s.wrong = Some("a contribution to a meeting is missing");
            caller.is_new = true;
            Stop::Cut
        })
    }

    /// A collective, of which the word at `at` becomes what `make` makes of what all brought.
    fn makes(
        &self,
        caller: &mut Caller,
        (from, at): (usize, usize),
        (digest, own): (u64, u64),
        make: impl Fn(&[u64]) -> u64,
    ) -> Result<(), Stop> {
        let view = self.meets(caller, digest, &[own])?;
        let number = caller.next_meeting()? - 1;
        let replays = caller.way() == LogMode::Replayed;
        meeting::work_out(caller, view, |caller| {
            caller.access(Visibility::Shared, |sight| {
                let brought = |pe: usize| {
                    if replays && self.is(Broken::SourceReadAgain) {
                        return sight.s.pes[pe].memories.last().map_or(0, |memory| memory[from]);
                    }
                    let found = sight.part(pe, number);
                    found.map_or(0, |found| words(&sight.s.pes[pe].log[found.from].payload)[0])
                };
                let parts: Vec<u64> = (0..sight.s.pes.len()).map(brought).collect();
                let made = make(&parts);
                sight.s.memory(sight.me)[at] = made;
                if replays && self.is(Broken::WritesOthers) {
                    (0..parts.len()).for_each(|pe| sight.s.memory(pe)[at] = made);
                }
                Ok(())
            })
        })?;
        catch_up(caller)
    }

    /// All agree on a view. At a checkpoint, all then copy their memory and begin new logs.
    fn agrees_then(&self, caller: &mut Caller, op: Op) -> Result<(), Stop> {
        self.agrees(caller, op == Op::Finish)?;
        if op == Op::Finish { Ok(()) } else { self.copies(caller) }
    }

    fn agrees(&self, caller: &mut Caller, at_end: bool) -> Result<(), Stop> {
        let me = caller.sight.me;
        let record = |digest, len| LogRecord { digest, ..record(Kind::Meeting, me, 0, len) };
        let records = RejoinRecords { views: record(4, 2 * WORD), members: record(5, 0) };
        rejoin::agree(caller, &records, at_end, |caller, joins| {
            caller.access(Visibility::Shared, |sight| {
                let pe = &mut sight.s.pes[sight.me];
                pe.rounds = (0, 0);
                if joins {
                    pe.gate = (0, 0);
                }
                Ok(())
            })
        })?;
        Ok(())
    }

    /// A PE that is lost here takes all back.
    fn copies(&self, caller: &mut Caller) -> Result<(), Stop> {
        caller.access(Visibility::Shared, |sight| {
            let memory = *sight.s.memory(sight.me);
            let pe = &mut sight.s.pes[sight.me];
            pe.saved.push((memory, pe.call + 1));
            (pe.copied, pe.gate.1) = (pe.interval + 1, pe.gate.1 + 1);
            let (joined, copied) = (pe.joined, pe.copied);
            sight.s.pes[0].gate.0 += 1;
            let makes_it = |pe: &usize| sight.s.is_direct(*pe) && sight.s.pes[*pe].copied == copied;
            let mut makers = (0..sight.s.pes.len()).filter(makes_it);
            if makers.any(|pe| sight.s.pes[pe].joined != joined) {
                sight.s.wrong = Some("members of several views make a checkpoint");
            }
            Ok(())
        })?;
        let is_whole = caller.access(Visibility::Shared, |sight| {
            let own = &sight.s.pes[sight.me];
            let changed = own.shown != own.joined;
            let all = sight.s.pes[0].gate.0 >= sight.s.pes.len() * own.gate.1;
            if all || changed { Ok(all) } else { Err(Stop::Blocked) }
        })?;
        if !is_whole {
            return Err(caller.roll_all_back(Reason::InCheckpoint));
        }
        caller.access(Visibility::Shared, |sight| {
            let nodes = sight.model.nodes == Nodes::Lost;
            let pe = &mut sight.s.pes[sight.me];
            pe.log.clear();
            pe.taken.fill(0);
            pe.interval += 1;
            pe.has_replica = nodes;
            (pe.ended, pe.saw_all) = (None, None);
            pe.registers = [0; 2];
            Ok(())
        })
    }
}

impl Caller<'_> {
    /// Returns the contribution of this PE from its word, or its earlier one.
    fn own_or_before(&mut self, brings: bool, from: usize) -> Result<u64, Stop> {
        self.access(Visibility::Private, |sight| {
            Ok(if brings { sight.s.memory(sight.me)[from] } else { 0 })
        })
    }
}

fn of(value: Value, registers: &[u64; 2]) -> u64 {
    match value {
        Value::Just(value) => value,
        Value::Of { register, plus } => registers[register] + plus,
    }
}
