//! The schedule of checkpoints, if not every call makes one (`SHMEM_FT_INTERVAL`).

#![forbid(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use raidshmem_core::message::Past;
use raidshmem_core::settings::{Interval, Settings};
use raidshmem_core::sizing::due::Due;
use raidshmem_sys::lock;

/// The schedule as this PE knows it; that of PE 0 decides.
#[derive(Debug)]
pub struct Timing {
    /// True if calls may pass without saving.
    is_on: bool,
    /// True if checkpoints go to disk, so that the job can be asked to stop.
    has_store: bool,
    /// The start of the job.
    begun: Instant,
    due: Mutex<Due>,
    /// True if a checkpoint was agreed in the view that was joined last.
    has_saved: AtomicBool,
    /// True if the program was promised that the next call saves.
    promised: AtomicBool,
}

impl Timing {
    /// Returns the state of a process that joins a job with that past. Calls pass only if the job
    /// `keeps` checkpoints.
    pub(in crate::pgas) fn new(settings: &Settings, past: Past, keeps: bool) -> Timing {
        let now = Instant::now();
        let mtbf = settings.mtbf.map(|time| time.as_secs_f64());
        Timing {
            is_on: keeps && settings.interval != Interval::EACH_CALL,
            has_store: settings.store.is_some(),
            begun: now.checked_sub(past.ran).unwrap_or(now),
            due: Mutex::new(Due::new(settings.interval, mtbf, past.recoveries)),
            has_saved: AtomicBool::new(false),
            promised: AtomicBool::new(false),
        }
    }

    /// Returns true if a call may pass without saving. The first call may not, nor may those from a
    /// restart to the next checkpoint: until then a PE may be behind the others.
    pub(in crate::pgas) fn may_pass(&self) -> bool {
        self.is_on && self.has_saved.load(Ordering::Relaxed)
    }

    /// Returns true if the job may be asked to stop, and no PE can be behind the others.
    pub(in crate::pgas) fn may_stop(&self) -> bool {
        self.has_store && self.has_saved.load(Ordering::Relaxed)
    }

    /// Returns true if a call made now would save, as far as this PE decides.
    pub(in crate::pgas) fn is_due(&self) -> bool {
        lock(&self.due).is_due(self.begun.elapsed().as_secs_f64())
    }

    /// Notes that the program was promised that the next call saves.
    pub(crate) fn promise(&self) {
        self.promised.store(true, Ordering::Relaxed);
    }

    /// Returns true if the program has that promise.
    pub(crate) fn is_promised(&self) -> bool {
        self.promised.load(Ordering::Relaxed)
    }

    /// Notes that a checkpoint is agreed, in a call that began at `began`.
    pub(crate) fn saved(&self, began: Instant) {
        let now = self.begun.elapsed().as_secs_f64();
        lock(&self.due).saved(now, began.elapsed().as_secs_f64());
        self.has_saved.store(true, Ordering::Relaxed);
        self.promised.store(false, Ordering::Relaxed);
    }

    /// Notes a local rollback of this PE: calls after the last checkpoint may pass again.
    pub(crate) fn rolled_back_locally(&self) {
        self.has_saved.store(true, Ordering::Relaxed);
    }

    /// Notes a global rollback after a loss, and returns the number of losses of the job.
    pub(crate) fn restarted(&self) -> u32 {
        self.has_saved.store(false, Ordering::Relaxed);
        self.promised.store(false, Ordering::Relaxed);
        lock(&self.due).lost()
    }
}
