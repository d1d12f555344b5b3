//! The port of the agreement on one view in mapped memory (`core/replay/rejoin.rs`), before a
//! checkpoint and at the end of a job with logs.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use raidshmem_core::message::PeMessage;
use raidshmem_core::protocol::Call as Which;
use raidshmem_core::quantity::{Pe, ViewNumber};
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::replay::log::Kind;
use raidshmem_core::replay::port::LogMode;
use raidshmem_core::replay::rejoin::{self, RejoinPort, RejoinRecords, SeenViews};
use raidshmem_segment::waits::Waiting;

use super::caller::{Caller, Cut};
use super::gathering::LogMeetings;
use super::local::{Call, RemotePlace};

impl LogMeetings<'_> {
    /// Waits, if calls are logged, until all PEs have come to `call` and are members of one view,
    /// or all roll back. `forget` drops the known changes since the last checkpoint, if a PE rolled
    /// back since then.
    pub(crate) fn agree_on_view(self, call: &'static str, at_end: bool, forget: impl Fn()) {
        if !self.world.logs() {
            return;
        }
        let place = RemotePlace { pe: self.world.me(), at: 0, block: (0, 0) };
        let record = |with, bytes| Call { name: call, with }.record(Kind::Meeting, place, bytes);
        let records =
            RejoinRecords { views: record(1, size_of::<SeenViews>()), members: record(2, 0) };
        let reset = |_: &mut Caller, _| {
            self.world.barriers().reset_words();
            Ok(())
        };
        let mut caller = Caller::new(self.world, call);
        if let Ok(false) = rejoin::agree(&mut caller, &records, at_end, reset) {
            self.world.members.work_in(self.world.members.joined());
        }
        if self.world.local.rejoined.swap(false, Ordering::Relaxed) {
            forget();
        }
    }

    /// Adopts, in `shmem_finalize`, a view in which a PE rolls back locally and finishes.
    /// Returns false if all PEs roll back.
    pub(super) fn join_local_at_end(self) -> bool {
        let mut caller = Caller::new(self.world, Which::Finalize.name());
        rejoin::join_at_end(&mut caller).unwrap_or(false)
    }

    /// Requests a global rollback after a loss that prevented a checkpoint.
    pub(crate) fn lost_in_checkpoint(self) {
        if self.world.logs() {
            let why = Reason::InCheckpoint.to_string();
            self.world
                .members
                .say(&PeMessage::RollAllBack { why: format!("PE {}: {why}", self.world.me()) });
            self.world.local.set_way(LogMode::Plain);
        }
    }
}

impl RejoinPort for Caller<'_> {
    fn await_whole(&mut self) -> Result<(), Cut> {
        let all = self.world.waiting_for_all(self.call);
        self.wait_as(all, || self.world.members.view().whole())
    }

    fn seen_views(&mut self) -> Result<SeenViews, Cut> {
        let members = &self.world.members;
        Ok(SeenViews { joined: members.joined(), seen: members.view_number() })
    }

    fn seen_before(&mut self) -> Result<SeenViews, Cut> {
        Ok(SeenViews::of(self.world.log_meetings().brought_before()))
    }

    fn all_seen(&mut self) -> Result<Vec<SeenViews>, Cut> {
        let parts = Pe::all(self.world.n_pes()).zip(&self.parts);
        let seen = parts.map(|(pe, part)| {
            let len = part.record.len as usize;
            SeenViews::of(self.world.segments.bytes_of(pe, part.payload, len))
        });
        Ok(seen.collect())
    }

    fn await_local_whole(&mut self) -> Result<Option<ViewNumber>, Cut> {
        if !self.world.local.is_on() {
            return Ok(None);
        }
        let mut found = None;
        self.world.wait_raw(
            || Waiting::anyone(self.call),
            || {
                let view = self.world.members.view();
                found = (view.local && view.whole()).then_some(view.number);
                found.is_some() || !view.local
            },
        );
        Ok(found)
    }
}
