//! Ordering and synchronization: fence, quiet, and the barriers over all PEs.
//!
//! Copies between mapped segments are complete when the call returns: there fence and quiet only
//! order the processor's stores. Between nodes each context waits for its own operations; the
//! barriers cover the default context.

use raidshmem_runtime::pgas::gathering::MeetingOutcome;
use raidshmem_runtime::pgas::local::Call;
use raidshmem_runtime::pgas::stream::Id;
use raidshmem_runtime::pgas::{self, World};

/// Orders earlier puts of a stream before later ones. Pairs with the acquire loads of
/// `memory::word::Word`.
pub fn order(stream: Id) {
    pgas::world().fence_of(stream);
}

/// Completes all earlier operations of the default context.
///
/// Sequentially consistent: a PE may next read what another PE wrote before *its* quiet (each
/// writes its own flag and reads the other's), which release and acquire alone would not order.
pub fn complete() {
    pgas::world().quiet();
}

/// Runs a quiet and a barrier over all PEs. Returns at once between a death and the restart: the
/// restart undoes the peers' work anyway, so there is nothing to report here.
pub fn meet(world: &World, call: &'static str) {
    meet_with(world, call, 0);
}

/// Like [`meet`], for a call whose arguments are equal in each process; `with` is their hash.
pub fn meet_with(world: &World, call: &'static str, with: u64) {
    complete();
    if world.logs() {
        match world.meet_logged(Call { name: call, with }, &[]) {
            MeetingOutcome::Together(_) => return world.is_met(),
            MeetingOutcome::Cut => return,
            MeetingOutcome::Plain => world.is_met(),
        }
    }
    let _ = world.barrier(call);
}
