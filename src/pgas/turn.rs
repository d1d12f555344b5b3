//! Whose turn it is: one call at a time changes the own store and drives the protocol.
//!
//! The turns are counted, twice each: odd while somebody has one. Who reads the store without a
//! turn, and sees the same even count before and after, has read what nobody was changing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::World;

/// The turn of this process, and how many there were.
#[derive(Debug, Default)]
pub(super) struct Turns {
    taken: Mutex<()>,
    count: AtomicU64,
}

/// A turn, given back on drop.
pub(crate) struct Turn<'a> {
    count: &'a AtomicU64,
    _taken: MutexGuard<'a, ()>,
}

impl<'a> Turn<'a> {
    fn begin(count: &'a AtomicU64, taken: MutexGuard<'a, ()>) -> Turn<'a> {
        count.fetch_add(1, Ordering::SeqCst);
        Turn { count, _taken: taken }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }
}

impl World {
    /// Waits for the turn.
    pub(crate) fn turn(&self) -> Turn<'_> {
        let taken = self.turns.taken.lock().unwrap_or_else(PoisonError::into_inner);
        Turn::begin(&self.turns.count, taken)
    }

    /// Takes the turn if nobody has it.
    pub(crate) fn try_turn(&self) -> Option<Turn<'_>> {
        let taken = self.turns.taken.try_lock().ok()?;
        Some(Turn::begin(&self.turns.count, taken))
    }

    /// Begins and ends of turns so far.
    pub(crate) fn turns(&self) -> u64 {
        self.turns.count.load(Ordering::SeqCst)
    }
}
