//! The prelude of a program: its calls before its first checkpoint call (`pgas/prelude.rs`).

#![forbid(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use raidshmem_core::message::AssignmentMessage;
use raidshmem_core::prelude::{Notes, Results, limit};
use raidshmem_core::quantity::Incarnation;

/// The treatment of the results of calls.
#[derive(Debug)]
pub(in crate::pgas) enum PreludeMode {
    /// They are not recorded.
    Closed,
    /// They are recorded.
    Noted(Notes),
    /// They are replayed from the predecessor's record.
    Given(Results),
}

/// The results of the first calls.
#[derive(Debug)]
pub struct Prelude {
    /// Flags to be read without the lock: the prelude is open, and results are replayed.
    open: AtomicBool,
    given: AtomicBool,
    pub(in crate::pgas) mode: Mutex<PreludeMode>,
}

impl Prelude {
    /// Returns the prelude of a new process; `protected` is true if it may have a substitute, or be
    /// one.
    pub(in crate::pgas) fn begin(
        assignment: &mut AssignmentMessage,
        n_pes: usize,
        protected: bool,
    ) -> Prelude {
        let record = assignment.prelude.take();
        let given = || record.and_then(|record| Results::read(&record)).map(PreludeMode::Given);
        let mode = match assignment.incarnation {
            _ if !protected => PreludeMode::Closed,
            Incarnation::FIRST => PreludeMode::Noted(Notes::new(limit(n_pes))),
            _ => given().unwrap_or(PreludeMode::Closed),
        };
        Prelude {
            open: AtomicBool::new(!matches!(mode, PreludeMode::Closed)),
            given: AtomicBool::new(matches!(mode, PreludeMode::Given(_))),
            mode: Mutex::new(mode),
        }
    }

    /// Returns true while results of calls are recorded or replayed.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) // the program orders its own threads
    }

    /// Returns true while results are replayed: this process repeats its predecessor's calls.
    #[inline]
    pub fn is_given(&self) -> bool {
        self.given.load(Ordering::Relaxed)
    }

    pub(in crate::pgas) fn close(&self) {
        self.open.store(false, Ordering::Relaxed);
        self.given.store(false, Ordering::Relaxed);
    }
}
