//! Memory ordering, and the barriers over all PEs.

use std::ffi::c_int;

use raidshmem_core::quantity::Pe;

use super::claims::read_at;
use crate::openshmem::check;
use crate::openshmem::context::Ctx;
use crate::openshmem::memory::address::In;
use crate::openshmem::order::{complete, meet, order};
use raidshmem_runtime::pgas;

fn complete_pes(call: &'static str, ctx: Ctx, targets: In<c_int>, npes: usize) {
    let world = pgas::world();
    let pe = |index| check::pe(call, world, ctx.pe(call, read_at(targets, index)).pe);
    let pes: Vec<Pe> = (0..npes).map(pe).collect();
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
