//! The port over real memory: carries out the operations of the driver, and waits where it must.
//!
//! It decides nothing: [`raidshmem_core::protocol::driver`] chooses the next operation, and
//! [`raidshmem_core::protocol::next`] the next state. Every named step at which a fault can be
//! injected is passed here, or in the functions called from here.

#![forbid(unsafe_code)]

mod following;
mod meetings;
mod recovery;
mod restoring;
mod results;
mod saving;
mod scope;

use std::sync::Arc;

use raidshmem_core::inject::Point;
use raidshmem_core::message::Flaw;
use raidshmem_core::protocol::brought::is_in_tree;
use raidshmem_core::protocol::driver::{
    Driver, EntryStatus, Judgement, OpProgress, Port, StepResult,
};
use raidshmem_core::protocol::operation::{Op, StorePart};
use raidshmem_core::protocol::{At, Call, Outcome};
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::status::Ending;
use raidshmem_core::store::grouped::Grouped;
use raidshmem_core::store::intent::Refusal;
use raidshmem_core::store::phase::{Phase, Votes};
use raidshmem_core::store::protection::Protection;
use raidshmem_core::view::View;
use raidshmem_segment::header::RegionRecord;
use raidshmem_segment::words::Barrier;
use tracing::info;

use crate::checkpoint::Sources;
use crate::pgas::{Fault, World};
use following::Following;
use restoring::Restoring;
use results::MeetingResults;
use saving::Saving;
use scope::CheckpointScope;

/// Runs the protocol to its end, and returns why a checkpoint was refused. It does not
/// return at `Unrecoverable`.
pub fn run(world: &World, protection: &Arc<Protection>, call: Call) -> (At, Option<Refusal>) {
    drive(world, protection, Driver::new(call, world.store.agreed()))
}

/// Encodes the checkpoint that all PEs have just resumed from again, in new groups. Returns why it
/// was refused.
pub fn heal(world: &World, protection: &Arc<Protection>) -> (At, Option<Refusal>) {
    drive(world, protection, Driver::heal(world.store.agreed()))
}

/// Begins a checkpoint in parts. Returns the part that is left once all PEs have copied their
/// memory.
pub fn begin(
    world: &'static World,
    protection: &Arc<Protection>,
) -> (At, Option<Refusal>, Option<Remaining>) {
    let mut driver = Driver::new(Call::Copy, world.store.agreed());
    let mut memory = RealMemory::new(world, protection);
    memory.drive(&mut driver);
    match driver.at() {
        At::Copied => {
            memory.saving.goes_on();
            (At::Copied, None, Some(Remaining { memory }))
        }
        at => (at, memory.saving.refusal, None),
    }
}

/// The part of a checkpoint that is left once all PEs have copied their memory.
pub struct Remaining {
    memory: RealMemory<'static>,
}

impl Remaining {
    /// Computes the parity, and returns true if all PEs have the checkpoint then; false if a PE was
    /// lost.
    pub fn run(mut self) -> bool {
        let agreed = self.memory.world.store.agreed();
        let mut driver = Driver::new(Call::Protect, agreed);
        self.memory.drive(&mut driver);
        driver.at() == At::Saved
    }
}

fn drive(world: &World, protection: &Arc<Protection>, mut driver: Driver) -> (At, Option<Refusal>) {
    let mut memory = RealMemory::new(world, protection);
    memory.drive(&mut driver);
    (driver.at(), memory.saving.refusal)
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
    (saved, memory.saving.refusal)
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
    saving: Saving,
    restoring: Restoring,
    following: Following,
    results: MeetingResults,
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
        let scope = CheckpointScope { world, protection, number };
        match op {
            Op::ShowCall if driver.at() == At::Enter && !world.sites.is_apart() => {}
            Op::ShowCall => self.following.show_call(scope, driver.at()),
            Op::Pass(Point::Settle) => world.members.point(Point::Settle, world.store.agreed()),
            Op::Pass(point) => world.members.point(point, number),
            Op::Post(posted) => match driver.phase(posted) {
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
                if !driver.call().recovers() {
                    // Else the lost PE waits for this one to leave it.
                    world.log_meetings().lost_in_checkpoint();
                }
                self.view = world.members.view();
                world.refresh(&self.view);
            }
            Op::AwaitWhole if !world.members.view().whole() => return OpProgress::Wait,
            Op::AwaitNext if !self.changed() => return OpProgress::Wait,
            Op::AwaitWhole | Op::AwaitNext => {}
            Op::FindApart => {
                let (_, calls, ending, _) = self.results.settled();
                world.call_sites().find_diverged(calls, *ending != 0);
            }
            Op::TakeGroups => {
                let (.., grouped) = self.results.settled();
                self.protection = world.grouping().groups_decided(grouped, number);
            }
            Op::WriteDecision => world.store.recovery.set_decision(Some(number)),
            Op::ForgetDecision => world.store.recovery.set_decision(None),
            Op::SetAgreed => world.store.set_agreed(number),
            Op::ClearShadow => world.inheritance().clear_shadow(protection),
            Op::BringInherited => {
                self.saving.len = world.inheritance().bring_inherited(protection, number)
            }
            Op::Follow => return self.following.follow(world),
            Op::ShowDamage => {
                // The first look covers records alone.
                let damaged = self.results.damaged();
                world.members.report_unusable(&self.view, damaged, Flaw::Missing);
            }
            Op::Join => self.join(driver),
            Op::CopyLive => self.saving.carry_out(scope, driver.at(), op),
            Op::Encode if driver.call() == Call::Protect => {
                self.saving.encode_behind(scope, Sources::of(driver.reads_snapshots(self)));
            }
            _ if !driver.call().recovers() => {
                self.saving.carry_out(scope, driver.at(), op);
            }
            _ => {
                let (op, found) = ((op, driver.checks() > 1), &self.results.found);
                return self.restoring.carry_out(scope, op, &self.view, found, &mut self.saving);
            }
        }
        OpProgress::Done
    }

    fn standing(&mut self) -> EntryStatus {
        let world = self.world;
        match (world.members.is_new(), self.faulted()) {
            (true, _) => EntryStatus::New,
            (_, true) => EntryStatus::Faulted,
            _ if world.call_sites().is_late() => EntryStatus::Late,
            _ => EntryStatus::Well,
        }
    }

    fn agrees(&mut self, driver: &Driver) -> bool {
        let protection = &*Arc::clone(&self.protection);
        let scope = CheckpointScope { world: self.world, protection, number: driver.number() };
        self.saving.agree(scope, &self.view, &self.results.met)
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
        self.world.inheritance().is_shadowed(&self.protection, number)
    }

    fn phase(&self) -> Option<Phase> {
        self.world.store.recovery.phase()
    }

    fn votes(&self) -> Votes {
        *self.results.settled().0
    }

    fn faulted(&self) -> bool {
        // In shrink mode the barriers find out about losses that all PEs know of.
        self.world.loss_response().interrupts_meetings()
    }

    fn changed(&self) -> bool {
        self.world.members.view_number() != self.view.number
    }

    fn judgement(&self) -> Judgement {
        self.results.judgement()
    }

    fn ends(&self) -> Option<Ending> {
        Ending::of(self.results.found.ending)
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
            saving: Saving::begin(),
            restoring: Restoring::begin(),
            following: Following::default(),
            results: MeetingResults::none(),
            over: None,
        }
    }

    /// Takes all steps of the driver, up to an end.
    fn drive(&mut self, driver: &mut Driver) {
        while !driver.at().is_end() {
            match driver.step(self) {
                StepResult::Again => {}
                StepResult::Wait => self.wait(driver),
                StepResult::Left(from, outcome) => {
                    let (number, to) = (driver.number(), driver.at());
                    info!("checkpoint {number}: {from} ({outcome}), now {to}");
                    if driver.at() == At::Unrecoverable {
                        self.abort(from);
                    }
                }
            }
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
        self.record(part, number).seal_of(self.world.job(), grouped, self.saving.len);
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
        } else if op == Op::Await && driver.call() == Call::Protect {
            over = match world.barriers().barrier_in_background(call) {
                true => OpProgress::Done,
                false => OpProgress::Out(Outcome::Changed),
            };
        } else if op == Op::Await && !is_in_tree(driver.at()) {
            over = match world.barriers().barrier_of(Barrier::Protocol, call) {
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
        let decision = self.world.barriers().agree_all(call, (met, 0));
        match decision.value == 1 && decision.lost == self.left_out {
            true => OpProgress::Done,
            false => OpProgress::Out(Outcome::Changed),
        }
    }

    /// Completes a checkpoint that all PEs have.
    fn saved(&mut self, number: CheckpointNumber) {
        let protection = &*Arc::clone(&self.protection);
        self.saving.saved(CheckpointScope { world: self.world, protection, number });
    }
}
