//! The port over real memory: carries out the operations of the driver, and waits where it must.
//!
//! It decides nothing: [`raidshmem_core::protocol::driver`] chooses the next operation, and
//! [`raidshmem_core::protocol::next`] the next state. Every named step at which a fault can be
//! injected is passed here, or in the functions called from here.

#![forbid(unsafe_code)]

mod meetings;
mod recovery;

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use raidshmem_core::inject::Point;
use raidshmem_core::message::Flaw;
use raidshmem_core::plan::{Lost, StoreFinding, Unrecoverable};
use raidshmem_core::protocol::brought::{Brought, Found, is_in_tree};
use raidshmem_core::protocol::driver::{
    Driver, EntryStatus, Judgement, OpProgress, Port, StepResult,
};
use raidshmem_core::protocol::operation::{Op, StorePart};
use raidshmem_core::protocol::{At, Call, Outcome};
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::status::Ending;
use raidshmem_core::store::coverage::Coverage;
use raidshmem_core::store::delta::Changes;
use raidshmem_core::store::grouped::Grouped;
use raidshmem_core::store::intent::{Intent, Refusal};
use raidshmem_core::store::phase::{Phase, Votes};
use raidshmem_core::store::protection::Protection;
use raidshmem_core::store::site::{Activity, Verdict};
use raidshmem_core::view::View;
use raidshmem_segment::header::RegionRecord;
use raidshmem_segment::words::Barrier;
use tracing::info;

use crate::checkpoint;
use crate::checkpoint::{delta, pages, since, spill};
use crate::pgas::{Fault, World};
use crate::recovery::rebuild;

/// The pause before a remote PE is asked again.
const PAUSE: Duration = Duration::from_millis(1);

/// Runs the protocol to its end, and returns why a checkpoint was refused. It does not
/// return at `Unrecoverable`.
pub fn run(world: &World, protection: &Arc<Protection>, call: Call) -> (At, Option<Refusal>) {
    let mut driver = Driver::new(call, world.store.agreed());
    let mut memory = RealMemory::new(world, protection);
    while !driver.at().is_end() {
        match driver.step(&mut memory) {
            StepResult::Again => {}
            StepResult::Wait => memory.wait(&driver),
            StepResult::Left(from, outcome) => {
                let (number, to) = (driver.number(), driver.at());
                info!("checkpoint {number}: {from} ({outcome}), now {to}");
                if driver.at() == At::Unrecoverable {
                    memory.abort(from);
                }
            }
        }
    }
    (driver.at(), memory.refusal)
}

/// Runs a checkpoint in shrink mode, with `left_out` lost PEs excluded: to an end state, or until
/// another loss interrupts it, at one place on all living PEs, since they agree at every barrier.
pub fn run_among(
    world: &World,
    protection: &Arc<Protection>,
    left_out: u32,
) -> (Among, Option<Refusal>) {
    let mut driver = Driver::new(Call::Checkpoint, world.store.agreed());
    let mut memory = RealMemory { left_out, ..RealMemory::new(world, protection) };
    while !driver.at().is_end() {
        match driver.step(&mut memory) {
            StepResult::Again => {}
            StepResult::Wait => memory.wait(&driver),
            // All PEs have written it; the lost PE's part can be decoded.
            StepResult::Left(At::BarrierB, Outcome::Changed) => {
                memory.saved(driver.number());
                return (Among::SavedWithLoss, None);
            }
            StepResult::Left(_, Outcome::Changed) => return (Among::Lost, None),
            StepResult::Left(from, _) if driver.at() == At::Unrecoverable => memory.abort(from),
            StepResult::Left(..) => {}
        }
    }
    let saved = if driver.at() == At::Refused { Among::Refused } else { Among::Saved };
    (saved, memory.refusal)
}

/// The end of a checkpoint in shrink mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Among {
    /// All PEs have it.
    Saved,
    /// All living PEs have it, and one was lost after its part was protected.
    SavedWithLoss,
    /// A PE was lost before that.
    Lost,
    /// It was refused on every PE.
    Refused,
}

/// The memory of a PE in one call, and that of its peers.
struct RealMemory<'a> {
    world: &'a World,
    /// Protection of the driver's current checkpoint.
    protection: Arc<Protection>,
    /// The view adopted.
    view: View,
    /// True in shrink mode: the living PEs agree on the outcome of each meeting.
    agrees: bool,
    /// The number of lost PEs, which take no part in that mode.
    left_out: u32,
    begun: Instant,
    verifying: Instant,
    /// True if the own store held nothing at the first look.
    empty: bool,
    coverage: Option<Coverage>,
    changes: Option<Changes>,
    refusal: Option<Refusal>,
    /// Bytes of the snapshot to seal next.
    len: usize,
    /// This PE's contribution to the checkpoint.
    intent: Intent,
    /// All contributions to barrier Q, or to the meeting that agrees.
    met: Brought,
    /// The results of the checks on all PEs.
    found: Found,
    /// The results of the members of the own group, by place.
    findings: Vec<StoreFinding>,
    /// The own group, if it is lost.
    lost: Option<Lost>,
    verdict: Result<(), Unrecoverable>,
    /// The checkpoint's bytes, if no snapshot is kept.
    line: Option<Vec<u8>>,
    rebuilt: Option<rebuild::Rebuilt>,
    /// The missing part of the own parity, a bit for each chunk.
    missing: u64,
    /// The writes since the restart, as one number, if they are needed.
    written: u64,
    /// The time of the last query to the reference.
    asked: Cell<Option<Instant>>,
    /// The outcome of the operation that was waited for.
    over: Option<OpProgress>,
}

impl Port for RealMemory<'_> {
    fn carry_out(&mut self, driver: &Driver, op: Op) -> OpProgress {
        if let Some(over) = self.over.take() {
            return over;
        }
        let (world, number) = (self.world, driver.number());
        let protection = &*Arc::clone(&self.protection);
        match op {
            Op::ShowCall if driver.at() == At::Enter && !world.sites.is_apart() => {}
            Op::Pass(Point::Settle) => world.members.point(Point::Settle, world.store.agreed()),
            Op::Pass(point) => world.members.point(point, number),
            Op::Post(posted) => match posted.phase(number) {
                Some(phase) => world.store.recovery.set_phase(phase),
                None => world.store.recovery.forget_phase(),
            },
            Op::Void(part) => self.record(part, number).void(),
            Op::Seal(part) => self.seal(part, number),
            Op::Arrive => return self.arrive(driver),
            // The living PEs agree on whether all have met.
            Op::Await if self.agrees_on(driver.at()) => return OpProgress::Wait,
            Op::Await => return self.all_arrived(driver),
            Op::ShowVote => world.store.recovery.show(),
            Op::Adopt => {
                if driver.call() == Call::Checkpoint {
                    world.lost_in_checkpoint(); // else the lost PE waits for this one to leave it
                }
                self.view = world.members.view();
                world.refresh(&self.view);
            }
            Op::AwaitWhole if !world.members.view().whole() => return OpProgress::Wait,
            Op::AwaitNext if !self.changed() => return OpProgress::Wait,
            Op::AwaitWhole | Op::AwaitNext => {}
            Op::FindApart => {
                let (_, calls, ending, _) = self.settled();
                world.find_diverged(calls, *ending != 0);
            }
            Op::TakeGroups => {
                let (.., grouped) = self.settled();
                self.protection = world.groups_decided(grouped, number);
            }
            Op::WriteDecision => world.store.recovery.set_decision(Some(number)),
            Op::ForgetDecision => world.store.recovery.set_decision(None),
            Op::SetAgreed => world.store.set_agreed(number),
            Op::ClearShadow => world.clear_shadow(protection),
            Op::BringInherited => self.len = world.bring_inherited(protection, number),
            Op::Follow => return self.follow(),
            Op::ShowDamage => {
                let damaged = self.verdict.as_ref().err().and_then(|lost| lost.damaged.first());
                let damaged = *damaged.expect("the judgement was that");
                // The first look covers records alone.
                world.members.report_unusable(&self.view, damaged, Flaw::Missing);
            }
            Op::CopyLive => self.checkpoint(driver, op),
            _ if driver.call() == Call::Checkpoint => self.checkpoint(driver, op),
            _ => return self.restart(driver, op),
        }
        OpProgress::Done
    }

    fn standing(&mut self) -> EntryStatus {
        let world = self.world;
        match (world.members.is_new(), self.faulted()) {
            (true, _) => EntryStatus::New,
            (_, true) => EntryStatus::Faulted,
            _ if world.is_late() => EntryStatus::Late,
            _ => EntryStatus::Well,
        }
    }

    fn agrees(&mut self, _: &Driver) -> bool {
        let Brought::Intents(intents, calls) = &self.met else {
            unreachable!("at barrier Q all say what they save");
        };
        if let Err(words) = self.world.compare_calls(calls) {
            self.world.members.abort(&words);
        }
        self.refusal = checkpoint::agree(self.world, &self.protection, &self.view, intents).err();
        self.refusal.is_none() && self.coverage.is_some()
    }

    fn in_turns(&self) -> bool {
        self.protection.snapshots == 2
    }

    fn keeps_snapshot(&self) -> bool {
        self.protection.mode.keeps_snapshot()
    }

    fn is_new(&self) -> bool {
        self.world.members.is_new()
    }

    fn is_shadowed(&self, number: CheckpointNumber) -> bool {
        self.world.is_shadowed(&self.protection, number)
    }

    fn phase(&self) -> Option<Phase> {
        self.world.store.recovery.phase()
    }

    fn votes(&self) -> Votes {
        *self.settled().0
    }

    fn faulted(&self) -> bool {
        // In shrink mode the barriers find out about losses that all PEs know of.
        self.world.breaks_off()
    }

    fn changed(&self) -> bool {
        self.world.members.view_number() != self.view.number
    }

    fn judgement(&self) -> Judgement {
        match &self.verdict {
            Ok(()) => Judgement::Recoverable,
            Err(lost) if lost.damaged.is_empty() => Judgement::Unrecoverable,
            Err(_) => Judgement::Damaged,
        }
    }

    fn ends(&self) -> Option<Ending> {
        Ending::of(self.found.ending)
    }
}

impl<'a> RealMemory<'a> {
    fn new(world: &'a World, protection: &Arc<Protection>) -> RealMemory<'a> {
        RealMemory {
            world,
            protection: Arc::clone(protection),
            view: world.members.view(),
            agrees: world.shrinks(),
            left_out: 0,
            begun: Instant::now(),
            verifying: Instant::now(),
            empty: false,
            coverage: None,
            changes: None,
            refusal: None,
            len: 0,
            intent: Intent::default(),
            met: Brought::Nothing,
            found: Found::default(),
            findings: Vec::new(),
            lost: None,
            verdict: Ok(()),
            line: None,
            rebuilt: None,
            missing: 0,
            written: 0,
            asked: Cell::new(None),
            over: None,
        }
    }

    fn record(&self, part: StorePart, number: CheckpointNumber) -> &RegionRecord {
        let (header, protection) = (self.world.segments.own().header(), &self.protection);
        match part {
            StorePart::Snapshot => &header.snapshots[protection.snapshot_of(number)],
            StorePart::Slot => &header.slots[protection.slot_of(number)],
        }
    }

    fn seal(&self, part: StorePart, number: CheckpointNumber) {
        let grouped = Grouped { number, places: self.protection.places };
        self.record(part, number).seal_of(self.world.job(), grouped, self.len);
    }

    // ---- waiting ------------------------------------------------------------------------------

    /// Blocks until the waiting operation can proceed.
    fn wait(&mut self, driver: &Driver) {
        let (world, call) = (self.world, driver.call().name());
        let op = driver.op().expect("an operation waits");
        let mut over = OpProgress::Wait;
        if op == Op::Await && self.agrees_on(driver.at()) {
            let mut met = OpProgress::Wait;
            let waiting = || world.waiting_for_all(call);
            world.wait_raw(waiting, || {
                met = self.all_arrived(driver);
                met != OpProgress::Wait
            });
            over = self.agreed_to(met, call);
        } else if op == Op::Await && !is_in_tree(driver.at()) && self.agrees {
            over = self.agreed_to(OpProgress::Done, call);
        } else if op == Op::Await && !is_in_tree(driver.at()) {
            over = match world.barrier_of(Barrier::Protocol, call) {
                Ok(()) => OpProgress::Done,
                Err(Fault) => OpProgress::Out(Outcome::Changed),
            };
        } else {
            world.wait_raw(
                || world.waiting_for_all(call),
                || {
                    over = self.carry_out(driver, op);
                    over != OpProgress::Wait
                },
            );
        }
        self.over = Some(over);
    }

    /// Returns true at the one meeting of a checkpoint in the tree, in shrink mode.
    fn agrees_on(&self, at: At) -> bool {
        at == At::BarrierQ && self.agrees
    }

    /// Agrees with all living PEs on the outcome: done if all of them have met and no other PE is
    /// lost.
    fn agreed_to(&self, over: OpProgress, call: &'static str) -> OpProgress {
        let met = u64::from(over == OpProgress::Done);
        let decision = self.world.agree_all(call, (met, 0));
        match decision.value == 1 && decision.lost == self.left_out {
            true => OpProgress::Done,
            false => OpProgress::Out(Outcome::Changed),
        }
    }

    /// Decides this PE's call, once the reference has published how it continued after the restart.
    fn follow(&self) -> OpProgress {
        let world = self.world;
        let Some(reference) = world.sites.reference() else { return OpProgress::Done };
        // A remote PE is asked again only after a pause.
        let now = Instant::now();
        let soon = |at: Instant| world.segments.is_remote(reference) && now - at < PAUSE;
        if self.asked.get().is_some_and(soon) {
            return OpProgress::Wait;
        }
        self.asked.set(Some(now));
        match world.follow(self.written) {
            None if world.members.faulted() => OpProgress::Out(Outcome::Changed),
            None => OpProgress::Wait,
            Some(Verdict::Mismatch) => world.members.abort(&format!(
                "checkpoints do not fit: after the restart PE {} wrote to symmetric memory and \
                 called the checkpoint at {}, but PE {reference} has continued to {}",
                world.me(),
                world.site_of(world.me()),
                world.describe(reference)
            )),
            Some(Verdict::Meet) => {
                world.caught_up();
                OpProgress::Done
            }
            Some(Verdict::Pass) => {
                world.caught_up();
                OpProgress::Out(Outcome::Behind)
            }
        }
    }

    // ---- checkpoint ---------------------------------------------------------------------------

    fn checkpoint(&mut self, driver: &Driver, op: Op) {
        let (world, number) = (self.world, driver.number());
        let protection = &*Arc::clone(&self.protection);
        match op {
            Op::ShowCall => self.show_call(driver),
            Op::Quiet => world.quiet_all(),
            Op::Describe => self.describe(number),
            Op::Prepare => {
                spill::keep(world, protection, number);
                checkpoint::prepare(world, protection, self.len);
            }
            Op::Compare => {
                let changes = delta::compare(world, protection, self.covered(), number);
                self.changes = Some(changes);
            }
            Op::Encode => {
                let (mut changes, all) = (self.changes.take(), |_| true);
                let (covered, half) = (self.covered(), (changes.as_mut(), Point::Encode));
                checkpoint::encode(world, protection, covered, number, &all, half);
                self.changes = changes;
            }
            Op::CopyLive if driver.at() == At::Finish => {
                checkpoint::copy(world, protection, self.covered(), number, None);
            }
            Op::CopyLive => {
                let mut changes = self.changes.take().expect("set at Compare");
                let covered = self.covered();
                checkpoint::complete(world, protection, covered, number, &mut changes);
                self.changes = Some(changes);
            }
            Op::Watch => pages::watch(world, protection, self.covered(), number),
            Op::Saved => self.saved(number),
            _ => unreachable!("{op:?} at {:?}", driver.at()),
        }
    }

    /// Publishes the place of the call, and the writes since the restart if they are needed.
    fn show_call(&mut self, driver: &Driver) {
        let (world, agreed) = (self.world, driver.number().previous());
        let asked = driver.at() == At::Follow || world.is_reference();
        self.written = if asked { since::written(world, &self.protection, agreed) } else { 0 };
        world.show_progress(Activity::Checkpoint, self.written);
    }

    fn describe(&mut self, number: CheckpointNumber) {
        (self.coverage, self.intent) = checkpoint::intend(self.world, &self.protection);
        match &self.coverage {
            Some(coverage) => {
                self.len = coverage.len();
                pages::show(self.world, coverage, number);
            }
            None => pages::forget(&self.world.store),
        }
    }

    fn saved(&mut self, number: CheckpointNumber) {
        let changes = self.changes.take();
        let found = changes.as_ref().and_then(delta::found);
        if let Some(changes) = changes {
            delta::keep(&self.world.store, changes, number, self.len);
        }
        checkpoint::saved(self.world, &self.protection, number, self.begun, found);
    }

    fn covered(&self) -> &Coverage {
        self.coverage.as_ref().expect("set at Intend or Restore")
    }
}
