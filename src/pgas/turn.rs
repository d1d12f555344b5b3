//! Whose turn it is: one call at a time changes the own store and drives the protocol.
//!
//! The turns are counted, twice each: odd while somebody has one. Who reads the store without a
//! turn, and sees the same even count before and after, has read what nobody was changing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The turn of this process, and how many there were.
#[derive(Debug, Default)]
pub struct Turns {
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

impl Turns {
    /// Waits for the turn.
    pub(crate) fn take(&self) -> Turn<'_> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        Turn::begin(&self.count, taken)
    }

    /// Takes the turn if nobody has it.
    pub(crate) fn try_take(&self) -> Option<Turn<'_>> {
        let taken = self.taken.try_lock().ok()?;
        Some(Turn::begin(&self.count, taken))
    }

    /// Begins and ends of turns so far.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }
}
