//! The thesis' four fault-tolerance calls, and our extensions.
//!
//! `checkpoint_all` saves or reports a fault; `query_fault` lists the lost PEs; `restart_pes` rolls
//! all PEs back to the last agreed checkpoint; `algo_init` distinguishes an original from a
//! substitute. Source: thesis, section 4.3.3.

mod background;
mod drain;
mod heal;
mod readonly;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use raidshmem_core::inject::Point;
use raidshmem_core::message::ProgressReport;
use raidshmem_core::protocol::{At, Call};
use raidshmem_core::quantity::{CheckpointNumber, Incarnation, Pe};
use raidshmem_core::store::protection::{Protection, ProtectionError};
use raidshmem_core::store::refusal::Refused;
use raidshmem_core::view::State;
use raidshmem_segment::waits::Waiting;
use raidshmem_segment::words::Barrier;
use raidshmem_sys::lock;
use raidshmem_sys::site::{self, CallSite};
use tracing::info;

use self::heal::Healing;
pub use self::readonly::{readonly, writable};
use crate::checkpoint::pages;
pub use crate::pgas::Name;
use crate::pgas::{World, complain, world};
use crate::protocol_memory::{self, Among};
use crate::recovery::{degraded, local};
use crate::{affinity, numa, scrub};

/// Return value: done, or nothing to report.
pub const SUCCESS: i32 = 0;
/// Return value: a PE was lost, or the checkpoint could not be made (see `last_error`).
pub const FAILURE: i32 = 1;
/// Status of a lost PE: its process died.
pub const PE_FAILED: i32 = 1;
/// Status of a lost PE: its node is gone, with its memory.
pub const NODE_FAILED: i32 = 2;

/// Saves the symmetric data of all PEs as the next checkpoint, or reports a fault. Collective. With
/// `SHMEM_FT_INTERVAL` a call that comes too early saves nothing.
///
/// Returns [`SUCCESS`] when the checkpoint is agreed by all PEs; [`FAILURE`] when a PE was lost
/// since the last call (`query_fault` then names it and `restart_pes` must follow), or when the
/// checkpoint was refused on every PE (then no PE is lost and `last_error` returns the reason; the
/// last checkpoint stays valid). If a program responds to a refusal with `restart_pes`, later
/// refused checkpoints return [`SUCCESS`], as [`raidshmem_core::store::refusal`] explains.
pub fn checkpoint_all() -> i32 {
    world().first_calls().end_prelude();
    if world().save_decisions().saves_now(Call::Checkpoint.name()) { save_all() } else { SUCCESS }
}

/// Saves a checkpoint like [`checkpoint_all`], even if none is due.
pub fn save_all() -> i32 {
    let world = world();
    world.first_calls().end_prelude();
    world.blocking().await_background();
    let _turn = world.store.lock.lock();
    if world.loss_response().is_local_rollback() {
        world.completion().checkpoint_locally();
        return SUCCESS;
    }
    affinity::note();
    numa::note(world);
    let number = world.store.agreed().next();
    info!("checkpoint {number} begins");
    world.members.point(Point::Before, number);
    let result = match world.store.protection() {
        None => pass(world, number),
        Some(_) if world.shrinks() => save_among(world, number),
        Some(protection) => {
            let site = site::here();
            if local::go_back(world, &site) {
                return SUCCESS;
            }
            save_at(world, &protection, number, &site)
        }
    };
    let how = match result {
        SUCCESS if !world.store.background.is_over() => "is copied",
        SUCCESS if world.store.agreed() < number => "is passed over",
        SUCCESS => "is agreed",
        _ => "failed",
    };
    info!("checkpoint {number} {how}");
    result
}

/// Returns true if the next [`checkpoint_all`] saves, or reports a loss. Collective, with an equal
/// answer on all PEs that know of no loss.
pub fn need_checkpoint() -> bool {
    let world = world();
    let is_due = world.save_decisions().saves_now("shmemx_ft_need_checkpoint");
    if is_due {
        world.timing.promise();
    }
    is_due
}

/// Returns true if the job should stop once its next checkpoint is on disk (`SHMEM_FT_STORE`).
/// Collective, with an equal answer on all PEs that know of no loss; one that knows of a loss gets
/// false, since the next checkpoint reports it. False before the first checkpoint, and from a
/// restart to the next one.
pub fn should_stop() -> bool {
    world().save_decisions().stops("shmemx_ft_should_stop")
}

/// Makes a checkpoint in mode `none`: the PEs meet and pass every step, but nothing is saved.
fn pass(world: &World, number: CheckpointNumber) -> i32 {
    use Point::{After, Copied, Copy, Encode, Encoded, Quiesce};
    let steps = |points: [Point; 3]| points.map(|point| world.members.point(point, number));
    world.transfers().quiet_all();
    steps([Quiesce, Encode, Encoded]);
    let call = Call::Checkpoint.name();
    let failed =
        match world.loss_response().agreed(|| world.barriers().all_members(call), (u64::MAX, 0)) {
            Some(decision) => decision.has_news(),
            None => world.barriers().barrier_of(Barrier::Protocol, call).is_err(),
        };
    if failed {
        return FAILURE;
    }
    world.store.set_agreed(number);
    steps([Copy, Copied, After]);
    SUCCESS
}

/// Makes a checkpoint in shrink mode, for degraded reads: the survivors protect each other. A loss
/// that a PE has not acknowledged makes it fail on all.
fn save_among(world: &'static World, number: CheckpointNumber) -> i32 {
    let since = Instant::now();
    let begun = world.barriers().agree_all(Call::Checkpoint.name(), (u64::MAX, 0));
    let groups = if begun.has_news() { None } else { groups_without(world, begun.lost) };
    let Some(groups) = groups else { return fails_by_loss(world) };
    let protection = match groups {
        Ok(protection) => protection,
        Err(error) => return refuse(world, format!("checkpoint refused: {error}")),
    };
    let site = site::here();
    world.call_sites().show_call(&site, number);
    world.call_sites().choose(&site);
    let (end, refusal) = protocol_memory::run_among(world, &protection, begun.lost);
    if let (Among::Refused, Some(refusal)) = (end, refusal) {
        return refuse(world, format!("checkpoint refused: {refusal}"));
    }
    if matches!(end, Among::Saved | Among::SavedWithLoss) {
        world.store.protect(protection);
        world.store.set_agreed(number);
        world.completion().begin_interval();
        world.memory.note_saved();
        world.timing.saved(since);
    }
    if end != Among::Saved {
        return fails_by_loss(world);
    }
    *lock(&world.store.refused) = Refused::default();
    scrub::start(world);
    SUCCESS
}

/// Fails a checkpoint that was not made on any PE, or not of all PEs, because of a loss.
fn fails_by_loss(world: &World) -> i32 {
    *lock(&world.store.refused) = Refused::default();
    pages::forget(&world.store);
    FAILURE
}

/// Returns the groups of the survivors, without the `lost` PEs: those of the last checkpoint, if
/// all of them live, or new ones, or the error in forming them. None on all PEs if there is another
/// loss.
fn groups_without(world: &World, lost: u32) -> Option<Result<Arc<Protection>, ProtectionError>> {
    let last = world.store.protection()?;
    // Lost PEs stay lost, so equal counts mean equal PEs.
    if Pe::all(world.n_pes()).filter(|&pe| !last.holds(pe)).count() == lost as usize {
        return Some(Ok(last));
    }
    let living: Vec<Pe> = Pe::all(world.n_pes()).filter(|&pe| !world.fewer.is_lost(pe)).collect();
    let knows_no_other = world.n_pes() - living.len() == lost as usize;
    let agreed = world.barriers().agree_all(Call::Checkpoint.name(), (knows_no_other.into(), 0));
    if agreed.value != 1 || agreed.lost != lost {
        return None;
    }
    pages::forget(&world.store);
    world.survivors().protection_of(&living).map(|made| made.map(Arc::new))
}

/// Passes bytes of a PE's segment as of its last checkpoint, even of a lost PE, to `give` in
/// pieces. Returns the checkpoint's number, 0 before the first, and false if the bytes are
/// unavailable.
pub fn get_checkpoint(
    pe: Pe,
    range: Range<usize>,
    give: impl FnMut(&[u8]),
) -> (CheckpointNumber, bool) {
    let world = world();
    world.survivors().adopt();
    let _turn = world.store.lock.lock();
    let number = world.store.agreed();
    let protection = world.store.protection().filter(|_| number != CheckpointNumber::START);
    let Some(protection) = protection else { return (CheckpointNumber::START, false) };
    (number, degraded::read(world, &protection, pe, range, give))
}

/// Makes checkpoint `number` in the call at `site`. If a node is drained after it, the call waits
/// for that, and reports the loss as the next one would.
fn save_at(
    world: &'static World,
    protection: &Arc<Protection>,
    number: CheckpointNumber,
    site: &CallSite,
) -> i32 {
    world.call_sites().show_call(site, number);
    world.call_sites().choose(site);
    let result = save_all_of(world, protection, number, site);
    if world.members.agreed_drain().is_some() {
        world.blocking().await_background();
    }
    let is_made = result == SUCCESS && world.store.agreed() == number;
    if !is_made || !drain::wait_after(world, number) {
        return result;
    }
    let protection = world.store.protection().expect("it has protected a checkpoint");
    save_at(world, &protection, number.next(), site)
}

/// Makes a checkpoint, and restarts the log if there is one.
fn save_all_of(
    world: &'static World,
    protection: &Arc<Protection>,
    number: CheckpointNumber,
    site: &CallSite,
) -> i32 {
    world
        .log_meetings()
        .agree_on_view(Call::Checkpoint.name(), false, || pages::forget(&world.store));
    world.call_log().log_place(site.place);
    let result = save(world, protection, number);
    match result {
        SUCCESS if world.store.agreed() == number => {}
        SUCCESS => world.call_log().unlogged("a checkpoint that was refused"),
        _ if world.call_log().is_any_pe_away() => world.log_meetings().lost_in_checkpoint(),
        _ => world.call_log().unlogged("a checkpoint that was refused"),
    }
    result
}

fn save(world: &'static World, last: &Arc<Protection>, number: CheckpointNumber) -> i32 {
    let began = Instant::now();
    let mut groups = world.grouping().choose_groups(last, number);
    if groups.places != last.places {
        pages::forget(&world.store); // parity of other groups is no base for a delta
    }
    let in_parts = groups.places == last.places && background::suits(world);
    let (mut end, mut refusal) = match in_parts {
        true => background::save(world, &groups),
        false => protocol_memory::run(world, &groups, Call::Checkpoint),
    };
    if end == At::Refused && world.call_sites().include_everything() {
        (end, refusal) = protocol_memory::run(world, &groups, Call::Checkpoint);
    }
    if end == At::Refused && groups.places != last.places {
        heal::keep_groups(world, last, number, refusal);
        groups = Arc::clone(last);
        (end, refusal) = protocol_memory::run(world, &groups, Call::Checkpoint);
    }
    if let (At::Refused, Some(refusal)) = (end, refusal) {
        return refuse(world, format!("checkpoint refused: {refusal}"));
    }
    *lock(&world.store.refused) = Refused::default();
    match end {
        At::Saved => {
            if groups.places != last.places {
                world.store.protect(groups);
                world.grouping().report_groups(number);
            }
            world.store.set_agreed(number);
            world.completion().begin_interval();
            world.memory.note_saved();
            world.sites.forget_diverged();
            world.timing.saved(began);
            scrub::start(world);
            SUCCESS
        }
        At::Copied => {
            world.reached.copied();
            world.timing.saved(began);
            SUCCESS
        }
        At::Passed => SUCCESS,
        _ => {
            world.loss_response().note_cut();
            world.sites.note_report();
            FAILURE
        }
    }
}

fn refuse(world: &World, words: String) -> i32 {
    if lock(&world.store.refused).again(words.clone()) {
        return SUCCESS;
    }
    if world.is_reporter() {
        complain(&words);
        world.members.report(ProgressReport::Refused { why: words });
    }
    FAILURE
}

/// Takes part in the recovery of other PEs when one is lost while this PE is in `shmem_finalize`.
pub fn recover_at_end(world: &'static World) {
    let _turn = world.store.lock.lock();
    if let Some(protection) = world.store.protection() {
        info!("recovery from within shmem_finalize, lost: {}", names_of_lost(world));
        protocol_memory::run(world, &protection, Call::Finalize);
    }
}

fn names_of_lost(world: &World) -> String {
    let lost: Vec<Pe> = world.members.lost().into_iter().map(|(pe, _)| pe).collect();
    Pe::names(&lost)
}

/// Returns the PEs lost since this PE last saw the job whole, each with its status.
pub fn query_fault() -> Vec<(Pe, i32)> {
    let status = |with_node| if with_node { NODE_FAILED } else { PE_FAILED };
    let world = world();
    world.loss_response().note_query();
    let lost = world.members.lost().into_iter();
    let lost = lost.filter(|&(pe, _)| !world.fewer.is_acknowledged(pe));
    lost.map(|(pe, with_node)| (pe, status(with_node))).collect()
}

/// Rolls every PE, substitutes included, back to the last agreed checkpoint. Collective. In shrink
/// mode it acknowledges the losses that `query_fault` last returned, and leaves memory unchanged.
///
/// Without a fault it changes nothing, and after a refused checkpoint it lets the job continue
/// without one: a program that only knows the thesis' loop would retry it endlessly.
pub fn restart_pes() {
    let world = world();
    world.first_calls().end_prelude();
    world.blocking().await_background();
    let _turn = world.store.lock.lock();
    if world.loss_response().acknowledges() {
        lock(&world.store.refused).restart();
        return;
    }
    if world.loss_response().interrupted() {
        world.call_sites().show_restart(&site::here());
        *lock(&world.store.refused) = Refused::default();
        roll_back(world);
        // A loss interrupts the encoding in new groups like the recovery that it belongs to.
        while heal::groups(world) == Healing::Interrupted {
            roll_back(world);
        }
    } else if lock(&world.store.refused).restart() && world.me() == Pe(0) {
        let back = match world.store.agreed() {
            CheckpointNumber::START => "none was made yet, so a loss ends it".to_owned(),
            number => format!("a loss rolls it back to checkpoint {number}"),
        };
        complain(&format!("the job continues without a new checkpoint: {back}"));
    }
}

/// Rolls this PE back together with all others, and joins the view without a dead PE.
fn roll_back(world: &World) {
    world.comm.forget_all();
    info!("restart, lost: {}", names_of_lost(world));
    match world.store.protection() {
        Some(protection) => drop(protocol_memory::run(world, &protection, Call::Restart)),
        // In mode none the launcher ends the job.
        None => world.wait_raw(|| Waiting::anyone(Call::Restart.name()), || false),
    }
    affinity::restored(world);
    let losses = world.timing.restarted();
    info!("restarted from checkpoint {} after loss {losses} of the job", world.store.agreed());
}

/// Returns true if data just read from PE `pe` may be used: the PE is not lost, and, outside of
/// shrink mode, no loss is known.
pub fn may_use(pe: Pe) -> bool {
    fence(Ordering::Acquire); // the bytes are read before the view
    let world = world();
    !world.loss_response().lost_for_good(pe) && !world.loss_response().is_undone()
}

/// Returns for each PE if it is lost and was not replaced.
pub fn failed(pes: impl Iterator<Item = Pe>) -> Vec<bool> {
    let world = world();
    let view = world.members.view();
    pes.map(|pe| view.pes[pe.at()].state != State::Alive).collect()
}

/// Registers `handler`, which is called with the number and the status of each PE that is lost and
/// was not acknowledged, once and by this thread, in its next call that concerns other PEs. It may
/// make local calls only.
pub fn on_fault(handler: impl Fn(Pe, i32) + Send + 'static) {
    world().survivors().on_loss(Box::new(move |pe, with_node| {
        handler(pe, if with_node { NODE_FAILED } else { PE_FAILED });
    }));
}

/// Records bytes that the program obtained by itself: from a clock, a random number generator, or
/// as input. With local rollback (`SHMEM_FT_ROLLBACK=local`) a PE that rolls back gets the recorded
/// bytes. Otherwise it does nothing.
pub fn event(bytes: &mut [u8]) {
    world().call_log().draws("shmemx_ft_event", bytes);
}

/// Returns true if [`event`] records anything.
pub fn keeps_events() -> bool {
    world().logs()
}

/// Returns true in an original PE, false in a substitute: guards initialisation that the checkpoint
/// holds.
pub fn algo_init() -> bool {
    world().members.incarnation() == Incarnation::FIRST
}

/// Returns true between a death and the restart.
pub fn faulted() -> bool {
    world().loss_response().interrupted()
}

/// Returns true if a loss rolls the job back to checkpoint `number` or a later one.
pub fn protected(number: u64) -> bool {
    number <= checkpoint_number()
}

/// Waits until the last checkpoint that returned [`SUCCESS`] protects, where parity is computed in
/// the background (`SHMEM_FT_BACKGROUND`). Local; [`FAILURE`] if a PE was lost before that, which
/// the next [`checkpoint_all`] reports.
pub fn flush() -> i32 {
    let world = world();
    world.blocking().await_background();
    if world.loss_response().interrupted() { FAILURE } else { SUCCESS }
}

/// Returns the number of the last agreed checkpoint, 0 before the first.
pub fn checkpoint_number() -> u64 {
    world().store.agreed().program()
}

/// Returns the reason why the last `checkpoint_all` failed, unless it was a death.
pub fn last_error() -> Option<String> {
    world().store.last_error()
}

/// Adds `[addr, addr + len)` of this process's private memory to every later checkpoint and
/// restart. The name identifies it: a substitute must register these names with equal lengths
/// before its `restart_pes`, in any order, or the job ends with an error that names the mismatch.
/// Registering a name again replaces the earlier memory.
///
/// A rollback to a checkpoint from before the registration restores the bytes that it had at the
/// registration.
///
/// # Safety
/// The memory must stay readable and writable until the job ends, or its name is registered again,
/// and must not be used during this call, `checkpoint_all` and `restart_pes`.
pub unsafe fn protect(name: Name, addr: *mut u8, len: usize) -> i32 {
    let world = world();
    world.blocking().await_background();
    // SAFETY: the caller's promise.
    unsafe { world.memory.register(name, addr as usize, len) };
    if world.store.protection().is_none() {
        world.memory.note_saved(); // nothing is ever restored
    }
    SUCCESS
}

/// Excludes symmetric memory, in one block of the heap or static, from every later checkpoint: a
/// restart leaves it unchanged. This ends when it is freed; a resized block keeps the exclusion for
/// the bytes it keeps. Collective in effect: every PE must exclude the same range. [`FAILURE`] if
/// there is no such memory.
pub fn exclude(addr: *mut u8, len: usize) -> i32 {
    if world().memory.set_covered(addr as usize, len, false) { SUCCESS } else { FAILURE }
}

/// Covers excluded symmetric memory again, in every later checkpoint; the inverse of [`exclude`] in
/// every respect.
pub fn include(addr: *mut u8, len: usize) -> i32 {
    if world().memory.set_covered(addr as usize, len, true) { SUCCESS } else { FAILURE }
}
