//! Local rollback: a substitute rolls back to the last checkpoint, and no other PE does.
//!
//! This runs in its first checkpoint call, which then returns as it did when the checkpoint was
//! made. The substitute first looks for reasons against a local rollback, and reports any to the
//! launcher: then all PEs roll back, as in all other recoveries.
//!
//! ```text
//! renew      after the loss of a node: restores the log from its replica, the snapshot and the
//!            own parity from the other PEs of the group (`renew.rs`)
//! look       checks that every log begins at the checkpoint in the own store, and that no reason
//!            against a local rollback is posted
//! quiet      waits until no survivor is in a put to the dead PE
//! restore    copies the own snapshot to live memory
//! replay     takes the results of calls from the log, up to its end (`pgas/replay.rs`)
//! ```
//!
//! Invariant: nothing that is present in a store changes.

use raidshmem_core::protocol::Call;
use raidshmem_core::quantity::{CheckpointNumber, Pe, ViewNumber};
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::replay::log::{holds_a_call, is_in_doubt};
use raidshmem_core::replay::place::{CallPlace, speaks_against};
use raidshmem_core::store::phase::Phase;
use raidshmem_core::store::protection::Protection;
use raidshmem_segment::log::Word;
use raidshmem_segment::waits::Waiting;
use raidshmem_sys::site::CallSite;

use super::renew::renew;
use super::restore;
use crate::pgas::World;

/// Rolls back locally if possible. Returns false if all PEs roll back.
pub(crate) fn go_back(world: &World, protection: &Protection, site: &CallSite) -> bool {
    // After a local rollback this PE's calls are logged again, or all PEs roll back.
    if !world.local.is_on() || world.logs() || !world.members.is_new() {
        return false;
    }
    let view = world.members.view();
    if !view.local {
        return false;
    }
    world.refresh(&view);
    let renewed = renew(world, protection).map_err(|why| format!("PE {}: {why}", world.me()));
    match renewed.and_then(|()| look(world, protection, site)) {
        Ok((number, len)) => {
            await_quiet(world);
            if restore::restore(world, protection, &view, None, number, len).is_err() {
                return false; // it has reported an invalid tile
            }
            world.store.set_agreed(number);
            world.begin_interval();
            world.timing.rolled_back_locally();
            world.begin_replay();
            true
        }
        Err(why) => {
            world.demand_global_rollback(why);
            false
        }
    }
}

/// Returns the checkpoint to roll back to, and the length of its snapshot; or a reason against it.
fn look(
    world: &World,
    protection: &Protection,
    site: &CallSite,
) -> Result<(CheckpointNumber, usize), String> {
    let own = |reason: Reason| format!("PE {}: {reason}", world.me());
    let Some(Phase::Agreed(number)) = world.store.recovery.phase() else {
        return Err(own(Reason::InCheckpoint));
    };
    let header = world.segments.own().header();
    let record = &header.snapshots[protection.snapshot_of(number)];
    let Some(len) = record.holds(world.job(), number) else {
        return Err(own(Reason::NoCheckpoint));
    };
    let log = world.segments.own().log(world.n_pes());
    if log.get(Word::Interval) != number.0 {
        return Err(own(Reason::InCheckpoint)); // all had agreed, but its log had not begun
    }
    if !all_begin(world, number) {
        return Err(own(Reason::NoCheckpoint));
    }
    if let Some(why) = world.findings() {
        return Err(why);
    }
    let made = CallPlace { whole: log.get(Word::Site), source: log.get(Word::Source) };
    if let Some(reason) = speaks_against(made, site.place, holds_a_call(world, world.me())) {
        return Err(own(reason));
    }
    if is_in_doubt(world, world.me()) {
        return Err(own(Reason::InDoubt));
    }
    if !world.segments.order_others() {
        return Err(own(Reason::NoBarrier));
    }
    Ok((number, len))
}

/// Waits until the logs of all PEs begin at checkpoint `number`, which peers may not have left yet.
/// Returns false if all PEs roll back.
fn all_begin(world: &World, number: CheckpointNumber) -> bool {
    let begins = |pe: Pe| {
        let mapped = world.segments.if_mapped(pe).filter(|_| world.has_log(pe));
        mapped.is_some_and(|mapped| mapped.log(world.n_pes()).get(Word::Interval) == number.0)
    };
    let (mut all, mut mapped) = (false, ViewNumber(0));
    world.wait_raw(
        || Waiting::anyone(Call::Checkpoint.name()),
        || {
            let view = world.members.view();
            if std::mem::replace(&mut mapped, view.number) != view.number {
                world.refresh(&view); // a PE lost with its node is on another one now
            }
            all = Pe::all(world.n_pes()).all(begins);
            all || !view.local
        },
    );
    all
}

/// Waits until no living PE is in a put to this one that began before the loss.
fn await_quiet(world: &World) {
    let is_quiet = || world.segments.is_quiet(&world.members.view());
    world.wait_raw(|| Waiting::anyone(Call::Checkpoint.name()), is_quiet);
}
