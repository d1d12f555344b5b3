//! Contexts and their sessions.
//!
//! A context is a stream of operations (`pgas/stream.rs`) with a team that counts its PEs. Options
//! are held to, where `SHMEM_CHECK` is on: `SHMEM_CTX_PRIVATE` is for the thread that made the
//! context, `SHMEM_CTX_SERIALIZED` for one thread at a time. Fence and quiet of a
//! `SHMEM_CTX_NOSTORE` one pass over puts. A session for batches lets non-blocking puts go out
//! together; other hints change nothing. On mapped PEs operations are complete when their call
//! returns, so there is nothing to separate or to gather.
//!
//! A handle is the number of a slot, and how often the slot was given out: a destroyed one is
//! refused for ever. Slots are registered with the checkpoint, as teams are: after a restart the
//! contexts are those of the checkpoint. Stream numbers are slots, counted from one.
//!
//! Invariants: a slot with no team is free; it is given out and taken back with the lock held.

use std::cell::Cell;
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::constants::{CTX_NOSTORE, CTX_PRIVATE, CTX_SERIALIZED};
use super::constants::{CTX_SESSION_BATCH, CTX_SESSION_TOTAL_OPS};
use super::guard::{Ctx, misuse};
use super::memory_ops::{In, Out};
use super::team::{self, Team};
use crate::faults::{self, Name};
use crate::pgas::stream::{Id, STREAMS};
use crate::pgas::{self, World};

/// `shmem_ctx_session_config_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SessionConfig {
    total_ops: usize,
}

/// What the calls return that tell of a failure.
const FAILED: c_int = -1;
/// The first handle of a slot that was given out once.
const TURN: u64 = 1 << 16;
/// `SHMEM_CTX_INVALID` and `SHMEM_CTX_DEFAULT` come before the slots.
const FIRST: usize = 2;

/// A word for each slot: `turn << 16 | options << 8 | team`; the team is 0 while the slot is free.
struct Slots([AtomicU64; STREAMS]);

/// Who uses the context of a slot, in this process.
struct User {
    /// The thread that made it, counted from 1; 0: the next to use it, as after a restart.
    owner: AtomicU64,
    busy: AtomicBool,
}

static SLOTS: Slots = Slots([const { AtomicU64::new(0) }; STREAMS]);
static USERS: [User; STREAMS] =
    [const { User { owner: AtomicU64::new(0), busy: AtomicBool::new(false) } }; STREAMS];
static GIVING: Mutex<()> = Mutex::new(());

/// The number of this thread, from 1.
fn this_thread() -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    thread_local!(static NUMBER: Cell<u64> = const { Cell::new(0) });
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(THREADS.fetch_add(1, Ordering::Relaxed) + 1);
        }
        number.get()
    })
}

/// Makes the slots part of every checkpoint of this PE.
pub fn register() {
    let slots = (&raw const SLOTS).cast_mut().cast::<u8>();
    // SAFETY: a static of atomics, which are written through shared references: it is there and
    // writable until the process ends, and any bytes of a checkpoint of it are values of it.
    let refused = unsafe { faults::protect(Name::Library("contexts"), slots, size_of::<Slots>()) };
    debug_assert_eq!(refused, 0);
}

/// A context in its slot.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    slot: usize,
    options: c_long,
    /// The team that counts its PEs.
    pub team: Team,
}

impl Given {
    /// The stream of its operations.
    pub fn stream(self) -> Id {
        self.slot as Id + 1
    }
}

/// The context of a handle; None if it was never given out, or is destroyed.
#[inline]
pub fn given(ctx: Ctx) -> Option<Given> {
    let slot = (ctx.0 % TURN as usize).checked_sub(FIRST)?;
    // Relaxed: a handle is given from thread to thread by the program.
    let word = SLOTS.0.get(slot)?.load(Ordering::Relaxed);
    let team = Team((word & 0xff) as usize);
    let same = word / TURN == (ctx.0 as u64) / TURN && team != Team::INVALID;
    same.then_some(Given { slot, options: ((word >> 8) & 0xff) as c_long, team })
}

/// A call that uses a context, until it is dropped.
pub struct Using(Option<usize>);

impl Using {
    /// A call that nobody has to be kept out of.
    #[inline]
    pub fn nothing() -> Using {
        Using(None)
    }
}

impl Drop for Using {
    #[inline]
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            USERS[slot].busy.store(false, Ordering::Release);
        }
    }
}

/// Holds the program to what it promised of a context.
pub fn begin(call: &'static str, given: Given) -> Using {
    let user = &USERS[given.slot];
    if given.options & CTX_PRIVATE != 0 {
        let (me, relaxed) = (this_thread(), Ordering::Relaxed);
        if let Err(owner) = user.owner.compare_exchange(0, me, relaxed, relaxed)
            && owner != me
        {
            misuse(call, "the context is SHMEM_CTX_PRIVATE: allowed is the thread that made it");
        }
    }
    if given.options & CTX_SERIALIZED == 0 {
        return Using(None);
    }
    if user.busy.swap(true, Ordering::Acquire) {
        misuse(call, "the context is SHMEM_CTX_SERIALIZED: allowed is one thread at a time");
    }
    Using(Some(given.slot))
}

/// A new context of a team; None if as many exist as there can be.
pub fn give(world: &World, team: Team, options: c_long) -> Option<Ctx> {
    let _giving = GIVING.lock().unwrap_or_else(PoisonError::into_inner);
    let free = |word: &AtomicU64| word.load(Ordering::Relaxed) & 0xff == 0;
    let slot = SLOTS.0.iter().position(free)?;
    let turn = SLOTS.0[slot].load(Ordering::Relaxed) / TURN + 1;
    world.open_stream(slot as Id + 1, options & CTX_NOSTORE != 0);
    let owner = if options & CTX_PRIVATE != 0 { this_thread() } else { 0 };
    USERS[slot].owner.store(owner, Ordering::Relaxed);
    USERS[slot].busy.store(false, Ordering::Relaxed);
    let word = turn * TURN + ((options as u64) << 8) + team.0 as u64;
    SLOTS.0[slot].store(word, Ordering::Relaxed);
    Some(Ctx((turn * TURN) as usize + slot + FIRST))
}

/// Completes a context and takes its slot back.
pub fn take(world: &World, given: Given) {
    world.close_stream(given.stream());
    let _giving = GIVING.lock().unwrap_or_else(PoisonError::into_inner);
    SLOTS.0[given.slot].fetch_and(!(TURN - 1), Ordering::Relaxed);
}

/// Destroys the contexts of a team that ends. The private ones are their threads' to destroy.
pub fn take_all_of(call: &'static str, world: &World, team: Team) {
    for (slot, word) in SLOTS.0.iter().enumerate() {
        let handle = (word.load(Ordering::Relaxed) & !(TURN - 1)) as usize + slot + FIRST;
        let Some(given) = given(Ctx(handle)).filter(|given| given.team == team) else { continue };
        if given.options & CTX_PRIVATE != 0 && world.checks() {
            misuse(call, "a SHMEM_CTX_PRIVATE context of the team was not destroyed before");
        }
        take(world, given);
    }
}

/// Makes room for `wanted` contexts, as far as they can exist beside those there are.
pub fn prepare(world: &World, wanted: usize) {
    let free = |slot: &usize| SLOTS.0[*slot].load(Ordering::Relaxed) & 0xff == 0;
    let slots = (0..STREAMS).filter(free).take(wanted);
    world.prepare_streams(slots.map(|slot| slot as Id + 1));
}

fn create(call: &'static str, team: Team, options: c_long, ctx: Out<Ctx>) -> c_int {
    let world = pgas::world_for(call);
    if options & !(CTX_SERIALIZED | CTX_PRIVATE | CTX_NOSTORE) != 0 {
        misuse(
            call,
            format_args!(
                "options {options:#x}: allowed are SHMEM_CTX_SERIALIZED, PRIVATE, NOSTORE"
            ),
        );
    }
    let made = team::members(team).and_then(|_| give(world, team, options));
    ctx.write(made.unwrap_or(Ctx::INVALID));
    if made.is_some() { 0 } else { FAILED }
}

/// What a session says is to come: about so many operations.
fn expected(call: &'static str, config: In<SessionConfig>, config_mask: c_long) -> usize {
    if config_mask & !CTX_SESSION_TOTAL_OPS != 0 {
        let allowed = "allowed is SHMEM_CTX_SESSION_TOTAL_OPS";
        misuse(call, format_args!("config_mask {config_mask:#x}: {allowed}"));
    }
    match (config_mask, config.addr()) {
        (0, _) => 0,
        (_, 0) => misuse(call, format_args!("config is NULL, and config_mask {config_mask:#x}")),
        _ => config.read_at(0).total_ops,
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
        let _using = ctx.begin(NAME);
        if options & !CTX_SESSION_BATCH != 0 {
            let allowed = "allowed is SHMEM_CTX_SESSION_BATCH";
            misuse(NAME, format_args!("options {options:#x}: {allowed}"));
        }
        let expected = expected(NAME, config, config_mask);
        if options & CTX_SESSION_BATCH != 0 {
            pgas::world().batch(ctx.stream(), true, expected);
        }
    }
    ONE "shmem_ctx_session_stop" "" (ctx: Ctx) {
        let _using = ctx.begin(NAME);
        pgas::world().batch(ctx.stream(), false, 0);
    }
}

const _: () = assert!(FIRST + STREAMS <= TURN as usize);
