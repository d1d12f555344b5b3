//! The published state of this PE's checkpoint calls and of its progress since a restart.
//!
//! [`raidshmem_core::store::site`] has the rule; this module writes and reads the words. It writes
//! those of progress only while a PE is behind: from a restart to the next agreed checkpoint.

#![forbid(unsafe_code)]

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::store::site::{
    Activity, Called, Calls, DivergedSites, Progress, Verdict, apart, follow,
};
use raidshmem_segment::words::{Barrier, CHAIN, SiteWords, Words};
use raidshmem_sys::lock;
use raidshmem_sys::site::{self, CallSite};

use super::World;

/// The source folder of this crate.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

/// The checkpoint calls that PEs publish.
#[derive(Clone, Copy)]
pub struct CallSites<'a> {
    pub(super) world: &'a World,
}

impl World {
    /// Returns the checkpoint calls that PEs publish.
    #[inline]
    pub fn call_sites(&self) -> CallSites<'_> {
        CallSites { world: self }
    }
}

impl CallSites<'_> {
    /// Publishes the call that the program makes now, of checkpoint `number`.
    pub(crate) fn show_call(self, from: &CallSite, number: CheckpointNumber) {
        let words = self.world.segments.own().words();
        let late =
            lock(&self.world.sites.who).as_ref().is_some_and(|a| a.is_late(from.place.whole));
        let (new, varied) =
            (self.world.members.is_new(), self.world.sites.varied.load(Ordering::Relaxed));
        let call = Called { site: from.place.whole, number, new, late, varied };
        let chain = from.chain.iter().copied().chain(std::iter::repeat(0));
        words.chain.iter().zip(chain).for_each(|(word, at)| word.store(at, Ordering::Relaxed));
        words.site.site.store(call.site, Ordering::SeqCst);
        words.site.call.store(call.word(), Ordering::SeqCst);
        self.world.sites.reported.store(false, Ordering::Relaxed);
    }

    /// Publishes the call of a PE that restarts, if no checkpoint call has reported the loss to it.
    pub(crate) fn show_restart(self, from: &CallSite) {
        if !self.world.sites.reported.load(Ordering::Relaxed) {
            self.show_call(from, self.world.store.agreed().next());
        }
    }

    /// Publishes, for the time of `save`, a call that all PEs make from one unnamed place. Where
    /// each PE learned of the loss stays known, for PEs that are behind.
    pub(crate) fn together<R>(self, number: CheckpointNumber, save: impl FnOnce() -> R) -> R {
        let words = &self.world.segments.own().words().site;
        let shown = self.called();
        let call = Called { site: 0, number, new: false, late: false, ..shown };
        let show = |call: Called| {
            words.site.store(call.site, Ordering::SeqCst);
            words.call.store(call.word(), Ordering::SeqCst);
        };
        show(call);
        self.world.memory.advised().inspect(|advised| advised.call(None));
        let saved = save();
        show(shown);
        saved
    }

    /// Chooses what a plan leaves out of the current checkpoint: nothing if calls from several
    /// places may meet.
    pub(crate) fn choose(self, from: &CallSite) {
        let alike =
            !self.world.sites.is_apart() && !self.world.sites.varied.load(Ordering::Relaxed);
        let place = from.chain.first().copied().filter(|_| alike);
        self.world.memory.advised().inspect(|advised| advised.call(place));
    }

    /// Decides after a refused checkpoint: if calls from several places have met, each with its own
    /// exclusions, returns true, and the checkpoint is repeated without any. Equal on every PE.
    pub(crate) fn include_everything(self) -> bool {
        let varied = self.world.sites.varied.load(Ordering::Relaxed);
        let advised = self.world.memory.advised().filter(|_| varied);
        advised.inspect(|advised| advised.call(None)).is_some()
    }

    fn called(self) -> Called {
        let words = &self.world.segments.own().words().site;
        let (site, call) = (words.site.load(Ordering::SeqCst), words.call.load(Ordering::SeqCst));
        Called::of(site, call)
    }

    /// Returns the call that this PE publishes, for a merge with those of other PEs.
    pub(crate) fn call(self) -> Calls {
        Calls::of(self.world.me(), &self.called())
    }

    /// Returns true if this PE was behind at the call that it publishes.
    pub(crate) fn is_late(self) -> bool {
        self.called().late
    }

    /// Finds the PEs that are behind, from the calls of all PEs of a view. Finds none if `ends`:
    /// other PEs have finished, and this PE finishes alone.
    pub(crate) fn find_diverged(self, calls: &Calls, ends: bool) {
        *lock(&self.world.sites.found) = apart(calls, self.called().site).filter(|_| !ends);
    }

    /// Returns true if this recovery leaves PEs behind, and this PE is one of them or their
    /// reference.
    pub(crate) fn has_part(self) -> bool {
        let has = |apart: &DivergedSites| apart.reference == self.world.me() || apart.behind;
        lock(&self.world.sites.found).as_ref().is_some_and(has)
    }

    /// Adopts the result of [`Self::find_diverged`] at the end of a restart.
    pub(super) fn join_diverged(self) {
        let found = lock(&self.world.sites.found).take();
        self.world.sites.apart.store(found.is_some(), Ordering::Relaxed);
        *lock(&self.world.sites.who) = found;
        self.world.sites.reported.store(false, Ordering::Relaxed);
    }

    /// Marks this PE as no longer behind.
    pub(crate) fn caught_up(self) {
        if let Some(apart) = &mut *lock(&self.world.sites.who) {
            apart.behind = false;
        }
    }

    /// Returns true if other PEs follow what this PE has written since the restart.
    pub(crate) fn is_reference(self) -> bool {
        lock(&self.world.sites.who).as_ref().is_some_and(|apart| apart.reference == self.world.me())
    }

    // ---- progress -----------------------------------------------------------------------------

    /// Publishes that this PE waits for others; every wait calls it.
    #[inline]
    pub fn waits(self) {
        if self.world.sites.apart.load(Ordering::Relaxed) {
            self.show_progress(Activity::Waits, 0);
        }
    }

    #[inline]
    pub(super) fn enters_barrier(self) {
        if self.world.sites.apart.load(Ordering::Relaxed) {
            self.show_progress(Activity::Barrier, 0);
        }
    }

    /// Publishes the activity of this PE, and `written` with it.
    #[cold]
    pub(crate) fn show_progress(self, activity: Activity, written: u64) {
        let progress = self.progress_now(activity, written);
        let [event, rest @ ..] = progress.words(self.world.members.joined());
        let words = &self.world.segments.own().words().site.progress;
        words[0].store(0, Ordering::SeqCst);
        for (word, value) in words[1..].iter().zip(rest) {
            word.store(value, Ordering::SeqCst);
        }
        words[0].store(event, Ordering::SeqCst);
        let behind = lock(&self.world.sites.who).as_ref().map(|apart| apart.others.clone());
        behind.into_iter().flatten().for_each(|pe| self.world.segments.wake(pe));
    }

    fn progress_now(self, activity: Activity, written: u64) -> Progress {
        let barriers = self.world.comm.epochs()[Barrier::Program as usize].load(Ordering::Relaxed);
        let reached = self.world.reached.others(self.world.me());
        let site = self.world.segments.own().words().site.site.load(Ordering::Relaxed);
        Progress { activity, barriers, reached, site, written }
    }

    /// Returns what PE `pe` has published since the restart; None if that is nothing, or is
    /// changing.
    fn progress_of(self, pe: Pe) -> Option<Progress> {
        let at = offset_of!(Words, site) + offset_of!(SiteWords, progress);
        let read = || {
            let words = [0, 1, 2, 3].map(|word| self.world.comm.look(pe, at + word * 8));
            words.into_iter().collect::<Option<Vec<u64>>>()
        };
        let words = read().filter(|words| read().as_ref() == Some(words))?;
        Progress::of(words.try_into().ok()?, self.world.members.joined())
    }

    /// Returns the outcome of this call of a PE that is behind; None if it is still open. `written`
    /// is the digest of this PE's writes since the restart.
    pub(crate) fn follow(self, written: u64) -> Option<Verdict> {
        let reference = lock(&self.world.sites.who).as_ref()?.reference;
        let own = self.progress_now(Activity::Checkpoint, written);
        let others = || {
            let others = Pe::all(self.world.n_pes()).filter(|&pe| pe != self.world.me());
            others.map(|pe| self.progress_of(pe)).collect()
        };
        follow(&own, self.progress_of(reference).as_ref(), others)
    }

    // ---- messages -----------------------------------------------------------------------------

    /// Describes the position of PE `pe`, as far as it has published it.
    pub(crate) fn describe(self, pe: Pe) -> String {
        match self.progress_of(pe).map(|progress| progress.activity) {
            Some(Activity::Checkpoint) => format!("the checkpoint at {}", self.site_of(pe)),
            Some(Activity::Barrier) => "a barrier over all PEs".to_owned(),
            _ => "a call that waits for other PEs".to_owned(),
        }
    }

    /// Returns the place of PE `pe`'s checkpoint call.
    pub(crate) fn site_of(self, pe: Pe) -> String {
        let at = offset_of!(Words, chain);
        let words = (0..CHAIN).map_while(|word| self.world.comm.look(pe, at + word * 8));
        let chain: Vec<u64> = words.take_while(|&word| word != 0).collect();
        site::name(&chain, &[SOURCES, self.world.sites.frontend])
    }

    /// Checks that the calls of all PEs make one checkpoint. All PEs return the same error.
    pub(crate) fn compare_calls(self, calls: &Calls) -> Result<(), String> {
        if let Some([first, other]) = calls.unlike() {
            return Err(format!(
                "checkpoints do not fit: PE {} makes number {} at {}, PE {} number {} at {}",
                first.0,
                first.1,
                self.site_of(first.0),
                other.0,
                other.1,
                self.site_of(other.0)
            ));
        }
        // With a plan every PE must know that calls varied, including a substitute.
        let varied = calls.vary() || self.world.memory.advised().is_some() && calls.varied();
        if varied && !self.world.sites.is_apart() {
            self.world.sites.varied.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}
