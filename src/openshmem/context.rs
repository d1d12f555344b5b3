//! Contexts and their sessions.
//!
//! A context is a stream of operations (`pgas::stream`) with a team that counts its PEs. Options
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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::check::misuse;
use super::team::{Team, to_world};
use crate::faults::{self, Name};
use crate::pgas::stream::{Id, STREAMS, Target};
use crate::pgas::{self, World};

/// What a program promises of a context.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// One thread at a time uses it.
    pub serialized: bool,
    /// The thread that made it uses it.
    pub private: bool,
    /// It needs no ordering of its puts.
    pub nostore: bool,
}

impl Options {
    /// As a slot keeps them.
    fn bits(self) -> u64 {
        u64::from(self.serialized) | u64::from(self.private) << 1 | u64::from(self.nostore) << 2
    }

    fn of(bits: u64) -> Options {
        let has = |bit: u32| bits >> bit & 1 == 1;
        Options { serialized: has(0), private: has(1), nostore: has(2) }
    }
}

/// The first handle of a slot that was given out once.
const TURN: u64 = 1 << 16;
/// `SHMEM_CTX_INVALID` and `SHMEM_CTX_DEFAULT` come before the slots.
const FIRST: usize = 2;

/// A word for each slot: `turn << 16 | options << 8 | team`; the team is 0 while the slot is free.
struct Slots([AtomicU64; STREAMS]);

/// The user of the context of a slot, in this process.
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
    options: Options,
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
    same.then_some(Given { slot, options: Options::of(word >> 8), team })
}

/// A handle, which C holds too.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Ctx(pub usize);

impl Ctx {
    /// `SHMEM_CTX_INVALID`.
    pub const INVALID: Ctx = Ctx(0);
    /// `SHMEM_CTX_DEFAULT`.
    pub const DEFAULT: Ctx = Ctx(1);

    /// The context in its slot; a handle that was never given out or is destroyed is a misuse.
    #[inline]
    fn given(self, call: &str) -> Given {
        match given(self) {
            Some(given) => given,
            None => misuse(call, "the context is SHMEM_CTX_INVALID, destroyed, or none at all"),
        }
    }

    /// Begins a call that uses the context: refuses what is none, and, with checks, a thread that
    /// promised not to use it.
    #[inline]
    pub fn begin(self, call: &'static str) -> Using {
        let world = pgas::world_for(call);
        if self == Ctx::DEFAULT {
            return Using::nothing();
        }
        let given = self.given(call);
        if world.checks() { begin(call, given) } else { Using::nothing() }
    }

    /// The same for a call that does nothing with `SHMEM_CTX_INVALID`.
    pub fn begin_if_any(self, call: &'static str) -> Option<Using> {
        let begin = || self.begin(call);
        (self != Ctx::INVALID).then(begin)
    }

    /// The team that counts its PEs.
    pub fn team(self) -> Team {
        given(self).map_or(Team::WORLD, |given| given.team)
    }

    /// The stream of its operations.
    pub fn stream(self) -> Id {
        given(self).map_or(0, Given::stream)
    }

    /// The PE of the world that `pe` is in this context, and the stream of its operations.
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
    /// A call that nobody has to be kept out of.
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

/// Holds the program to what it promised of a context.
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

/// A new context of a team; None if as many exist as there can be.
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
        if given.options.private && world.checks() {
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

const _: () = assert!(FIRST + STREAMS <= TURN as usize);
