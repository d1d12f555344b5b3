//! Order and meeting: fence, quiet, and the barriers over all PEs.
//!
//! Copies between mapped segments are complete when the call returns: there fence and quiet only
//! keep the processor's stores in order. The engine between nodes has things to wait for.

use std::ffi::c_int;

use super::guard::{self, Ctx};
use super::memory_ops::In;
use crate::pgas::{self, World};

/// Orders earlier puts before later ones. Pairs with the acquire loads of `memory_ops::Word`.
pub fn order() {
    pgas::world().fence();
}

/// Completes all earlier operations.
///
/// Sequentially consistent: a PE may next read what another one wrote before *its* quiet (each
/// writes its own flag and reads the other's), which release and acquire alone would not order.
pub fn complete() {
    pgas::world().quiet();
}

/// Quiet and barrier over all PEs. Returns at once between a death and the restart: what the others
/// did is then undone anyway, so there is nothing to tell the caller here.
pub fn meet(world: &World) {
    complete();
    let _ = world.barrier();
}

fn complete_pes(call: &'static str, ctx: Ctx, targets: In<c_int>, npes: usize) {
    let world = pgas::world();
    ctx.check(call);
    for index in 0..npes {
        guard::pe(call, world, ctx.pe(call, targets.read_at(index)));
    }
    complete();
}

family! { ORDER: "Memory ordering";
    ONE "shmem_fence" "" () {
        order();
    }
    ONE "shmem_ctx_fence" "" (ctx: Ctx) {
        order();
        ctx.check(NAME);
    }
    ONE "shmem_quiet" "" () {
        complete();
    }
    ONE "shmem_ctx_quiet" "" (ctx: Ctx) {
        complete();
        ctx.check(NAME);
    }
    ONE "shmem_pe_quiet" "" ctx("shmem_ctx_pe_quiet") (target_pes: In<c_int>, npes: usize) {
        complete_pes(NAME, ctx, target_pes, npes);
    }
}

family! { SYNC: "Collectives: synchronisation";
    ONE "shmem_barrier_all" "" () {
        meet(pgas::world());
    }
    ONE "shmem_sync_all" "" () {
        meet(pgas::world());
    }
}
