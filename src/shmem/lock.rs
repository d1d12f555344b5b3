//! Locks in symmetric memory: first come, first served, and released when the holder dies (outside
//! of any exchange, the restart restores the lock as of the checkpoint).

use bytemuck::{Pod, Zeroable};

use super::{Fault, Peers, SymRef};
use crate::openshmem::lock::Lock as Queue;
use crate::openshmem::memory::address::Sym;

/// A lock, with a part on every PE. Fresh memory is a free lock.
///
/// ```
/// use raidshmem::Lock;
///
/// let mut shmem = raidshmem::Shmem::init();
/// let (lock, count) = (shmem.alloc_one(Lock::default())?, shmem.alloc_one(0u64)?);
/// let n = shmem.n_pes() as u64;
/// let all = shmem.exchange(|peers| {
///     {
///         let _held = peers.lock(lock)?; // one PE at a time, to the end of the block
///         peers.write(0, count, peers.read(0, count) + 1);
///     }
///     peers.barrier()?;
///     Ok::<u64, raidshmem::Fault>(peers.read(0, count))
/// })??;
/// assert_eq!(all, n);
/// # Ok::<(), raidshmem::Error>(())
/// ```
#[repr(transparent)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub struct Lock {
    words: i64,
}

/// A held lock; dropping it completes this PE's puts and releases the lock.
#[must_use = "the lock is given free when this is dropped"]
#[derive(Debug)]
pub struct Guard<'a> {
    peers: &'a Peers<'a>,
    lock: SymRef<Lock>,
}

impl Peers<'_> {
    /// Returns the lock as the functions under the C API take it.
    fn queue(&self, call: &'static str, lock: SymRef<Lock>) -> Queue {
        Queue::new(call, Sym::at(self.word(lock).addr()))
    }

    /// Waits for the lock and acquires it.
    ///
    /// # Errors
    /// [`Fault`] if a PE is lost meanwhile.
    ///
    /// # Panics
    /// If this PE already holds it, the job ends with an error message.
    ///
    /// See [`Lock`] for an example.
    pub fn lock(&self, lock: SymRef<Lock>) -> Result<Guard<'_>, Fault> {
        self.queue("Peers::lock", lock).set();
        self.world().loss_response().healthy().map_err(Fault::of)?;
        Ok(Guard { peers: self, lock })
    }

    /// Acquires the lock if it is free; returns `None` if a PE, possibly this one, holds it.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let lock = shmem.alloc_one(raidshmem::Lock::default())?;
    /// shmem.exchange(|peers| {
    ///     let held = peers.try_lock(lock);
    ///     assert!(peers.try_lock(lock).is_none()); // by this PE or by another one
    ///     drop(held);
    /// })?;
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn try_lock(&self, lock: SymRef<Lock>) -> Option<Guard<'_>> {
        let held = self.queue("Peers::try_lock", lock).try_set();
        // If a PE rolls back, so does the lock.
        let held = held && !self.world().loss_response().interrupts_meetings();
        held.then(|| Guard { peers: self, lock })
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.peers.queue("Guard::drop", self.lock).clear();
    }
}
