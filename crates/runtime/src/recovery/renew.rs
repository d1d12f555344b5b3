//! Renewal of a PE whose memory was lost with its node: it restores its log, its snapshot and its
//! own parity, as a local rollback needs them.
//!
//! ```text
//! log        copied from the replica that a PE of another node keeps; between hosts also from the
//!            records that others send again (`pgas/renewal.rs`)
//! snapshot   decoded from the stores of the group's other members, as in every recovery
//! parity     decoded too, since the live memory of the other members has changed since
//! ```
//!
//! It only reads the memory of other PEs. They do not make the next checkpoint without this PE, so
//! everything read belongs to one checkpoint. Invariant: the own log shows its interval last. So a
//! substitute of this process starts over here, or finds everything.

use std::collections::BTreeMap;

use raidshmem_core::plan::{self, StoreFinding, lost_shards};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::store::grouped::Grouped;
use raidshmem_core::store::phase::Phase;
use raidshmem_core::store::protection::Protection;
use raidshmem_core::view::{State as Life, View};
use raidshmem_segment::header::{RegionRecord, StoreRecords};
use raidshmem_segment::log::{Word, copy};

use super::decode::Shards;
use super::rebuild;
use crate::checkpoint;
use crate::checkpoint::tiles::Scratch;
use crate::pgas::World;

/// Restores own memory if it is new, and returns true; else does nothing. The error is the reason
/// for a global rollback.
pub(super) fn renew(world: &World) -> Result<bool, Reason> {
    let log = world.segments.own().log(world.n_pes());
    if copy::is_whole(&log) {
        return Ok(false);
    }
    let interval = match world.log_meetings().renew_between_hosts() {
        Some(renewed) => renewed?,
        None => log.fetch(&world.call_log().newest_replica().ok_or(Reason::NodeLost)?),
    };
    let number = CheckpointNumber(interval);
    rebuild_store(world, &world.grouping().groups_recorded(number), number)?;
    world.store.recovery.set_phase(Phase::Agreed(number));
    log.set(Word::Interval, interval);
    Pe::all(world.n_pes()).for_each(|pe| world.segments.wake(pe)); // some wait for the log
    Ok(true)
}

/// Decodes the own snapshot, and the own parity.
fn rebuild_store(
    world: &World,
    protection: &Protection,
    number: CheckpointNumber,
) -> Result<(), Reason> {
    let (shape, place) = protection.place(world.me());
    let (group, job) = (protection.plan.of[world.me().at()].group, world.job());
    let (snapshot, slot) = (protection.snapshot_of(number), protection.slot_of(number));
    let header = world.segments.own().header();
    let begun = std::time::Instant::now();
    loop {
        let view = world.members.view();
        if !view.local {
            return Err(Reason::NodeLost); // the reason was reported
        }
        world.refresh(&view);
        let len =
            shape.members.iter().find_map(|&pe| len_of(world, protection, &view, (pe, number)));
        let len = len.ok_or(Reason::NoCheckpoint)?;
        let findings = findings(world, protection, &view, (number, len));
        plan::check(group, &shape.layout, &shape.members, &findings, true)
            .map_err(|_| Reason::NoCheckpoint)?;
        header.snapshots[snapshot].void();
        header.slots[slot].void();
        let job_of = (&view, number, len);
        let Ok((rebuilt, _)) = rebuild::rebuild(world, protection, job_of, (&findings, 1)) else {
            continue;
        };
        let shards = Shards::of_checkpoint(world, protection, shape, (number, len));
        if let Err(pe) = decode_parity(&shards, place, &findings) {
            world.found_corrupt(&view, pe);
            continue;
        }
        header.snapshots[snapshot].seal(job, number, len);
        let grouped = Grouped { number, places: protection.places };
        header.slots[slot].seal_of(job, grouped, len);
        checkpoint::account(world, protection, len);
        rebuilt.report(world, protection, number, begun);
        return Ok(());
    }
}

/// Returns the records of the store of PE `pe`; None for this PE, or if that one is lost.
fn records_of(world: &World, view: &View, pe: Pe) -> Option<StoreRecords> {
    let is_there = pe != world.me() && view.pes[pe.at()].state != Life::NodeDead;
    is_there.then(|| world.grouping().records_of(pe)).flatten()
}

/// Returns the bytes of PE `pe`'s snapshot of checkpoint `number`; None if it has no such snapshot.
fn len_of(
    world: &World,
    protection: &Protection,
    view: &View,
    (pe, number): (Pe, CheckpointNumber),
) -> Option<usize> {
    let records = records_of(world, view, pe)?;
    records.snapshots[protection.snapshot_of(number)].holds(world.job(), number)
}

/// Returns the store contents of the own group's members, by place.
fn findings(
    world: &World,
    protection: &Protection,
    view: &View,
    (number, len): (CheckpointNumber, usize),
) -> Vec<StoreFinding> {
    let (shape, _) = protection.place(world.me());
    let finding = |(place, &pe): (usize, &Pe)| {
        let lost = StoreFinding::lost(&shape.layout, place);
        let Some(records) = records_of(world, view, pe) else { return lost };
        let holds = |record: &RegionRecord| record.holds(world.job(), number);
        if holds(&records.snapshots[protection.snapshot_of(number)]) != Some(len) {
            return lost;
        }
        let has_parity = holds(&records.slots[protection.slot_of(number)]).is_some();
        StoreFinding { parity: if has_parity { 0 } else { lost.parity }, ..Default::default() }
    };
    shape.members.iter().enumerate().map(finding).collect()
}

/// Decodes all own parity. The error is the PE of an invalid tile.
fn decode_parity(shards: &Shards, place: usize, findings: &[StoreFinding]) -> Result<(), Pe> {
    let mut buffers = vec![Scratch::empty(); shards.shape.members.len()];
    let mut plans = BTreeMap::new();
    for tile in (0..).map_while(|nth| shards.parity(place, nth)) {
        let plan = plans.entry(tile.stripe).or_insert_with(|| {
            let stripe = &shards.shape.layout.stripes()[tile.stripe];
            shards.plan(tile, &lost_shards(stripe, findings)).expect("it was checked")
        });
        let decoded = shards.decode_into((tile, plan), &mut buffers);
        decoded.map_err(|bad| shards.holder(tile.of(bad)))?;
    }
    Ok(())
}
