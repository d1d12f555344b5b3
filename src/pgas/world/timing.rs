//! When the next checkpoint is due, where not each call makes one (`SHMEM_FT_INTERVAL`).

#![forbid(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use raidshmem_core::message::Past;
use raidshmem_core::settings::{Interval, Settings};
use raidshmem_core::sizing::due::Due;
use raidshmem_sys::lock;

/// What this PE knows of it; what PE 0 knows decides.
#[derive(Debug)]
pub struct Timing {
    /// Calls may pass without saving.
    is_on: bool,
    /// Checkpoints go to disk, so the job may be asked to stop.
    has_store: bool,
    /// When the job began.
    begun: Instant,
    due: Mutex<Due>,
    /// A checkpoint was agreed in the view that was joined last.
    has_saved: AtomicBool,
    /// The program was told that the next call saves.
    promised: AtomicBool,
}

impl Timing {
    /// The state of a process that comes to a job with that past; calls pass only where it `keeps`
    /// checkpoints to which all go back.
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

    /// True if a call may pass without saving. The first call does not, nor do those from a restart
    /// to the next checkpoint: until then a PE may be behind the others.
    pub(in crate::pgas) fn may_pass(&self) -> bool {
        self.is_on && self.has_saved.load(Ordering::Relaxed)
    }

    /// True if the job may be asked to stop, and no PE can be behind the others.
    pub(in crate::pgas) fn may_stop(&self) -> bool {
        self.has_store && self.has_saved.load(Ordering::Relaxed)
    }

    /// True if a call that is made now saves, as far as this PE decides.
    pub(in crate::pgas) fn is_due(&self) -> bool {
        lock(&self.due).is_due(self.begun.elapsed().as_secs_f64())
    }

    /// The program is told that the next call saves.
    pub(crate) fn promise(&self) {
        self.promised.store(true, Ordering::Relaxed);
    }

    /// True if it was told so.
    pub(crate) fn is_promised(&self) -> bool {
        self.promised.load(Ordering::Relaxed)
    }

    /// A checkpoint is agreed, in a call that began at that time.
    pub(crate) fn saved(&self, began: Instant) {
        let now = self.begun.elapsed().as_secs_f64();
        lock(&self.due).saved(now, began.elapsed().as_secs_f64());
        self.has_saved.store(true, Ordering::Relaxed);
        self.promised.store(false, Ordering::Relaxed);
    }

    /// This PE went back alone to the last checkpoint: calls passed after it.
    pub(crate) fn went_back_alone(&self) {
        self.has_saved.store(true, Ordering::Relaxed);
    }

    /// All went back to the last checkpoint, after a loss: the answer is how many the job has had.
    pub(crate) fn restarted(&self) -> u32 {
        self.has_saved.store(false, Ordering::Relaxed);
        self.promised.store(false, Ordering::Relaxed);
        lock(&self.due).lost()
    }
}
