//! The replay of a substitute after a local rollback: its calls take their results from the log of
//! its predecessor (`core/replay/own.rs`), up to the end of that log.
//!
//! Invariants: other PEs' puts are applied in the order of their times, once; a call that differs
//! changes nothing, and all PEs roll back.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;
use std::time::Duration;

use raidshmem_core::message::ProgressReport;
use raidshmem_core::quantity::Pe;
use raidshmem_core::replay::decide::{Finding, Reason};
use raidshmem_core::replay::handover;
use raidshmem_core::replay::log::Kind;
use raidshmem_core::replay::own::{Replay, met_before};
use raidshmem_core::replay::port::LogMode;
use raidshmem_segment::log::Word;
use raidshmem_sys::lock;
use tracing::info;

use super::caller::Caller;
use super::gathering::LogMeetings;
use super::world::local::TimedReplay;

impl<'a> LogMeetings<'a> {
    /// Begins a replay, with the log of the predecessor, from the checkpoint.
    pub(crate) fn begin_replay(self) {
        let (log, cursor) = (self.world.call_log().own_log(), &self.world.local.cursor);
        self.world.local.era.store(log.get(Word::Era), Ordering::Relaxed);
        self.world.local.limit.store(self.world.log_writer().limit(&log), Ordering::Relaxed);
        let mut state = lock(&self.world.local.meetings);
        let mut meetings = None;
        let replay = Replay::begin(&self.world, self.world.me(), self.world.n_pes(), |found| {
            if found.record.kind == Kind::Meeting {
                log.link(state.last, found.from);
                state.last = Some(found.from);
                if found.record.group() == 0 {
                    let (first, _) = meetings.unwrap_or((found.record.at, found.record.at));
                    meetings = Some((first, found.record.at));
                }
            }
            cursor.records.set(cursor.records.get() + 1);
        });
        let end = replay.end();
        cursor.tail.set(end as u64);
        cursor.need.set(end as u64);
        // A word of an earlier era is void.
        let met = log.get(Word::Met);
        let said = if met >> 32 == log.get(Word::Era) { met & 0xffff_ffff } else { 0 };
        let (met, comes) = met_before(said, meetings);
        comes.into_iter().for_each(|last| log.set(Word::Met, self.meeting(last)));
        Pe::all(self.world.n_pes()).for_each(|pe| self.world.segments.wake(pe));
        (state.met, state.seen) = (met, vec![None; self.world.n_pes()]);
        drop(state);
        let begun = Some(std::time::Instant::now());
        *lock(&self.world.local.replay) = TimedReplay { replay, begun, took: Duration::ZERO };
        self.world.local.set_way(LogMode::Replayed);
        info!("replays {end} bytes of its log");
        self.catch_up();
    }

    /// Returns the payload of the next record.
    pub(super) fn brought_before(self) -> &'a [u8] {
        self.own_payload(lock(&self.world.local.replay).replay.at())
    }

    /// Returns the payload of the own record at `from`.
    pub(super) fn own_payload(self, from: usize) -> &'a [u8] {
        self.world.call_log().own_log().read(from).map_or(&[], |found| {
            self.world.segments.bytes_of(self.world.me(), found.payload, found.record.len as usize)
        })
    }

    /// Notes that the result of a meeting is in place.
    pub fn is_met(self) {
        self.catch_up();
    }

    /// Becomes reachable at the end of the log, unless all PEs roll back.
    pub(super) fn catch_up(self) {
        handover::catch_up(&mut Caller::new(self.world, "a local rollback")).unwrap_or(())
    }

    /// Returns, as a message, the reasons against a local rollback in the logs of all PEs.
    pub(crate) fn findings(self) -> Option<String> {
        let mut sum = Finding::default();
        for pe in Pe::all(self.world.n_pes()) {
            let why = self.world.call_log().log_of(pe).against();
            let reason = (!why.is_empty()).then_some(Reason::Reported { why });
            sum.add(Finding::of(pe, reason));
        }
        sum.words()
    }

    /// Reports the replay of this PE, which has met the other PEs since.
    pub(super) fn report_replay(self) {
        let replay = std::mem::take(&mut *lock(&self.world.local.replay));
        if replay.begun.is_some() {
            let (pe, checkpoint) = (self.world.me(), self.world.store.agreed());
            let (took, calls) = (replay.took, replay.replay.calls());
            self.world.members.report(ProgressReport::Replayed { pe, checkpoint, calls, took });
        }
    }
}
