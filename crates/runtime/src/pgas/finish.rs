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

use super::world::finish::{ALONE, ALONE_AND_FREE};
use super::{Fault, World};

/// The end of this PE, with the others or alone.
#[derive(Clone, Copy)]
pub struct Completion<'a> {
    pub(super) world: &'a World,
}

// Relaxed throughout: the threads of this process that share a word are otherwise unordered.
impl World {
    /// Returns the end of this PE, with the others or alone.
    #[inline]
    pub fn completion(&self) -> Completion<'_> {
        Completion { world: self }
    }

    /// Leaves the job: waits until every PE has come here. Calls `recover` for each loss meanwhile,
    /// since PEs that roll back need what this PE keeps for them.
    pub(super) fn leave(&'static self, recover: fn(&'static World)) {
        self.call_sites().waits();
        exit::flush_output();
        self.blocking().await_background();
        self.log_meetings().agree_on_view("shmem_finalize", true, || {});
        self.transfers().quiet_all();
        self.completion().report_at_end();
        if !self.members.has_agent() {
            return;
        }
        let cut = self.finish.cut.load(Ordering::Relaxed)
            || self.members.is_new()
            || self.completion().misread();
        let silent = !self.reached.others(self.me());
        let ending = if silent { Ending::Silent } else { Ending::UsedOthers };
        self.segments.own().words().ending.store(ending as u64, Ordering::SeqCst);
        loop {
            let joined = self.members.joined();
            self.members.say(&PeMessage::Finalizing { joined, cut });
            let finished = || self.members.all_have_arrived();
            let lost = || self.rolls_back_after_loss() && self.members.view_number() != joined;
            let waiting = || Waiting { call: "shmem_finalize", whom: WaitTarget::Finalize };
            self.wait_raw(waiting, || finished() || lost());
            if finished() {
                break;
            }
            if !self.log_meetings().join_local_at_end() {
                recover(self);
            }
        }
        self.members.say(&PeMessage::Finalized);
        self.comm.close();
    }
}

impl Completion<'_> {
    /// Passes a barrier in the faulted state if the restart allowed it; else cuts the barrier
    /// short.
    pub(super) fn pass_locally(self) -> Result<(), Fault> {
        if self.world.finish.company.load(Ordering::Relaxed) == ALONE_AND_FREE {
            return Ok(());
        }
        self.world.loss_response().cut();
        Err(Fault)
    }

    /// Handles a checkpoint call of a PE that is alone. The first one after its restart is the call
    /// of the last checkpoint, which the other PEs have passed.
    pub(crate) fn checkpoint_locally(self) {
        if self.pass_locally().is_err() || self.world.finish.passed.swap(true, Ordering::Relaxed) {
            self.world.loss_response().cut();
        }
    }

    /// Ends a restart in which all PEs take part.
    pub(crate) fn join_all(self, view: &View) {
        self.world.join(view);
        self.world.members.work_in(view.number);
        self.begin_interval();
        self.world.call_log().begin_log(view.number.0, self.world.store.agreed(), CallPlace::NONE);
    }

    /// Ends a restart while other PEs are at their end. Barriers pass if `free`.
    pub(crate) fn join_locally(self, view: &View, free: bool) {
        self.world.join(view);
        self.world.members.work_in(ViewNumber(u64::MAX));
        let company = if free { ALONE_AND_FREE } else { ALONE };
        self.world.finish.company.store(company, Ordering::Relaxed);
        self.world.finish.passed.store(false, Ordering::Relaxed);
        self.begin_interval();
    }

    /// Forgets calls cut short and PEs touched before the checkpoint that was agreed or restored.
    pub(crate) fn begin_interval(self) {
        self.world.finish.cut.store(false, Ordering::Relaxed);
        self.world.reached.begin();
    }

    /// Returns true if the program may have read remnants of lost memory through a pointer.
    fn misread(self) -> bool {
        let gone = |with_node: bool| with_node || !self.world.settings.adopt;
        let read = |&(pe, with_node): &(Pe, bool)| gone(with_node) && self.world.reached.keeps(pe);
        self.world.loss_response().is_undone() && self.world.members.lost().iter().any(read)
    }

    fn report_at_end(self) {
        let (me, dropped) = (self.world.me(), self.world.fewer.dropped());
        if dropped > 0 {
            let writes = if dropped == 1 { "write" } else { "writes" };
            let line = format!("PE {me}: {dropped} {writes} to lost PEs did nothing");
            self.world.members.report(ProgressReport::Note { line });
        }
        if !self.world.settings.report {
            return;
        }
        let bytes = memory::proportional_share().unwrap_or(0);
        self.world.members.report(ProgressReport::Memory { pe: self.world.me(), bytes });
        if let Some((bytes, records)) = self.world.log_writer().longest_log() {
            self.world.members.report(ProgressReport::Logged {
                pe: self.world.me(),
                bytes,
                records,
            });
        }
        if self.world.store.protection().is_some()
            && self.world.settings.scrub != 0
            && self.world.settings.checksum
        {
            let Scrubbed { bytes, damaged, repaired } = *lock(&self.world.store.scrubbed);
            let pe = self.world.me();
            self.world.members.report(ProgressReport::Scrubbed { pe, bytes, damaged, repaired });
        }
    }
}
