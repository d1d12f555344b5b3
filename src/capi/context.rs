//! Contexts and their sessions.
//!
//! On mapped memory every operation is complete when its call returns, so a context has no state:
//! its handle says which team counts its PEs, and all contexts of a team are one. Options and
//! sessions are promises and hints of the program, with nothing left to gain from them here.

use std::ffi::{c_int, c_long};

use super::constants::{CTX_NOSTORE, CTX_PRIVATE, CTX_SERIALIZED};
use super::guard::{Ctx, misuse};
use super::memory_ops::{In, Out};
use super::team::{self, Team};

/// `shmem_ctx_session_config_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SessionConfig {
    total_ops: usize,
}

/// What the calls return that tell of a failure.
const FAILED: c_int = -1;

fn create(call: &'static str, team: Team, options: c_long, ctx: Out<Ctx>) -> c_int {
    if options & !(CTX_SERIALIZED | CTX_PRIVATE | CTX_NOSTORE) != 0 {
        misuse(
            call,
            format_args!(
                "options {options:#x}: allowed are SHMEM_CTX_SERIALIZED, PRIVATE, NOSTORE"
            ),
        );
    }
    if team::members(team).is_none() {
        ctx.write(Ctx::INVALID);
        return FAILED;
    }
    ctx.write(Ctx::of_team(team));
    0
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
    }
    ONE "shmem_ctx_get_team" "" (ctx: Ctx, team: Out<Team>) -> c_int {
        let found = ctx.team();
        team.write(found.unwrap_or(Team::INVALID));
        if found.is_some() { 0 } else { FAILED }
    }
}

family! { SESSION: "Sessions";
    ONE "shmem_ctx_session_start" ""
    (ctx: Ctx, options: c_long, config: In<SessionConfig>, config_mask: c_long) {
        let _ = (options, config, config_mask);
        ctx.check(NAME);
    }
    ONE "shmem_ctx_session_stop" "" (ctx: Ctx) {
        ctx.check(NAME);
    }
}
