//! Lost PEs, as a PE in shrink mode knows them; the rules are in `pgas/fewer.rs`.
//!
//! Invariants: a PE is marked as lost before its memory is taken away; it stays lost, and the view
//! that first showed it as lost never changes.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use raidshmem_core::agree::{AgreedBits, LivingMembers};
use raidshmem_core::quantity::{Pe, ViewNumber};
use raidshmem_sys::lock;

/// The key of a series of agreements: a team, or an active set and its words.
pub type AgreementRow = (u64, usize);

/// A loss callback: takes the lost PE, and true if its node is lost too.
pub type LossCallback = Box<dyn Fn(Pe, bool) + Send>;

/// The pause before records are read again that were not written here.
const PAUSE: Duration = Duration::from_millis(1);

/// The version of each member's record at its last read, in an agreement.
#[derive(Debug)]
pub struct SeenVersions {
    versions: Box<[Option<u64>]>,
    asked: Option<Instant>,
}

impl SeenVersions {
    /// Returns the versions of `members` records that were never read.
    pub(in crate::pgas) fn of(members: usize) -> SeenVersions {
        SeenVersions { versions: vec![None; members].into(), asked: None }
    }

    /// Returns true if a member's record must be read: it has changed since the last read.
    pub(in crate::pgas) fn is_news(&mut self, member: usize, news: u64) -> bool {
        self.versions[member].replace(news) != Some(news)
    }

    /// Makes the next look read a member's record again.
    pub(in crate::pgas) fn forget_one(&mut self, member: usize) {
        self.versions[member] = None;
    }

    /// Returns true if the last call that did so is some time ago.
    pub(in crate::pgas) fn pauses(&mut self) -> bool {
        let is_over = self.asked.is_none_or(|at| at.elapsed() >= PAUSE);
        self.asked = if is_over { Some(Instant::now()) } else { self.asked };
        is_over
    }

    /// Makes the next look read all records again.
    pub(in crate::pgas) fn forget(&mut self) {
        self.versions.fill(None);
    }
}

/// A loss callback of a thread.
struct Listener {
    thread: ThreadId,
    /// The view up to which losses were reported to it.
    since: u64,
    /// The callback; None while it runs.
    callback: Option<LossCallback>,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:?}, notified up to view {}", self.thread, self.since)
    }
}

thread_local! {
    /// True while this thread runs a loss callback.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// The known losses, in shrink mode.
#[derive(Debug)]
pub struct Fewer {
    /// True if PEs may be lost for good.
    on: bool,
    /// The view that first showed each PE as lost; 0 while it lives.
    lost_in: Box<[AtomicU64]>,
    /// The newest view that first showed a PE as lost.
    newest: AtomicU64,
    /// Losses up to this view are acknowledged.
    acknowledged: AtomicU64,
    /// The view in which the program last queried the losses; 0 once it acknowledged them.
    asked: AtomicU64,
    /// Dropped writes to lost PEs.
    dropped: AtomicU64,
    /// The loss callbacks.
    listeners: Mutex<Vec<Listener>>,
    /// A lock that lets one thread at a time adopt a view.
    adopting: Mutex<()>,
    /// The number of agreements in each series, and the outcome of the last one.
    rows: Mutex<BTreeMap<AgreementRow, (u64, AgreedBits)>>,
    /// The number of records written into mailboxes.
    written: AtomicU64,
    /// The tree of the last agreement of each series.
    trees: Mutex<BTreeMap<AgreementRow, LivingMembers>>,
}

// Relaxed unless noted: a view is adopted under a lock, and its number is stored with release.
impl Fewer {
    /// Returns the state with no PE lost.
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
            written: AtomicU64::new(0),
            trees: Mutex::default(),
        }
    }

    /// Returns true if PE `pe` is known to be lost.
    #[inline]
    pub fn is_lost(&self, pe: Pe) -> bool {
        self.on && {
            fence(Ordering::Acquire); // a thread that finds the memory withdrawn must see the loss
            self.lost_in[pe.at()].load(Ordering::Relaxed) != 0
        }
    }

    /// Returns true if PE `pe` was known to be lost in `view`.
    pub fn was_lost(&self, pe: Pe, view: ViewNumber) -> bool {
        let since = self.lost_in[pe.at()].load(Ordering::Relaxed);
        since != 0 && since <= view.0
    }

    /// Marks PE `pe` as lost in `view`. Returns false if it was already lost.
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

    /// Returns true if a loss is known that the program has not acknowledged.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.newest.load(Ordering::Relaxed) > self.acknowledged.load(Ordering::Relaxed)
    }

    /// Returns true if the program has acknowledged the loss of PE `pe`.
    pub fn is_acknowledged(&self, pe: Pe) -> bool {
        self.was_lost(pe, ViewNumber(self.acknowledged.load(Ordering::Relaxed)))
    }

    /// Returns the number of these PEs of which the program has acknowledged the loss.
    pub(in crate::pgas) fn count_acknowledged(&self, pes: &[Pe]) -> u32 {
        match self.acknowledged.load(Ordering::Relaxed) {
            0 => 0,
            _ => pes.iter().filter(|&&pe| self.is_acknowledged(pe)).count() as u32,
        }
    }

    /// Records that the program queries the losses in `view`.
    pub(crate) fn ask(&self, view: ViewNumber) {
        self.asked.store(view.0, Ordering::Relaxed);
    }

    /// Acknowledges the losses that the program has queried, or all known ones if it queried none.
    pub(crate) fn acknowledge(&self) {
        let known = self.newest.load(Ordering::Relaxed);
        let queried = match self.asked.swap(0, Ordering::Relaxed) {
            0 => known,
            asked => asked.min(known),
        };
        self.acknowledged.fetch_max(queried, Ordering::Relaxed);
    }

    // ---- loss callbacks -------------------------------------------------------------------------

    /// Registers a callback of this thread, for future losses and those not yet acknowledged.
    pub(in crate::pgas) fn add_callback(&self, callback: LossCallback) {
        let (thread, since) = (thread::current().id(), self.acknowledged.load(Ordering::Relaxed));
        lock(&self.listeners).push(Listener { thread, since, callback: Some(callback) });
    }

    /// Runs this thread's callbacks for losses not yet reported to them, unless it is inside one.
    pub(in crate::pgas) fn run_callbacks(&self, with_node: impl Fn(Pe) -> bool) {
        if IN_CALLBACK.replace(true) {
            return;
        }
        while let Some((at, callback, news)) = self.next_due() {
            news.into_iter().for_each(|pe| callback(pe, with_node(pe)));
            lock(&self.listeners)[at].callback = Some(callback);
        }
        IN_CALLBACK.set(false);
    }

    /// Returns the next callback of this thread that is due, with its index and the PEs to report.
    fn next_due(&self) -> Option<(usize, LossCallback, Vec<Pe>)> {
        let (thread, newest) = (thread::current().id(), self.newest.load(Ordering::Relaxed));
        let mut listeners = lock(&self.listeners);
        let is_next = |one: &Listener| one.thread == thread && one.since < newest;
        let at = listeners.iter().position(is_next)?;
        let since = std::mem::replace(&mut listeners[at].since, newest);
        let callback = listeners[at].callback.take()?;
        let news = Pe::all(self.lost_in.len()).filter(|&pe| {
            let lost_in = self.lost_in[pe.at()].load(Ordering::Relaxed);
            since < lost_in && lost_in <= newest
        });
        Some((at, callback, news.collect()))
    }

    /// Returns true if some callback is still due.
    pub(in crate::pgas) fn has_unreported(&self) -> bool {
        let newest = self.newest.load(Ordering::Relaxed);
        lock(&self.listeners).iter().any(|one| one.since < newest)
    }

    // ---- dropped writes -------------------------------------------------------------------------

    /// Counts a dropped write to a lost PE.
    pub(in crate::pgas) fn drop_write(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of dropped writes to lost PEs.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    // ---- agreements -----------------------------------------------------------------------------

    /// Returns the number of the next agreement of a series, and the outcome of the last one.
    pub fn next(&self, row: AgreementRow) -> (u64, AgreedBits) {
        let (last, decision) = lock(&self.rows).get(&row).copied().unwrap_or_default();
        (last + 1, decision)
    }

    /// Returns the number of the next record that is written into mailboxes.
    pub(in crate::pgas) fn next_record(&self) -> u64 {
        self.written.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the members of a series that live in `view`, from `find` if they are not known.
    pub(in crate::pgas) fn among(
        &self,
        row: AgreementRow,
        view: ViewNumber,
        find: impl FnOnce() -> LivingMembers,
    ) -> LivingMembers {
        let known = lock(&self.trees).get(&row).filter(|known| known.view == view.0).cloned();
        known.unwrap_or_else(|| {
            let found = find();
            lock(&self.trees).insert(row, found.clone());
            found
        })
    }

    /// Records the outcome of an agreement.
    pub(in crate::pgas) fn over(&self, row: AgreementRow, number: u64, decision: AgreedBits) {
        lock(&self.rows).insert(row, (number, decision));
    }

    /// Removes a series of agreements.
    pub(in crate::pgas) fn forget(&self, row: AgreementRow) {
        lock(&self.rows).remove(&row);
        lock(&self.trees).remove(&row);
    }
}
