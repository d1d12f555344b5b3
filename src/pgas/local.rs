//! Logs for local rollback: what is recorded of each call, and what a survivor does while another
//! PE is away.
//!
//! ```text
//! put      a record, then a check of the target: reachable (carried out), away (left in the log),
//!          or in replay (waited for)
//! atomic   likewise, with the value found; a PE that needs the value waits (`atomics.rs`)
//! get      waits until the target is reachable; then a record of the data read
//! wait     a record of the value found, and of the time; tests and random numbers: `answers.rs`
//! meeting  a barrier or a collective: a record of this PE's contribution, and a word that it has
//!          arrived. Each PE computes the result from the records of all (`gathering.rs`)
//! other    not logged: rules out a local rollback until the next checkpoint
//! ```
//!
//! A view says whether lost PEs roll back locally (`core/membership/local.rs`). If so, a survivor
//! adopts the view in the call that finds it, and sees no fault. It joins the view when the PEs
//! meet at the next checkpoint; until then any PE may demand a global rollback.
//!
//! Invariant: a record is in the log before its operation becomes visible.
//!
//! A PE and a substitute each publish first and then look, so at least one of them sees the other:
//!
//! ```text
//!                          publishes                    then looks at
//! this PE, in each call    its record and its flight    the view, and the stage of the target
//! a substitute, at first   the loss, on all nodes       flights: PEs about to write to the memory
//!                                                       of the dead process
//! a substitute, at last    that it is draining          records: those left for it
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
use std::sync::atomic::{Ordering, fence};

use raidshmem_core::message::PeMessage;
use raidshmem_core::quantity::{CheckpointNumber, Incarnation, Pe};
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::replay::place::CallPlace;
use raidshmem_core::view::State as Life;
use raidshmem_segment::log::{Carried, Kind, Log, Stage, Word};
use raidshmem_segment::waits::Waiting;
use raidshmem_sys::lock;
use tracing::info;

use super::World;
use super::complain::complain;
use super::world::local::{LogMode, ReplayState};

/// An odd multiplier for hashing: 2^64 divided by the golden ratio.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

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
}

/// The memory of another PE that a call reads or writes.
#[derive(Debug, Clone, Copy)]
pub struct Remote {
    /// The target PE.
    pub pe: Pe,
    /// Offset in the target's segment.
    pub at: usize,
    /// Bytes of each block, and the distance from one block to the next.
    pub block: (usize, usize),
}

/// The outcome of an operation on another PE.
pub(super) enum Delivery {
    /// It is carried out now.
    CarryOut,
    /// It stays in the log, from which the target takes it.
    Leave,
    /// The target has taken it from the log.
    TakenOver,
    /// All PEs roll back.
    Cut,
}

impl World {
    /// Returns the log of PE `pe`, or a placeholder if its memory is not mapped.
    #[inline(always)]
    pub(super) fn log_of(&self, pe: Pe) -> Log<'_> {
        let mapped = self.segments.if_mapped(pe).map(|mapped| mapped.log(self.n_pes()));
        mapped.unwrap_or_else(|| Log::of_nobody(self.n_pes()))
    }

    #[inline(always)]
    pub(super) fn own_log(&self) -> Log<'_> {
        let log = self.segments.own().log(self.n_pes());
        match self.local.holder().and_then(|pe| self.segments.if_mapped(pe)) {
            Some(mapped) => log.with_replica(mapped.replica(self.n_pes())),
            None => log,
        }
    }

    /// Returns true while calls are logged or replayed.
    #[inline]
    pub fn logs(&self) -> bool {
        self.local.way() != LogMode::Plain
    }

    /// Begins a log interval at checkpoint `interval`, made at `place`.
    pub(super) fn begin_log(&self, era: u64, interval: CheckpointNumber, place: CallPlace) {
        if !self.local.is_on() {
            return;
        }
        self.choose_holder();
        let (log, pen) = (self.own_log(), &self.local.pen);
        log.set(Word::Job, self.job.id);
        log.set(Word::Owner, u64::from(self.me().0) + 1);
        let (bytes, records) = (pen.tail.get(), pen.records.get());
        self.tell_of_overflow(pen.need.get(), interval);
        self.note_length();
        info!("logged {bytes} bytes in {records} records up to checkpoint {interval}");
        let mut book = lock(&self.local.book);
        if self.local.era.swap(era, Ordering::Relaxed) != era {
            book.met = 0;
        }
        *book =
            ReplayState { met: book.met, seen: vec![None; self.n_pes()], ..ReplayState::default() };
        drop(book);
        log.clear((era, interval.0), place);
        self.local.limit.store(self.limit(&log), Ordering::Relaxed);
        let never = *lock(&self.local.never);
        pen.begin(never.is_some());
        never.into_iter().for_each(|why| self.show_bare(why));
        self.local.set_way(LogMode::Logged);
        log.set_stage(self.members.incarnation().0, Stage::Direct);
    }

    /// Notes `place` as the place of the program's checkpoint call.
    pub(crate) fn log_place(&self, place: CallPlace) {
        *lock(&self.local.place) = place;
    }

    /// Begins a new interval after an agreed checkpoint, which makes all older records obsolete.
    pub(crate) fn saved_with_log(&self, number: CheckpointNumber) {
        if self.logs() {
            let (era, place) = (self.local.era.load(Ordering::Relaxed), *lock(&self.local.place));
            self.begin_log(era, number, place);
        }
    }

    /// Stops logging if threads may call the library concurrently: such calls have no order to
    /// replay.
    pub(super) fn log_if_one_thread(&self) {
        if self.thread_level < super::boot::THREAD_MULTIPLE || !self.local.is_on() {
            return;
        }
        if self.me() == Pe(0) && self.members.incarnation() == Incarnation::FIRST {
            complain(
                "SHMEM_FT_ROLLBACK=local with SHMEM_THREAD_MULTIPLE: a loss takes all PEs back",
            );
        }
        self.log_nothing("its threads call the library at the same time");
    }

    /// Stops logging in this process for good, so that a loss rolls back all PEs.
    pub(crate) fn log_nothing(&self, why: &'static str) {
        *lock(&self.local.never) = Some(why);
        self.speak_against(why);
    }

    /// Handles a call that is not logged, which rules out local rollback until the next checkpoint.
    #[cold]
    pub fn unlogged(&self, routine: &'static str) {
        if !self.logs() || self.all_go_back() {
            return;
        }
        let why = Reason::NoRule { routine: routine.to_owned() };
        match self.local.way() {
            LogMode::Replayed => self.take_all_back(&why),
            _ => self.speak_against(&why.to_string()),
        }
    }

    fn speak_against(&self, why: &str) {
        if self.local.way() == LogMode::Logged {
            self.leave_no_records(why);
            self.go_back_if_apart(why);
        }
    }

    /// Demands a global rollback if this PE has no records and another is away, or was since the
    /// last checkpoint: after a local rollback, PEs share no words with others except their logs.
    pub(super) fn go_back_if_apart(&self, why: &str) {
        self.local.order(); // first drop the records, then look; a substitute does the reverse
        if self.local.way() == LogMode::Logged && self.is_somebody_away() {
            self.take_all_back(why);
        }
    }

    // ---- views --------------------------------------------------------------------------------

    /// Returns true if a loss rolls back all PEs. Adopts a view with local rollback.
    pub(crate) fn all_go_back(&self) -> bool {
        if self.local.way() == LogMode::Plain {
            return self.members.faulted();
        }
        if !self.members.faulted() {
            return false;
        }
        let view = self.members.view();
        let replays = self.local.way() == LogMode::Replayed;
        if view.local || view.number == self.members.joined() {
            if self.local.mapped.swap(view.number.0, Ordering::Relaxed) != view.number.0 {
                self.refresh(&view); // a PE lost with its node is on another one now
            }
            if !replays {
                self.members.work_in(view.number);
            }
            return false;
        }
        self.local.set_way(LogMode::Plain);
        true
    }

    /// Returns true if this PE has adopted a view that it has not joined.
    pub(crate) fn is_somebody_away(&self) -> bool {
        self.members.view_number() != self.members.joined()
    }

    /// Demands a global rollback for a reason of this PE, and waits until it begins.
    pub(crate) fn take_all_back(&self, why: impl Display) {
        self.say_all_go_back(format!("PE {}: {why}", self.me()));
    }

    /// Like `take_all_back`, for a reason that already names its PE.
    pub(crate) fn say_all_go_back(&self, why: String) {
        self.members.say(&PeMessage::GoBack { why });
        self.wait_raw(|| Waiting::anyone("a local rollback"), || !self.members.view().local);
        self.local.set_way(LogMode::Plain);
    }

    // ---- one-sided ----------------------------------------------------------------------------

    /// Returns the log of PE `pe` if it is reachable: its process lives and has caught up.
    #[inline(always)]
    fn reached(&self, pe: Pe) -> Option<Log<'_>> {
        let member = self.members.member(pe);
        if pe == self.me() {
            return Some(self.log_of(pe));
        }
        let log = (member.state == Life::Alive).then(|| self.log_of(pe));
        log.filter(|log| log.is_at(member.incarnation.0, Stage::Direct))
    }

    #[inline]
    fn is_reached(&self, pe: Pe) -> bool {
        self.reached(pe).is_some()
    }

    /// Returns true if PE `pe` makes its last pass over the logs, or has made it. Its process may
    /// get there before the view published here shows it alive.
    fn is_past_replay(&self, pe: Pe) -> bool {
        let (member, log) = (self.members.member(pe), self.log_of(pe));
        let lives = member.state == Life::Alive;
        let incarnation = member.incarnation.0 + u32::from(!lives);
        log.is_at(incarnation, Stage::Draining) || log.is_at(incarnation, Stage::Direct)
    }

    /// Waits until PE `pe` is reachable. Returns false if all PEs roll back.
    #[inline]
    pub(super) fn await_reached(&self, call: &'static str, pe: Pe) -> bool {
        let mut cut = false;
        if !self.is_reached(pe) {
            self.wait_raw(
                || Waiting::anyone(call),
                || {
                    cut = self.all_go_back();
                    cut || self.is_reached(pe)
                },
            );
        }
        !cut
    }

    /// Logs a put of `bytes`, which `carry_out` copies to the target.
    pub fn put_logged(&self, call: Call, place: Remote, bytes: &[u8], carry_out: impl FnOnce()) {
        if self.local.way() == LogMode::Replayed {
            return self.put_replayed(call, place, bytes, carry_out);
        }
        let record = World::record(Kind::Put, &call, place, bytes.len());
        let from = self.append(record, bytes);
        self.deliver(call.name, place.pe, from, carry_out);
    }

    /// Carries out an operation whose record begins at `from`, or leaves it in the log.
    pub(super) fn deliver(
        &self,
        call: &'static str,
        pe: Pe,
        from: Option<usize>,
        carry_out: impl FnOnce(),
    ) {
        let log = self.own_log();
        match self.way_to(&log, call, pe, from) {
            Delivery::CarryOut => {
                from.into_iter().for_each(|from| log.set_state(from, Carried::Underway));
                carry_out();
                from.into_iter().for_each(|from| log.set_state(from, Carried::Done));
                self.segments.ring(pe);
                log.word(Word::Flight).store(0, Ordering::Release);
            }
            Delivery::TakenOver => {
                from.into_iter().for_each(|from| log.set_state(from, Carried::Done));
            }
            Delivery::Leave | Delivery::Cut => {}
        }
    }

    /// Looks at the target after the record was published. An operation is carried out only while
    /// the in-flight word is set: a process that finds the target dead and that word clear knows
    /// that no bytes of this PE are on their way there.
    #[inline]
    pub(super) fn way_to(
        &self,
        log: &Log,
        call: &'static str,
        pe: Pe,
        from: Option<usize>,
    ) -> Delivery {
        let there = loop {
            log.word(Word::Flight).store(u64::from(pe.0) + 1, Ordering::Relaxed);
            self.local.order(); // publish the record and the flight before the look
            if let Some(there) = self.reached(pe) {
                break there;
            }
            if let Some(delivery) = self.not_reached(log, call, pe, from) {
                return delivery;
            }
        };
        match from {
            // The target may have looked between the publication of the record and this PE's look.
            Some(from) if self.has_taken(log, &there, from) => {
                log.set(Word::Flight, 0);
                Delivery::TakenOver
            }
            _ => Delivery::CarryOut,
        }
    }

    /// Decides about an operation whose target was not reachable; None: look again.
    #[cold]
    fn not_reached(
        &self,
        log: &Log,
        call: &'static str,
        pe: Pe,
        from: Option<usize>,
    ) -> Option<Delivery> {
        log.set(Word::Flight, 0);
        let Some(from) = from else {
            // The target is lost, and this PE logs nothing: all PEs roll back.
            if !self.all_go_back() {
                self.take_all_back(log.against());
            }
            return Some(Delivery::Cut);
        };
        if self.all_go_back() {
            return Some(Delivery::Cut);
        }
        self.await_shown(call, pe);
        if !self.all_go_back() && !self.is_past_replay(pe) {
            log.set_state(from, Carried::Logged);
            return Some(Delivery::Leave);
        }
        let drains = || self.is_past_replay(pe) && !self.is_reached(pe);
        self.wait_raw(|| Waiting::anyone(call), || !drains() || self.all_go_back());
        None
    }

    /// Returns true if the PE of the log `there` has taken over the record at `from` of this PE's
    /// `log`.
    #[inline]
    pub(super) fn has_taken(&self, log: &Log, there: &Log, from: usize) -> bool {
        (from as u64) < there.has_taken(self.me(), log.get(Word::Interval))
    }

    /// Waits for a view that shows PE `pe` alive, if the job has several nodes. Another node may
    /// not know the loss yet, and its PEs would read what the dead process left; a substitute is
    /// shown only after all nodes have shown the loss. Only that view says where the substitute is.
    fn await_shown(&self, call: &'static str, pe: Pe) {
        if self.has_several_nodes() {
            let shown = || self.members.member(pe).state == Life::Alive;
            self.wait_raw(|| Waiting::anyone(call), || shown() || self.all_go_back());
        }
    }

    /// Reads from PE `pe`, which must be reachable before and after the read. None if all PEs roll
    /// back.
    pub(super) fn read_there<T>(
        &self,
        call: &'static str,
        pe: Pe,
        mut read: impl FnMut() -> T,
    ) -> Option<T> {
        loop {
            if !self.await_reached(call, pe) {
                return None;
            }
            let member = self.members.member(pe);
            let found = read();
            fence(Ordering::Acquire); // order the read before the second look
            if self.is_reached(pe) && self.members.member(pe) == member {
                return Some(found);
            }
        }
    }

    /// Gets bytes by `read`, which also returns them for the log; the result is then None.
    /// Otherwise returns the bytes to deliver instead: the logged ones in a replay, and an empty
    /// slice if all PEs roll back.
    pub fn get_logged<B: AsRef<[u8]>>(
        &self,
        call: Call,
        place: Remote,
        read: impl FnMut() -> B,
    ) -> Option<&[u8]> {
        if self.local.way() == LogMode::Replayed {
            return Some(self.get_replayed(call, place));
        }
        let Some(got) = self.read_there(call.name, place.pe, read) else { return Some(&[]) };
        let got = got.as_ref();
        self.append(World::record(Kind::Get, &call, place, got.len()), got);
        None
    }

    /// Waits for one of this PE's own words by `until`, and returns the value found.
    pub fn wait_logged(
        &self,
        call: Call,
        (at, bytes): (usize, usize),
        holds: impl Fn(u64) -> bool,
        until: impl FnOnce() -> u64,
    ) -> u64 {
        let place = Remote { pe: self.me(), at, block: (bytes, 0) };
        if self.local.way() == LogMode::Replayed
            && let Some(found) = self.wait_replayed(call, place, holds)
        {
            return found;
        }
        let found = until();
        if self.local.way() == LogMode::Logged {
            let bytes = found.to_ne_bytes();
            self.append(World::record(Kind::Wait, &call, place, bytes.len()), &bytes);
        }
        found
    }

    /// Returns true if the PEs of this job are on several nodes.
    fn has_several_nodes(&self) -> bool {
        self.job.node_of.iter().any(|&node| node != self.job.node_of[0])
    }
}

#[cfg(test)]
mod tests;
