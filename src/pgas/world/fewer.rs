//! What a PE of a job that goes on with fewer knows of the lost; the rules are in `pgas/fewer.rs`.
//!
//! Invariants: a PE is noted as lost before its memory is taken away; it stays lost, and the view
//! in which it was first seen so never changes.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use raidshmem_core::agree::AgreedBits;
use raidshmem_core::quantity::{Pe, ViewNumber};
use raidshmem_sys::lock;

/// Which row of agreements: a team, or an active set and its words.
pub type Row = (u64, usize);

/// What is called with the number of a lost PE, and whether its node is lost.
pub type Told = Box<dyn Fn(Pe, bool) + Send>;

/// The news of each member of an agreement when its record was read last.
#[derive(Debug)]
pub struct Heard(Box<[Option<u64>]>);

impl Heard {
    /// Nothing of so many members.
    pub(in crate::pgas) fn of(members: usize) -> Heard {
        Heard(vec![None; members].into())
    }

    /// True if the record of a member is to be read: it has shown another one since.
    pub(in crate::pgas) fn is_news(&mut self, member: usize, news: u64) -> bool {
        self.0[member].replace(news) != Some(news)
    }

    /// The record of a member is to be read again.
    pub(in crate::pgas) fn forget_one(&mut self, member: usize) {
        self.0[member] = None;
    }

    /// All records are to be read again.
    pub(in crate::pgas) fn forget(&mut self) {
        self.0.fill(None);
    }
}

/// A thread that is told of losses.
struct Listener {
    thread: ThreadId,
    /// Up to this view it was told.
    since: u64,
    /// None while it is called.
    told: Option<Told>,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:?}, told up to view {}", self.thread, self.since)
    }
}

thread_local! {
    /// This thread is being told.
    static LISTENS: Cell<bool> = const { Cell::new(false) };
}

/// What is known of the lost.
#[derive(Debug)]
pub struct Fewer {
    /// Somebody may be lost for good.
    on: bool,
    /// The view in which each was first seen lost; 0 while it lives.
    lost_in: Box<[AtomicU64]>,
    /// The newest view in which somebody was first seen lost.
    newest: AtomicU64,
    /// Losses up to this view are acknowledged.
    acknowledged: AtomicU64,
    /// The view of which the program asked last who is lost; 0 since it acknowledged that.
    asked: AtomicU64,
    /// Writes to lost PEs.
    dropped: AtomicU64,
    /// Who is told of losses.
    listeners: Mutex<Vec<Listener>>,
    /// One thread at a time adopts a view.
    adopting: Mutex<()>,
    /// How many agreements there were in each row, and what the last one came to.
    rows: Mutex<BTreeMap<Row, (u64, AgreedBits)>>,
}

// Relaxed where nothing else is said: a view is adopted under a lock, and its number is a release.
impl Fewer {
    /// Nobody is lost yet.
    pub(in crate::pgas) fn new(on: bool, n_pes: usize) -> Fewer {
        Fewer {
            on,
            lost_in: (0..n_pes).map(|_| AtomicU64::new(0)).collect(),
            newest: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            listeners: Mutex::default(),
            adopting: Mutex::new(()),
            rows: Mutex::default(),
        }
    }

    /// True if PE `pe` is known to be lost.
    #[inline]
    pub fn is_lost(&self, pe: Pe) -> bool {
        self.on && {
            fence(Ordering::Acquire); // who found its memory taken away finds that it is lost
            self.lost_in[pe.at()].load(Ordering::Relaxed) != 0
        }
    }

    /// True if PE `pe` was known to be lost in `view`.
    pub fn was_lost(&self, pe: Pe, view: ViewNumber) -> bool {
        let since = self.lost_in[pe.at()].load(Ordering::Relaxed);
        since != 0 && since <= view.0
    }

    /// PE `pe` is lost in `view`. False if that was known.
    pub(in crate::pgas) fn lose(&self, pe: Pe, view: ViewNumber) -> bool {
        if self.lost_in[pe.at()].load(Ordering::Relaxed) != 0 {
            return false;
        }
        self.lost_in[pe.at()].store(view.0, Ordering::Relaxed);
        self.newest.store(view.0, Ordering::Relaxed);
        true
    }

    /// Keeps other threads from adopting a view.
    pub(in crate::pgas) fn adopting(&self) -> MutexGuard<'_, ()> {
        lock(&self.adopting)
    }

    // ---- acknowledgement ------------------------------------------------------------------------

    /// True if a loss is known that the program has not acknowledged.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.newest.load(Ordering::Relaxed) > self.acknowledged.load(Ordering::Relaxed)
    }

    /// True if the program has acknowledged that PE `pe` is lost.
    pub fn is_acknowledged(&self, pe: Pe) -> bool {
        self.was_lost(pe, ViewNumber(self.acknowledged.load(Ordering::Relaxed)))
    }

    /// The program asks in `view` who is lost.
    pub(crate) fn ask(&self, view: ViewNumber) {
        self.asked.store(view.0, Ordering::Relaxed);
    }

    /// The program acknowledges the losses that it was told of, or all that are known if it did not
    /// ask.
    pub(crate) fn acknowledge(&self) {
        let known = self.newest.load(Ordering::Relaxed);
        let told = match self.asked.swap(0, Ordering::Relaxed) {
            0 => known,
            asked => asked.min(known),
        };
        self.acknowledged.fetch_max(told, Ordering::Relaxed);
    }

    // ---- who is told ----------------------------------------------------------------------------

    /// This thread is told of the losses to come, and of those that are not acknowledged.
    pub(in crate::pgas) fn listen(&self, told: Told) {
        let (thread, since) = (thread::current().id(), self.acknowledged.load(Ordering::Relaxed));
        lock(&self.listeners).push(Listener { thread, since, told: Some(told) });
    }

    /// Tells this thread what it was not told, unless it is being told of something.
    pub(in crate::pgas) fn tell(&self, with_node: impl Fn(Pe) -> bool) {
        if LISTENS.replace(true) {
            return;
        }
        while let Some((at, told, news)) = self.untold() {
            news.into_iter().for_each(|pe| told(pe, with_node(pe)));
            lock(&self.listeners)[at].told = Some(told);
        }
        LISTENS.set(false);
    }

    /// The next listener of this thread that has to be told, and of whom.
    fn untold(&self) -> Option<(usize, Told, Vec<Pe>)> {
        let (thread, newest) = (thread::current().id(), self.newest.load(Ordering::Relaxed));
        let mut listeners = lock(&self.listeners);
        let is_next = |one: &Listener| one.thread == thread && one.since < newest;
        let at = listeners.iter().position(is_next)?;
        let since = std::mem::replace(&mut listeners[at].since, newest);
        let told = listeners[at].told.take()?;
        let news = Pe::all(self.lost_in.len()).filter(|&pe| {
            let lost_in = self.lost_in[pe.at()].load(Ordering::Relaxed);
            since < lost_in && lost_in <= newest
        });
        Some((at, told, news.collect()))
    }

    /// True if some thread has not been told of every loss yet.
    pub(in crate::pgas) fn is_anybody_untold(&self) -> bool {
        let newest = self.newest.load(Ordering::Relaxed);
        lock(&self.listeners).iter().any(|one| one.since < newest)
    }

    // ---- what was dropped -----------------------------------------------------------------------

    /// A write to a lost PE is dropped.
    pub(in crate::pgas) fn drop_write(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes to lost PEs that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    // ---- agreements -----------------------------------------------------------------------------

    /// The number of the next agreement of a row, and what the last one came to.
    pub(crate) fn next(&self, row: Row) -> (u64, AgreedBits) {
        let (last, decision) = lock(&self.rows).get(&row).copied().unwrap_or_default();
        (last + 1, decision)
    }

    /// An agreement of a row is over.
    pub(in crate::pgas) fn over(&self, row: Row, number: u64, decision: AgreedBits) {
        lock(&self.rows).insert(row, (number, decision));
    }

    /// There is no agreement of a row any more.
    pub(in crate::pgas) fn forget(&self, row: Row) {
        lock(&self.rows).remove(&row);
    }
}
