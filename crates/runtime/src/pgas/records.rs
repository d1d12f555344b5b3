//! Records in the log of a PE (`pgas/local.rs`), and their limit.
//!
//! The time of a record is one more than that of the record before. This PE reads the clock, after
//! its last look, only when it learns something: in a wait, an answer, or the result of an
//! operation; contributions to a meeting carry the times of their PEs. So an event that happens
//! before another has a smaller time, and calls that learn nothing need no clock.
//!
//! Invariants: each record has a later time than the one before, and no time is ahead of the clock;
//! beyond the limit there are no records until the next checkpoint, and a loss rolls back all PEs.
//! A record takes no lock, and no memory but its own.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use raidshmem_core::mutant;
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::replay::log::{Kind, LogRecord};
use raidshmem_core::replay::replicas;
use raidshmem_core::view::View;
use raidshmem_segment::log::{Log, Word, bytes_for};
use raidshmem_sys::lock;

use super::World;
use super::complain::complain;

/// The smallest limit that is chosen for a program.
const LEAST: u64 = 1 << 20;

/// The writer of the own log.
#[derive(Clone, Copy)]
pub struct LogWriter<'a> {
    pub(super) world: &'a World,
}

impl World {
    /// Returns the writer of the own log.
    #[inline]
    pub fn log_writer(&self) -> LogWriter<'_> {
        LogWriter { world: self }
    }
}

impl LogWriter<'_> {
    /// Returns the most bytes that the log of this PE may take; 0 without a log.
    pub(crate) fn log_most(self) -> u64 {
        if self.world.local.is_on() {
            self.limit(&self.world.call_log().own_log()) * self.copies()
        } else {
            0
        }
    }

    /// Returns the number of copies of the log, with its replica: that of this log, or of the one
    /// that begins at the next checkpoint. The mirrors of far logs count like a replica, and so do
    /// the records that are kept for PEs on other hosts.
    fn copies(self) -> u64 {
        if let Some(far) = self.world.far_calls().mirrors() {
            return if far.has_replica() { 4 } else { 2 };
        }
        let has_replica = self.world.local.holder().or_else(|| self.next_holder()).is_some();
        1 + u64::from(has_replica)
    }

    /// Returns how many of these bytes it has not taken yet.
    pub(crate) fn log_growth(self) -> u64 {
        let touched = self.world.local.touched.load(Ordering::Relaxed) * self.copies();
        self.log_most().saturating_sub(touched)
    }

    /// Notes the length of the log, which grows no further in this interval.
    pub(super) fn note_length(self) {
        let (cursor, local) = (&self.world.local.cursor, &self.world.local);
        if local.touched.fetch_max(cursor.tail.get(), Ordering::Relaxed) < cursor.tail.get() {
            local.most.store(cursor.records.get(), Ordering::Relaxed);
        }
    }

    /// Returns bytes and records of the longest log of this process between two checkpoints; None
    /// without logs.
    pub(super) fn longest_log(self) -> Option<(u64, u64)> {
        self.note_length();
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        self.world
            .local
            .is_on()
            .then(|| (load(&self.world.local.touched), load(&self.world.local.most)))
    }

    fn limit(self, log: &Log) -> u64 {
        let live = self.world.segments.layout().heap_len as u64;
        let limit = self.world.settings.log_limit.unwrap_or((live / 4).max(LEAST));
        let capacity =
            self.world.far_calls().mirrors().map_or(log.capacity() as u64, |far| far.most());
        limit.min(capacity)
    }

    /// Sets the limit of the own log, and of what far PEs append to their mirrors.
    pub(super) fn set_limit(self, log: &Log) {
        let limit = self.limit(log);
        self.world.local.limit.store(limit, Ordering::Relaxed);
        self.world.far_calls().mirrors().into_iter().for_each(|far| far.set_limit(limit));
    }

    /// Reports a full log at once; the size that it would have needed is known at the next
    /// checkpoint.
    fn report_full_log(self, need: u64) {
        let limit = self.world.local.limit.load(Ordering::Relaxed);
        self.world.local.said_full.report(self.world.me(), need, limit, "a loss");
    }

    /// Reports, at the end of an interval, the size that the log would have needed.
    pub(super) fn report_overflow(self, need: u64, interval: CheckpointNumber) {
        let limit = self.world.local.limit.load(Ordering::Relaxed);
        let logs = lock(&self.world.local.never).is_none();
        if logs && need > limit && !self.world.local.said_need.swap(true, Ordering::Relaxed) {
            let me = self.world.me();
            complain(&format!(
                "the log of PE {me} needed {need} bytes up to checkpoint {interval}, more than \
                 SHMEM_FT_LOG_LIMIT={limit}: a loss rolled back all PEs meanwhile"
            ));
        }
    }

    /// Ends the records of this interval, and notes `why`.
    pub(super) fn stop_recording(self, why: &Reason) {
        if !self.world.local.cursor.bare.swap(true, Ordering::Relaxed) {
            self.show_bare(&why.to_string());
        }
    }

    /// Publishes that there are no records from the next meeting on.
    pub(super) fn show_bare(self, why: &str) {
        let (log, met) = (self.world.call_log().own_log(), lock(&self.world.local.meetings).met);
        log.set_against(why); // a PE that meets this one without a record reads why
        log.set(Word::BareFrom, self.world.log_meetings().meeting(met + 1));
    }

    /// Chooses the PE that keeps the replica of the own log up to the next checkpoint.
    pub(super) fn choose_holder(self) {
        self.world.local.set_holder(self.next_holder());
    }

    /// Continues the replica that the predecessor of this PE wrote: a loss of the node would else
    /// find a part of the log.
    pub(crate) fn continue_replica(self) {
        let world = self.world;
        let own = world.segments.own().log(world.n_pes()).extent();
        let replicas = world.call_log().replicas().map(|(pe, log)| (pe, log.extent()));
        world.local.set_holder(replicas::continued(own, replicas, mutant::breaks));
    }

    fn next_holder(self) -> Option<Pe> {
        if self.world.far_calls().mirrors().is_some() {
            return None; // a replica needs PEs that are mapped
        }
        let nodes = |view: &View| view.pes.iter().map(|pe| pe.node).collect::<Vec<u32>>();
        let nodes = self.world.members.joined_view().as_ref().map(nodes).unwrap_or_default();
        replicas::holders(&nodes).map(|holders| holders[self.world.me().at()])
    }

    /// Returns a later time than any before in this log, and than any that another PE drew before:
    /// this PE may know everything with a smaller time.
    pub(super) fn tick(self) -> u64 {
        self.know(self.world.local.now().max(self.world.local.cursor.time.get() + 1))
    }

    /// Raises the time of this PE, which may know everything with a smaller one; returns it.
    pub(super) fn know(self, time: u64) -> u64 {
        let time = time.max(self.world.local.cursor.time.get());
        self.world.local.cursor.time.set(time);
        time
    }

    /// Appends a record to the own log, and returns its position. None if the log is full.
    pub(super) fn append(self, record: LogRecord, payload: &[u8]) -> Option<usize> {
        let log = self.world.call_log().own_log();
        self.append_to(&log, record, payload.len(), |from| self.write(&log, from, payload))
    }

    /// Writes the payload of the record that will begin at `from`.
    #[inline]
    pub(super) fn write(self, log: &Log, from: usize, payload: &[u8]) {
        log.replicate(from, payload);
        self.world.segments.write_own(log.payload(from), payload);
    }

    /// Like `append`, for the given log and `bytes` bytes of payload, which `write` writes.
    #[inline(always)] // the head goes to the log from registers
    pub(super) fn append_to(
        self,
        log: &Log,
        record: LogRecord,
        bytes: usize,
        write: impl FnOnce(usize),
    ) -> Option<usize> {
        let cursor = &self.world.local.cursor;
        let (from, size) = (cursor.tail.get(), bytes_for(bytes) as u64);
        let need = cursor.need.get() + size;
        cursor.need.set(need);
        let is_too_long = u32::try_from(bytes).is_err();
        let limit = self.world.local.limit.load(Ordering::Relaxed);
        if cursor.is_bare() || is_too_long || from + size > limit {
            self.leave_out(need);
            return None;
        }
        let time = match record.kind.learns(mutant::breaks) {
            true => self.tick(),
            false => self.know(cursor.time.get() + 1),
        };
        let from = from as usize;
        write(from);
        log.append(from, &LogRecord { time, ..record });
        cursor.tail.set(from as u64 + size);
        cursor.records.set(cursor.records.get() + 1);
        cursor.answer.set(if record.kind == Kind::Answer { from as u64 + 1 } else { 0 });
        Some(from)
    }

    /// Handles a record beyond the limit; the records of this interval would need `need` bytes.
    #[cold]
    fn leave_out(self, need: u64) {
        if !self.world.local.cursor.is_bare() {
            self.report_full_log(need);
            self.world.call_log().rule_out(&Reason::Overflow { bytes: need });
        }
        let log = self.world.call_log().own_log();
        if log.get(Word::Need) < need {
            log.set(Word::Need, need);
        }
    }
}
