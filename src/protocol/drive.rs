//! The driver of the protocol: does what a state says, with real memory and real waiting.
//!
//! It decides nothing: where to go next is [`super::next`]'s business. Every named step at which a
//! fault can be injected is passed here or in the functions called from here.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{At, Call, Outcome, meeting, next};
use crate::checkpoint;
use crate::checkpoint::{delta, pages, since};
use crate::control::message::Report;
use crate::control::view::{State, View};
use crate::inject::Point;
use crate::mutant::{Mutant, breaks};
use crate::pgas::world::lock;
use crate::pgas::{Fault, World};
use crate::recovery::plan::{Finding, Unrecoverable};
use crate::recovery::{Changed, steps};
use crate::segment::header::Record;
use crate::segment::words::{Barrier, Ending};
use crate::store::coverage::Coverage;
use crate::store::delta::Changes;
use crate::store::intent::Refusal;
use crate::store::phase::{Phase, Vote, decide};
use crate::store::protection::Protection;
use crate::store::site::{Deed, Verdict};

/// How long a far PE is not asked again.
const PAUSE: Duration = Duration::from_millis(1);

/// One call of a program on its way through the protocol.
pub struct Drive<'a> {
    world: &'a World,
    protection: &'a Protection,
    call: Call,
    /// The checkpoint being made, or the one decided on.
    number: u64,
    view: View,
    begun: Instant,
    verifying: Instant,
    /// How often the own store was checked: all tiles of it, but the first time.
    checks: u32,
    /// Nothing of the own store was there when it first looked.
    bare: bool,
    coverage: Option<Coverage>,
    changes: Option<Changes>,
    refusal: Option<Refusal>,
    len: usize,
    findings: Vec<Finding>,
    verdict: Result<(), Unrecoverable>,
    line: Option<Vec<u8>>,
    /// Others are in `shmem_finalize`; barriers pass if all of them came there silently.
    ends: Option<Ending>,
}

impl<'a> Drive<'a> {
    /// A call that is about to begin.
    pub fn new(world: &'a World, protection: &'a Protection, call: Call) -> Drive<'a> {
        Drive {
            world,
            protection,
            call,
            number: world.agreed() + u64::from(call == Call::Checkpoint),
            view: world.view(),
            begun: Instant::now(),
            verifying: Instant::now(),
            checks: 0,
            bare: false,
            coverage: None,
            changes: None,
            refusal: None,
            len: 0,
            findings: Vec::new(),
            verdict: Ok(()),
            line: None,
            ends: None,
        }
    }

    /// Goes through the protocol to an end. At `Condemned` it does not return.
    pub fn run(&mut self) -> At {
        let mut at = match self.call {
            Call::Checkpoint => At::Enter,
            Call::Restart | Call::Finalize => At::Whole,
        };
        while !at.is_end() {
            let outcome = match meeting(at) {
                Some(step) => self.meet(at, step),
                None => self.act(at),
            };
            at = next(self.call, at, outcome).expect("an outcome of the table");
        }
        at
    }

    /// Why the checkpoint was refused.
    pub fn refusal(&mut self) -> Option<Refusal> {
        self.refusal.take()
    }

    fn act(&mut self, at: At) -> Outcome {
        match at {
            At::Enter if self.world.is_new() => Outcome::Lost,
            At::Enter => self.enter(),
            At::Follow => self.follow(),
            At::Intend => self.intend(),
            At::BarrierQ | At::BarrierC | At::BarrierA | At::BarrierB | At::BarrierRefuse => {
                self.barrier(at)
            }
            At::Compare => self.compare(),
            At::Agree => self.agree(),
            At::Encode => self.encode(),
            At::Publish => self.publish(),
            At::Copy => self.copy(),
            At::Whole => self.whole(),
            At::Decide => self.decide(),
            At::Finish => self.finish(),
            At::Verify => self.verify(),
            At::Judge => self.judge(),
            At::Verdict => self.pronounce(),
            At::Rebuild => self.rebuild(),
            At::Restore => self.restore(),
            At::Reencode => self.reencode(),
            At::Reset => self.reset(),
            At::Join => self.join(),
            _ => unreachable!("meetings and ends are not acts"),
        }
    }

    // ---- checkpoint ---------------------------------------------------------------------------

    fn healthy(&self) -> Outcome {
        if self.world.faulted() { Outcome::Changed } else { Outcome::Done }
    }

    fn enter(&self) -> Outcome {
        let (world, protection, agreed) = (self.world, self.protection, self.number - 1);
        if world.faulted() {
            return Outcome::Changed;
        }
        if world.is_late() {
            return Outcome::Behind;
        }
        if world.is_apart() {
            let known = world.is_reference();
            let written = if known { since::written(world, protection, agreed) } else { 0 };
            world.show_progress(Deed::Checkpoint, written);
        }
        Outcome::Done
    }

    /// Waits until the reference has said where it goes on from the restart.
    fn follow(&self) -> Outcome {
        let world = self.world;
        let Some(reference) = world.reference() else { return Outcome::Done };
        let written = since::written(world, self.protection, self.number - 1);
        world.show_progress(Deed::Checkpoint, written);
        let (mut verdict, mut looked) = (None, None::<Instant>);
        world.wait_raw(
            || world.waiting_for_all(self.call.name()),
            || {
                // A far PE is not asked again at once.
                let soon = world.is_far(reference) && looked.is_some_and(|at| at.elapsed() < PAUSE);
                if !soon {
                    verdict = world.follow(written);
                    looked = Some(Instant::now());
                }
                verdict.is_some() || world.faulted()
            },
        );
        match verdict {
            None => return Outcome::Changed,
            Some(Verdict::Mismatch) => world.condemn(&format!(
                "checkpoints do not fit: after the restart PE {} wrote to symmetric memory and \
                 called the checkpoint at {}, but PE {reference} has gone on to {}",
                world.me(),
                world.site_of(world.me()),
                world.describe(reference)
            )),
            Some(Verdict::Meet | Verdict::Pass) => world.caught_up(),
        }
        if verdict == Some(Verdict::Pass) { Outcome::Behind } else { Outcome::Done }
    }

    fn intend(&mut self) -> Outcome {
        self.world.quiet_all();
        self.world.point(Point::Quiesce, self.number);
        self.coverage = checkpoint::intend(self.world, self.protection);
        match &self.coverage {
            Some(coverage) => pages::show(self.world, coverage, self.number),
            None => pages::forget(self.world),
        }
        self.world.set_phase(Phase::Entering(self.number));
        self.world.publish(&self.view);
        Outcome::Done
    }

    fn barrier(&mut self, at: At) -> Outcome {
        let skipped = at == At::BarrierB && breaks(Mutant::NoBarrierB)
            || at == At::BarrierA && breaks(Mutant::NoBarrierA);
        let barrier = || self.world.barrier_of(Barrier::Protocol, self.call.name());
        let met = if skipped { Ok(()) } else { barrier() };
        match (met, at) {
            (Err(Fault), _) => return Outcome::Changed,
            (Ok(()), At::BarrierB) => {
                let changes = self.changes.take();
                let found = changes.as_ref().and_then(delta::found);
                if let Some(changes) = changes {
                    delta::keep(self.world, changes, self.number, self.covered().len());
                }
                checkpoint::saved(self.world, self.protection, self.number, self.begun, found);
            }
            (Ok(()), _) => {}
        }
        Outcome::Done
    }

    fn agree(&mut self) -> Outcome {
        if let Err(words) = self.world.compare_calls() {
            self.world.condemn(&words);
        }
        self.refusal = checkpoint::agree(self.world, self.protection, &self.view).err();
        match (&self.refusal, &self.coverage) {
            (None, Some(coverage)) => {
                checkpoint::prepare(self.world, self.protection, coverage.len());
                Outcome::Done
            }
            _ => {
                self.world.set_phase(Phase::Agreed(self.number - 1));
                Outcome::Refused
            }
        }
    }

    fn covered(&self) -> &Coverage {
        self.coverage.as_ref().expect("set at Intend or Restore")
    }

    fn compare(&mut self) -> Outcome {
        let (world, protection) = (self.world, self.protection);
        self.changes = Some(delta::compare(world, protection, self.covered(), self.number));
        Outcome::Done
    }

    fn encode(&mut self) -> Outcome {
        let (world, protection) = (self.world, self.protection);
        let mut changes = self.changes.take();
        // It may hold this very number, of an attempt that was given up: half of that and half of
        // this would pass every checksum.
        self.slot().void();
        if self.protection.snapshots == 2 {
            let header = self.world.segment().header();
            header.snapshots[self.protection.snapshot_of(self.number)].void();
        }
        checkpoint::encode(
            world,
            protection,
            self.covered(),
            self.number,
            &|_| true,
            changes.as_mut(),
            Point::Encode,
        );
        self.changes = changes;
        // What was pulled since a death may be a lost node's zeroes.
        if breaks(Mutant::ViewNotChecked) { Outcome::Done } else { self.healthy() }
    }

    /// What is said of the slot of the checkpoint being made.
    fn slot(&self) -> &Record {
        &self.world.segment().header().slots[self.protection.slot_of(self.number)]
    }

    fn publish(&mut self) -> Outcome {
        self.slot().seal(self.world.job(), self.number, self.covered().len());
        self.world.set_phase(Phase::Encoded(self.number));
        self.world.point(Point::Encoded, self.number);
        Outcome::Done
    }

    fn copy(&mut self) -> Outcome {
        let (world, protection) = (self.world, self.protection);
        let mut changes = self.changes.take().expect("set at Compare");
        let (covered, number) = (self.covered(), self.number);
        checkpoint::complete(world, protection, covered, number, &mut changes, Point::Copy);
        self.changes = Some(changes);
        pages::watch(world, protection, self.covered(), self.number);
        self.world.point(Point::Copied, self.number);
        Outcome::Done
    }

    // ---- settle -------------------------------------------------------------------------------

    /// Waits until every living PE of the view has come to this meeting.
    fn meet(&mut self, at: At, step: u64) -> Outcome {
        let world = self.world;
        if at == At::MeetSettling {
            if self.call == Call::Checkpoint {
                self.view = world.view();
                world.refresh(&self.view);
            }
            world.point(Point::Settle, world.agreed());
            world.show_vote();
        }
        let view = &self.view;
        let word = view.number << 8 | step;
        // Pairs with the loads below: what was written before is seen by whoever sees the step.
        world.segment().words().step.store(word, Ordering::SeqCst);
        let living = |pe: &usize| view.pes[*pe].state == State::Alive;
        let others: Vec<usize> = (0..world.n_pes()).filter(living).collect();
        others.iter().for_each(|&pe| world.wake(pe));
        world.publish(view);
        let here = |pe: &usize| {
            let theirs = world.step_of(*pe);
            theirs >> 8 == view.number && theirs >= word
        };
        let mut met = false;
        world.wait_raw(
            || world.waiting_for_all(self.call.name()),
            || {
                met = others.iter().all(here);
                met || world.view_number() != view.number
            },
        );
        if met { Outcome::Done } else { Outcome::Changed }
    }

    fn decide(&mut self) -> Outcome {
        let vote = |pe: usize| {
            let told = self.world.told(pe);
            Vote { phase: Phase::unpack(told.phase), decided: told.decision.checked_sub(1) }
        };
        let alive = |&pe: &usize| self.view.pes[pe].state == State::Alive;
        let votes: Vec<Vote> = (0..self.world.n_pes()).filter(alive).map(vote).collect();
        let Some(target) = decide(&votes) else {
            // Memory is wiped only after this node has shown that it is lost.
            if self.world.view_number() != self.view.number {
                return Outcome::Changed;
            }
            if self.call.recovers() {
                self.world.condemn("unrecoverable: no PE that saw a checkpoint is left");
            }
            return Outcome::Lost;
        };
        self.number = target;
        if self.call.recovers() {
            self.world.find_apart(&self.view);
        }
        if !breaks(Mutant::DecisionNotWritten) {
            self.world.set_decision(Some(target));
        }
        self.world.point(Point::Decided, target);
        Outcome::Done
    }

    fn finish(&mut self) -> Outcome {
        match self.world.phase() {
            _ if self.world.is_new() => self.world.finish_inherited(self.protection, self.number),
            Some(Phase::Encoded(n) | Phase::Copying(n)) if n == self.number => {
                let (world, protection) = (self.world, self.protection);
                checkpoint::copy(world, protection, self.covered(), self.number, None, None);
            }
            Some(_) => self.world.set_phase(Phase::Agreed(self.number)),
            None => {}
        }
        self.world.set_agreed(self.number);
        Outcome::Done
    }

    // ---- restart ------------------------------------------------------------------------------

    fn whole(&mut self) -> Outcome {
        let world = self.world;
        *lock(&world.history) = None;
        pages::forget(world);
        let call = self.call.name();
        world.wait_raw(
            || world.waiting_for_all(call),
            || {
                self.view = world.view();
                self.view.whole()
            },
        );
        world.refresh(&self.view);
        Outcome::Done
    }

    fn verify(&mut self) -> Outcome {
        if self.number == 0 {
            self.world.condemn(&format!(
                "unrecoverable: PEs {} were lost before the first checkpoint",
                self.world.replaced_in(&self.view)
            ));
        }
        self.world.point(Point::Verify, self.number);
        self.verifying = Instant::now();
        self.checks += 1;
        let all = self.checks > 1;
        steps::verify(self.world, self.protection, self.number, all, &mut self.bare);
        Outcome::Done
    }

    fn judge(&mut self) -> Outcome {
        (self.len, self.findings) = steps::findings(self.world, self.protection);
        self.verdict = steps::check(self.protection, &self.findings);
        let me = self.world.me();
        let ending = |pe: usize| self.world.told(pe).ending;
        let others = (0..self.world.n_pes()).filter(|&pe| pe != me);
        self.ends = others.map(ending).max().and_then(Ending::of);
        Outcome::Done
    }

    fn pronounce(&mut self) -> Outcome {
        let Err(verdict) = &self.verdict else { return Outcome::Done };
        match verdict.damaged.first().filter(|_| self.checks == 1) {
            None => self.world.condemn(&verdict.to_string()),
            // What else is damaged is not known yet.
            Some(&pe) => {
                self.world.spoiled(&self.view, pe);
                Outcome::Changed
            }
        }
    }

    fn rebuild(&mut self) -> Outcome {
        if self.call == Call::Finalize {
            return Outcome::Done;
        }
        let (world, protection, view) = (self.world, self.protection, &self.view);
        let (number, len, begun) = (self.number, self.len, self.verifying);
        match steps::rebuild(world, protection, view, &self.findings, number, len, begun) {
            Ok(line) => self.line = line,
            Err(Changed) => return Outcome::Changed,
        }
        Outcome::Done
    }

    fn restore(&mut self) -> Outcome {
        if self.call == Call::Finalize {
            return Outcome::Done;
        }
        let (world, protection, view) = (self.world, self.protection, &self.view);
        let (line, number, len) = (self.line.take(), self.number, self.len);
        match steps::restore(world, protection, view, line, number, len) {
            Ok(coverage) => self.coverage = Some(coverage),
            Err(Changed) => return Outcome::Changed,
        }
        Outcome::Done
    }

    fn reencode(&mut self) -> Outcome {
        if breaks(Mutant::ParityNotMadeAnew) {
            return Outcome::Done;
        }
        if self.call == Call::Finalize || self.ends.is_some() {
            return Outcome::Done;
        }
        let (world, protection, view) = (self.world, self.protection, &self.view);
        let (covered, number) = (self.covered(), (self.number, self.checks > 1));
        match steps::reencode(world, protection, view, &self.findings, covered, number) {
            Ok(()) => Outcome::Done,
            Err(Changed) => Outcome::Changed,
        }
    }

    fn reset(&mut self) -> Outcome {
        self.world.reset_control();
        if !self.protection.mode.keeps_snapshot() && self.world.has_part() {
            self.world.note_resumed(since::live(self.world));
        }
        self.world.set_phase(Phase::Agreed(self.number));
        Outcome::Done
    }

    fn join(&mut self) -> Outcome {
        self.world.set_decision(None);
        let (world, number) = (self.world, self.number);
        let micros = self.begun.elapsed().as_micros() as u64;
        match (self.call, self.ends) {
            (Call::Finalize, _) => world.join(&self.view),
            (_, Some(ending)) => {
                world.join_alone(&self.view, ending == Ending::Silent && !world.excludes());
                world.report(Report::Alone { pe: world.me() as u32, number, micros });
            }
            (_, None) => {
                world.join_all(&self.view);
                if world.me() == 0 {
                    world.report(Report::Resumed { number, micros });
                }
            }
        }
        self.world.point(Point::Resume, self.number);
        Outcome::Done
    }
}
