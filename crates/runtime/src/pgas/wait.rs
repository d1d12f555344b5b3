//! The way a PE waits: it spins briefly, then yields its processor, then sleeps.
//!
//! A PE sleeps on the doorbell of its own control page. A PE that stores a value the sleeper may
//! wait for rings: it loads a counter, and increments and wakes only if a PE sleeps. Puts check
//! `watchers`, so that a PE asleep in a barrier is not woken by every put it receives. Fences
//! ensure that the ringer sees the sleeper or the sleeper sees the store:
//!
//! - a PE that stores a word of the library fences before it looks for sleepers, and a sleeper
//!   fences between announcing itself and its last look (`segment::bell::{is_awaited, announce}`);
//! - plain puts do not fence, so a sleeper that waits for one issues a process-wide barrier
//!   (`membarrier`) between announcing itself and its last look.
//!
//! A PE publishes a wait that outlasts the spinning (`segment/waits.rs`), so that `oshrun` can
//! report what a job waits for.
//!
//! If a PE is killed between its store and its ring, the sleeper wakes at the limit below or at the
//! view change that follows the death, whichever comes first. The same holds for a PE on a
//! processor that the barrier leaves out (`sys/futex.rs`).

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use raidshmem_segment::waits::Waiting;
use raidshmem_sys::{futex, process};
use tracing::debug;

use super::far::SendingScope;
use super::{Fault, World};

/// The longest sleep without a look.
const LIMIT: Duration = Duration::from_millis(100);
/// The longest sleep without a look if the kernel has no `membarrier`.
const LIMIT_UNFENCED: Duration = Duration::from_millis(1);
/// Looks before each yield of the processor, and yields before sleeping, when every PE has its own
/// processor. The number of yields is high because another program may have put two PEs on one
/// processor: then only a yield lets the other PE run.
const PATIENCE: (u32, u32) = (100, 40);
/// Like `PATIENCE`, when there are more PEs than processors.
const PATIENCE_OVERSUBSCRIBED: (u32, u32) = (10, 6);
/// Looks per poll of an engine, which is a system call; incoming data is seen only by a poll.
const ENGINE: u32 = 8;
/// Yields between two moves to the PE's own processor: a move costs as much as a few yields.
const SPREAD: u32 = 256;

/// The threads of this PE that wait.
#[derive(Clone, Copy)]
pub struct Waits<'a> {
    pub(super) world: &'a World,
}

impl World {
    /// Returns the threads of this PE that wait.
    #[inline]
    pub fn blocking(&self) -> Waits<'_> {
        Waits { world: self }
    }

    /// Blocks until `ready`, or until a PE is lost. Calls `waiting` only if that takes long.
    pub fn wait_until(
        &self,
        waiting: impl FnOnce() -> Waiting,
        mut ready: impl FnMut() -> bool,
    ) -> Result<(), Fault> {
        self.call_sites().waits();
        let mut done = false;
        self.blocking().wait(waiting, true, || {
            done = ready();
            done || self.loss_response().is_disturbed()
        });
        self.blocking().came(done)
    }

    /// Blocks until `ready`, whatever happens. A thread that changes what `ready` reads calls
    /// `wake` afterwards.
    pub fn wait_raw(&self, waiting: impl FnOnce() -> Waiting, ready: impl FnMut() -> bool) {
        self.blocking().wait(waiting, false, ready);
    }

    /// Like `wait_raw`, for words that puts change.
    pub fn wait_for_words(&self, waiting: impl FnOnce() -> Waiting, ready: impl FnMut() -> bool) {
        self.blocking().wait(waiting, true, ready);
    }
}

impl Waits<'_> {
    /// Returns the outcome of a finished wait.
    pub(super) fn came(self, done: bool) -> Result<(), Fault> {
        if done {
            return Ok(());
        }
        self.world.loss_response().cut();
        Err(Fault)
    }

    /// Like [`World::wait_raw`], asleep from the start, and not shown: for waits that end without a
    /// call of the program on another PE.
    pub(super) fn wait_unseen(self, ready: impl FnMut() -> bool) {
        self.sleep_until(false, ready, || ());
    }

    /// Waits until no parity is computed in the background any more.
    pub(crate) fn await_background(self) {
        let background = &self.world.store.background;
        if !background.is_over() {
            self.wait_unseen(|| background.is_over());
        }
        if background.take_saved() {
            self.world.memory.note_saved();
            self.world.reached.protected();
        }
    }

    fn wait(
        self,
        waiting: impl FnOnce() -> Waiting,
        plain_stores: bool,
        mut ready: impl FnMut() -> bool,
    ) {
        let sending = self.world.far_calls().send_while_waiting();
        let mut ready = || {
            sending.iter().for_each(SendingScope::depart_due);
            ready()
        };
        let (looks, offers) =
            if self.world.pace.oversubscribed { PATIENCE_OVERSUBSCRIBED } else { PATIENCE };
        let (mut offer, mut longer) = (0, None);
        let mut goes_on = || {
            offer += 1;
            offer <= offers
                || !self.world.pace.oversubscribed && {
                    let (since, longer) =
                        *longer.get_or_insert_with(|| (Instant::now(), self.world.comm.patience()));
                    since.elapsed() < longer
                }
        };
        while goes_on() {
            for look in 1..=looks {
                if ready() {
                    return;
                }
                if look % ENGINE == 0 {
                    self.world.comm.progress();
                }
                std::hint::spin_loop();
            }
            self.world.comm.progress();
            std::thread::yield_now();
            self.spread();
        }
        self.world.transfers().land_before_sleep();
        self.sleep(waiting(), plain_stores, ready);
    }

    #[cold]
    fn sleep(self, waiting: Waiting, plain_stores: bool, ready: impl FnMut() -> bool) {
        debug!("waits in {} for {}", waiting.call, waiting.whom);
        let call = waiting.call;
        let showing =
            (self.world.segments.own().words().waits).show(waiting, self.world.store.agreed());
        self.sleep_until(plain_stores, ready, || showing.looked());
        debug!("goes on in {call}");
    }

    /// Sleeps until `ready`, and calls `looked` after each vain look.
    fn sleep_until(
        self,
        plain_stores: bool,
        mut ready: impl FnMut() -> bool,
        mut looked: impl FnMut(),
    ) {
        let bell = &self.world.segments.own().words().bell;
        loop {
            bell.sleep(plain_stores, || {
                let fenced = !plain_stores || futex::expedited_barrier();
                let sleeps = !ready();
                sleeps.then(|| {
                    self.world.comm.rest();
                    if fenced { LIMIT } else { LIMIT_UNFENCED }
                })
            });
            if ready() {
                return;
            }
            looked();
        }
    }

    /// Returns to the PE's own processor now and then. When other programs run, the kernel puts two
    /// PEs on one processor and leaves them there: each yields to the other as soon as it waits, so
    /// neither seems to need a whole one.
    fn spread(self) {
        // Relaxed: the number only paces the moves.
        if self.world.pace.spreads
            && self.world.pace.offers.fetch_add(1, Ordering::Relaxed) % SPREAD == SPREAD - 1
        {
            process::start_on(self.world.me().at());
        }
    }
}
