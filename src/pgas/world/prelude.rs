//! The prelude of a program: its calls before its first checkpoint call (`pgas/prelude.rs`).

#![forbid(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use raidshmem_core::message::Welcome;
use raidshmem_core::prelude::{Notes, Results, limit};
use raidshmem_core::quantity::Incarnation;

/// What becomes of the results of calls.
#[derive(Debug)]
pub(in crate::pgas) enum PreludeBook {
    /// Nothing.
    Closed,
    /// They are noted.
    Noted(Notes),
    /// They are what they were before.
    Given(Results),
}

/// The results of the first calls.
#[derive(Debug)]
pub struct Prelude {
    /// To be looked at without the lock: the book is not closed, and results are given.
    open: AtomicBool,
    given: AtomicBool,
    pub(in crate::pgas) book: Mutex<PreludeBook>,
}

impl Prelude {
    /// The prelude of a process that begins; `protected` if it may have a substitute, or be one.
    pub(in crate::pgas) fn begin(welcome: &mut Welcome, n_pes: usize, protected: bool) -> Prelude {
        let record = welcome.prelude.take();
        let given = || record.and_then(|record| Results::read(&record)).map(PreludeBook::Given);
        let book = match welcome.incarnation {
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

    /// True while results of calls are noted or given.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) // the program's threads come to an order by themselves
    }

    /// True while they are given: this process makes calls again.
    #[inline]
    pub fn is_given(&self) -> bool {
        self.given.load(Ordering::Relaxed)
    }

    pub(in crate::pgas) fn close(&self) {
        self.open.store(false, Ordering::Relaxed);
        self.given.store(false, Ordering::Relaxed);
    }
}
