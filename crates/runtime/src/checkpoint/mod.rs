//! The steps of a checkpoint that move bytes: intend, agree, compare, encode, copy.
//!
//! The stripe layout says what to encode, and `coverage` what to cover; the order of the steps, and
//! the reaction to a death, is the state machine in [`raidshmem_core::protocol`].

mod copy;
pub mod delta;
mod encode;
mod footprint;
pub mod pages;
pub mod pipeline;
pub mod prefault;
pub mod readonly;
pub mod since;
mod sources;
pub mod spill;
pub mod tiles;

use std::time::{Duration, Instant};

use raidshmem_core::inject::Point;
use raidshmem_core::message::{ChangedTiles, ProgressReport};
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::store::coverage::Coverage;
use raidshmem_core::store::intent::{self, Bounds, CANNOT, Intent, Intents, Refusal};
use raidshmem_core::store::protection::Protection;
use raidshmem_core::view::{State, View};

use crate::pgas::World;
pub use copy::{complete, copy};
pub use encode::{encode, encode_behind};
pub use footprint::{account, footprint, prepare, reserve};
pub use sources::Sources;

/// The machine number of a lost PE, which no machine has.
const NOWHERE: u32 = u32::MAX;

/// Writes the manifest, and returns what this PE is about to save and needs for it. There is no
/// coverage if the manifest cannot be written: the intent then records that, and all PEs refuse.
pub fn intend(world: &World, protection: &Protection) -> (Option<Coverage>, Intent) {
    let coverage = world.memory.cover().ok();
    let len = coverage.as_ref().map_or(0, Coverage::len);
    let (needed, used) = (footprint(world.segments, protection, len), world.store.used());
    let grows =
        needed.snapshots.saturating_sub(used.snapshots) + needed.slots.saturating_sub(used.slots);
    // Memory is checked only when the store grows, so the growth of the log is included then.
    let grows = if grows == 0 { 0 } else { grows as u64 + world.log_writer().log_growth() };
    let ranges = readonly::kept(world, protection) as u64;
    let grows = grows + if world.members.heals() { ranges } else { 0 };
    // Both queries are slow.
    let absent =
        coverage.as_ref().filter(|_| grows != 0).map_or(0, |live| world.segments.absent(live));
    let available = (grows != 0).then(raidshmem_sys::memory::available).flatten();
    let digest = coverage.as_ref().map_or(0, Coverage::digest);
    let intent = Intent {
        digest,
        len: coverage.as_ref().map_or(CANNOT, |coverage| coverage.len() as u64),
        hold: needed.all() as u64 + ranges + world.log_writer().log_most(),
        need: grows + absent,
        available: available.unwrap_or(u64::MAX),
    };
    (coverage, intent)
}

/// Records the size of checkpoint `number`, which every PE has, and reports it; not if it was
/// reported before, and a recovery has encoded it again. The call began at `begun`; the program
/// waited in it for this long, or until now.
pub fn saved(
    world: &World,
    protection: &Protection,
    number: CheckpointNumber,
    (begun, waited): (Instant, Option<Duration>),
    found: Option<ChangedTiles>,
) {
    let len = world.memory.covered().len();
    account(world, protection, len);
    readonly::settle(world, protection, (number, len));
    readonly::report(world, protection);
    if world.is_reporter() && !world.members.heals() {
        let (shape, place) = protection.place(world.me());
        let (parity, protects) = (shape.parity_len(place, len), begun.elapsed());
        world.members.report(ProgressReport::Checkpoint {
            number,
            places: protection.places,
            bytes: len as u64,
            kept: parity as u64,
            took: waited.unwrap_or(protects),
            protects,
            changed: found,
        });
    }
    world.call_log().saved_with_log(number);
    world.members.point(Point::After, number);
}

/// Compares the intents of all PEs of `view`. Every PE reaches the same answer.
pub fn agree(
    world: &World,
    protection: &Protection,
    view: &View,
    all: &Intents,
) -> Result<(), Refusal> {
    let layout = world.segments.layout();
    let bounds = Bounds {
        mode: protection.mode.name(),
        manifest: layout.manifest_len,
        snapshot: layout.region_len,
        limit: world.settings().memory_limit,
    };
    let machines = world.topology().machines_of(view).into_iter().zip(&view.pes);
    let living = machines.map(|(machine, member)| match member.state {
        State::Alive => machine,
        _ => NOWHERE,
    });
    intent::agree(all, &living.collect::<Vec<u32>>(), &bounds)
}
