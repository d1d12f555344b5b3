//! Logs for local rollback: the record of each call, and the actions of a survivor while another PE
//! is away.
//!
//! ```text
//! put      a record, then a look at the target: reached (execute), lost (leave in the log), or
//!          draining (wait)
//! atomic   like a put, with the value found; a fetching one waits for the target (`atomics.rs`)
//! get      a wait until the target is reached; then a record of the bytes read
//! wait     a record of the value found, and of the time; tests and events: `answers.rs`
//! meeting  a barrier or a collective: a record of this PE's contribution, and a word that posts
//!          its arrival. Each PE computes the result from all records (`gathering.rs`)
//! other    not logged: it rules out local rollback until the next checkpoint (`unlogged.rs`)
//! ```
//!
//! A view says whether lost PEs roll back locally (`core/membership/local.rs`). If so, a survivor
//! adopts the view in the call that finds it, and sees no fault. It joins the view when the PEs
//! meet at the next checkpoint, or before a call without a record.
//!
//! Invariant: a record is in the log before its operation becomes visible.
//!
//! A PE and a substitute each publish first and then look, so at least one of them sees the other:
//!
//! ```text
//!                           publishes                  reads
//! this PE, in each call     its record and its flight  the view, and the target's stage
//! a substitute, at first    the loss, on all nodes     flights to the memory of the dead PE
//! a substitute, at the end  the stage `Draining`       the records left for it
//! ```
//!
//! This needs a full fence between the two steps on both sides. A substitute issues a barrier that
//! acts on all processes (`Segments::order_others`), so calls need no fence of their own
//! (`Local::order`) unless the kernel refuses that barrier. The loss is published before a
//! substitute is chosen.
//!
//! Left out: the calls of a substitute (`replay.rs`) and its start (`recovery/local.rs`).

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::sync::atomic::Ordering;

use raidshmem_core::message::PeMessage;
use raidshmem_core::quantity::{CheckpointNumber, Incarnation, Pe};
use raidshmem_core::replay::call;
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::replay::log::{Kind, LogRecord, Stage};
use raidshmem_core::replay::place::CallPlace;
use raidshmem_core::replay::port::LogMode;
use raidshmem_core::replay::replicas;
use raidshmem_core::view::{State as Life, View};
use raidshmem_segment::log::{Log, Word};
use raidshmem_segment::waits::Waiting;
use raidshmem_sys::lock;
use tracing::info;

use super::World;
use super::caller::{Caller, Cut};
use super::complain::complain;
use super::world::far::{FarLogs, interval_of};
use super::world::local::{ReplayState, TimedReplay};

/// An odd multiplier for hashing: 2^64 divided by the golden ratio.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns a hash of bytes, equal in each process.
fn hash(bytes: &[u8]) -> u64 {
    twox_hash::XxHash3_128::oneshot(bytes) as u64
}

/// The identity of a call, for comparison.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// The routine.
    pub name: &'static str,
    /// Further arguments that have the same value in each process.
    pub with: u64,
}

impl Call {
    /// Returns a hash of the call, equal in each process.
    #[inline]
    pub(super) fn digest(&self) -> u64 {
        let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(ODD).rotate_left(29);
        let name = self.name.as_bytes();
        let words = name.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let last = match name.last_chunk::<8>() {
            Some(last) => u64::from_le_bytes(*last), // overlaps the words above
            None => name.iter().fold(0, |all, &byte| all << 8 | u64::from(byte)),
        };
        mix(mix(words.fold(self.with, mix), last), name.len() as u64)
    }

    /// Returns the record of the call on a place, with `bytes` bytes of payload.
    #[inline]
    pub(super) fn record(&self, kind: Kind, place: RemotePlace, bytes: usize) -> LogRecord {
        LogRecord {
            kind,
            target: place.pe.0,
            time: 0,
            at: place.at as u64,
            block: (place.block.0 as u32, place.block.1 as u64),
            len: bytes as u32,
            digest: self.digest(),
        }
    }
}

/// The memory of another PE that a call reads or writes.
#[derive(Debug, Clone, Copy)]
pub struct RemotePlace {
    /// The target PE.
    pub pe: Pe,
    /// Offset in the target's segment.
    pub at: usize,
    /// Bytes of each block, and the distance from one block to the next.
    pub block: (usize, usize),
}

/// The logged calls of this PE.
#[derive(Clone, Copy)]
pub struct CallLog<'a> {
    pub(super) world: &'a World,
}

impl World {
    /// Returns the logged calls of this PE.
    #[inline]
    pub fn call_log(&self) -> CallLog<'_> {
        CallLog { world: self }
    }

    /// Returns true while calls are logged or replayed.
    #[inline]
    pub fn logs(&self) -> bool {
        self.local.way() != LogMode::Plain
    }

    /// Returns true if a loss rolls back all PEs. Adopts a view with local rollback.
    pub(crate) fn all_roll_back(&self) -> bool {
        if self.local.way() == LogMode::Plain {
            return self.members.faulted();
        }
        if !self.members.faulted() {
            return false;
        }
        let view = self.members.view();
        let replays = self.local.way() == LogMode::Replayed;
        if view.local || view.number == self.members.joined() {
            self.call_log().follow(&view);
            if !replays {
                self.members.work_in(view.number);
            }
            return false;
        }
        self.local.set_way(LogMode::Plain);
        true
    }
}

impl<'a> CallLog<'a> {
    /// Maps the PEs of a view with local rollback, and connects to them, if this PE has not yet: a
    /// PE lost with its node is on another one now.
    pub(super) fn follow(self, view: &View) {
        if self.world.local.mapped.swap(view.number.0, Ordering::Relaxed) != view.number.0 {
            self.world.refresh(view);
        }
    }

    /// Lets a substitute wait until `is_so` holds in the present view, to whose PEs it is
    /// connected. Returns false if all PEs roll back.
    pub(super) fn wait(self, call: &'static str, mut is_so: impl FnMut(&View) -> bool) -> bool {
        let mut holds = false;
        self.world.wait_raw(
            || Waiting::anyone(call),
            || {
                let view = self.world.members.view();
                self.follow(&view);
                holds = is_so(&view);
                holds || !view.local
            },
        );
        holds
    }

    /// Returns true if this PE has adopted a view that it has not joined.
    pub(crate) fn is_any_pe_away(self) -> bool {
        self.world.members.view_number() != self.world.members.joined()
    }

    /// Returns the log of PE `pe`, or its mirror if its memory is not mapped.
    #[inline(always)]
    pub(super) fn log_of(self, pe: Pe) -> Log<'a> {
        match self.world.segments.if_mapped(pe) {
            Some(mapped) => mapped.log(self.world.n_pes()),
            None => self.mirror_of(pe),
        }
    }

    /// Returns the mirror of the log of PE `pe`, which is not mapped.
    #[cold]
    fn mirror_of(self, pe: Pe) -> Log<'a> {
        match self.world.far_calls().mirrors() {
            Some(far) => far.mirror(pe),
            None => Log::unmapped(self.world.n_pes()),
        }
    }

    /// Returns the replicas of the own log that are mapped, of this interval or an earlier one.
    pub(super) fn replicas(self) -> impl Iterator<Item = (Pe, Log<'a>)> {
        let world = self.world;
        Pe::all(world.n_pes()).filter(move |&pe| pe != world.me()).filter_map(move |pe| {
            let replica = world.segments.if_mapped(pe)?.replica(world.n_pes());
            replica.is_of(world.job(), world.me()).then_some((pe, replica))
        })
    }

    /// Returns the newest of them.
    pub(crate) fn newest_replica(self) -> Option<Log<'a>> {
        let newest = replicas::newest(self.replicas().map(|(pe, log)| (pe, log.extent())))?;
        self.replicas().find_map(|(pe, log)| (pe == newest).then_some(log))
    }

    #[inline(always)]
    pub(super) fn own_log(self) -> Log<'a> {
        let log = self.world.segments.own().log(self.world.n_pes());
        match self.world.local.holder().and_then(|pe| self.world.segments.if_mapped(pe)) {
            Some(mapped) => log.with_replica(mapped.replica(self.world.n_pes())),
            None => log,
        }
    }

    /// Begins a log interval at checkpoint `interval`, made at `place`.
    pub(super) fn begin_log(self, era: u64, interval: CheckpointNumber, place: CallPlace) {
        if !self.world.local.is_on() {
            return;
        }
        self.world.log_writer().choose_holder();
        let (log, cursor) = (self.own_log(), &self.world.local.cursor);
        log.set(Word::Job, self.world.job.id);
        log.set(Word::Owner, u64::from(self.world.me().0) + 1);
        let (bytes, records) = (cursor.tail.get(), cursor.records.get());
        let far = self.world.far_calls().mirrors().map_or(0, FarLogs::need);
        self.world.log_writer().report_overflow(cursor.need.get().max(far), interval);
        self.world.log_writer().note_length();
        info!("logged {bytes} bytes in {records} records up to checkpoint {interval}");
        let mut meetings = lock(&self.world.local.meetings);
        if self.world.local.era.swap(era, Ordering::Relaxed) != era {
            meetings.met = 0;
        }
        *meetings = ReplayState {
            met: meetings.met,
            seen: vec![None; self.world.n_pes()],
            ..ReplayState::default()
        };
        drop(meetings);
        *lock(&self.world.local.replay) = TimedReplay::default();
        self.world.far_calls().mirrors().into_iter().for_each(|far| far.links().end());
        log.clear((era, interval.0), place);
        let met = lock(&self.world.local.meetings).met;
        log.set(Word::Met, self.world.log_meetings().meeting(met)); // to the replica, if it is new
        self.world.log_writer().set_limit(&log);
        let never = *lock(&self.world.local.never);
        cursor.begin(never.is_some());
        never.into_iter().for_each(|why| self.world.log_writer().show_bare(why));
        self.world.local.set_way(LogMode::Logged);
        log.set_stage(self.world.members.incarnation().0, Stage::Direct);
        self.world.far_calls().begin(interval_of(&log));
    }

    /// Notes `place` as the place of the program's checkpoint call.
    pub(crate) fn log_place(self, place: CallPlace) {
        *lock(&self.world.local.place) = place;
    }

    /// Begins a new interval after an agreed checkpoint, which makes all older records obsolete.
    pub(crate) fn saved_with_log(self, number: CheckpointNumber) {
        if self.world.logs() {
            let (era, place) =
                (self.world.local.era.load(Ordering::Relaxed), *lock(&self.world.local.place));
            self.begin_log(era, number, place);
        }
    }

    /// Stops logging if threads may call the library concurrently: such calls have no order to
    /// replay.
    pub(super) fn log_if_one_thread(self) {
        if self.world.thread_level < super::boot::THREAD_MULTIPLE || !self.world.local.is_on() {
            return;
        }
        if self.world.me() == Pe(0) && self.world.members.incarnation() == Incarnation::FIRST {
            complain(
                "SHMEM_FT_ROLLBACK=local with SHMEM_THREAD_MULTIPLE: a loss rolls back all PEs",
            );
        }
        self.log_nothing("its threads call the library at the same time");
    }

    /// Stops logging in this process for good, so that a loss rolls back all PEs.
    pub fn log_nothing(self, why: &'static str) {
        *lock(&self.world.local.never) = Some(why);
        self.rule_out(&Reason::Reported { why: why.to_owned() });
    }

    /// Demands a global rollback for a reason of this PE, and waits until it begins.
    pub(crate) fn roll_all_back(self, why: impl Display) {
        self.demand_global_rollback(format!("PE {}: {why}", self.world.me()));
    }

    /// Like `roll_all_back`, for a reason that already names its PE.
    pub(crate) fn demand_global_rollback(self, why: String) {
        self.world.members.say(&PeMessage::RollAllBack { why });
        self.world
            .wait_raw(|| Waiting::anyone("a local rollback"), || !self.world.members.view().local);
        self.world.local.set_way(LogMode::Plain);
    }

    /// Returns the log of PE `pe` if it is reachable: its process lives and has caught up.
    #[inline(always)]
    pub(super) fn reached(self, pe: Pe) -> Option<Log<'a>> {
        let member = self.world.members.member(pe);
        if pe == self.world.me() {
            return Some(self.log_of(pe));
        }
        let log = (member.state == Life::Alive).then(|| self.log_of(pe));
        log.filter(|log| log.is_at(member.incarnation.0, Stage::Direct))
    }

    /// Returns the stage of the next process of PE `pe`, which may publish it before the view here
    /// shows that the process lives.
    pub(super) fn stage_of(self, pe: Pe) -> Option<Stage> {
        let member = self.world.members.member(pe);
        let awaited = member.incarnation.0 + u32::from(member.state != Life::Alive);
        let (incarnation, stage) = self.log_of(pe).stage();
        stage.filter(|_| incarnation == awaited)
    }

    /// Logs a put of `bytes`, which `carry_out` copies to the target.
    pub fn put_logged(
        self,
        call: Call,
        place: RemotePlace,
        bytes: &[u8],
        carry_out: impl FnOnce(),
    ) {
        let is_far = self.world.far_calls().is_far(place.pe);
        let carry_out = |caller: &mut Caller| match is_far {
            true => caller.send_put(call.record(Kind::Put, place, 0), bytes),
            false => {
                carry_out();
                Ok(())
            }
        };
        // The target of a message keeps the bytes; the record compares them with those of a replay.
        let (call, kept) = match is_far {
            true => (Call { with: call.with ^ hash(bytes), ..call }, &[][..]),
            false => (call, bytes),
        };
        let record = call.record(Kind::Put, place, kept.len());
        // The caller learns of a global rollback from its next checkpoint call.
        call::put(&mut Caller::new(self.world, call.name), record, kept, carry_out).unwrap_or(())
    }

    /// Gets `blocks` blocks by `read`, which also returns them for the log; the result is then
    /// None. `read` is passed the bytes if the PE is far.
    /// Otherwise returns the bytes to deliver instead: the logged ones in a replay, and an empty
    /// slice if all PEs roll back.
    pub fn get_logged<B: AsRef<[u8]>>(
        &self,
        call: Call,
        (place, blocks): (RemotePlace, usize),
        mut read: impl FnMut(Option<&[u8]>) -> B,
    ) -> Option<&'a [u8]> {
        let record = call.record(Kind::Get, place, 0);
        let read = |caller: &mut Caller| match self.world.far_calls().is_far(place.pe) {
            true => {
                let (block, step) = place.block;
                Ok(read(Some(&caller.read_far(place.pe, place.at, (block, blocks, step))?)))
            }
            false => Ok(read(None)),
        };
        match call::get(&mut Caller::new(self.world, call.name), record, read) {
            Ok(before) => Some(self.world.log_meetings().own_payload(before?)),
            Err(Cut) => Some(&[]),
        }
    }

    /// Waits for one of this PE's own words by `until`, and returns the value found.
    pub fn wait_logged(
        self,
        call: Call,
        (at, bytes): (usize, usize),
        holds: impl Fn(u64) -> bool,
        until: impl FnOnce() -> u64,
    ) -> u64 {
        let place = RemotePlace { pe: self.world.me(), at, block: (bytes, 0) };
        let record = call.record(Kind::Wait, place, 0);
        let mut until = Some(until);
        let waits = |_: &mut Caller| Ok(until.take().map_or(0, |until| until()));
        let found = call::wait(&mut Caller::new(self.world, call.name), record, holds, waits);
        found.unwrap_or_else(|Cut| until.map_or(0, |until| until()))
    }
}

#[cfg(test)]
mod tests;
