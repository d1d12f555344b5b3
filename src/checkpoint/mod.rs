//! The steps of a checkpoint that move bytes: intend, agree, compare, encode, copy.
//!
//! What to encode comes from the stripe layout, what to cover from `coverage`; the order of the
//! steps, and what follows a death, is the machine in [`raidshmem_core::protocol`].

pub mod aside;
mod copy;
pub mod delta;
mod encode;
pub mod pages;
pub mod pipeline;
pub mod prefault;
pub mod since;
pub mod tiles;

use std::time::Instant;

use raidshmem_core::inject::Point;
use raidshmem_core::layout::TILE;
use raidshmem_core::message::{ChangedTiles, ProgressReport};
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::store::coverage::{Coverage, Piece};
use raidshmem_core::store::intent::{self, Bounds, CANNOT, Intent, Intents, Refusal};
use raidshmem_core::store::protection::Protection;
use raidshmem_core::view::{State, View};

use crate::pgas::{Segments, StoreBytes, World};
pub use copy::{complete, copy};
pub use encode::encode;

/// The machine of a PE that is lost.
const NOWHERE: u32 = u32::MAX;

/// Writes the manifest and says what this PE is about to save and needs for it. No coverage if that
/// cannot be written down: then the intent says so, and all refuse.
pub fn intend(world: &World, protection: &Protection) -> (Option<Coverage>, Intent) {
    let coverage = world.memory.cover().ok();
    let len = coverage.as_ref().map_or(0, Coverage::len);
    let (room, used) = (room(world.segments, protection, len), world.store.used());
    let grows =
        room.snapshots.saturating_sub(used.snapshots) + room.slots.saturating_sub(used.slots);
    // Memory is looked at when the store grows; the log has its own by then, or never.
    let grows = if grows == 0 { 0 } else { grows as u64 + world.log_growth() };
    // Both take their time.
    let absent =
        coverage.as_ref().filter(|_| grows != 0).map_or(0, |live| world.segments.absent(live));
    let available = (grows != 0).then(raidshmem_sys::memory::available).flatten();
    let digest = coverage.as_ref().map_or(0, Coverage::digest);
    let intent = Intent {
        digest,
        len: coverage.as_ref().map_or(CANNOT, |coverage| coverage.len() as u64),
        hold: room.all() as u64 + world.log_most(),
        need: grows + absent,
        available: available.unwrap_or(u64::MAX),
    };
    (coverage, intent)
}

/// Bytes of all snapshots and of all slots together for snapshots of `len` bytes.
fn room(segments: &Segments, protection: &Protection, len: usize) -> StoreBytes {
    let (shape, place) = protection.place(segments.me());
    let snapshot = if protection.mode.keeps_snapshot() { tiles::tiles(len) * TILE } else { 0 };
    let slot = shape.parity_len(place, len);
    let (snapshots, slots) = (snapshot * protection.snapshots, slot * protection.mode.slots());
    StoreBytes { snapshots, slots }
}

/// Where snapshots of `len` bytes and their parity go in the own store: the parts of
/// each. They come in huge pages when they are touched, as far as these fit in.
pub fn reserve(segments: &Segments, protection: &Protection, len: usize) -> Vec<Piece> {
    let StoreBytes { snapshots, slots } = room(segments, protection, len);
    let (layout, counts) = (segments.layout(), (protection.snapshots, protection.mode.slots()));
    let snapshots =
        layout.snapshots[..counts.0].iter().map(|&at| Piece { at, len: snapshots / counts.0 });
    let slots = layout.slots[..counts.1].iter().map(|&at| Piece { at, len: slots / counts.1 });
    let parts = snapshots.chain(slots);
    parts.inspect(|part| segments.ask_huge(part.at, part.len)).collect()
}

/// Touches what the store has grown by, all snapshots and slots at once, so that no later
/// checkpoint pays for it.
pub fn prepare(world: &World, protection: &Protection, len: usize) {
    let (room, used) = (room(world.segments, protection, len), world.store.used());
    if room.snapshots > used.snapshots || room.slots > used.slots {
        let parts = reserve(world.segments, protection, len);
        parts.iter().for_each(|part| world.segments.own().populate(part.at, part.len));
    }
}

/// Every PE has checkpoint `number`: notes what it occupies, and tells people.
pub fn saved(
    world: &World,
    protection: &Protection,
    number: CheckpointNumber,
    begun: Instant,
    found: Option<ChangedTiles>,
) {
    let len = world.memory.covered().len();
    account(world, protection, len);
    if world.speaks() {
        let (shape, place) = protection.place(world.me());
        let parity = shape.parity_len(place, len);
        world.members.report(ProgressReport::Checkpoint {
            number,
            bytes: len as u64,
            parity_bytes: parity as u64,
            micros: begun.elapsed().as_micros() as u64,
            found,
        });
    }
    world.saved_with_log(number);
    world.members.point(Point::After, number);
}

/// Notes how much of the store is occupied once a checkpoint of `len` bytes is in it.
pub fn account(world: &World, protection: &Protection, len: usize) {
    world.store.note_used(room(world.segments, protection, len));
}

/// Compares what all PEs of `view` brought. Every PE comes to the same answer.
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
    let machines = world.machines_of(view).into_iter().zip(&view.pes);
    let living = machines.map(|(machine, member)| match member.state {
        State::Alive => machine,
        _ => NOWHERE,
    });
    intent::agree(all, &living.collect::<Vec<u32>>(), &bounds)
}
