//! The calls of a program, by the machine of local rollback, and one step of a process.

use std::rc::Rc;

use raidshmem_core::quantity::{CheckpointNumber, Pe, ViewNumber};
use raidshmem_core::replay::call::{self, own_bytes};
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::replay::far::renewal::renew;
use raidshmem_core::replay::handover::catch_up;
use raidshmem_core::replay::log::{Kind, LogRecord, Logs};
use raidshmem_core::replay::look::look;
use raidshmem_core::replay::meeting;
use raidshmem_core::replay::own::{Replay, met_before};
use raidshmem_core::replay::port::{CallPort, LogMode, MeetingPort};
use raidshmem_core::replay::rejoin::{self, RejoinRecords};
use raidshmem_core::replay::replicas::{self, LogExtent};
use raidshmem_core::store::phase::Phase;
use raidshmem_core::update::{Update, WordAt};
use raidshmem_core::view::State as Life;

use super::job::Job;
use super::port::{Caller, Sight, Stop, WORD, bytes, words};
use super::program::{Op, REGISTERS, To, Value};
use super::state::At;

/// The effect of a call on the process.
enum Next {
    /// It continues with the next call.
    On,
    /// It continues with the next call, and with a value in a register.
    With(usize, u64),
    /// It makes the call again.
    Again,
}

fn record(kind: Kind, target: usize, at: usize, len: usize) -> LogRecord {
    let (target, at, len) = (target as u32, (at * WORD) as u64, len as u32);
    LogRecord { kind, target, time: 0, at, block: (len.max(8), u64::from(len)), len, digest: 0 }
}

impl Job {
    /// Makes one step of a process.
    pub fn step(&mut self, process: usize) {
        let own = &self.processes[process];
        let (node, me, at) = (own.node, own.pe, own.at);
        let view = Rc::clone(self.page(node));
        let stop = match at {
            At::Spare => return self.sleep(process),
            At::Starts if view.number == ViewNumber(0) => return self.sleep(process),
            At::Starts => {
                let own = &mut self.processes[process];
                own.join(&view);
                (own.way, own.at) = (LogMode::Logged, At::Calls);
                self.choose_holder(process);
                self.begin_far(process);
                None
            }
            At::Begins => {
                let member = view.pes[me];
                let is_shown = member.state == Life::Alive
                    && member.incarnation == self.processes[process].incarnation;
                if !is_shown {
                    return self.sleep(process);
                }
                self.begins(process)
            }
            At::Replays | At::Calls => self.calls(process),
            At::Requests if view.local => return self.sleep(process),
            At::Requests => Some(Stop::Cut),
            At::RollsBack => {
                self.sleep(process);
                return self.rolls_back();
            }
        };
        match stop {
            None | Some(Stop::Later) => self.goes_on(process),
            Some(Stop::Blocked) => self.sleep(process),
            Some(Stop::Cut) if self.processes[process].at == At::Requests && view.local => {
                self.sleep(process);
            }
            Some(Stop::Cut) => {
                let own = &mut self.processes[process];
                (own.at, own.way) = (At::RollsBack, LogMode::Plain);
                own.script.clear();
                self.shared[me].log.flight = None;
                self.wake_all();
                self.sleep(process);
                self.rolls_back();
            }
        }
    }

    fn calls(&mut self, process: usize) -> Option<Stop> {
        let own = &self.processes[process];
        let begins = own.at == At::Replays;
        let op = self.program.pes[own.pe].get(own.call).copied();
        let me = own.pe;
        if op.is_none() && own.way == LogMode::Logged && !begins {
            let rolls_back = Sight { job: self, me, process }.all_roll_back();
            self.finished();
            return Some(if rolls_back { Stop::Cut } else { Stop::Blocked });
        }
        if let (false, Some(op)) = (begins, op)
            && self.uses_own(process, op)
        {
            return None;
        }
        let enters = self.processes[process].script.is_empty();
        if enters && (Sight { job: self, me, process }).all_roll_back() {
            return Some(Stop::Cut);
        }
        let mut caller = Caller::new(self, process);
        let next = match op {
            Some(op) if !begins => make(&mut caller, op),
            _ => catch_up(&mut caller).map(|()| Next::On),
        };
        match next {
            Ok(next) => {
                let own = &mut self.processes[process];
                match next {
                    _ if begins => own.at = At::Calls,
                    Next::Again => {}
                    Next::On => own.call += usize::from(op.is_some()),
                    Next::With(into, value) => {
                        own.registers[into] = value;
                        own.call += 1;
                    }
                }
                None
            }
            Err(stop) => {
                caller.keep();
                Some(stop)
            }
        }
    }

    /// Makes a plain access of the program to its own memory; returns false if `op` is another
    /// call.
    fn uses_own(&mut self, process: usize, op: Op) -> bool {
        let own = &mut self.processes[process];
        let (me, number) = (own.pe, own.mapped[own.pe].0);
        let memory = &mut self.shared[me].memory(number).words;
        let read = match op {
            Op::Load { at, .. } | Op::Raise { at, .. } | Op::Check { at, .. } => Some(at),
            Op::Mix { with } => Some(with),
            _ => None,
        };
        let is_pending = |at: usize| own.replay.merge.is_pending(&(at * WORD..at * WORD + 1));
        if read.is_some_and(is_pending) {
            self.wrong = Some(format!("PE {me} reads a word of unknown value"));
        }
        match op {
            Op::Store { at, value } => memory[at] = of(value, &own.registers),
            Op::Load { at, into } => own.registers[into] = memory[at],
            Op::Raise { at, register } => memory[at] += own.registers[register],
            Op::Mix { with } => memory[0] = memory[0].wrapping_mul(31).wrapping_add(memory[with]),
            Op::Check { at, register } => {
                memory[0] ^= u64::from(memory[at] != own.registers[register]) << 63;
            }
            _ => return false,
        }
        own.call += 1;
        true
    }

    /// Begins a local rollback: restores the log from its replica, looks for reasons against it,
    /// and restores the memory.
    fn begins(&mut self, process: usize) -> Option<Stop> {
        let me = self.processes[process].pe;
        let view = Rc::clone(self.page(self.processes[process].node));
        if !view.local {
            return Some(Stop::Cut);
        }
        if self.shared[me].log.memory.is_none() {
            self.processes[process].map(&view);
            self.connects(process);
            return self.renews(process);
        }
        if self.processes[process].script.is_empty() {
            self.processes[process].map(&view);
            self.connects(process);
        }
        let mut caller = Caller::new(self, process);
        match look(&mut caller) {
            Ok(number) => {
                self.restores(process, number);
                None
            }
            Err(stop) => {
                caller.keep();
                Some(stop)
            }
        }
    }

    fn renews(&mut self, process: usize) -> Option<Stop> {
        let me = self.processes[process].pe;
        let number = self.processes[process].mapped[me].0;
        if self.is_far {
            let mut caller = Caller::new(self, process);
            if let Err(stop) = renew(&mut caller) {
                caller.keep();
                return Some(stop);
            }
        } else {
            let Some((.., records)) = self.shared[me].log.replica else {
                Sight { job: self, me, process }.request(Reason::NodeLost);
                return Some(Stop::Cut);
            };
            self.shared[me].log.entries.truncate(records);
        }
        let shared = &mut self.shared[me];
        shared.log.memory = Some(number);
        shared.log.flight = None;
        let interval = shared.log.interval;
        shared.memory(number).phase = Some(Phase::Agreed(interval));
        self.wake_all();
        None
    }

    fn restores(&mut self, process: usize, checkpoint: CheckpointNumber) {
        let me = self.processes[process].pe;
        let number = self.processes[process].mapped[me].0;
        let (memory, call) = self.shared[me].saved[checkpoint.0 as usize];
        self.shared[me].memory(number).words = memory;
        let n_pes = self.shared.len();
        let mut meetings = None;
        let sight = Sight { job: self, me, process };
        let replay = Replay::begin(&sight, Pe::of(me), n_pes, |found| {
            if found.record.kind == Kind::Meeting {
                let (first, _) = meetings.unwrap_or((found.record.at, 0));
                meetings = Some((first, found.record.at));
            }
        });
        let log = &sight.job.shared[me].log;
        let extent = |bytes: usize| LogExtent {
            era: ViewNumber(0),
            interval: log.interval,
            bytes: bytes as u64,
        };
        let replica = log.replica.map(|(pe, _, records)| (Pe::of(pe), extent(records)));
        let own = extent(log.entries.len());
        let holder = replicas::continued(own, replica, |rule| sight.breaks(rule));
        let log = &mut self.shared[me].log;
        let (met, comes) = met_before(log.met, meetings);
        log.met = comes.unwrap_or(log.met);
        log.flight = None;
        let own = &mut self.processes[process];
        (own.met, own.call, own.replay, own.way) = (met, call, replay, LogMode::Replayed);
        (own.at, own.owes_report) = (At::Replays, true);
        own.replicates = holder.is_some();
        self.wake_all();
    }

    /// Chooses the PE that keeps the replica of a log up to the next checkpoint.
    pub fn choose_holder(&mut self, process: usize) {
        let own = &self.processes[process];
        let nodes: Vec<u32> = own.mapped.iter().map(|&(_, node)| node).collect();
        let holder =
            replicas::holders(&nodes).filter(|_| !self.is_far).map(|holders| holders[own.pe].at());
        let replica = holder.map(|holder| (holder, own.mapped[holder].0, 0));
        let me = own.pe;
        self.shared[me].log.replica = replica;
        self.processes[process].replicates = replica.is_some();
    }
}

fn make(caller: &mut Caller, op: Op) -> Result<Next, Stop> {
    let me = caller.sight.me;
    let registers = caller.sight.own().registers;
    match op {
        Op::Put { to, at, value } => {
            let to = target(to, &registers) % caller.sight.job.shared.len();
            let value = of(value, &registers);
            let head = record(Kind::Put, to, at, WORD);
            let write = |caller: &mut Caller| match caller.is_far(Pe::of(to)) {
                true => caller.sends_put(head, &bytes(&[value])),
                false => caller.write(to, at, |_| value).map(|_| ()),
            };
            caller.quiets(Some(to))?;
            call::put(caller, head, &bytes(&[value]), write)?;
        }
        Op::Bulk { to, at, value, step } => {
            let value = of(value, &registers);
            let block = (WORD as u32, (step * WORD) as u64);
            let record = LogRecord { block, ..record(Kind::Put, to, at, 2 * WORD) };
            let write = |caller: &mut Caller| {
                if caller.is_far(Pe::of(to)) {
                    return caller.sends_put(record, &bytes(&[value, value + 1]));
                }
                caller.write(to, at, |_| value)?;
                caller.write(to, at + step, |_| value + 1).map(|_| ())
            };
            caller.quiets(Some(to))?;
            call::put(caller, record, &bytes(&[value, value + 1]), write)?;
        }
        Op::Atomic { to, at, how, value, into } => {
            let found = changes(caller, (to, at), how, value, into.is_some())?;
            return Ok(into.map_or(Next::On, |into| Next::With(into, found)));
        }
        Op::Acquire { to, at } => {
            let how = Update::CompareSwap(0);
            let found = changes(caller, (to, at), how, me as u64 + 1, true)?;
            return Ok(if found == 0 { Next::On } else { Next::Again });
        }
        Op::Get { .. } | Op::Wait { .. } | Op::Poll { .. } | Op::Draw { .. } => {
            return observe(caller, op);
        }
        _ => return meet_others(caller, op),
    }
    Ok(Next::On)
}

/// Makes a call that returns a result to the program.
fn observe(caller: &mut Caller, op: Op) -> Result<Next, Stop> {
    let me = caller.sight.me;
    match op {
        Op::Get { from, at, into } => {
            let read = |caller: &mut Caller| match caller.is_far(Pe::of(from)) {
                true => Ok(caller.reads_far(from, at)?.to_ne_bytes()),
                false => Ok(caller.read_word(from, at)?.to_ne_bytes()),
            };
            caller.quiets(Some(from))?;
            let mut got = 0;
            let before = call::get(caller, record(Kind::Get, from, at, 0), |caller| {
                let bytes = read(caller)?;
                got = u64::from_ne_bytes(bytes);
                Ok(bytes)
            })?;
            let found = before.map_or(got, |before| words(own_bytes(caller, before))[0]);
            return Ok(Next::With(into, found));
        }
        Op::Wait { at, least } => {
            let until = |caller: &mut Caller| {
                caller.wait(|sight| word(sight, at) >= least)?;
                caller.private(|sight| Ok(word(sight, at)))
            };
            call::wait(caller, record(Kind::Wait, me, at, 0), |value| value >= least, until)?;
        }
        Op::Poll { at, least, into } => {
            let look =
                |caller: &mut Caller| Ok([u8::from(caller.shared(|s| Ok(word(s, at) >= least))?)]);
            let found = call::answer(caller, record(Kind::Answer, me, at, 0), look)?;
            let says = found.unwrap_or_else(|before| [own_bytes(caller, before)[0]]);
            if says[0] == 0 {
                caller.private(|sight| {
                    sight.own_mut().registers[into] += 1;
                    Ok(())
                })?;
                return Ok(Next::Again);
            }
        }
        Op::Draw { into } => {
            let drawn = caller.private(|sight| Ok(sight.job.draw()))?;
            let before = call::draw(caller, record(Kind::Event, me, 0, WORD), &bytes(&[drawn]))?;
            let value = before.map_or(drawn, |before| words(own_bytes(caller, before))[0]);
            return Ok(Next::With(into, value));
        }
        _ => unreachable!("a call with a result"),
    }
    Ok(Next::On)
}

/// Makes a call in which all PEs meet.
fn meet_others(caller: &mut Caller, op: Op) -> Result<Next, Stop> {
    let me = caller.sight.me;
    match op {
        Op::Barrier => {
            meets(caller, 1, &[])?;
            catch_up(caller)?;
        }
        Op::Broadcast { root, from, at } => {
            let own = if root == me { contribution(caller, from)? } else { 0 };
            collects(caller, at, (2, own), |parts| parts[root])?;
        }
        Op::Sum { from, at } => {
            let own = contribution(caller, from)?;
            let sum =
                |parts: &[u64]| parts.iter().fold(0, |sum: u64, part| sum.wrapping_add(*part));
            collects(caller, at, (3, own), sum)?;
        }
        Op::Checkpoint => {
            agrees(caller, false)?;
            copies(caller)?;
        }
        Op::Finish => agrees(caller, true)?,
        _ => unreachable!("a meeting"),
    }
    Ok(Next::On)
}

fn word(sight: &Sight, at: usize) -> u64 {
    let number = sight.own().mapped[sight.me].0 as usize;
    sight.job.shared[sight.me].memories[number].words[at]
}

fn changes(
    caller: &mut Caller,
    (to, at): (usize, usize),
    how: Update,
    value: u64,
    fetches: bool,
) -> Result<u64, Stop> {
    let change = Op::change(how, value);
    let (bytes, operand) =
        LogRecord::block_of_change(WordAt { offset: at * WORD, bytes: WORD }, change);
    let head =
        LogRecord { block: (bytes as u32, operand as u64), ..record(Kind::Atomic, to, at, 0) };
    let compares = match how {
        Update::CompareSwap(with) => Some(with),
        _ => None,
    };
    let with = (compares, fetches);
    let write = |caller: &mut Caller| match caller.is_far(Pe::of(to)) {
        true => caller.sends_change(head, with),
        false => caller.write(to, at, |old| change.of(old, WORD)),
    };
    caller.quiets(Some(to))?;
    call::change(caller, head, with, write)
}

fn contribution(caller: &mut Caller, from: usize) -> Result<u64, Stop> {
    caller.private(|sight| Ok(word(sight, from)))
}

fn meets(caller: &mut Caller, digest: u64, what: &[u64]) -> Result<ViewNumber, Stop> {
    let me = caller.sight.me;
    caller.quiets(None)?;
    let record = LogRecord { digest, ..record(Kind::Meeting, me, 0, what.len() * WORD) };
    let view = meeting::meet(caller, record, &bytes(what))?;
    if view.is_none() {
        let stand = caller.sight.job.stand();
        caller.sight.job.wrong = Some(format!("PE {me} finds no record of a PE\n{stand}"));
    }
    view.ok_or(Stop::Blocked)
}

/// A collective, of which the word at `at` becomes what `combine` makes of all contributions.
fn collects(
    caller: &mut Caller,
    at: usize,
    (digest, own): (u64, u64),
    combine: impl Fn(&[u64]) -> u64,
) -> Result<(), Stop> {
    let view = meets(caller, digest, &[own])?;
    let number = caller.next_meeting()? - 1;
    meeting::work_out(caller, view, |caller| {
        caller.shared(|sight| {
            let part = |pe: usize| {
                let found = sight.part(pe, number);
                found.map_or(0, |found| words(sight.payload(Pe::of(pe), &found))[0])
            };
            let parts: Vec<u64> = (0..sight.job.shared.len()).map(part).collect();
            sight.words()[at] = combine(&parts);
            Ok(())
        })
    })?;
    catch_up(caller)
}

fn agrees(caller: &mut Caller, at_end: bool) -> Result<(), Stop> {
    let me = caller.sight.me;
    caller.quiets(None)?;
    let record = |digest, len| LogRecord { digest, ..record(Kind::Meeting, me, 0, len) };
    let records = RejoinRecords { views: record(4, 2 * WORD), members: record(5, 0) };
    rejoin::agree(caller, &records, at_end, |caller, joins| {
        caller.shared(|sight| {
            if joins {
                let number = sight.own().mapped[sight.me].0;
                sight.job.shared[sight.me].memory(number).arrived = 0;
                sight.own_mut().meetings = 0;
            }
            Ok(())
        })
    })?;
    Ok(())
}

/// Copies the memory for a checkpoint, and begins a new log once all PEs have copied. A PE that is
/// lost meanwhile takes all back.
fn copies(caller: &mut Caller) -> Result<(), Stop> {
    let next = caller.shared(|sight| {
        let me = sight.me;
        let (call, joined) = (sight.own().call + 1, sight.own().joined);
        let next = sight.job.shared[me].log.interval.next();
        let words = sight.words().try_into().expect("all words");
        sight.job.shared[me].saved.truncate(next.0 as usize);
        sight.job.shared[me].saved.push((words, call));
        set_phase(sight, Phase::Entering(next));
        sight.own_mut().meetings += 1;
        let (first, n_pes) = (sight.own().mapped[0].0, sight.job.shared.len());
        let arrived = &mut sight.job.shared[0].memory(first).arrived;
        *arrived += 1;
        if arrived.is_multiple_of(n_pes) {
            sight.job.wake_all();
        }
        sight.job.check_joined(joined, next);
        Ok(next)
    })?;
    let is_whole = caller.shared(|sight| {
        let (first, meetings) = (sight.own().mapped[0].0, sight.own().meetings);
        let all = sight.job.shared.len() * meetings;
        let all = sight.job.shared[0].memory(first).arrived >= all;
        let is_changed = sight.job.page(sight.own().node).number != sight.own().joined;
        if all || is_changed { Ok(all) } else { Err(Stop::Blocked) }
    })?;
    if !is_whole {
        return Err(caller.roll_all_back(Reason::InCheckpoint));
    }
    caller.shared(|sight| {
        set_phase(sight, Phase::Agreed(next));
        Ok(())
    })?;
    caller.shared(|sight| {
        let log = sight.log();
        log.entries.clear();
        log.taken.fill(0);
        log.interval = next;
        sight.job.begin_far(sight.process);
        sight.own_mut().registers = [0; REGISTERS];
        let process = sight.process;
        sight.job.choose_holder(process);
        sight.job.checkpoints += 1;
        Ok(())
    })
}

fn set_phase(sight: &mut Sight, phase: Phase) {
    let number = sight.own().mapped[sight.me].0;
    sight.job.shared[sight.me].memory(number).phase = Some(phase);
}

fn target(to: To, registers: &[u64; REGISTERS]) -> usize {
    match to {
        To::Pe(pe) => pe,
        To::Of { register } => registers[register] as usize,
    }
}

fn of(value: Value, registers: &[u64; REGISTERS]) -> u64 {
    match value {
        Value::Just(value) => value,
        Value::Of { register, plus } => registers[register].wrapping_add(plus),
    }
}
