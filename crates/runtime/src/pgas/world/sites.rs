//! PEs that are behind since a restart, and the published part of it (`pgas/calls.rs`).

#![forbid(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use raidshmem_core::quantity::Pe;
use raidshmem_core::store::site::DivergedSites;
use raidshmem_sys::lock;

/// The state of call sites.
#[derive(Debug, Default)]
pub struct Sites {
    /// The source folder of the crate that the program links.
    pub(in crate::pgas) frontend: &'static str,
    /// True if a PE is behind since the restart.
    pub(in crate::pgas) apart: AtomicBool,
    pub(in crate::pgas) who: Mutex<Option<DivergedSites>>,
    /// The result of the recovery in progress.
    pub(in crate::pgas) found: Mutex<Option<DivergedSites>>,
    /// True if the last call reported a loss, and the restart has not come yet.
    pub(in crate::pgas) reported: AtomicBool,
    /// True if one checkpoint was called from several places.
    pub(in crate::pgas) varied: AtomicBool,
    /// The digest of live memory at the restart, if no snapshot is kept; else 0.
    pub(in crate::pgas) resumed: AtomicU64,
}

impl Sites {
    /// Returns the state at the start; `frontend` is the source folder of the crate that the program
    /// links.
    pub(in crate::pgas) fn of(frontend: &'static str) -> Sites {
        Sites { frontend, ..Sites::default() }
    }

    /// Notes that the call has reported a loss: its place is where this PE learned of it.
    pub(crate) fn note_report(&self) {
        self.reported.store(true, Ordering::Relaxed);
    }

    /// Records the digest of restored live memory, if no snapshot is kept.
    pub(crate) fn note_resumed(&self, digest: u64) {
        self.resumed.store(digest, Ordering::Relaxed);
    }

    /// Returns the digest of live memory at the restart.
    pub(crate) fn resumed(&self) -> u64 {
        self.resumed.load(Ordering::Relaxed)
    }

    /// Returns true while a PE is behind.
    pub(crate) fn is_apart(&self) -> bool {
        self.apart.load(Ordering::Relaxed)
    }

    /// Returns the reference that the PEs behind follow.
    pub(crate) fn reference(&self) -> Option<Pe> {
        lock(&self.who).as_ref().map(|apart| apart.reference)
    }

    /// Notes that a checkpoint is agreed, after which no PE is behind.
    pub(crate) fn forget_diverged(&self) {
        self.apart.store(false, Ordering::Relaxed);
        *lock(&self.who) = None;
    }
}
