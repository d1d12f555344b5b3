//! Contexts and their sessions.

use std::ffi::{c_int, c_long};

use super::claims::read_at;
use super::constants::{CTX_NOSTORE, CTX_PRIVATE, CTX_SERIALIZED};
use super::constants::{CTX_SESSION_BATCH, CTX_SESSION_TOTAL_OPS};
use crate::openshmem::check::misuse;
use crate::openshmem::context::{Ctx, Options, give, given, take};
use crate::openshmem::memory::address::{In, Out};
use crate::openshmem::team::{Team, members};
use raidshmem_runtime::pgas;

/// `shmem_ctx_session_config_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SessionConfig {
    total_ops: usize,
}

/// The return value of calls that report failure.
const FAILED: c_int = -1;

fn create(call: &'static str, team: Team, options: c_long, ctx: Out<Ctx>) -> c_int {
    let world = pgas::world_for(call);
    if options & !(CTX_SERIALIZED | CTX_PRIVATE | CTX_NOSTORE) != 0 {
        misuse(
            call,
            format_args!("options {options:#x}: expected SHMEM_CTX_SERIALIZED, PRIVATE, NOSTORE"),
        );
    }
    let options = Options {
        serialized: options & CTX_SERIALIZED != 0,
        private: options & CTX_PRIVATE != 0,
        nostore: options & CTX_NOSTORE != 0,
    };
    let made = members(team).and_then(|_| give(world, team, options));
    ctx.write(made.unwrap_or(Ctx::INVALID));
    if made.is_some() { 0 } else { FAILED }
}

/// Returns the number of operations that a session announces, approximately.
fn expected(call: &'static str, config: In<SessionConfig>, config_mask: c_long) -> usize {
    match (config_mask & CTX_SESSION_TOTAL_OPS, config.addr()) {
        (0, _) => 0,
        (_, 0) => misuse(call, format_args!("config is NULL, and config_mask {config_mask:#x}")),
        _ => read_at(config, 0).total_ops,
    }
}

family! { CONTEXT: "Contexts";
    ONE "shmem_ctx_create" "" (options: c_long, ctx: Out<Ctx>) -> c_int {
        create(NAME, Team::WORLD, options, ctx)
    }
    ONE "shmem_team_create_ctx" "" (team: Team, options: c_long, ctx: Out<Ctx>) -> c_int {
        create(NAME, team, options, ctx)
    }
    ONE "shmem_ctx_destroy" "" (ctx: Ctx) {
        if ctx == Ctx::DEFAULT {
            misuse(NAME, "the default context cannot be destroyed");
        }
        if ctx != Ctx::INVALID {
            let _using = ctx.begin(NAME);
            given(ctx).into_iter().for_each(|given| take(pgas::world(), given));
        }
    }
    ONE "shmem_ctx_get_team" "" (ctx: Ctx, team: Out<Team>) -> c_int {
        if ctx == Ctx::INVALID {
            team.write(Team::INVALID);
            return FAILED;
        }
        let _using = ctx.begin(NAME);
        team.write(ctx.team());
        0
    }
}

family! { SESSION: "Sessions";
    ONE "shmem_ctx_session_start" ""
    (ctx: Ctx, options: c_long, config: In<SessionConfig>, config_mask: c_long) {
        let Some(_using) = ctx.begin_if_any(NAME) else { return };
        // Options and parameters are hints: unknown ones have no effect.
        let expected = expected(NAME, config, config_mask);
        if options & CTX_SESSION_BATCH != 0 {
            pgas::world().batch(ctx.stream(), true, expected);
        }
    }
    ONE "shmem_ctx_session_stop" "" (ctx: Ctx) {
        let Some(_using) = ctx.begin_if_any(NAME) else { return };
        pgas::world().batch(ctx.stream(), false, 0);
    }
}
