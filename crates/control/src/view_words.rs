//! A view in words of memory that one process writes and others read.
//!
//! Invariants: the writer stores the number of a view in the first word, then the view, then the
//! number again. So a reader that loads the last word first has a whole view if the first word is
//! equal to it afterwards; otherwise it tries again.
//!
//! Left out: where the words lie.

#![forbid(unsafe_code)]

use raidshmem_core::quantity::ViewNumber;
use raidshmem_core::view::{Member, View};

use crate::atomic::{AtomicU64, Ordering, fence, spin_loop};

/// The words.
#[derive(Debug)]
pub struct ViewWords<'a> {
    /// The number of the view that is being stored.
    pub first: &'a AtomicU64,
    /// The number of the view that is whole.
    pub number: &'a AtomicU64,
    /// 1 during local rollback.
    pub local: &'a AtomicU64,
    /// A word per PE.
    pub members: Vec<&'a AtomicU64>,
}

impl ViewWords<'_> {
    /// Publishes `view`.
    pub fn publish(&self, view: &View) {
        self.first.store(view.number.0, Ordering::Relaxed);
        fence(Ordering::SeqCst); // a reader that sees a new word sees this number after it
        self.local.store(u64::from(view.local), Ordering::Relaxed);
        for (word, member) in self.members.iter().zip(&view.pes) {
            word.store(member.pack(), Ordering::Relaxed);
        }
        self.number.store(view.number.0, Ordering::SeqCst); // pairs with every load of `number`
    }

    /// Returns a copy of the current view.
    pub fn read(&self) -> View {
        loop {
            let number = self.number.load(Ordering::SeqCst);
            let load = |word: &&AtomicU64| Member::unpack(word.load(Ordering::Relaxed));
            let pes = self.members.iter().map(load).collect();
            let local = self.local.load(Ordering::Relaxed) == 1;
            fence(Ordering::SeqCst);
            if self.first.load(Ordering::Relaxed) == number {
                return View { number: ViewNumber(number), pes, local };
            }
            spin_loop();
        }
    }
}
