//! The lock of the own store: one call at a time changes the store and drives the protocol.
//!
//! It is a sequence lock: its number is incremented when it is taken and when it is released, and
//! is odd in between. A PE that reads the store without the lock, and sees the same even number
//! before and after, has read data that did not change meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock and its sequence number.
#[derive(Debug, Default)]
pub struct StoreLock {
    taken: Mutex<()>,
    sequence: AtomicU64,
}

/// The lock while held; released on drop.
pub(crate) struct StoreGuard<'a> {
    sequence: &'a AtomicU64,
    _taken: MutexGuard<'a, ()>,
}

impl<'a> StoreGuard<'a> {
    fn begin(sequence: &'a AtomicU64, taken: MutexGuard<'a, ()>) -> StoreGuard<'a> {
        sequence.fetch_add(1, Ordering::SeqCst);
        StoreGuard { sequence, _taken: taken }
    }
}

impl Drop for StoreGuard<'_> {
    fn drop(&mut self) {
        self.sequence.fetch_add(1, Ordering::SeqCst);
    }
}

impl StoreLock {
    /// Waits until the lock is free, and takes it.
    pub(crate) fn lock(&self) -> StoreGuard<'_> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        StoreGuard::begin(&self.sequence, taken)
    }

    /// Takes the lock if it is free.
    pub(crate) fn try_lock(&self) -> Option<StoreGuard<'_>> {
        let taken = self.taken.try_lock().ok()?;
        Some(StoreGuard::begin(&self.sequence, taken))
    }

    /// Returns the sequence number, which counts each time the lock was taken or released.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::SeqCst)
    }
}
