//! A process of the simulated job: its program, and the library's driver in steps that others may
//! interleave with. [`super::port`] models the driver's operations on small memory.

use std::rc::Rc;
use std::sync::Arc;

use raidshmem_core::ended::Ended;
use raidshmem_core::ended::UNRECOVERABLE;
use raidshmem_core::membership::MembershipEvent;
use raidshmem_core::message::{AssignmentMessage, PeMessage, ProcId};
use raidshmem_core::placement::moves::PlaceHistory;
use raidshmem_core::plan::{Lost, StoreFinding, Unrecoverable};
use raidshmem_core::protocol::brought::{Brought, Found};
use raidshmem_core::protocol::driver::{Driver, StepResult};
use raidshmem_core::protocol::{At, Call};
use raidshmem_core::quantity::{CheckpointNumber, Incarnation, ViewNumber};
use raidshmem_core::store::delta::{Changes, History};
use raidshmem_core::store::grouped::KnownGroups;
use raidshmem_core::store::phase::Phase;
use raidshmem_core::store::protection::Protection;
use raidshmem_core::store::site::{Activity, DivergedSites};
use raidshmem_core::view::{MoveRequest, State, View};

use super::job::{Job, What};
use super::mailbox::Meetings;
use super::memory::Memory;
use super::plan::{Broken, Plan, When};
use super::port::Hands;
use super::watch::Watch;

/// A process' state after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It has more to do.
    Again,
    /// It is busy until then.
    Until(u64),
    /// It sleeps until something changes.
    Sleep,
    /// It ended and reported its end.
    End,
}

/// A process and its private state.
pub struct Proc {
    pub id: ProcId,
    pub node: u32,
    pub alive: bool,
    pub asleep: bool,
    pub me: Option<usize>,
    pub memory: u32,
    pub incarnation: Incarnation,
    pub mapped: Rc<Vec<u32>>,
    pub view: Rc<View>,
    pub joined: ViewNumber,
    pub call: Call,
    /// Its current call.
    pub driver: Option<Driver>,
    /// True if its program has started.
    booted: bool,
    /// Its progress through tiles.
    pub progress: usize,
    /// The view in which it reported a damaged tile.
    pub complained: ViewNumber,
    pub number: CheckpointNumber,
    pub agreed: CheckpointNumber,
    /// Its history of the last checkpoint, and its changes for the one being made.
    pub history: Option<History>,
    pub changes: Option<Changes>,
    pub watch: Watch,
    pub epoch: u64,
    pub len: usize,
    /// Checks of the own store in this recovery: of all its tiles, except the first one.
    pub checks: u32,
    /// True if the own store was empty at the first check.
    pub empty: bool,
    /// True if it has not reached its loop yet.
    pub before: bool,
    /// The late PEs since the restart.
    pub apart: Option<DivergedSites>,
    /// True if it has computed since then.
    pub written: bool,
    /// The findings of the members of its group, by place.
    pub findings: Vec<StoreFinding>,
    /// The own group, if it is lost.
    pub lost: Option<Lost>,
    pub meetings: Meetings,
    /// The groups of checkpoints that the PE knows.
    pub known: KnownGroups,
    /// The groups of its current checkpoint.
    pub groups: Option<Arc<Protection>>,
    /// True if it has just resumed: it may save the checkpoint again in new groups.
    resumed: bool,
    /// True in the call that does so.
    pub heals: bool,
    /// True while its parity is computed from snapshots.
    pub behind: bool,
    /// The request that PEs move, of the last barrier Q, and the one for which it waits.
    pub agreed_move: Option<MoveRequest>,
    pub waits: Option<MoveRequest>,
    /// True if it has reported that it waits.
    pub reported: bool,
    /// The combined values of barrier Q or of the settling meeting.
    pub met: Brought,
    /// The findings of all checks.
    pub found: Found,
    pub verdict: Result<(), Unrecoverable>,
    /// The view in which it reported that it is in `shmem_finalize`.
    finishing: Option<ViewNumber>,
    /// True if others are there, in its recovery.
    pub ends: bool,
    /// Its connection to that incarnation of a PE broke: it waits for the view that decides
    /// which of the two is lost.
    pub blocked: Option<(usize, u32)>,
    /// The time at which all its posts so far have arrived.
    pub told_at: u64,
}

impl std::fmt::Display for Proc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Proc { id, node, call, view, joined, number, .. } = self;
        let at = self.at().map_or("program".to_string(), |at| format!("{at:?}"));
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
            incarnation: Incarnation(0),
            mapped: Rc::new(Vec::new()),
            view: Rc::new(View { number: ViewNumber(0), pes: Vec::new(), local: false }),
            joined: ViewNumber(0),
            call: Call::Checkpoint,
            driver: None,
            booted: false,
            progress: 0,
            complained: ViewNumber(0),
            number: CheckpointNumber(0),
            agreed: CheckpointNumber(0),
            history: None,
            changes: None,
            watch: Watch::default(),
            epoch: 0,
            len: 0,
            checks: 0,
            empty: false,
            before: true,
            apart: None,
            written: false,
            findings: Vec::new(),
            lost: None,
            meetings: Meetings::default(),
            known: KnownGroups::new(PlaceHistory::default(), None, None),
            groups: None,
            resumed: false,
            heals: false,
            behind: false,
            agreed_move: None,
            waits: None,
            reported: false,
            met: Brought::Nothing,
            found: Found::default(),
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
    pub fn take(&mut self, assignment: &AssignmentMessage, mapped: Rc<Vec<u32>>, plan: &Plan) {
        self.me = Some(assignment.pe.at());
        let places = PlaceHistory::new(plan.node_of.clone(), assignment.moves.clone());
        self.known = KnownGroups::new(places, None, None);
        self.known.agree(Arc::clone(&plan.protection));
        (self.memory, self.incarnation, self.mapped) =
            (assignment.memory, assignment.incarnation, mapped);
    }

    pub fn me(&self) -> usize {
        self.me.expect("a process with a number")
    }

    /// True while its program runs and a thread computes parity.
    pub fn is_behind(&self) -> bool {
        self.driver.is_some_and(|driver| driver.call() == Call::Protect)
    }

    /// Returns the groups of its current checkpoint.
    pub fn groups(&self) -> Arc<Protection> {
        Arc::clone(self.groups.as_ref().expect("in a call"))
    }

    /// The state of the protocol that it is in.
    pub fn at(&self) -> Option<At> {
        self.driver.map(|driver| driver.at())
    }
}

impl Job {
    /// Makes one step of a process.
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
            Then::Again => {
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
            if member.state == State::Alive && member.incarnation == Incarnation(incarnation) {
                return Then::Sleep;
            }
            p.blocked = None;
        }
        let Some(mut driver) = p.driver else { return self.program(p) };
        loop {
            let mut hands = Hands { job: self, p, moved: false, busy: None };
            let step = driver.step(&mut hands);
            let (moved, busy) = (hands.moved, hands.busy);
            (p.number, p.checks, p.ends) =
                (driver.number(), driver.checks(), driver.ends().is_some());
            p.driver = Some(driver);
            match (step, busy) {
                (StepResult::Left(from, _), _) => {
                    p.progress = 0;
                    return self.enter(p, from, driver.at());
                }
                (_, Some(then)) => return then,
                (StepResult::Wait, None) => return Then::Sleep,
                (StepResult::Again, None) if moved => return Then::Again,
                (StepResult::Again, None) => {}
            }
        }
    }

    /// Makes the program's next call.
    pub fn call(&mut self, p: &mut Proc) -> Then {
        let driver = Driver::new(p.call, p.agreed);
        let last = p.known.last().map(|last| last.places);
        self.choose_groups(p, driver.number());
        let in_parts = p.call == Call::Checkpoint
            && last == Some(p.groups().places)
            && self.plan.settings.computes_behind(false)
            && p.agreed != CheckpointNumber::START
            && !self.plan.two;
        self.begin(p, if in_parts { Driver::new(Call::Copy, p.agreed) } else { driver })
    }

    /// Saves the checkpoint that it has just resumed from again, if groups change.
    fn heal(&mut self, p: &mut Proc) -> Option<Then> {
        if !std::mem::take(&mut p.resumed) || p.ends || !self.heals_groups(p) {
            return None;
        }
        (p.heals, p.view) = (true, self.shown(p).clone());
        Some(self.begin(p, Driver::heal(p.agreed)))
    }

    fn begin(&mut self, p: &mut Proc, driver: Driver) -> Then {
        (p.number, p.checks, p.progress) = (driver.number(), 0, 0);
        p.driver = Some(driver);
        self.enter(p, driver.at(), driver.at())
    }

    fn enter(&mut self, p: &mut Proc, from: At, to: At) -> Then {
        self.note(|| format!("PE {} -> {to:?} (checkpoint {})", p.me(), p.number));
        p.driver = p.driver.filter(|_| !to.is_end());
        p.behind &= !to.is_end();
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
                if !std::mem::take(&mut p.heals) {
                    self.leaves_call(p, true);
                    self.begin_wait(p);
                }
            }
            // The program computes while a thread takes the other part.
            At::Copied => {
                let computed = self.plan.content(p.me(), p.number.next().0);
                self.own(p).live = computed;
                self.ending.behind += u32::from(p.me() == 0);
                return self.begin(p, Driver::new(Call::Protect, p.agreed));
            }
            At::Interrupted => p.changes = None,
            At::Passed => self.leaves_call(p, false),
            At::Refused if std::mem::take(&mut p.heals) => p.known.stay(p.agreed, p.joined),
            At::Reported => (p.call, p.heals) = (Call::Restart, false),
            At::Reset if p.call == Call::Restart && !p.ends => self.note_whole(p),
            At::Resumed => {
                self.check_resumed(p);
                (p.call, p.empty, p.resumed) = (Call::Checkpoint, false, true);
            }
            At::Unrecoverable => return self.abort(p, from),
            _ => {}
        }
        Then::Again
    }

    // ---- common to all states -------------------------------------------------------------------

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

    pub fn faulted(&self, p: &Proc) -> bool {
        self.shown(p).number != p.joined
    }

    /// True if the view in which the recovery began is no longer the published one.
    pub fn changed(&self, p: &Proc) -> bool {
        self.shown(p).number != p.view.number
    }

    pub fn pes(&self) -> usize {
        self.carrier.len()
    }

    pub fn say(&mut self, p: &Proc, what: PeMessage) {
        if self.nodes[p.node as usize].alive {
            self.up(p.node, MembershipEvent::Message { proc: p.id, what });
        }
    }

    /// Aborts the job and ends the process.
    fn abort(&mut self, p: &Proc, from: At) -> Then {
        let words = match &p.verdict {
            Err(verdict) if from == At::Verdict => verdict.to_string(),
            _ if from == At::Verify => {
                let lost =
                    (0..self.pes()).filter(|&pe| p.view.pes[pe].incarnation > Incarnation(0));
                let lost: Vec<String> = lost.map(|pe| pe.to_string()).collect();
                format!("unrecoverable: PEs {}: lost before the first checkpoint", lost.join(","))
            }
            _ => "unrecoverable: no PE that saw a checkpoint is left".to_string(),
        };
        self.note(|| format!("PE {} is unrecoverable: {words}", p.me()));
        self.say(p, PeMessage::Verdict { status: UNRECOVERABLE, words });
        self.at(self.now, What::ProcessDies(p.id, Ended::Exited(UNRECOVERABLE)));
        Then::End
    }

    // ---- the program ----------------------------------------------------------------------------

    fn program(&mut self, p: &mut Proc) -> Then {
        if self.shown(p).number == ViewNumber(0) {
            return Then::Sleep;
        }
        if !p.booted {
            return self.boot(p);
        }
        if p.call.recovers() {
            return self.call(p);
        }
        if let Some(then) = self.heal(p) {
            return then;
        }
        if let Some(then) = self.wait_for_move(p) {
            return then;
        }
        let behind = p.finishing.is_none() && self.is_behind(p);
        if p.agreed >= self.plan.last && !behind {
            return self.finalize(p);
        }
        if behind {
            p.view = self.shown(p).clone();
            return self.call(p);
        }
        if p.ends {
            self.broken_promise = Some(format!("PE {} needs PEs that are at their end", p.me()));
            return Then::End;
        }
        // Results computed while a PE is known to be lost are worthless.
        let computed = match self.faulted(p) {
            true => vec![0xee; self.plan.len],
            false => self.plan.content(p.me(), p.agreed.next().0),
        };
        self.own(p).live = computed;
        p.number = p.agreed.next();
        p.view = self.shown(p).clone();
        self.wrote(p);
        self.call(p)
    }

    fn boot(&mut self, p: &mut Proc) -> Then {
        let original = p.incarnation == Incarnation(0);
        self.own(p).posted.ending = false;
        if original {
            let memory = self.own(p);
            memory.set_phase(Phase::Agreed(CheckpointNumber(0)));
            p.joined = ViewNumber(1);
            p.known.note_places(&self.views[1].view);
        } else {
            self.inherit(p);
        }
        p.booted = true;
        Then::Again
    }

    /// True for a process that has reported that it is there.
    pub fn is_finishing(&self, p: &Proc) -> bool {
        p.finishing.is_some()
    }

    fn finalize(&mut self, p: &mut Proc) -> Then {
        if p.finishing.is_none() {
            let computed = self.plan.content(p.me(), self.plan.last.next().0);
            let memory = self.own(p);
            (memory.live, memory.posted.ending) = (computed, true);
            self.show_deed(p, Activity::Waits);
        }
        if p.finishing != Some(p.joined) {
            p.finishing = Some(p.joined);
            self.say(p, PeMessage::Finalizing { joined: p.joined, cut: false });
        }
        if !self.nodes[p.node as usize].finished {
            if self.faulted(p) && self.plan.broken != Broken::EndIgnoresLosses {
                p.call = Call::Finalize;
                return self.call(p);
            }
            return Then::Sleep;
        }
        self.say(p, PeMessage::Finalized);
        self.at(self.now, What::ProcessDies(p.id, Ended::Exited(0)));
        Then::End
    }

    /// True if a checkpoint that ends this way should have ended the other way.
    fn is_wrong_end(&self, number: CheckpointNumber, to: At) -> bool {
        let planned = self.plan.refusal.is_some_and(|(_, refused, _)| refused == number);
        match to {
            At::Saved => planned && !self.refused,
            At::Refused => !planned,
            _ => false,
        }
    }
}
