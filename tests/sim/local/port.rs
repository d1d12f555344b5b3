//! The ports of local rollback in the simulator.
//!
//! A step of a process makes the call from its beginning: earlier accesses return their results
//! from a script and change nothing; then one further visible access takes effect, and the
//! invisible ones after it. So steps of other processes come between any two visible accesses.

use std::any::Any;
use std::ops::Range;
use std::rc::Rc;

use raidshmem_core::message::PeMessage;
use raidshmem_core::mutant::{self, Mutant};
use raidshmem_core::quantity::{Pe, ViewNumber};
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::replay::log::{
    AtomicOutcome, Carried, Kind, Located, LogRecord, Logs, Stage, taken_by,
};
use raidshmem_core::replay::meeting::together;
use raidshmem_core::replay::merge::{Merge, SubstitutePort};
use raidshmem_core::replay::own::LoggedCall;
use raidshmem_core::replay::port::{CallPort, LogMode, MeetingPort};
use raidshmem_core::update::WordAt;
use raidshmem_core::view::{Member, State as Life};

use super::job::Job;
use super::state::{At, Entry, Log, Process};

/// Bytes of a word.
pub const WORD: usize = 8;

/// The reason that a call is not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The next access is another step.
    Later,
    /// The call has to wait.
    Blocked,
    /// All PEs roll back.
    Cut,
}

/// The job, as a process sees it.
pub struct Sight<'a> {
    pub job: &'a mut Job,
    pub me: usize,
    pub process: usize,
}

/// A call of a process.
pub struct Caller<'a> {
    pub sight: Sight<'a>,
    script: Vec<Rc<dyn Any>>,
    /// Accesses that were made in this step, or were in the script.
    made: usize,
    /// True if this step has made a visible access.
    stepped: bool,
    /// The memory of the target that was reached last.
    on: u32,
    /// True once all PEs roll back.
    is_cut: bool,
}

impl<'a> Caller<'a> {
    pub fn new(job: &'a mut Job, process: usize) -> Caller<'a> {
        let script = std::mem::take(&mut job.processes[process].script);
        let me = job.processes[process].pe;
        let sight = Sight { job, me, process };
        Caller { sight, script, made: 0, stepped: false, on: 0, is_cut: false }
    }

    /// Keeps the results of the accesses so far for the next step.
    pub fn keep(self) {
        self.sight.job.processes[self.sight.process].script = self.script;
    }

    fn access<A: Any + Clone>(
        &mut self,
        visible: bool,
        act: impl FnOnce(&mut Sight) -> Result<A, Stop>,
    ) -> Result<A, Stop> {
        if let Some(answer) = self.script.get(self.made) {
            self.made += 1;
            let answer = answer.downcast_ref::<A>();
            return Ok(answer.expect("the call makes the same accesses again").clone());
        }
        if visible && self.stepped {
            return Err(Stop::Later);
        }
        let answer = act(&mut self.sight)?;
        self.stepped |= visible;
        self.script.push(Rc::new(answer.clone()));
        self.made += 1;
        Ok(answer)
    }

    /// Makes an access that a step of another process may precede.
    pub fn shared<A: Any + Clone>(
        &mut self,
        act: impl FnOnce(&mut Sight) -> Result<A, Stop>,
    ) -> Result<A, Stop> {
        self.access(true, act)
    }

    /// Makes an access of which no other process can tell the time.
    pub fn private<A: Any + Clone>(
        &mut self,
        act: impl FnOnce(&mut Sight) -> Result<A, Stop>,
    ) -> Result<A, Stop> {
        self.access(false, act)
    }

    /// Waits until `is_so` holds; fails if all PEs roll back before that.
    pub fn wait(&mut self, is_so: impl FnOnce(&Sight) -> bool) -> Result<(), Stop> {
        self.shared(|sight| match is_so(sight) {
            true => Ok(()),
            false if sight.all_roll_back() => Err(Stop::Cut),
            false => Err(Stop::Blocked),
        })
    }

    /// Writes a word of a reached PE; returns the old value.
    pub fn write(
        &mut self,
        to: usize,
        at: usize,
        change: impl FnOnce(u64) -> u64,
    ) -> Result<u64, Stop> {
        let on = self.memory_of(to);
        self.shared(|sight| {
            let word = &mut sight.job.shared[to].memory(on).words[at];
            let old = *word;
            *word = change(old);
            Ok(old)
        })
    }

    /// Reads a word of a reached PE.
    pub fn read_word(&mut self, of: usize, at: usize) -> Result<u64, Stop> {
        let on = self.memory_of(of);
        self.shared(|sight| Ok(sight.job.shared[of].memory(on).words[at]))
    }

    fn memory_of(&self, pe: usize) -> u32 {
        if pe == self.sight.me { self.sight.own().mapped[pe].0 } else { self.on }
    }
}

impl Sight<'_> {
    pub fn own(&self) -> &Process {
        &self.job.processes[self.process]
    }

    pub fn own_mut(&mut self) -> &mut Process {
        &mut self.job.processes[self.process]
    }

    pub fn log(&mut self) -> &mut Log {
        &mut self.job.shared[self.me].log
    }

    fn entry(&mut self, from: usize) -> &mut Entry {
        &mut self.log().entries[from]
    }

    pub fn words(&mut self) -> &mut [u64] {
        let number = self.own().mapped[self.me].0;
        &mut self.job.shared[self.me].memory(number).words
    }

    /// Returns a PE in the view that the own node shows.
    pub fn member(&self, pe: usize) -> Member {
        self.job.page(self.own().node).pes[pe]
    }

    /// Returns the log of a PE, if it is in the memory that this process maps.
    pub fn log_of(&self, pe: usize) -> Option<&Log> {
        let log = self.log_at(pe);
        if self.is_far(pe) {
            return (log.memory == Some(self.own().mapped[self.me].0)).then_some(log);
        }
        (log.memory == Some(self.own().mapped[pe].0)).then_some(log)
    }

    /// Returns the log of a PE, or its mirror.
    pub fn log_at(&self, pe: usize) -> &Log {
        match self.is_far(pe) {
            true => &self.job.shared[self.me].mirrors[pe],
            false => &self.job.shared[pe].log,
        }
    }

    /// Returns true if the log of a PE is present, and mapped here.
    pub fn has_log(&self, pe: usize) -> bool {
        let member = self.member(pe);
        let is_mapped = pe == self.me || member.node == self.own().mapped[pe].1;
        if self.is_far(pe) {
            return self.log_of(pe).is_some();
        }
        member.state != Life::NodeDead && is_mapped && self.log_of(pe).is_some()
    }

    pub fn has_all_logs(&self) -> bool {
        (0..self.job.shared.len()).all(|pe| self.has_log(pe))
    }

    pub fn is_reached(&self, to: usize) -> bool {
        let member = self.member(to);
        let is_direct = |log: &Log| log.stage == (member.incarnation, Stage::Direct);
        to == self.me || member.state == Life::Alive && self.log_of(to).is_some_and(is_direct)
    }

    fn stage_of(&self, to: usize) -> Option<Stage> {
        let member = self.member(to);
        let awaited = match member.state {
            Life::Alive => member.incarnation,
            _ => member.incarnation.next(),
        };
        let (incarnation, stage) = self.log_of(to)?.stage;
        (incarnation == awaited).then_some(stage)
    }

    /// Returns true if a loss rolls back all PEs. Adopts a view with local rollback.
    pub fn all_roll_back(&mut self) -> bool {
        let view = Rc::clone(self.job.page(self.own().node));
        let own = self.own_mut();
        if view.number == own.works && own.way != LogMode::Plain {
            return false;
        }
        if own.way != LogMode::Plain && (view.local || view.number == own.joined) {
            let is_new = own.mapped_in != view.number;
            if is_new {
                own.map(&view);
            }
            if own.way != LogMode::Replayed {
                own.works = view.number;
            }
            if is_new {
                self.job.connects(self.process);
            }
            return false;
        }
        self.job.close_far(self.process);
        true
    }

    /// Requests a global rollback.
    pub fn request(&mut self, why: Reason) {
        if self.own().at != At::Requests {
            self.own_mut().at = At::Requests;
            self.job.request(self.process, why);
        }
    }

    fn merging(&mut self, run: impl FnOnce(&mut Merge, &mut Self) -> bool) -> bool {
        let mut merge = std::mem::take(&mut self.own_mut().replay.merge);
        let result = run(&mut merge, self);
        self.own_mut().replay.merge = merge;
        result
    }

    fn append(&mut self, record: LogRecord, payload: &[u8], compared: u64) -> usize {
        let time = match record.kind.learns(|rule| self.breaks(rule)) {
            true => self.tick(),
            false => self.know(self.own().time + 1),
        };
        let entry = Entry {
            record: LogRecord { time, ..record },
            payload: payload.to_vec(),
            compared,
            state: Carried::Begun,
            found: AtomicOutcome::default(),
            repeats: 0,
        };
        let replicates = self.own().replicates;
        let log = self.log();
        log.entries.push(entry);
        if let (true, Some((.., records))) = (replicates, &mut log.replica) {
            *records = log.entries.len();
        }
        log.entries.len() - 1
    }

    fn tick(&mut self) -> u64 {
        let node = self.own().node;
        let now = *self.job.clock(node);
        self.know(now + 1)
    }

    fn know(&mut self, time: u64) -> u64 {
        let time = time.max(self.own().time);
        self.own_mut().time = time;
        let node = self.own().node;
        let clock = self.job.clock(node);
        *clock = time.max(*clock);
        time
    }

    /// Returns the contribution of a PE to a meeting.
    pub fn part(&self, pe: usize, number: u64) -> Option<Located> {
        let is_it = |entry: &Entry| entry.record.kind == Kind::Meeting && entry.record.at == number;
        let from = self.log_of(pe)?.entries.iter().rposition(is_it)?;
        self.read(Pe::of(pe), from)
    }
}

impl Logs for Sight<'_> {
    fn read(&self, pe: Pe, from: usize) -> Option<Located> {
        let entry = self.log_of(pe.at())?.entries.get(from)?;
        Some(Located { from, next: from + 1, record: entry.record, payload: from })
    }

    fn payload(&self, pe: Pe, found: &Located) -> &[u8] {
        &self.log_at(pe.at()).entries[found.from].payload
    }

    fn state(&self, pe: Pe, from: usize) -> Carried {
        self.log_at(pe.at()).entries[from].state
    }

    fn found(&self, pe: Pe, from: usize) -> AtomicOutcome {
        self.log_at(pe.at()).entries[from].found
    }

    fn compared(&self, pe: Pe, from: usize) -> u64 {
        self.log_at(pe.at()).entries[from].compared
    }

    fn repeats(&self, pe: Pe, from: usize) -> u64 {
        self.log_at(pe.at()).entries[from].repeats
    }

    fn breaks(&self, rule: Mutant) -> bool {
        self.job.broken == Some(rule) || mutant::breaks(rule)
    }
}

impl SubstitutePort for Sight<'_> {
    fn load(&self, word: WordAt) -> Option<u64> {
        let number = self.own().mapped[self.me].0 as usize;
        Some(self.job.shared[self.me].memories.get(number)?.words[word.offset / WORD])
    }

    fn store(&mut self, word: WordAt, value: u64) {
        self.words()[word.offset / WORD] = value;
    }

    fn copy(&mut self, to: usize, pe: Pe, found: &Located, bytes: Range<usize>) {
        let words = words(&self.payload(pe, found)[bytes]);
        self.words()[to / WORD..][..words.len()].copy_from_slice(&words);
    }

    fn note_taken(&mut self, pe: Pe, from: usize, old: u64) {
        self.append(LogRecord::taken(pe, from, old), &[], 0);
        if self.is_far(pe.at()) {
            let entry = &mut self.job.shared[self.me].mirrors[pe.at()].entries[from];
            (entry.found.old, entry.state) = (old, Carried::Done);
        }
    }
}

/// Bytes as words.
pub fn words(bytes: &[u8]) -> Vec<u64> {
    let chunks = bytes.as_chunks::<WORD>().0;
    chunks.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

/// Words as bytes.
pub fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

impl<'a> CallPort for Caller<'a> {
    type Cut = Stop;
    type Logs = Sight<'a>;
    type There = usize;
    type Member = Member;

    fn me(&self) -> Pe {
        Pe::of(self.sight.me)
    }

    fn logs(&self) -> &Sight<'a> {
        &self.sight
    }

    fn way(&mut self) -> LogMode {
        self.private(|sight| Ok(sight.own().way)).unwrap_or(LogMode::Plain)
    }

    fn is_far(&mut self, to: Pe) -> bool {
        self.private(|sight| Ok(sight.is_far(to.at()))).unwrap_or(false)
    }

    fn send_far(&mut self, record: LogRecord, compared: u64, fetches: bool) -> Result<u64, Stop> {
        self.sends(record, &[], (compared, fetches))
    }

    fn await_far(&mut self, to: Pe, number: u64) -> Result<u64, Stop> {
        let found = move |sight: &Sight| sight.own().links.as_ref()?.found(to, number);
        self.wait(|sight| found(sight).is_some())?;
        self.private(|sight| Ok(found(sight).unwrap_or_default()))
    }

    fn await_records(&mut self, until: u64) -> Result<(), Stop> {
        let obstacle = self.finds(move |sight| {
            let Some(links) = &sight.own().links else { return Some(None) };
            let obstacle = links.obstacle();
            (!links.lacks(until) || obstacle.is_some()).then_some(obstacle)
        })?;
        obstacle.map_or(Ok(()), |why| Err(self.roll_all_back(why)))
    }

    fn append(&mut self, record: LogRecord, payload: &[u8]) -> Result<Option<usize>, Stop> {
        self.shared(|sight| Ok(Some(sight.append(record, payload, 0))))
    }

    fn append_change(
        &mut self,
        record: LogRecord,
        compares_with: Option<u64>,
    ) -> Result<Option<usize>, Stop> {
        let compared = compares_with.unwrap_or_default();
        self.shared(|sight| Ok(Some(sight.append(record, &[], compared))))
    }

    fn state(&mut self, from: usize) -> Result<Carried, Stop> {
        self.private(|sight| Ok(sight.entry(from).state))
    }

    fn set_state(&mut self, from: usize, state: Carried) -> Result<(), Stop> {
        self.access(state == Carried::Done, |sight| {
            sight.entry(from).state = state;
            Ok(())
        })
    }

    fn found(&mut self, from: usize) -> Result<AtomicOutcome, Stop> {
        self.private(|sight| Ok(sight.entry(from).found))
    }

    fn set_found(&mut self, from: usize, found: AtomicOutcome) -> Result<(), Stop> {
        self.shared(|sight| {
            let entry = sight.entry(from);
            (entry.found, entry.state) = (found, Carried::Done);
            Ok(())
        })
    }

    fn last_answer(&mut self) -> Result<Option<Located>, Stop> {
        let last = self.private(|sight| {
            let entries = &sight.log().entries;
            let is_answer = |entry: &Entry| entry.record.kind == Kind::Answer;
            Ok(entries.last().filter(|last| is_answer(last)).map(|_| entries.len() - 1))
        });
        Ok(last?.and_then(|from| self.sight.read(self.me(), from)))
    }

    fn repeat(&mut self, from: usize) -> Result<(), Stop> {
        self.shared(|sight| {
            sight.entry(from).repeats += 1;
            Ok(())
        })
    }

    fn tick(&mut self) -> Result<u64, Stop> {
        self.private(|sight| Ok(sight.tick()))
    }

    fn know(&mut self, time: u64) -> Result<(), Stop> {
        self.private(|sight| {
            sight.know(time);
            Ok(())
        })
    }

    fn fly(&mut self, to: Pe) -> Result<(), Stop> {
        self.private(|sight| {
            sight.log().flight = Some(to.at());
            Ok(())
        })
    }

    /// A flight that requests a global rollback ends with it.
    fn land(&mut self) -> Result<(), Stop> {
        if self.is_cut {
            return Err(Stop::Cut);
        }
        self.private(|sight| {
            if let Some(to) = sight.log().flight.take() {
                sight.job.wake_pe(to);
            }
            Ok(())
        })
    }

    fn order(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    fn reached(&mut self, to: Pe) -> Result<Option<usize>, Stop> {
        let on = self.shared(|sight| {
            Ok(sight.is_reached(to.at()).then_some(sight.own().mapped[to.at()].0))
        })?;
        self.on = on.unwrap_or(self.on);
        Ok(on.map(|_| to.at()))
    }

    fn has_taken(&mut self, there: usize, from: usize) -> Result<bool, Stop> {
        self.private(|sight| {
            let (own, there) = (&sight.job.shared[sight.me].log, &sight.job.shared[there].log);
            Ok(there.interval == own.interval && from < there.taken[sight.me])
        })
    }

    fn adopt_view(&mut self) -> Result<(), Stop> {
        self.private(|sight| if sight.all_roll_back() { Err(Stop::Cut) } else { Ok(()) })
    }

    fn has_no_record(&mut self) -> Stop {
        Stop::Blocked // only where a rule is broken: logs do not get full here
    }

    fn await_shown(&mut self, to: Pe) -> Result<(), Stop> {
        if self.sight.job.nodes.len() > 1 {
            self.wait(|sight| sight.member(to.at()).state == Life::Alive)?;
        }
        self.adopt_view()
    }

    fn stage(&mut self, to: Pe) -> Result<Option<Stage>, Stop> {
        self.private(|sight| Ok(sight.stage_of(to.at())))
    }

    fn await_drained(&mut self, to: Pe) -> Result<(), Stop> {
        self.wait(|sight| {
            let is_past = sight.stage_of(to.at()).is_some_and(Stage::is_past_replay);
            !is_past || sight.is_reached(to.at())
        })
    }

    fn await_reached(&mut self, to: Pe) -> Result<Member, Stop> {
        self.wait(|sight| sight.is_reached(to.at()))?;
        let (member, on) =
            self.private(|sight| Ok((sight.member(to.at()), sight.own().mapped[to.at()].0)))?;
        self.on = on;
        Ok(member)
    }

    fn is_still(&mut self, to: Pe, member: &Member) -> Result<bool, Stop> {
        self.private(|sight| Ok(sight.is_reached(to.at()) && sight.member(to.at()) == *member))
    }

    fn is_wiped(&mut self, pe: Pe) -> Result<bool, Stop> {
        self.shared(|sight| {
            let member = sight.member(pe.at());
            let is_elsewhere = member.node != sight.own().mapped[pe.at()].1;
            Ok(pe.at() != sight.me && (member.state == Life::NodeDead || is_elsewhere))
        })
    }

    fn taken_by(&mut self, pe: Pe, from: usize) -> Result<Option<u64>, Stop> {
        let me = self.me();
        self.private(|sight| Ok(taken_by(sight, pe, (me, from))))
    }

    fn ring(&mut self, pe: Pe) -> Result<(), Stop> {
        self.private(|sight| {
            sight.job.wake_pe(pe.at());
            Ok(())
        })
    }

    fn roll_all_back(&mut self, why: Reason) -> Stop {
        self.is_cut = true;
        self.sight.request(why);
        Stop::Cut
    }

    fn next(
        &mut self,
        is_it: impl FnOnce(&Sight<'a>, &Located) -> bool,
    ) -> Result<Option<LoggedCall>, Stop> {
        if let Some(answer) = self.script.get(self.made) {
            self.made += 1;
            return Ok(*answer.downcast_ref().expect("the call makes the same accesses again"));
        }
        let mut replay = std::mem::take(&mut self.sight.own_mut().replay);
        let call = replay.next(&self.sight, |found| is_it(&self.sight, found));
        self.sight.own_mut().replay = replay;
        self.private(|_| Ok(call))
    }

    fn is_over(&mut self) -> Result<bool, Stop> {
        self.private(|sight| Ok(sight.own().replay.is_over()))
    }

    fn apply(&mut self, until: u64) -> Result<(), Stop> {
        self.private(|sight| {
            sight.merging(|merge, sight| {
                merge.apply(sight, until);
                true
            });
            Ok(())
        })
    }

    fn apply_all(&mut self) -> Result<bool, Stop> {
        self.shared(|sight| Ok(sight.merging(|merge, sight| merge.apply_all(sight))))
    }

    fn is_certain(&mut self) -> Result<bool, Stop> {
        self.private(|sight| Ok(sight.own().replay.merge.is_certain()))
    }

    fn change_own(&mut self, from: usize, old: u64) -> Result<(), Stop> {
        let me = self.me();
        self.private(|sight| {
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
        self.private(|sight| {
            let found = sight.read(me, from).expect("an own record");
            sight.own_mut().replay.merge.assigns_blocks(&found);
            Ok(())
        })
    }

    fn may_have_changed(&mut self, at: usize) -> Result<bool, Stop> {
        self.private(|sight| Ok(sight.own().replay.merge.may_have_changed(at)))
    }

    fn own_word(&mut self, record: &LogRecord, otherwise: u64) -> Result<u64, Stop> {
        let word = WordAt { offset: record.at as usize, bytes: WORD };
        self.private(|sight| Ok(sight.load(word).unwrap_or(otherwise)))
    }

    fn begin_handover(&mut self) -> Result<(), Stop> {
        self.private(|sight| {
            let view = Rc::clone(sight.job.page(sight.own().node));
            sight.own_mut().handover = view.number;
            sight.log().lacks = false;
            sight.follows();
            if view.local { Ok(()) } else { Err(Stop::Cut) }
        })
    }

    fn show(&mut self, stage: Stage) -> Result<(), Stop> {
        self.shared(|sight| {
            sight.log().stage = (sight.own().incarnation, stage);
            Ok(())
        })
    }

    fn order_others(&mut self) -> Result<bool, Stop> {
        Ok(true)
    }

    fn publish_taken(&mut self) -> Result<(), Stop> {
        self.private(|sight| {
            sight.log().taken = sight.own().replay.merge.taken().to_vec();
            Ok(())
        })
    }

    fn log_again(&mut self) -> Result<(), Stop> {
        self.private(|sight| {
            let own = sight.own_mut();
            (own.works, own.way) = (own.handover, LogMode::Logged);
            sight.job.open_far(sight.process);
            Ok(())
        })
    }

    fn wake_others(&mut self) -> Result<(), Stop> {
        self.private(|sight| {
            sight.job.wake_all();
            sight.job.tells_all(sight.process);
            sight.job.says(sight.process, PeMessage::CaughtUp);
            Ok(())
        })
    }

    fn check_findings(&mut self) -> Result<(), Stop> {
        Ok(())
    }
}

impl MeetingPort for Caller<'_> {
    fn next_meeting(&mut self) -> Result<u64, Stop> {
        self.private(|sight| Ok(sight.own().met + 1))
    }

    fn come(&mut self, number: u64, from: Option<usize>) -> Result<(), Stop> {
        self.shared(|sight| {
            sight.own_mut().met = number;
            sight.log().met = number;
            if sight.job.shared.iter().all(|pe| pe.log.met >= number) {
                sight.job.wake_all();
            }
            Ok(())
        })?;
        from.map_or(Ok(()), |from| self.sends_meeting(from))
    }

    fn has_arrived(&mut self, number: u64, from: usize) -> Result<(), Stop> {
        self.private(|sight| {
            sight.own_mut().met = number;
            Ok(())
        })?;
        self.sends_meeting(from)
    }

    fn await_all(&mut self, number: u64) -> Result<(), Stop> {
        self.wait(|sight| {
            let era = sight.job.shared[sight.me].log.era;
            let is_in = |log: &Log| log.era == era && log.met >= number;
            let has_come = |pe: usize| sight.log_of(pe).is_some_and(is_in);
            (0..sight.job.shared.len()).all(has_come)
        })
    }

    fn view(&mut self) -> Result<ViewNumber, Stop> {
        self.private(|sight| Ok(sight.job.page(sight.own().node).number))
    }

    fn has_all_logs(&mut self) -> Result<bool, Stop> {
        self.private(|sight| Ok(sight.has_all_logs()))
    }

    fn await_logs(&mut self) -> Result<(), Stop> {
        self.wait(|sight| sight.has_all_logs())
    }

    fn gather(&mut self, number: u64) -> Result<Option<u64>, Stop> {
        self.shared(|sight| {
            let parts = (0..sight.job.shared.len()).map(|pe| sight.part(pe, number));
            let parts: Option<Vec<Located>> = parts.collect();
            Ok(parts.as_deref().and_then(together))
        })
    }

    fn keep_parts(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    fn is_any_log_later(&mut self) -> Result<bool, Stop> {
        self.private(|sight| {
            let own = sight.job.shared[sight.me].log.interval;
            let logs = (0..sight.job.shared.len()).filter_map(|pe| sight.log_of(pe));
            Ok(logs.into_iter().any(|log| log.interval > own))
        })
    }
}
