//! Which PEs are behind the others since a restart, and what of it is shown (`pgas/calls.rs`).

#![forbid(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use raidshmem_core::quantity::Pe;
use raidshmem_core::store::site::Apart;
use raidshmem_sys::lock;

/// What is known of the sites of calls.
#[derive(Debug, Default)]
pub struct Sites {
    /// Somebody is behind since the restart.
    pub(in crate::pgas) apart: AtomicBool,
    pub(in crate::pgas) who: Mutex<Option<Apart>>,
    /// What the recovery under way has found.
    pub(in crate::pgas) found: Mutex<Option<Apart>>,
    /// The last call reported a loss, and the restart has not come yet.
    pub(in crate::pgas) reported: AtomicBool,
    /// One checkpoint was called from several places.
    pub(in crate::pgas) varied: AtomicBool,
    /// Digest of live memory at the restart, where no snapshot is kept; 0 is none.
    pub(in crate::pgas) resumed: AtomicU64,
}

impl Sites {
    /// The call has reported a loss: where it was made is where this PE learned of it.
    pub(crate) fn note_report(&self) {
        self.reported.store(true, Ordering::Relaxed);
    }

    /// Where no snapshot is kept: the digest of live memory as it is restored.
    pub(crate) fn note_resumed(&self, digest: u64) {
        self.resumed.store(digest, Ordering::Relaxed);
    }

    /// The digest of the call that the restart resumed at.
    pub(crate) fn resumed(&self) -> u64 {
        self.resumed.load(Ordering::Relaxed)
    }

    /// True while somebody is behind.
    pub(crate) fn is_apart(&self) -> bool {
        self.apart.load(Ordering::Relaxed)
    }

    /// The PE that this one is behind.
    pub(crate) fn reference(&self) -> Option<Pe> {
        lock(&self.who).as_ref().map(|apart| apart.reference)
    }

    /// A checkpoint is agreed: nobody is behind any more.
    pub(crate) fn forget_apart(&self) {
        self.apart.store(false, Ordering::Relaxed);
        *lock(&self.who) = None;
    }
}
