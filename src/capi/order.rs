//! Order and meeting: fence, quiet, and the barriers over all PEs.
//!
//! Copies between mapped segments are complete when the call returns: there fence and quiet only
//! keep the processor's stores in order. Between nodes each context waits for its own operations;
//! the barriers are of the default one.

use std::ffi::c_int;

use super::guard::{self, Ctx};
use super::memory_ops::In;
use crate::pgas::stream::Id;
use crate::pgas::{self, World};

/// Orders earlier puts of a stream before later ones. Pairs with the acquire loads of
/// `memory_ops::Word`.
pub fn order(stream: Id) {
    pgas::world().fence_of(stream);
}

/// Completes all earlier operations of the default context.
///
/// Sequentially consistent: a PE may next read what another one wrote before *its* quiet (each
/// writes its own flag and reads the other's), which release and acquire alone would not order.
pub fn complete() {
    pgas::world().quiet();
}

/// Quiet and barrier over all PEs. Returns at once between a death and the restart: what the others
/// did is then undone anyway, so there is nothing to tell the caller here.
pub fn meet(world: &World, call: &'static str) {
    complete();
    let _ = world.barrier(call);
}

fn complete_pes(call: &'static str, ctx: Ctx, targets: In<c_int>, npes: usize) {
    let world = pgas::world();
    let pe = |index| guard::pe(call, world, ctx.pe(call, targets.read_at(index)).pe);
    let pes: Vec<usize> = (0..npes).map(pe).collect();
    world.quiet_at(ctx.stream(), &pes);
}

family! { ORDER: "Memory ordering";
    ONE "shmem_fence" "" () {
        order(0);
    }
    ONE "shmem_ctx_fence" "" (ctx: Ctx) {
        if let Some(_using) = ctx.begin_if_any(NAME) {
            order(ctx.stream());
        }
    }
    ONE "shmem_quiet" "" () {
        complete();
    }
    ONE "shmem_ctx_quiet" "" (ctx: Ctx) {
        if let Some(_using) = ctx.begin_if_any(NAME) {
            pgas::world().quiet_of(ctx.stream());
        }
    }
    ONE "shmem_pe_quiet" "" (target_pes: In<c_int>, npes: usize) {
        complete_pes(NAME, Ctx::DEFAULT, target_pes, npes);
    }
    ONE "shmem_ctx_pe_quiet" "" (ctx: Ctx, target_pes: In<c_int>, npes: usize) {
        if let Some(_using) = ctx.begin_if_any(NAME) {
            complete_pes(NAME, ctx, target_pes, npes);
        }
    }
}

family! { SYNC: "Collectives: synchronisation";
    ONE "shmem_barrier_all" "" () {
        meet(pgas::world(), NAME);
    }
    ONE "shmem_sync_all" "" () {
        meet(pgas::world(), NAME);
    }
}
