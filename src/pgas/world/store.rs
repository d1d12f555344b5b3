//! What this PE keeps for checkpoints beside the bytes: how far it has come, what it remembers of
//! the last one, the lock of the store, and the threads that go through it.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use raidshmem_core::message::Scrubbed;
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::store::delta::History;
use raidshmem_core::store::grouped::KnownGroups;
use raidshmem_core::store::protection::Protection;
use raidshmem_core::store::refusal::Refused;
use raidshmem_sys::lock;
use raidshmem_sys::pool::WorkerPool;

use super::recovery_state::RecoveryState;
use super::store_lock::StoreLock;
use super::watch::Tracking;

/// The own part of the checkpoint store.
#[derive(Debug)]
pub struct Store {
    /// The groups of checkpoints.
    pub(super) groups: Mutex<KnownGroups>,
    agreed: AtomicU64,
    used: [AtomicUsize; 2],
    /// Bytes that people were told to be read-only.
    pub(crate) readonly: AtomicU64,
    pub(crate) recovery: RecoveryState,
    pub(crate) lock: StoreLock,
    /// The threads that go through its loops.
    pub(crate) pool: WorkerPool,
    /// What the next checkpoint may build on; forgotten in every recovery.
    pub(crate) history: Mutex<Option<History>>,
    /// The watch over what this process writes; over in every recovery.
    pub(crate) tracking: Mutex<Tracking>,
    /// Why checkpoints were refused.
    pub(crate) refused: Mutex<Refused>,
    /// What the scrub has seen.
    pub(crate) scrubbed: Mutex<Scrubbed>,
}

/// Bytes of the parts of a store.
#[derive(Debug, Clone, Copy)]
pub struct StoreBytes {
    /// Of all snapshots.
    pub snapshots: usize,
    /// Of all parity slots.
    pub slots: usize,
}

impl StoreBytes {
    /// Of both.
    pub fn all(self) -> usize {
        self.snapshots + self.slots
    }
}

impl Store {
    /// The state of a process that begins.
    pub(in crate::pgas) fn new(
        groups: KnownGroups,
        recovery: RecoveryState,
        pool: WorkerPool,
    ) -> Store {
        Store {
            groups: Mutex::new(groups),
            agreed: AtomicU64::new(0),
            used: Default::default(),
            readonly: AtomicU64::new(0),
            recovery,
            lock: StoreLock::default(),
            pool,
            history: Mutex::default(),
            tracking: Mutex::default(),
            refused: Mutex::default(),
            scrubbed: Mutex::default(),
        }
    }

    /// How the last checkpoint is protected, or the first one will be; None in mode `none`.
    pub fn protection(&self) -> Option<Arc<Protection>> {
        lock(&self.groups).last()
    }

    /// The last agreed checkpoint is protected so.
    pub(crate) fn protect(&self, protection: Arc<Protection>) {
        lock(&self.groups).agree(protection);
    }

    /// Number of the last agreed checkpoint, 0 before the first.
    pub fn agreed(&self) -> CheckpointNumber {
        CheckpointNumber(self.agreed.load(Ordering::Acquire))
    }

    pub(crate) fn set_agreed(&self, number: CheckpointNumber) {
        self.agreed.store(number.0, Ordering::Release);
    }

    /// What it already occupies.
    pub(crate) fn used(&self) -> StoreBytes {
        let [snapshots, slots] = [0, 1].map(|at: usize| self.used[at].load(Ordering::Relaxed));
        StoreBytes { snapshots, slots }
    }

    pub(crate) fn note_used(&self, bytes: StoreBytes) {
        self.used[0].fetch_max(bytes.snapshots, Ordering::Relaxed);
        self.used[1].fetch_max(bytes.slots, Ordering::Relaxed);
    }

    /// Less of it is occupied than was noted.
    pub(crate) fn forget_used(&self) {
        self.used.iter().for_each(|used| used.store(0, Ordering::Relaxed));
    }

    /// Why the last checkpoint was refused, if it was.
    pub fn last_error(&self) -> Option<String> {
        lock(&self.refused).words().map(str::to_owned)
    }
}
