//! Checkpoints whose parity is computed while the program runs.
//!
//! The call returns once all PEs have copied their memory into the free snapshot. A thread of each
//! PE then computes parity from the snapshots, and the checkpoint is agreed when all of them have.
//! Until then the checkpoint before it is the one to roll back to: the new one takes the other
//! snapshot and the other slot of parity, so nothing of the old one is touched.
//!
//! The thread holds the store lock, as a call does, so neither the scrub nor a call of the program
//! changes the store meanwhile. Calls that need it wait for the end of the thread first; a loss
//! ends it early. What the checkpoint covers belongs to its copy: memory that the program frees,
//! allocates or excludes afterwards concerns the next one.
//!
//! Left out: modes that keep one snapshot or one slot of parity; jobs with logs, whose records of
//! the old interval would have to last as long as the background; shrink mode.

#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex};

use raidshmem_core::protocol::At;
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::store::intent::Refusal;
use raidshmem_core::store::protection::Protection;
use raidshmem_sys::{lock, process};
use tracing::info;

use crate::pgas::World;
use crate::protocol_memory::{self, Remaining};
use crate::scrub;

/// Bytes of the thread's stack: tiles are not on it.
const STACK: usize = 256 << 10;

/// Returns true if parity of the next checkpoint is computed in the background; equal on all PEs.
/// False for the first one, since a loss before its end would leave none to roll back to.
pub(super) fn suits(world: &World) -> bool {
    let is_whole = world.store.agreed() != CheckpointNumber::START && !world.sites.is_apart();
    is_whole && world.settings().computes_behind(world.comm.has_engine())
}

/// Makes a checkpoint up to the copies of all PEs, and begins the rest of it.
pub(super) fn save(world: &'static World, protection: &Arc<Protection>) -> (At, Option<Refusal>) {
    let (at, refusal, left) = protocol_memory::begin(world, protection);
    if let Some(left) = left {
        world.store.background.begin();
        let left = Arc::new(Mutex::new(Some(left)));
        let work = Arc::clone(&left);
        let begun = process::helper("shmem-parity", STACK, move || {
            let _turn = world.store.lock.lock();
            finish(world, &work);
        });
        if begun.is_err() {
            finish(world, &left); // without a thread the call computes it
        }
    }
    (at, refusal)
}

fn finish(world: &'static World, left: &Mutex<Option<Remaining>>) {
    let is_saved = lock(left).take().is_some_and(Remaining::run);
    info!("the background ends: {}", if is_saved { "saved" } else { "interrupted" });
    if is_saved {
        scrub::start(world);
    }
    world.store.background.end(is_saved);
    world.segments.wake(world.me());
}
