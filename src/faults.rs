//! The thesis' four fault-tolerance calls, and what a program may ask beyond them.
//!
//! `checkpoint_all` saves or reports a fault; `query_fault` says who was lost; `restart_pes` brings
//! everybody back to the last agreed checkpoint; `algo_init` tells an original from a substitute.
//! Source: thesis, section 4.3.3.

use crate::inject::Point;
use crate::pgas::world::lock;
use crate::pgas::{World, complain, world};
use crate::protocol::drive::Drive;
use crate::protocol::{At, Call};
use crate::scrub;
use crate::segment::words::Barrier;
use crate::store::protection::Protection;
use crate::sys::site;

/// Return value: done, or nothing to report.
pub const SUCCESS: i32 = 0;
/// Return value: a PE was lost, or the checkpoint could not be made (see `last_error`).
pub const FAILURE: i32 = 1;
/// Status of a lost PE: its process died.
pub const PE_FAILED: i32 = 1;
/// Status of a lost PE: its node is gone, and its memory with it.
pub const NODE_FAILED: i32 = 2;

/// Saves the symmetric data of all PEs as the next checkpoint, or reports a fault. Collective.
///
/// Returns [`SUCCESS`] when the checkpoint is agreed by all PEs; [`FAILURE`] when a PE was lost
/// since the last call (then `query_fault` names it and `restart_pes` must follow), or when the
/// checkpoint was refused on every PE (then no PE is lost and `last_error` says why; the last
/// checkpoint stays good).
pub fn checkpoint_all() -> i32 {
    let world = world();
    let _turn = world.turn();
    let number = world.agreed() + 1;
    world.debug(|| format!("checkpoint {number} begins"));
    world.point(Point::Before, number);
    let result = match world.protection() {
        None => pass(world, number),
        Some(protection) => {
            world.show_call(&site::here(), number);
            *lock(&world.last_error) = None;
            save(world, protection, number)
        }
    };
    let how = if result == SUCCESS { "is agreed" } else { "failed" };
    world.debug(|| format!("checkpoint {number} {how}"));
    result
}

/// A checkpoint in mode `none`: the PEs meet and pass every step, but nothing is kept.
fn pass(world: &World, number: u64) -> i32 {
    use Point::{After, Copied, Copy, Encode, Encoded, Quiesce};
    let steps = |points: [Point; 3]| points.map(|point| world.point(point, number));
    world.quiet_all();
    steps([Quiesce, Encode, Encoded]);
    if world.barrier_of(Barrier::Protocol).is_err() {
        return FAILURE;
    }
    world.set_agreed(number);
    steps([Copy, Copied, After]);
    SUCCESS
}

fn save(world: &'static World, protection: &'static Protection, number: u64) -> i32 {
    let mut drive = Drive::new(world, protection, Call::Checkpoint);
    match drive.run() {
        At::Saved => {
            world.set_agreed(number);
            world.forget_apart();
            scrub::start(world, protection);
            SUCCESS
        }
        At::Passed => {
            world.debug(|| "the others have gone on from the restart: no checkpoint".to_owned());
            SUCCESS
        }
        At::Refused => {
            let words = drive.refusal().unwrap_or_default();
            if world.me() == 0 {
                complain(&words);
            }
            *lock(&world.last_error) = Some(words);
            FAILURE
        }
        _ => {
            world.note_report();
            FAILURE
        }
    }
}

/// The PEs lost since this PE last saw the job whole, each with its status.
pub fn query_fault() -> Vec<(usize, i32)> {
    let status = |with_node| if with_node { NODE_FAILED } else { PE_FAILED };
    world().lost().into_iter().map(|(pe, with_node)| (pe, status(with_node))).collect()
}

/// Brings every PE, the substitutes among them, back to the last agreed checkpoint. Collective.
///
/// Without a fault it does nothing, unless the last checkpoint was refused: a program that only
/// knows the thesis' loop would try that again for ever, so the job ends with the reason.
pub fn restart_pes() {
    let world = world();
    let _turn = world.turn();
    if world.faulted() {
        world.show_restart(&site::here());
        world.forget_all();
        world.debug(|| format!("restart, lost are {:?}", world.lost()));
        match world.protection() {
            Some(protection) => drop(Drive::new(world, protection, Call::Restart).run()),
            // In mode none the launcher ends the job.
            None => world.wait_raw(|| false),
        }
        world.debug(|| format!("restarted from checkpoint {}", world.agreed()));
    } else if let Some(words) = world.last_error() {
        world.condemn(&words);
    }
}

/// True in an original PE, false in a substitute: guards initialisation that the checkpoint holds.
pub fn algo_init() -> bool {
    world().incarnation() == 0
}

/// True between a death and the restart.
pub fn faulted() -> bool {
    world().faulted()
}

/// Number of the last agreed checkpoint, 0 before the first.
pub fn checkpoint_number() -> u64 {
    world().agreed()
}

/// Why the last `checkpoint_all` failed, when it was not a death.
pub fn last_error() -> Option<String> {
    world().last_error()
}

/// Adds `[addr, addr + len)` of this process's private memory to every later checkpoint, and to
/// what a restart brings back. A substitute registers the same regions, in the same order, before
/// its `restart_pes`.
///
/// # Safety
/// The memory must stay readable and writable until the job ends.
pub unsafe fn register(addr: *mut u8, len: usize) -> i32 {
    // SAFETY: the caller's promise.
    world().change_regions(|regions| unsafe { regions.register(addr as usize, len) });
    SUCCESS
}

/// Takes symmetric memory out of every later checkpoint: a restart leaves it as it is. Collective
/// in effect: every PE must exclude the same. [`FAILURE`] if it is not symmetric.
pub fn exclude(addr: *mut u8, len: usize) -> i32 {
    let world = world();
    match world.offset_of(addr as usize, len) {
        Some(offset) => {
            world.change_regions(|regions| regions.excluded.push(offset..offset + len));
            SUCCESS
        }
        None => FAILURE,
    }
}
