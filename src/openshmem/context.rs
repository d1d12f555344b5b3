//! Contexts and their sessions.
//!
//! A context is a stream of operations (`pgas::stream`) with a team that numbers its PEs. With
//! `SHMEM_CHECK` on, options are enforced: `SHMEM_CTX_PRIVATE` restricts the context to the thread
//! that made it, `SHMEM_CTX_SERIALIZED` to one thread at a time. On a `SHMEM_CTX_NOSTORE` context,
//! fence and quiet skip puts. A batch session lets non-blocking puts go out together; other hints
//! have no effect. On mapped PEs operations are complete when their call returns, so contexts and
//! sessions change nothing there.
//!
//! A handle is a slot number and the count of the slot's allocations, so a destroyed handle is
//! always rejected. Slots are registered with the checkpoint, as teams are: a restart restores
//! the contexts of the checkpoint. Stream numbers are slots, counted from one.
//!
//! Invariants: a slot with no team is free; slots are allocated and freed with the lock held.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::check::misuse;
use super::team::{Team, to_world};
use raidshmem_runtime::fault_tolerance::{self as ft, Name};
use raidshmem_runtime::pgas::stream::{Id, STREAMS, Target};
use raidshmem_runtime::pgas::{self, World};

/// The options of a context, as promised by the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Only one thread uses it at a time.
    pub serialized: bool,
    /// Only the thread that made it uses it.
    pub private: bool,
    /// Its puts need no ordering.
    pub nostore: bool,
}

impl Options {
    /// Encodes the options for a slot.
    fn bits(self) -> u64 {
        u64::from(self.serialized) | u64::from(self.private) << 1 | u64::from(self.nostore) << 2
    }

    fn of(bits: u64) -> Options {
        let has = |bit: u32| bits >> bit & 1 == 1;
        Options { serialized: has(0), private: has(1), nostore: has(2) }
    }
}

/// The first handle of a slot that was allocated once.
const TURN: u64 = 1 << 16;
/// The first slot's index in handles, after `SHMEM_CTX_INVALID` and `SHMEM_CTX_DEFAULT`.
const FIRST: usize = 2;

/// One word per slot: `turn << 16 | options << 8 | team`; the team is 0 while the slot is free.
struct Slots([AtomicU64; STREAMS]);

/// The user of a slot's context, in this process.
struct User {
    /// The thread that made it, counted from 1; 0 means the next thread that uses it, as after a
    /// restart.
    owner: AtomicU64,
    busy: AtomicBool,
}

static SLOTS: Slots = Slots([const { AtomicU64::new(0) }; STREAMS]);
static USERS: [User; STREAMS] =
    [const { User { owner: AtomicU64::new(0), busy: AtomicBool::new(false) } }; STREAMS];
static GIVING: Mutex<()> = Mutex::new(());

/// Returns the number of this thread, counted from 1.
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
    // SAFETY: a static of atomics, which are written through shared references: it exists and is
    // writable until the process ends, and any bytes restored from a checkpoint are valid values.
    let refused = unsafe { ft::protect(Name::Library("contexts"), slots, size_of::<Slots>()) };
    debug_assert_eq!(refused, 0);
}

/// A context that exists, with its slot.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    slot: usize,
    options: Options,
    /// The team that numbers its PEs.
    pub team: Team,
}

impl Given {
    /// Returns the stream of its operations.
    pub fn stream(self) -> Id {
        self.slot as Id + 1
    }
}

/// Returns the context of a handle; None if the handle was never allocated or is destroyed.
#[inline]
pub fn given(ctx: Ctx) -> Option<Given> {
    let slot = (ctx.0 % TURN as usize).checked_sub(FIRST)?;
    // Relaxed: the program hands a handle from thread to thread.
    let word = SLOTS.0.get(slot)?.load(Ordering::Relaxed);
    let team = Team((word & 0xff) as usize);
    let same = word / TURN == (ctx.0 as u64) / TURN && team != Team::INVALID;
    same.then_some(Given { slot, options: Options::of(word >> 8), team })
}

/// A context handle, passed through the C interface.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Ctx(pub usize);

impl Ctx {
    /// `SHMEM_CTX_INVALID`.
    pub const INVALID: Ctx = Ctx(0);
    /// `SHMEM_CTX_DEFAULT`.
    pub const DEFAULT: Ctx = Ctx(1);

    /// Returns the context of a handle; one never allocated or destroyed is a misuse.
    #[inline]
    fn given(self, call: &str) -> Given {
        match given(self) {
            Some(given) => given,
            None => misuse(call, "the context is SHMEM_CTX_INVALID, destroyed, or not a context"),
        }
    }

    /// Begins a call that uses the context. Rejects an invalid handle and, with checks on, a thread
    /// that the context's options exclude.
    #[inline]
    pub fn begin(self, call: &'static str) -> Using {
        let world = pgas::world_for(call);
        if self == Ctx::DEFAULT {
            return Using::nothing();
        }
        let given = self.given(call);
        if world.checks() { begin(call, given) } else { Using::nothing() }
    }

    /// Like [`Ctx::begin`], but returns None for `SHMEM_CTX_INVALID`.
    pub fn begin_if_any(self, call: &'static str) -> Option<Using> {
        let begin = || self.begin(call);
        (self != Ctx::INVALID).then(begin)
    }

    /// Returns the team that numbers its PEs.
    pub fn team(self) -> Team {
        given(self).map_or(Team::WORLD, |given| given.team)
    }

    /// Returns the stream of its operations.
    pub fn stream(self) -> Id {
        given(self).map_or(0, Given::stream)
    }

    /// Translates `pe` of this context to a PE of the world, with the stream of its operations.
    #[inline]
    pub fn pe(self, call: &'static str, pe: i32) -> Target {
        if self == Ctx::DEFAULT { pe.into() } else { self.team_pe(call, pe) }
    }

    fn team_pe(self, call: &'static str, pe: i32) -> Target {
        let given = self.given(call);
        match to_world(given.team, pe) {
            Some(pe) => Target { pe: pe.0.cast_signed(), stream: given.stream(), later: false },
            None => misuse(call, format_args!("pe {pe}: expected a PE of the context's team")),
        }
    }
}

/// A call that uses a context, until it is dropped.
pub struct Using(Option<usize>);

impl Using {
    /// Returns a call that excludes no thread.
    #[inline]
    fn nothing() -> Using {
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

/// Enforces the options that the program chose for a context.
fn begin(call: &'static str, given: Given) -> Using {
    let user = &USERS[given.slot];
    if given.options.private {
        let (me, relaxed) = (this_thread(), Ordering::Relaxed);
        if let Err(owner) = user.owner.compare_exchange(0, me, relaxed, relaxed)
            && owner != me
        {
            misuse(call, "the context is SHMEM_CTX_PRIVATE: expected the thread that made it");
        }
    }
    if !given.options.serialized {
        return Using(None);
    }
    if user.busy.swap(true, Ordering::Acquire) {
        misuse(call, "the context is SHMEM_CTX_SERIALIZED: expected one thread at a time");
    }
    Using(Some(given.slot))
}

/// Makes a context of a team; returns None if no slot is free.
pub fn give(world: &World, team: Team, options: Options) -> Option<Ctx> {
    let _giving = GIVING.lock().unwrap_or_else(PoisonError::into_inner);
    let free = |word: &AtomicU64| word.load(Ordering::Relaxed) & 0xff == 0;
    let slot = SLOTS.0.iter().position(free)?;
    let turn = SLOTS.0[slot].load(Ordering::Relaxed) / TURN + 1;
    world.open_stream(slot as Id + 1, options.nostore);
    let owner = if options.private { this_thread() } else { 0 };
    USERS[slot].owner.store(owner, Ordering::Relaxed);
    USERS[slot].busy.store(false, Ordering::Relaxed);
    let word = turn * TURN + (options.bits() << 8) + team.0 as u64;
    SLOTS.0[slot].store(word, Ordering::Relaxed);
    Some(Ctx((turn * TURN) as usize + slot + FIRST))
}

/// Completes a context and frees its slot.
pub fn take(world: &World, given: Given) {
    world.close_stream(given.stream());
    let _giving = GIVING.lock().unwrap_or_else(PoisonError::into_inner);
    SLOTS.0[given.slot].fetch_and(!(TURN - 1), Ordering::Relaxed);
}

/// Destroys the contexts of a team that ends. Private ones must be destroyed by their threads.
pub fn take_all_of(call: &'static str, world: &World, team: Team) {
    for (slot, word) in SLOTS.0.iter().enumerate() {
        let handle = (word.load(Ordering::Relaxed) & !(TURN - 1)) as usize + slot + FIRST;
        let Some(given) = given(Ctx(handle)).filter(|given| given.team == team) else { continue };
        if given.options.private && world.checks() {
            misuse(call, "a SHMEM_CTX_PRIVATE context of the team was not destroyed before");
        }
        take(world, given);
    }
}

/// Prepares streams for up to `wanted` more contexts, limited by the free slots.
pub fn prepare(world: &World, wanted: usize) {
    let free = |slot: &usize| SLOTS.0[*slot].load(Ordering::Relaxed) & 0xff == 0;
    let slots = (0..STREAMS).filter(free).take(wanted);
    world.prepare_streams(slots.map(|slot| slot as Id + 1));
}

const _: () = assert!(FIRST + STREAMS <= TURN as usize);
