//! The replay of a substitute after a local rollback: its calls take their results from the log of
//! its predecessor (`core/replay/own.rs`), up to the end of that log. It begins with a look for
//! reasons against it (`core/replay/look.rs`).
//!
//! Invariants: other PEs' puts are applied in the order of their times, once; a call that differs
//! changes nothing, and all PEs roll back.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;
use std::time::Duration;

use raidshmem_core::message::ProgressReport;
use raidshmem_core::protocol::Call;
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::replay::decide::{Finding, Reason};
use raidshmem_core::replay::far::LogInterval;
use raidshmem_core::replay::handover;
use raidshmem_core::replay::log::Kind;
use raidshmem_core::replay::look::{LookPort, look};
use raidshmem_core::replay::own::{Replay, met_before};
use raidshmem_core::replay::place::CallPlace;
use raidshmem_core::replay::port::LogMode;
use raidshmem_core::store::phase::Phase;
use raidshmem_segment::log::Word;
use raidshmem_segment::waits::Waiting;
use raidshmem_sys::lock;
use tracing::info;

use super::caller::{Caller, Cut};
use super::gathering::LogMeetings;
use super::world::far::{FarLogs, interval_of};
use super::world::local::TimedReplay;

impl LookPort for Caller<'_> {
    fn phase(&mut self) -> Result<Option<Phase>, Cut> {
        Ok(self.world.store.recovery.phase())
    }

    fn holds_snapshot(&mut self, number: CheckpointNumber) -> Result<bool, Cut> {
        Ok(self.world.log_meetings().snapshot(number).is_some())
    }

    fn begins_at(&mut self, number: CheckpointNumber) -> Result<bool, Cut> {
        Ok(self.log.get(Word::Interval) == number.0)
    }

    fn await_beginnings(&mut self, number: CheckpointNumber) -> Result<bool, Cut> {
        let world = self.world;
        let own = LogInterval { era: self.log.get(Word::Era), checkpoint: number.0 };
        let begins = |pe: Pe| {
            let log = || interval_of(&world.call_log().log_of(pe));
            world.log_meetings().has_log(pe).then(log)
        };
        let mut found = None;
        world.call_log().wait(self.call, |_| {
            let all: Vec<_> = Pe::all(world.n_pes()).map(begins).collect();
            let is_later = all.iter().any(|&begins| begins > Some(own));
            let all = all.iter().all(|&begins| begins == Some(own));
            found = (all || is_later).then_some(all);
            found.is_some()
        });
        found.ok_or(Cut)
    }

    fn places(&mut self) -> Result<(CallPlace, CallPlace), Cut> {
        let made =
            CallPlace { whole: self.log.get(Word::Site), source: self.log.get(Word::Source) };
        Ok((made, *lock(&self.world.local.place)))
    }

    fn await_quiet(&mut self) -> Result<(), Cut> {
        let is_quiet = || self.world.segments.is_quiet(&self.world.members.view());
        self.world.wait_raw(|| Waiting::anyone(self.call), is_quiet);
        Ok(())
    }
}

impl<'a> LogMeetings<'a> {
    /// Returns the checkpoint that this PE, which comes from the call at `place`, may restore for
    /// itself, and the length of its snapshot. None if all PEs roll back.
    pub(crate) fn look(self, place: CallPlace) -> Option<(CheckpointNumber, usize)> {
        self.world.call_log().log_place(place);
        let number = look(&mut Caller::new(self.world, Call::Checkpoint.name())).ok()?;
        Some((number, self.snapshot(number)?))
    }

    /// Returns the length of the own snapshot of this checkpoint, if it is valid.
    fn snapshot(self, number: CheckpointNumber) -> Option<usize> {
        let protection = self.world.store.protection()?;
        let record = &self.world.segments.own().header().snapshots[protection.snapshot_of(number)];
        record.holds(self.world.job(), number)
    }

    /// Begins a replay, with the log of the predecessor, from the checkpoint.
    pub(crate) fn begin_replay(self) {
        let (log, cursor) = (self.world.call_log().own_log(), &self.world.local.cursor);
        self.world.local.era.store(log.get(Word::Era), Ordering::Relaxed);
        self.world.log_writer().set_limit(&log);
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
        self.world.barriers().reset_words(); // like those of the others, at the checkpoint
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
        let overflow = self.world.far_calls().mirrors().and_then(FarLogs::overflow);
        let overflow = overflow.map(|bytes| Reason::Overflow { bytes });
        sum.add(Finding::of(self.world.me(), overflow));
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
