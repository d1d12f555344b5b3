//! Locks in symmetric memory: first come, first served, and free again when the holder dies (the
//! restart brings the lock back to the checkpoint, outside of any exchange).

use bytemuck::{Pod, Zeroable};

use super::{Fault, Peers, SymRef};
use crate::openshmem::lock::Lock as Queue;
use crate::openshmem::memory::address::Sym;

/// A lock, of which every PE has a part. Fresh memory is a free lock.
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

/// A lock that is held; dropping it completes what this PE has put and hands the lock on.
#[must_use = "the lock is given free when this is dropped"]
#[derive(Debug)]
pub struct Guard<'a> {
    peers: &'a Peers<'a>,
    lock: SymRef<Lock>,
}

impl Peers<'_> {
    /// The lock as the functions under the C API take it.
    fn queue(&self, call: &'static str, lock: SymRef<Lock>) -> Queue {
        Queue::new(call, Sym::at(self.word(lock).addr()))
    }

    /// Waits for the lock and takes it.
    ///
    /// # Errors
    /// [`Fault`] if a PE is lost meanwhile.
    ///
    /// # Panics
    /// If this PE holds it already, the job ends with a line that says so.
    ///
    /// See [`Lock`] for an example.
    pub fn lock(&self, lock: SymRef<Lock>) -> Result<Guard<'_>, Fault> {
        self.queue("Peers::lock", lock).set();
        self.world().healthy().map_err(Fault::of)?;
        Ok(Guard { peers: self, lock })
    }

    /// Takes the lock if it is free; `None` if some PE, this one perhaps, holds it.
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
        // Where somebody goes back, so does the lock.
        let held = held && !self.world().breaks_off();
        held.then(|| Guard { peers: self, lock })
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.peers.queue("Guard::drop", self.lock).clear();
    }
}
