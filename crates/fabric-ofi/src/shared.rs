//! State shared by the engine's threads, whether or not they are inside libfabric.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_fabric::Local;
use raidshmem_fabric::hand_off::HandOff;
use raidshmem_sys::futex;

/// The state that the engine's threads share.
#[derive(Debug)]
pub(super) struct Shared {
    pub local: Local,
    /// True while connected to that PE, unless the connection was found broken.
    pub whole: Box<[AtomicBool]>,
    /// True if this process itself writes what peers put: then any progress may have done so.
    pub by_processor: bool,
    /// Incremented by every event; waiting threads sleep on it.
    pub ticks: AtomicU32,
    pub sleepers: AtomicU32,
    /// For the progress thread, which stays away while others help.
    pub hand_off: HandOff,
    pub stop: AtomicBool,
}

impl Shared {
    /// Creates the state of a process that knows no peer yet.
    pub fn new(local: Local, by_processor: bool) -> Shared {
        Shared {
            whole: (0..local.n_pes).map(|_| AtomicBool::new(false)).collect(),
            by_processor,
            ticks: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            hand_off: HandOff::default(),
            stop: AtomicBool::new(false),
            local,
        }
    }

    /// Records progress; `worked` if an operation ended or a message arrived. Then waiting threads
    /// look again.
    pub fn progressed(&self, worked: bool) {
        if worked {
            self.ticks.fetch_add(1, Ordering::SeqCst);
            if self.sleepers.load(Ordering::SeqCst) != 0 {
                futex::wake_all(&self.ticks);
            }
        }
        if worked || self.by_processor {
            self.local.events.arrived();
        }
    }

    /// Returns true if there is a connection to `pe` that has not been found broken.
    pub fn is_whole(&self, pe: Pe) -> bool {
        self.whole.get(pe.at()).is_some_and(|whole| whole.load(Ordering::Relaxed))
    }

    /// Reports connections that broke.
    pub fn report(&self, suspects: Vec<(Pe, Incarnation)>) {
        for (pe, incarnation) in suspects {
            self.local.events.suspect(pe, incarnation);
        }
    }
}
