//! Waiting without burning the processor: spin a little, yield a little, then sleep.
//!
//! A PE sleeps on the doorbell of its own control page. Whoever stores something it may wait for
//! rings: a load of a counter, and only if somebody sleeps an increment and a wake-up. Puts look at
//! `watchers`, so that a PE asleep in a barrier is not woken by every put it receives. That the
//! ringer sees the sleeper, or the sleeper sees the store, is a matter of fences:
//!
//! - stores by atomic read-modify-write (barriers, steps) are full fences themselves;
//! - plain puts are not, so a sleeper that waits for one issues a process-wide barrier
//!   (`membarrier`) between announcing itself and its last look.
//!
//! A PE killed between its store and its ring leaves a sleeper to the limit below or to the change
//! of view that follows its death, whichever comes first.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::World;
use crate::sys::{futex, process};

/// A PE was lost: the view is not the one this PE has joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a PE was lost")]
pub struct Fault;

/// Longest sleep without a look.
const LIMIT: Duration = Duration::from_millis(100);
/// The same where the kernel has no `membarrier`.
const LIMIT_UNFENCED: Duration = Duration::from_millis(1);
/// Looks before the processor is offered to others, and how often it is before sleeping, when every
/// PE has a processor of its own. Many offers, because another program may have put two PEs on one
/// processor: then only an offer lets the other PE on.
const PATIENCE: (u32, u32) = (100, 40);
/// The same when there are more PEs than processors.
const PATIENCE_CROWDED: (u32, u32) = (10, 6);
/// Looks between two of an engine, which is a system call; what comes through it is seen no sooner.
const ENGINE: u32 = 8;
/// Offers between two moves to the own processor: a move costs as much as a few of them.
const SPREAD: u32 = 256;

impl World {
    /// Wakes PE `pe` if it is mapped here and sleeps until a put brings what it waits for. Called
    /// after every put to a mapped PE.
    #[inline]
    pub fn ring(&self, pe: usize) {
        let Some(peer) = self.near(pe) else { return };
        let bell = &peer.words().bell;
        if bell.watchers.load(Ordering::Relaxed) != 0 {
            bell.pull();
        }
    }

    /// Wakes PE `pe` if it is mapped here and sleeps. Called after a store to a word of the
    /// library.
    pub fn wake(&self, pe: usize) {
        if let Some(peer) = self.near(pe) {
            peer.words().bell.wake();
        }
    }

    /// Blocks until `ready`, or until a PE is lost.
    pub fn wait_until(&self, mut ready: impl FnMut() -> bool) -> Result<(), Fault> {
        let mut done = false;
        self.wait(true, || {
            done = ready();
            done || self.faulted()
        });
        self.came(done)
    }

    /// The outcome of a wait that is over.
    fn came(&self, done: bool) -> Result<(), Fault> {
        if done {
            return Ok(());
        }
        self.cut();
        Err(Fault)
    }

    /// Blocks until `ready`, whatever happens. What it looks at is stored with full fences.
    pub fn wait_raw(&self, ready: impl FnMut() -> bool) {
        self.wait(false, ready);
    }

    fn wait(&self, plain_stores: bool, mut ready: impl FnMut() -> bool) {
        let (looks, offers) = if self.crowded() { PATIENCE_CROWDED } else { PATIENCE };
        let (mut offer, mut longer) = (0, None);
        let mut goes_on = || {
            offer += 1;
            offer <= offers
                || !self.crowded() && {
                    let (since, longer) =
                        *longer.get_or_insert_with(|| (Instant::now(), self.patience()));
                    since.elapsed() < longer
                }
        };
        while goes_on() {
            for look in 1..=looks {
                if ready() {
                    return;
                }
                if look % ENGINE == 0 {
                    self.progress();
                }
                std::hint::spin_loop();
            }
            self.progress();
            std::thread::yield_now();
            self.spread();
        }
        self.land_before_sleep();
        let bell = &self.segment().words().bell;
        let watcher = u32::from(plain_stores);
        loop {
            let seen = bell.doorbell.load(Ordering::SeqCst);
            bell.sleepers.fetch_add(1, Ordering::SeqCst); // pairs with the load in `wake`
            bell.watchers.fetch_add(watcher, Ordering::SeqCst); // and with that in `ring`
            let fenced = !plain_stores || futex::expedited_barrier();
            if !ready() {
                self.rest();
                let limit = if fenced { LIMIT } else { LIMIT_UNFENCED };
                futex::sleep_while(&bell.doorbell, seen, limit);
            }
            bell.watchers.fetch_sub(watcher, Ordering::SeqCst);
            bell.sleepers.fetch_sub(1, Ordering::SeqCst);
            if ready() {
                return;
            }
        }
    }

    /// Goes back to a processor of its own now and then. When other programs run, the system puts
    /// two PEs on one processor, and leaves them there: each gives way to the other as soon as it
    /// waits, so neither looks as if it wanted a whole one.
    fn spread(&self) {
        // Relaxed: the number only says when.
        if self.spreads && self.offers.fetch_add(1, Ordering::Relaxed) % SPREAD == SPREAD - 1 {
            process::start_on(self.me());
        }
    }

    /// Waits for all PEs. Where all are mapped a counter on PE 0: the last to arrive releases the
    /// others.
    pub fn barrier(&self) -> Result<(), Fault> {
        if self.faulted() {
            return self.pass_alone();
        }
        let gate = match (&self.far, self.near(0)) {
            (None, Some(first)) => &first.words().gate,
            _ => return self.came(self.barrier_of_nodes().is_ok()),
        };
        let epoch = self.next_epoch();
        let n = self.n_pes() as u64;
        if gate.arrived.fetch_add(1, Ordering::SeqCst) + 1 == epoch * n {
            gate.released.store(epoch, Ordering::SeqCst); // pairs with the loads below
            (0..self.n_pes()).filter(|&pe| pe != self.me()).for_each(|pe| self.wake(pe));
            return Ok(());
        }
        let mut done = false;
        self.wait(false, || {
            done = gate.released.load(Ordering::SeqCst) >= epoch;
            done || self.faulted()
        });
        self.came(done)
    }
}
