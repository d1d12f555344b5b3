//! A process of the simulated job: the library's driver once more, over small memory and in steps
//! that others may come between.
//!
//! Where to go next is the real table's business ([`next`]); the decision and the plan are the real
//! ones too. What is written here is what `protocol/drive.rs` does at each state, no more.

use std::rc::Rc;

use raidshmem::control::UNRECOVERABLE;
use raidshmem::control::message::{ProcId, Report, Said, Welcome};
use raidshmem::control::view::{Member, State, View};
use raidshmem::launch::membership::Event;
use raidshmem::mutant::{Mutant, breaks};
use raidshmem::protocol::{At, Call, Outcome, meeting, next};
use raidshmem::recovery::plan::{Finding, Unrecoverable};
use raidshmem::segment::board;
use raidshmem::store::delta::{Changes, History};
use raidshmem::store::intent::{self, Bounds};
use raidshmem::store::phase::{Phase, Vote, decide};
use raidshmem::store::site::{Apart, Deed};
use raidshmem::sys::process::Ended;

use super::job::{Job, What};
use super::memory::{Memory, Told};
use super::plan::{Broken, Short, When};
use super::watch::Watch;

/// What a process does after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It has come out of its state.
    Out(Outcome),
    /// It has more to do there.
    Again,
    /// It is busy until then.
    Until(u64),
    /// It sleeps until something changes.
    Sleep,
    /// It ended, saying so.
    End,
}

/// A process and what it keeps to itself.
pub struct Proc {
    pub id: ProcId,
    pub node: u32,
    pub alive: bool,
    pub asleep: bool,
    pub me: Option<usize>,
    pub memory: u32,
    pub incarnation: u32,
    pub mapped: Rc<Vec<u32>>,
    pub view: Rc<View>,
    pub joined: u64,
    pub call: Call,
    pub at: Option<At>,
    /// In the middle of a state, and how far.
    pub middle: bool,
    pub progress: usize,
    /// The view in which it said that a tile went bad.
    pub complained: u64,
    pub number: u64,
    pub agreed: u64,
    /// What it remembers of the last checkpoint, and knows of the one being made.
    pub history: Option<History>,
    pub changes: Option<Changes>,
    pub watch: Watch,
    pub epoch: u64,
    pub len: usize,
    /// How often the own store was checked in this recovery: all tiles of it, but the first time.
    pub checks: u32,
    /// Nothing of the own store was there when it first looked.
    pub bare: bool,
    /// It has not come to its loop yet.
    pub before: bool,
    /// Who is behind since the restart.
    pub apart: Option<Apart>,
    /// It has computed since then.
    pub written: bool,
    pub findings: Vec<Finding>,
    pub verdict: Result<(), Unrecoverable>,
    /// The view in which it said that it is in `shmem_finalize`.
    finishing: Option<u64>,
    /// Others are there, in the recovery that it is in.
    pub ends: bool,
    /// Its connection to that incarnation of a PE broke: it waits for the view that says what
    /// becomes of it.
    pub blocked: Option<(usize, u32)>,
    /// When all that it told so far is seen by all.
    pub told_at: u64,
}

impl std::fmt::Display for Proc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Proc { id, node, call, at, view, joined, number, .. } = self;
        let at = at.map_or("program".to_string(), |at| format!("{at:?}"));
        let life = if self.alive { "" } else { ", dead" };
        write!(f, "process {id} on node {node} in {call:?} at {at}, view {}, ", view.number)?;
        write!(f, "joined {joined}, checkpoint {number}{life}")
    }
}

impl Proc {
    pub fn new(id: ProcId) -> Proc {
        Proc {
            id,
            node: u32::MAX,
            alive: false,
            asleep: true,
            me: None,
            memory: 0,
            incarnation: 0,
            mapped: Rc::new(Vec::new()),
            view: Rc::new(View { number: 0, pes: Vec::new() }),
            joined: 0,
            call: Call::Checkpoint,
            at: None,
            middle: false,
            progress: 0,
            complained: 0,
            number: 0,
            agreed: 0,
            history: None,
            changes: None,
            watch: Watch::default(),
            epoch: 0,
            len: 0,
            checks: 0,
            bare: false,
            before: true,
            apart: None,
            written: false,
            findings: Vec::new(),
            verdict: Ok(()),
            finishing: None,
            ends: false,
            blocked: None,
            told_at: 0,
        }
    }

    pub fn start(&mut self, node: u32) {
        (self.node, self.alive) = (node, true);
    }

    /// It is given a number.
    pub fn take(&mut self, welcome: &Welcome, mapped: Rc<Vec<u32>>) {
        self.me = Some(welcome.pe as usize);
        (self.memory, self.incarnation, self.mapped) =
            (welcome.memory, welcome.incarnation, mapped);
    }

    pub fn me(&self) -> usize {
        self.me.expect("a process with a number")
    }
}

impl Job {
    /// One step of a process.
    pub fn step(&mut self, id: ProcId) {
        let index = id as usize;
        if !self.procs[index].alive || self.procs[index].me.is_none() {
            self.procs[index].asleep = true;
            return;
        }
        let mut p = std::mem::replace(&mut self.procs[index], Proc::new(id));
        let then = self.advance(&mut p);
        p.asleep = then == Then::Sleep;
        self.procs[index] = p;
        match then {
            Then::Out(_) | Then::Again => {
                let delay = self.delay(self.plan.step);
                self.at(self.now + delay, What::Step(id));
            }
            Then::Until(time) => self.at(time.max(self.now + 1), What::Step(id)),
            Then::Sleep | Then::End => {}
        }
    }

    fn advance(&mut self, p: &mut Proc) -> Then {
        if let Some((pe, incarnation)) = p.blocked {
            let member = self.shown(p).pes[pe];
            if member.state == State::Alive && member.incarnation == incarnation {
                return Then::Sleep;
            }
            p.blocked = None;
        }
        let Some(at) = p.at else { return self.program(p) };
        let then = match meeting(at) {
            Some(step) => self.meet(p, at, step),
            None => self.take_part(p, at),
        };
        let Then::Out(outcome) = then else { return then };
        let Some(to) = next(p.call, at, outcome) else {
            self.broken_promise = Some(format!("{at:?} cannot end with {outcome:?}"));
            return Then::End;
        };
        (p.middle, p.progress) = (false, 0);
        self.enter(p, to)
    }

    fn enter(&mut self, p: &mut Proc, to: At) -> Then {
        self.note(|| format!("PE {} -> {to:?} (checkpoint {})", p.me(), p.number));
        p.at = (!to.is_end()).then_some(to);
        for index in 0..self.plan.faults.len() {
            if let When::Step(pe, at, number) = self.plan.faults[index].when
                && (pe, at) == (p.me(), to)
                && p.number >= number
            {
                let delay = self.plan.chance.below(2 * self.plan.step) as u64;
                self.at(self.now + delay, What::Fault(index));
            }
        }
        match to {
            At::Saved | At::Refused if self.is_wrong_end(p.number, to) => {
                self.broken_promise = Some(format!("checkpoint {} came to {to:?}", p.number));
            }
            At::Saved => {
                p.agreed = p.number;
                self.saved = self.saved.max(p.number);
                self.leaves_call(p, true);
            }
            At::Passed => self.leaves_call(p, false),
            At::Reported => p.call = Call::Restart,
            At::Resumed => {
                self.check_resumed(p);
                (p.call, p.checks, p.bare) = (Call::Checkpoint, 0, false);
            }
            At::Condemned => return self.condemn(p, None),
            _ => {}
        }
        Then::Again
    }

    // ---- what every state needs -----------------------------------------------------------------

    pub fn memory(&self, p: &Proc, pe: usize) -> &Memory {
        let number = if pe == p.me() { p.memory } else { p.mapped[pe] };
        &self.memories[pe][number as usize]
    }

    pub fn own(&mut self, p: &Proc) -> &mut Memory {
        &mut self.memories[p.me()][p.memory as usize]
    }

    pub fn shown(&self, p: &Proc) -> &Rc<View> {
        &self.nodes[p.node as usize].shown
    }

    fn faulted(&self, p: &Proc) -> bool {
        self.shown(p).number != p.joined
    }

    /// Whether the view in which the recovery began is still the one shown.
    pub fn changed(&self, p: &Proc) -> bool {
        self.plan.broken != Broken::ViewNotChecked && self.shown(p).number != p.view.number
    }

    pub fn pes(&self) -> usize {
        self.carrier.len()
    }

    pub fn say(&mut self, p: &Proc, what: Said) {
        if self.nodes[p.node as usize].alive {
            self.up(p.node, Event::Said { proc: p.id, what });
        }
    }

    /// The job cannot go on; ends the process.
    pub fn condemn(&mut self, p: &Proc, words: Option<String>) -> Then {
        let words = words.unwrap_or_else(|| match &p.verdict {
            Err(verdict) => verdict.to_string(),
            Ok(()) => "unrecoverable: no PE that saw a checkpoint is left".to_string(),
        });
        self.note(|| format!("PE {} is condemned: {words}", p.me()));
        self.say(p, Said::Verdict { status: UNRECOVERABLE, words });
        self.at(self.now, What::ProcessDies(p.id, Ended::Exited(UNRECOVERABLE)));
        Then::End
    }

    // ---- the program ----------------------------------------------------------------------------

    fn program(&mut self, p: &mut Proc) -> Then {
        if self.shown(p).number == 0 {
            return Then::Sleep;
        }
        if p.number == 0 && p.joined == 0 && !p.middle {
            return self.boot(p);
        }
        if p.call.recovers() {
            return self.enter(p, At::Whole);
        }
        let behind = p.finishing.is_none() && self.is_behind(p);
        if p.agreed >= self.plan.last && !behind {
            return self.finalize(p);
        }
        if behind {
            (p.number, p.view) = (p.agreed + 1, self.shown(p).clone());
            return self.enter(p, At::Enter);
        }
        if p.ends {
            self.broken_promise = Some(format!("PE {} needs PEs that are at their end", p.me()));
            return Then::End;
        }
        // What is computed while a PE is known to be lost is worth nothing.
        let computed = match self.faulted(p) {
            true => vec![0xee; self.plan.len],
            false => self.plan.content(p.me(), p.agreed + 1),
        };
        self.own(p).live = computed;
        p.number = p.agreed + 1;
        p.view = self.shown(p).clone();
        self.wrote(p);
        self.enter(p, At::Enter)
    }

    fn boot(&mut self, p: &mut Proc) -> Then {
        let original = p.incarnation == 0;
        self.own(p).told.ending = false;
        if original {
            let memory = self.own(p);
            memory.set_phase(Phase::Agreed(0));
            p.joined = 1;
        } else {
            self.inherit(p);
        }
        p.middle = true;
        Then::Again
    }

    /// True in a process that has said that it is there.
    pub fn is_finishing(&self, p: &Proc) -> bool {
        p.finishing.is_some()
    }

    fn finalize(&mut self, p: &mut Proc) -> Then {
        if p.finishing.is_none() {
            let computed = self.plan.content(p.me(), self.plan.last + 1);
            let memory = self.own(p);
            (memory.live, memory.told.ending) = (computed, true);
            self.show_deed(p, Deed::Waits);
        }
        if p.finishing != Some(p.joined) {
            p.finishing = Some(p.joined);
            self.say(p, Said::Finalizing { joined: p.joined, cut: false });
        }
        if !self.nodes[p.node as usize].finished {
            if self.faulted(p) && self.plan.broken != Broken::EndIgnoresLosses {
                p.call = Call::Finalize;
                return self.enter(p, At::Whole);
            }
            return Then::Sleep;
        }
        self.say(p, Said::Finalized);
        self.at(self.now, What::ProcessDies(p.id, Ended::Exited(0)));
        Then::End
    }

    // ---- checkpoint -----------------------------------------------------------------------------

    fn take_part(&mut self, p: &mut Proc, at: At) -> Then {
        use Outcome::{Changed, Done, Refused};
        let healthy = if self.faulted(p) { Changed } else { Done };
        match at {
            At::Enter if p.joined == 0 => return Then::Out(Outcome::Lost),
            At::Enter => return Then::Out(self.enter_call(p, healthy)),
            At::Follow => return self.follow(p),
            At::Intend if !p.middle => {
                p.len = self.own(p).live.len();
                let (len, free) = self.intent(p);
                let memory = self.own(p);
                (memory.told.len, memory.told.free) = (len, free);
                memory.set_phase(Phase::Entering(p.number));
                self.show_written(p);
                p.middle = true;
                return Then::Until(self.publish(p));
            }
            At::Intend => {}
            At::BarrierQ | At::BarrierC | At::BarrierA | At::BarrierB | At::BarrierRefuse => {
                return self.barrier(p, at);
            }
            At::Compare => self.compare(p),
            At::Agree => {
                if self.agree(p) {
                    self.own(p).set_phase(Phase::Agreed(p.number - 1));
                    return Then::Out(Refused);
                }
            }
            At::Encode => {
                let all = self.parities(p);
                let unchecked =
                    self.plan.broken == Broken::ViewNotChecked || breaks(Mutant::ViewNotChecked);
                return match self.encode(p, all) {
                    false => Then::Again,
                    true if unchecked => Then::Out(Done),
                    true => Then::Out(if self.faulted(p) { Changed } else { Done }),
                };
            }
            At::Publish => {
                let (slot, len) = (self.plan.slot_of(p.number), p.len);
                let memory = self.own(p);
                memory.slots[slot].record = (p.number, len);
                memory.set_phase(Phase::Encoded(p.number));
            }
            At::Copy if !self.complete(p) => return Then::Again,
            At::Copy => self.watch(p),
            _ => return self.recover(p, at),
        }
        Then::Out(Done)
    }

    /// True if a checkpoint that comes to such an end should have come to the other.
    fn is_wrong_end(&self, number: u64, to: At) -> bool {
        let planned = self.plan.refusal.is_some_and(|(_, refused, _)| refused == number);
        match to {
            At::Saved => planned && !self.refused,
            At::Refused => !planned,
            _ => false,
        }
    }

    /// Bytes that a PE wants to save, and what is free on its machine, which is its node: as much
    /// as all who are there want.
    fn intent(&self, p: &Proc) -> (u64, u64) {
        let (len, pes) = (p.len as u64, &p.view.pes);
        let free = len * pes.iter().filter(|pe| pe.node == p.node).count() as u64;
        match self.plan.refusal.filter(|&(_, number, _)| number == p.number && !self.refused) {
            Some((pe, _, Short::Manifest)) if pe == p.me() => (intent::CANNOT, free),
            Some((pe, _, Short::Machine)) if pes[pe].node == p.node => (len, free - 1),
            _ => (len, free),
        }
    }

    /// True if this PE refuses the checkpoint, as far as it can read what the others told: after a
    /// loss that may be nothing, and then they do not meet to refuse it.
    fn agree(&self, p: &Proc) -> bool {
        let told = |pe: usize| {
            let Told { len, free, .. } = self.told(p, pe);
            let need = if len == intent::CANNOT { 0 } else { len };
            board::Told { len, need, hold: need, available: free, ..Default::default() }
        };
        let told: Vec<board::Told> = (0..self.pes()).map(told).collect();
        let together = self.plan.broken == Broken::CountedTogether;
        let machine = |pe: &Member| if together { 0 } else { pe.node };
        let machines: Vec<u32> = p.view.pes.iter().map(machine).collect();
        let bounds = Bounds { mode: "rs", manifest: 0, snapshot: usize::MAX, limit: None };
        intent::agree(&told, &machines, &bounds).is_err()
    }

    fn barrier(&mut self, p: &mut Proc, at: At) -> Then {
        let faulted = self.faulted(p);
        let pes = self.pes() as u64;
        let zero = if p.me() == 0 { p.memory } else { p.mapped[0] };
        let gate = &mut self.memories[0][zero as usize].gate;
        let skipped = at == At::BarrierB && breaks(Mutant::NoBarrierB)
            || at == At::BarrierA && breaks(Mutant::NoBarrierA);
        if skipped {
            return self.pass(p, at);
        }
        if p.middle {
            return match (gate.1 >= p.epoch, faulted) {
                (true, _) => self.pass(p, at),
                (false, true) => Then::Out(Outcome::Changed),
                (false, false) => Then::Sleep,
            };
        }
        if faulted {
            return Then::Out(Outcome::Changed);
        }
        p.epoch += 1;
        p.middle = true;
        gate.0 += 1;
        if gate.0 != p.epoch * pes {
            return Then::Again;
        }
        gate.1 = p.epoch;
        for pe in 0..self.pes() {
            if let Some(proc) = self.carrier[pe] {
                self.wake(proc);
            }
        }
        self.pass(p, at)
    }

    fn pass(&mut self, p: &mut Proc, at: At) -> Then {
        if at == At::BarrierRefuse {
            self.refused = true;
        }
        if at == At::BarrierB {
            self.keep_changes(p);
        }
        if at == At::BarrierB && p.me() == 0 {
            let (number, bytes) = (p.number, p.len as u64);
            let (parity_bytes, micros, found) = (0, 0, None);
            let report = Report::Checkpoint { number, bytes, parity_bytes, micros, found };
            self.say(p, Said::Report(report));
        }
        Then::Out(Outcome::Done)
    }

    // ---- settle ---------------------------------------------------------------------------------

    /// Takes the view that is shown, with the memories that are new in it.
    fn refresh(&mut self, p: &mut Proc) {
        p.view = self.shown(p).clone();
        p.mapped = self.views[p.view.number as usize].mapped.clone();
    }

    fn meet(&mut self, p: &mut Proc, at: At, step: u64) -> Then {
        if !p.middle {
            if at == At::MeetSettling && p.call == Call::Checkpoint {
                p.changes = None;
                self.refresh(p);
            }
            p.middle = true;
            self.arrive(p, step);
            if self.plan.far {
                return Then::Until(self.publish(p));
            }
        }
        let word = p.view.number << 8 | step;
        let living = |pe: &usize| p.view.pes[*pe].state == State::Alive;
        let here = |pe: usize| {
            let theirs = self.told(p, pe).step;
            theirs >> 8 == p.view.number && theirs >= word
        };
        if (0..self.pes()).filter(living).all(here) {
            Then::Out(Outcome::Done)
        } else if self.shown(p).number != p.view.number {
            Then::Out(Outcome::Changed)
        } else {
            Then::Sleep
        }
    }

    /// Shows that this PE has come to a meeting, and wakes the others if it was the last.
    fn arrive(&mut self, p: &Proc, step: u64) {
        let number = p.view.number;
        let before = std::mem::replace(&mut self.own(p).told.step, number << 8 | step);
        let ordered = &mut self.views[number as usize];
        let from = if before >> 8 == number { (before & 15) as usize } else { 0 };
        ordered.arrived[from] = ordered.arrived[from].saturating_sub(1);
        ordered.arrived[step as usize] += 1;
        let complete = |at: usize| ordered.arrived[at..].iter().sum::<usize>() >= ordered.living;
        if !(from + 1..=step as usize).any(complete) {
            return;
        }
        for pe in 0..self.pes() {
            if let Some(proc) = self.carrier[pe]
                && self.procs[proc as usize].view.number == number
            {
                self.wake(proc);
            }
        }
    }

    /// Whole, Decide and Finish; the rest is in the restart.
    fn recover(&mut self, p: &mut Proc, at: At) -> Then {
        match at {
            At::Whole => {
                if !self.shown(p).whole() {
                    return Then::Sleep;
                }
                self.refresh(p);
                (p.history, p.watch) = Default::default();
            }
            At::Decide => return self.decide(p),
            At::Finish if p.joined == 0 => {
                self.finish_inherited(p);
                p.agreed = p.number;
            }
            At::Finish => {
                let phase = Phase::unpack(self.own(p).told.phase);
                let copies = matches!(
                    phase,
                    Some(Phase::Encoded(n) | Phase::Copying(n)) if n == p.number
                );
                match phase {
                    None => {}
                    Some(_) if !copies && !p.middle => {
                        let number = p.number;
                        self.own(p).set_phase(Phase::Agreed(number));
                    }
                    Some(_) if self.copy(p) => {}
                    Some(_) => return Then::Again,
                }
                p.agreed = p.number;
            }
            _ => return self.restart(p, at),
        }
        Then::Out(Outcome::Done)
    }

    fn decide(&mut self, p: &mut Proc) -> Then {
        let vote = |pe: usize| {
            let told = self.told(p, pe);
            Vote { phase: Phase::unpack(told.phase), decided: told.decision.checked_sub(1) }
        };
        let alive = (0..self.pes()).filter(|&pe| p.view.pes[pe].state == State::Alive);
        let alive: Vec<usize> = alive.collect();
        let votes: Vec<Vote> = alive.iter().map(|&pe| vote(pe)).collect();
        let Some(mut target) = decide(&votes) else {
            let changed = self.shown(p).number != p.view.number;
            return Then::Out(if changed { Outcome::Changed } else { Outcome::Lost });
        };
        if self.plan.broken == Broken::ForwardTooEarly {
            let encoded = votes.iter().filter_map(|vote| match vote.phase {
                Some(Phase::Encoded(n)) => Some(n),
                _ => None,
            });
            target = encoded.fold(target, u64::max);
        }
        self.find_apart(p, &alive);
        p.number = target;
        if !breaks(Mutant::DecisionNotWritten) {
            self.own(p).told.decision = target + 1;
        }
        Then::Out(Outcome::Done)
    }
}
