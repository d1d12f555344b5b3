//! The prelude of a program: its calls before its first checkpoint call (`pgas/prelude.rs`).

#![forbid(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use raidshmem_core::message::AssignmentMessage;
use raidshmem_core::prelude::{Notes, Results, limit};
use raidshmem_core::quantity::Incarnation;

/// The treatment of the results of calls.
#[derive(Debug)]
pub(in crate::pgas) enum PreludeBook {
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
    /// Flags to be read without the lock: the book is not closed, and results are replayed.
    open: AtomicBool,
    given: AtomicBool,
    pub(in crate::pgas) book: Mutex<PreludeBook>,
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
        let given = || record.and_then(|record| Results::read(&record)).map(PreludeBook::Given);
        let book = match assignment.incarnation {
            _ if !protected => PreludeBook::Closed,
            Incarnation::FIRST => PreludeBook::Noted(Notes::new(limit(n_pes))),
            _ => given().unwrap_or(PreludeBook::Closed),
        };
        Prelude {
            open: AtomicBool::new(!matches!(book, PreludeBook::Closed)),
            given: AtomicBool::new(matches!(book, PreludeBook::Given(_))),
            book: Mutex::new(book),
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
