//! The control page at the start of every segment: words that peers read and write.
//!
//! ```text
//! line 0   doorbell, sleepers, watchers                  written by everyone who wakes the owner
//! line 1   arrived, released     barrier of the PEs that map each other; used on the lowest
//! line 2   step                                   the owner's progress in a recovery
//! line 3   checkpoint intent: digest, length, memory held, needed and available
//! line 4   what the owner found bad: snapshot chunks, parity chunks
//! line 5   ending                 whether the owner is in shmem_finalize, and how
//! line 6.. heard                 barrier of nodes: a word a round; used on the lowest PE of each
//! ```
//!
//! Invariants: the view in `step` never falls, so it needs no reset and a late reader can never
//! mistake an old recovery for the present one. Within a view the step grows through a call; the
//! restart begins again with the first meeting, in the view in which the checkpoint call has
//! settled if that is whole (the model checker holds both). Who waits in the restart for a PE that
//! has not begun it takes the old step for having come: that PE has settled the same decision in
//! the same view. The page holds nothing that a recovery relies on after its owner's death; that
//! lies in the store header.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::sys::futex;

/// Most rounds of a meeting of nodes: enough for 2^16 of them.
pub const ROUNDS: usize = 16;

/// One cache line of words.
#[repr(C, align(64))]
pub struct Line<T>(pub T);

impl<T> std::ops::Deref for Line<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Waking the owner.
#[repr(C)]
pub struct Bell {
    /// Futex word; counts rings.
    pub doorbell: AtomicU32,
    /// How many threads of the owner sleep or are about to, for whatever reason.
    pub sleepers: AtomicU32,
    /// How many of them wait for something a plain put may bring.
    pub watchers: AtomicU32,
}

impl Bell {
    /// Wakes the owner's threads that sleep. Called after a store with a full fence.
    #[inline]
    pub fn wake(&self) {
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            self.pull();
        }
    }

    /// Wakes all, without a look for sleepers.
    #[cold]
    pub fn pull(&self) {
        self.doorbell.fetch_add(1, Ordering::SeqCst);
        futex::wake_all(&self.doorbell);
    }
}

/// The barrier of the PEs that map each other.
#[repr(C)]
pub struct Gate {
    /// Arrivals since the last reset.
    pub arrived: AtomicU64,
    /// Barriers completed since the last reset.
    pub released: AtomicU64,
}

/// What the owner brings to the checkpoint it is entering; read by all after the first barrier.
#[repr(C)]
pub struct Intent {
    /// Digest of the ranges the checkpoint covers.
    pub digest: AtomicU64,
    /// Bytes the checkpoint covers.
    pub len: AtomicU64,
    /// Bytes the store will hold with this checkpoint.
    pub hold: AtomicU64,
    /// Bytes of them, and of live data that nobody has written, that must still be allocated.
    pub need: AtomicU64,
    /// Bytes the machine could still give when the owner looked.
    pub available: AtomicU64,
}

/// What the owner's check of its own store found; read by all before the plan is made.
#[repr(C)]
pub struct Findings {
    /// Bit per chunk of the own snapshot: 1 is unusable.
    pub snapshot: AtomicU64,
    /// Bit per parity chunk held: 1 is unusable.
    pub parity: AtomicU64,
    /// Bytes of the snapshot the findings speak of, 0 if the owner knows of none.
    pub len: AtomicU64,
    /// 1 if the owner had no store when it first looked.
    pub bare: AtomicU64,
}

/// How a PE came into `shmem_finalize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Ending {
    /// It used no other PE's memory since the last checkpoint.
    Silent = 1,
    /// It did, or may have.
    UsedOthers = 2,
}

impl Ending {
    /// The inverse of the word; None if its owner is not at its end.
    pub fn of(word: u64) -> Option<Ending> {
        match word {
            0 => None,
            1 => Some(Ending::Silent),
            _ => Some(Ending::UsedOthers),
        }
    }
}

/// The control page.
#[repr(C)]
pub struct Words {
    /// Waking the owner.
    pub bell: Line<Bell>,
    /// Barrier.
    pub gate: Line<Gate>,
    /// Progress in a recovery: view number << 8 | step.
    pub step: Line<AtomicU64>,
    /// Checkpoint intent.
    pub intent: Line<Intent>,
    /// Findings of the owner's check.
    pub findings: Line<Findings>,
    /// [`Ending`], or 0 while it is not at its end.
    pub ending: Line<AtomicU64>,
    /// Barriers that the partner of each round of a meeting of nodes has come to.
    pub heard: Line<[AtomicU64; ROUNDS]>,
}

const _: () = assert!(std::mem::size_of::<Words>() <= crate::sys::memory::PAGE);
