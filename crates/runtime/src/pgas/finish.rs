//! The orderly end of a PE, and losses so late that the job survives them.
//!
//! A PE in `shmem_finalize` has done its work and cannot roll back. If another PE is lost then, its
//! substitute rolls back to the last checkpoint without the others, and finishes *alone*.
//! This is correct under two conditions, which this module checks:
//!
//! ```text
//! (a) uncut    in no PE that entered shmem_finalize did the loss cut a call short: no put was
//!              dropped, no read returned zeroes instead of data, no wait returned early
//! (b) alone    the restarted PE makes no call that reads, writes or waits for another PE
//! ```
//!
//! A call that breaks one of them ends the job with an error that names the call. With (b), a
//! barrier passes at once, and so does the checkpoint call that follows the restart, if no other PE
//! used remote memory since the checkpoint: then the barrier had nothing to deliver.
//!
//! Invariants: a PE that is alone stays in the faulted state, so that every call that concerns
//! other PEs comes here. The check for calls that were cut short is made once, on entry to
//! `shmem_finalize`.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use raidshmem_core::message::{PeMessage, ProgressReport, Scrubbed, WaitTarget};
use raidshmem_core::quantity::{Pe, ViewNumber};
use raidshmem_core::replay::place::CallPlace;
use raidshmem_core::status::Ending;
use raidshmem_core::view::View;
use raidshmem_segment::waits::Waiting;
use raidshmem_sys::lock;
use raidshmem_sys::{exit, memory};

use super::world::finish::{ALONE, ALONE_AND_FREE, TOGETHER};
use super::{Fault, World};

// Relaxed throughout: the threads of this process that share a word are otherwise unordered.
impl World {
    /// Returns true if a call that concerns other PEs must do less than it should. Ends the job if
    /// this PE must finish without them.
    #[inline]
    pub fn cut_short(&self) -> bool {
        self.members.faulted() && self.cut()
    }

    /// Like `cut_short`, for a call that concerns only PE `pe`.
    #[inline]
    pub fn cut_short_at(&self, pe: Pe) -> bool {
        let cut =
            self.members.faulted() && !(pe == self.me() && self.is_local_rollback()) && self.cut();
        cut || self.fewer.is_lost(pe)
    }

    /// Records that a call of the program has done less than it should.
    pub(crate) fn note_cut(&self) {
        self.finish.cut.store(true, Ordering::Relaxed);
    }

    /// Returns true if this PE rolled back when other PEs were at their end.
    pub fn is_local_rollback(&self) -> bool {
        self.finish.company.load(Ordering::Relaxed) != TOGETHER
    }

    /// Returns true if a collective call has no effect: a loss is known, or this PE is alone.
    pub(crate) fn is_apart(&self) -> bool {
        self.is_disturbed() || self.is_local_rollback()
    }

    /// Returns true between a death and the restart, or its acknowledgement if no PE rolls back.
    pub fn interrupted(&self) -> bool {
        self.is_disturbed() && !self.is_local_rollback()
    }

    /// Passes a barrier in the faulted state if the restart allowed it; else cuts the barrier
    /// short.
    pub(super) fn pass_locally(&self) -> Result<(), Fault> {
        if self.finish.company.load(Ordering::Relaxed) == ALONE_AND_FREE {
            return Ok(());
        }
        self.cut();
        Err(Fault)
    }

    /// Handles a checkpoint call of a PE that is alone. The first one after its restart is the call
    /// of the last checkpoint, which the other PEs have passed.
    pub(crate) fn checkpoint_locally(&self) {
        if self.pass_locally().is_err() || self.finish.passed.swap(true, Ordering::Relaxed) {
            self.cut();
        }
    }

    /// Ends a restart in which all PEs take part.
    pub(crate) fn join_all(&self, view: &View) {
        self.join(view);
        self.members.work_in(view.number);
        self.begin_interval();
        self.begin_log(view.number.0, self.store.agreed(), CallPlace::NONE);
    }

    /// Ends a restart while other PEs are at their end. Barriers pass if `free`.
    pub(crate) fn join_locally(&self, view: &View, free: bool) {
        self.join(view);
        self.members.work_in(ViewNumber(u64::MAX));
        let company = if free { ALONE_AND_FREE } else { ALONE };
        self.finish.company.store(company, Ordering::Relaxed);
        self.finish.passed.store(false, Ordering::Relaxed);
        self.begin_interval();
    }

    /// Forgets calls cut short and PEs touched before the checkpoint that was agreed or restored.
    pub(crate) fn begin_interval(&self) {
        self.finish.cut.store(false, Ordering::Relaxed);
        self.reached.begin();
    }

    /// Leaves the job: waits until every PE has come here. Calls `recover` for each loss meanwhile,
    /// since PEs that roll back need what this PE keeps for them.
    pub(super) fn leave(&'static self, recover: fn(&'static World)) {
        self.waits();
        exit::flush_output();
        if self.logs() {
            self.agree_on_view("shmem_finalize", true, || {});
        }
        self.quiet_all();
        self.report_at_end();
        if !self.members.has_agent() {
            return;
        }
        let cut =
            self.finish.cut.load(Ordering::Relaxed) || self.members.is_new() || self.misread();
        let silent = !self.reached.others(self.me());
        let ending = if silent { Ending::Silent } else { Ending::UsedOthers };
        self.segments.own().words().ending.store(ending as u64, Ordering::SeqCst);
        loop {
            let joined = self.members.joined();
            self.members.say(&PeMessage::Finalizing { joined, cut });
            let finished = || self.members.all_have_arrived();
            let lost = || self.goes_back() && self.members.view_number() != joined;
            let waiting = || Waiting { call: "shmem_finalize", whom: WaitTarget::Finalize };
            self.wait_raw(waiting, || finished() || lost());
            if finished() {
                break;
            }
            if !self.join_local_at_end() {
                recover(self);
            }
        }
        self.members.say(&PeMessage::Finalized);
        self.comm.close();
    }

    /// Returns true if the program may have read remnants of lost memory through a pointer.
    fn misread(&self) -> bool {
        let gone = |with_node: bool| with_node || !self.settings.adopt;
        let read = |&(pe, with_node): &(Pe, bool)| gone(with_node) && self.reached.keeps(pe);
        self.is_undone() && self.members.lost().iter().any(read)
    }

    fn report_at_end(&self) {
        let (me, dropped) = (self.me(), self.fewer.dropped());
        if dropped > 0 {
            let writes = if dropped == 1 { "write" } else { "writes" };
            let line = format!("PE {me}: {dropped} {writes} to lost PEs did nothing");
            self.members.report(ProgressReport::Note { line });
        }
        if !self.settings.report {
            return;
        }
        let bytes = memory::proportional_share().unwrap_or(0);
        self.members.report(ProgressReport::Memory { pe: self.me(), bytes });
        if let Some((bytes, records)) = self.longest_log() {
            self.members.report(ProgressReport::Logged { pe: self.me(), bytes, records });
        }
        if self.store.protection().is_some() && self.settings.scrub != 0 && self.settings.checksum {
            let Scrubbed { bytes, damaged, repaired } = *lock(&self.store.scrubbed);
            let pe = self.me();
            self.members.report(ProgressReport::Scrubbed { pe, bytes, damaged, repaired });
        }
    }
}
