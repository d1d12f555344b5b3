//! The checkpoint state of this PE besides the bytes: its progress, the history of the last
//! checkpoint, the lock of the store, and the worker threads.

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

use super::background::Background;
use super::recovery_state::RecoveryState;
use super::store_lock::StoreLock;
use super::watch::Tracking;

/// The own part of the checkpoint store.
#[derive(Debug)]
pub struct Store {
    /// Parity groups of the checkpoints.
    pub(super) groups: Mutex<KnownGroups>,
    agreed: AtomicU64,
    used: [AtomicUsize; 2],
    /// The number of read-only bytes last reported to the user.
    pub(crate) readonly: AtomicU64,
    pub(crate) recovery: RecoveryState,
    pub(crate) lock: StoreLock,
    /// The threads that carry out its loops.
    pub(crate) pool: WorkerPool,
    /// The history that the next checkpoint may build on; dropped in every recovery.
    pub(crate) history: Mutex<Option<History>>,
    /// The tracking of this process's writes; ends in every recovery.
    pub(crate) tracking: Mutex<Tracking>,
    /// The reason that checkpoints were refused.
    pub(crate) refused: Mutex<Refused>,
    /// The parity that is computed while the program runs.
    pub(crate) background: Background,
    /// The results of the scrub.
    pub(crate) scrubbed: Mutex<Scrubbed>,
}

/// Sizes of the parts of a store, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct StoreBytes {
    /// All snapshots.
    pub snapshots: usize,
    /// All parity slots.
    pub slots: usize,
}

impl StoreBytes {
    /// Returns the total.
    pub fn all(self) -> usize {
        self.snapshots + self.slots
    }
}

impl Store {
    /// Returns the state of a new process.
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
            background: Background::default(),
            scrubbed: Mutex::default(),
        }
    }

    /// Returns the protection of the last checkpoint, or of the first one to come; None in mode
    /// `none`.
    pub fn protection(&self) -> Option<Arc<Protection>> {
        lock(&self.groups).last()
    }

    /// Sets the protection of the last agreed checkpoint.
    pub(crate) fn protect(&self, protection: Arc<Protection>) {
        lock(&self.groups).agree(protection);
    }

    /// Returns the number of the last agreed checkpoint, 0 before the first.
    pub fn agreed(&self) -> CheckpointNumber {
        CheckpointNumber(self.agreed.load(Ordering::Acquire))
    }

    pub(crate) fn set_agreed(&self, number: CheckpointNumber) {
        self.agreed.store(number.0, Ordering::Release);
    }

    /// Returns the bytes that the store already occupies.
    pub(crate) fn used(&self) -> StoreBytes {
        let [snapshots, slots] = [0, 1].map(|at: usize| self.used[at].load(Ordering::Relaxed));
        StoreBytes { snapshots, slots }
    }

    pub(crate) fn note_used(&self, bytes: StoreBytes) {
        self.used[0].fetch_max(bytes.snapshots, Ordering::Relaxed);
        self.used[1].fetch_max(bytes.slots, Ordering::Relaxed);
    }

    /// Forgets the noted sizes, because less is occupied now.
    pub(crate) fn forget_used(&self) {
        self.used.iter().for_each(|used| used.store(0, Ordering::Relaxed));
    }

    /// Returns the reason that the last checkpoint was refused, if it was.
    pub fn last_error(&self) -> Option<String> {
        lock(&self.refused).words().map(str::to_owned)
    }
}
