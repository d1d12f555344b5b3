//! Records in the log of a PE (`pgas/local.rs`), and the room that they have.
//!
//! The time of a record is that of the one before and one more. Only where this PE learns
//! something, in a wait, an answer, or what an operation found, it reads the clock, after its last
//! look; what others bring to a meeting has their times with it. So what happens before something
//! else has a smaller time, and calls that teach nothing need no clock.
//!
//! Invariants: each record has a later time than the one before, and none is ahead of the clock;
//! beyond the limit there are no records until the next checkpoint, and a loss takes all back. A
//! record takes no lock and no memory but its own.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use raidshmem_core::mutant;
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::replay::log::{Kind, LogRecord};
use raidshmem_core::replay::replicas;
use raidshmem_core::view::View;
use raidshmem_segment::log::{Log, Word, bytes_for};
use raidshmem_sys::lock;

use super::World;
use super::complain::complain;
use super::local::{Call, Remote};

/// Smallest limit that is chosen for a program.
const LEAST: u64 = 1 << 20;

impl World {
    /// Most bytes that the log of this PE may take, 0 without one.
    pub(crate) fn log_most(&self) -> u64 {
        if self.local.is_on() { self.limit(&self.own_log()) * self.copies() } else { 0 }
    }

    /// Of each log, with its replica.
    fn copies(&self) -> u64 {
        1 + u64::from(self.local.holder().is_some())
    }

    /// Bytes of them that it has not taken yet.
    pub(crate) fn log_growth(&self) -> u64 {
        let touched = self.local.touched.load(Ordering::Relaxed) * self.copies();
        self.log_most().saturating_sub(touched)
    }

    /// The log is as long as it gets in this interval.
    pub(super) fn note_length(&self) {
        let (pen, local) = (&self.local.pen, &self.local);
        if local.touched.fetch_max(pen.tail.get(), Ordering::Relaxed) < pen.tail.get() {
            local.most.store(pen.records.get(), Ordering::Relaxed);
        }
    }

    /// Bytes and records of the longest log of this process between two checkpoints; None without
    /// logs.
    pub(super) fn longest_log(&self) -> Option<(u64, u64)> {
        self.note_length();
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        self.local.is_on().then(|| (load(&self.local.touched), load(&self.local.most)))
    }

    pub(super) fn limit(&self, log: &Log) -> u64 {
        let live = self.segments.layout().heap_len as u64;
        let limit = self.settings.log_limit.unwrap_or((live / 4).max(LEAST));
        limit.min(log.room() as u64)
    }

    /// It happens now; how much would be enough is known at the next checkpoint.
    fn tell_of_full_log(&self, need: u64) {
        if !self.local.said_full.swap(true, Ordering::Relaxed) {
            let (me, limit) = (self.me(), self.local.limit.load(Ordering::Relaxed));
            complain(&format!(
                "the log of PE {me} is full: it needs {need} bytes so far, and \
                 SHMEM_FT_LOG_LIMIT={limit}: a loss takes all PEs back until the next checkpoint"
            ));
        }
    }

    /// An interval has ended: how much would have been enough.
    pub(super) fn tell_of_overflow(&self, need: u64, interval: CheckpointNumber) {
        let limit = self.local.limit.load(Ordering::Relaxed);
        let logs = lock(&self.local.never).is_none();
        if logs && need > limit && !self.local.said_need.swap(true, Ordering::Relaxed) {
            let me = self.me();
            complain(&format!(
                "the log of PE {me} needed {need} bytes up to checkpoint {interval}, more than \
                 SHMEM_FT_LOG_LIMIT={limit}: a loss took all PEs back meanwhile"
            ));
        }
    }

    /// From here on there are no records in this interval, and this says why.
    pub(super) fn leave_no_records(&self, why: &str) {
        if !self.local.pen.bare.swap(true, Ordering::Relaxed) {
            self.show_bare(why);
        }
    }

    /// Shows that there are no records from the next meeting on.
    pub(super) fn show_bare(&self, why: &str) {
        let (log, met) = (self.own_log(), lock(&self.local.book).met);
        log.set(Word::BareFrom, self.meeting(met + 1));
        log.set_against(why);
    }

    /// Where the replica of the own log is up to the next checkpoint.
    pub(super) fn choose_holder(&self) {
        let nodes = |view: &View| view.pes.iter().map(|pe| pe.node).collect::<Vec<u32>>();
        let nodes = self.members.joined_view().as_ref().map(nodes).unwrap_or_default();
        let holder = replicas::holders(&nodes).map(|holders| holders[self.me().at()]);
        self.local.set_holder(holder);
    }

    /// A later time than any before in this log, and than any that another PE drew before: this PE
    /// may know everything with a smaller one.
    pub(super) fn tick(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        self.know(now.max(self.local.pen.time.get() + 1))
    }

    /// This PE may know everything with a smaller time.
    pub(super) fn know(&self, time: u64) -> u64 {
        let time = time.max(self.local.pen.time.get());
        self.local.pen.time.set(time);
        time
    }

    /// Writes a record to the own log; where it begins. None if there is no room.
    pub(super) fn append(&self, record: LogRecord, payload: &[u8]) -> Option<usize> {
        let log = self.own_log();
        self.append_to(&log, record, payload.len(), |from| self.write(&log, from, payload))
    }

    /// Writes the payload of the record that will begin at `from`.
    #[inline]
    pub(super) fn write(&self, log: &Log, from: usize, payload: &[u8]) {
        log.replicate(from, payload);
        self.segments.write_own(log.payload(from), payload);
    }

    /// The same for a log that is at hand, with so many bytes of payload, which `write` writes.
    #[inline(always)] // the head goes to the log from registers
    pub(super) fn append_to(
        &self,
        log: &Log,
        record: LogRecord,
        bytes: usize,
        write: impl FnOnce(usize),
    ) -> Option<usize> {
        let pen = &self.local.pen;
        let (from, size) = (pen.tail.get(), bytes_for(bytes) as u64);
        let need = pen.need.get() + size;
        pen.need.set(need);
        let is_too_long = u32::try_from(bytes).is_err();
        let limit = self.local.limit.load(Ordering::Relaxed);
        if pen.is_bare() || is_too_long || from + size > limit {
            self.has_no_room(need);
            return None;
        }
        let time = match record.kind.learns(mutant::breaks) {
            true => self.tick(),
            false => self.know(pen.time.get() + 1),
        };
        let from = from as usize;
        write(from);
        log.append(from, &LogRecord { time, ..record });
        pen.tail.set(from as u64 + size);
        pen.records.set(pen.records.get() + 1);
        pen.answer.set(if record.kind == Kind::Answer { from as u64 + 1 } else { 0 });
        Some(from)
    }

    /// The records of this interval need so many bytes, and have less.
    #[cold]
    fn has_no_room(&self, need: u64) {
        if !self.local.pen.is_bare() {
            let why = Reason::Overflow { bytes: need }.to_string();
            self.leave_no_records(&why);
            self.tell_of_full_log(need);
            self.go_back_if_apart(&why);
        }
        let log = self.own_log();
        if log.get(Word::Need) < need {
            log.set(Word::Need, need);
        }
    }

    /// The record of an operation on a place, with so many bytes of payload.
    #[inline]
    pub(super) fn record(kind: Kind, call: &Call, place: Remote, bytes: usize) -> LogRecord {
        LogRecord {
            kind,
            target: place.pe.0,
            time: 0,
            at: place.at as u64,
            block: (place.block.0 as u32, place.block.1 as u64),
            len: bytes as u32,
            digest: call.digest(),
        }
    }
}
