//! Records in the log of a PE (`pgas/local.rs`), and the room that they have.
//!
//! Invariants: each record has a later time than the one before; beyond the limit there are no
//! records until the next checkpoint, and a loss takes all back.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;
use std::time::Duration;

use raidshmem_codec::crc::Hasher;
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::replay::decide::Reason;
use raidshmem_segment::log::{Kind, Log, Record, Word, bytes_for};
use raidshmem_sys::lock;

use super::World;
use super::complain::complain;
use super::local::{Call, Remote};
use super::world::local::Book;

/// Smallest limit that is chosen for a program.
const LEAST: u64 = 1 << 20;

impl World {
    /// Most bytes that the log of this PE may take, 0 without one.
    pub(crate) fn log_most(&self) -> u64 {
        if self.local.is_on() { self.limit(&self.own_log()) } else { 0 }
    }

    /// Bytes of them that it has not taken yet.
    pub(crate) fn log_growth(&self) -> u64 {
        self.log_most().saturating_sub(self.local.touched.load(Ordering::Relaxed))
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
    pub(super) fn leave_no_records(&self, book: &mut Book, why: &str) {
        if !book.bare {
            let log = self.own_log();
            log.set(Word::BareFrom, self.meeting(book.met + 1));
            log.set_against(why);
            book.bare = true;
        }
    }

    /// A later time than any before.
    pub(super) fn tick(&self, book: &mut Book) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32).as_nanos() as u64;
        book.time = now.max(book.time + 1);
        book.time
    }

    /// Writes a record; where it begins. None if there is no room.
    pub(super) fn append(
        &self,
        book: &mut Book,
        mut record: Record,
        payload: &[u8],
    ) -> Option<usize> {
        let need = bytes_for(payload.len());
        let limit = self.local.limit.load(Ordering::Relaxed);
        book.need += need as u64;
        let fits = book.tail as u64 + need as u64 <= limit && u32::try_from(payload.len()).is_ok();
        if !fits && !book.bare {
            let bytes = book.need;
            self.leave_no_records(book, &Reason::Overflow { bytes }.to_string());
            self.tell_of_full_log(bytes);
        }
        if book.bare {
            if self.own_log().get(Word::Need) < book.need {
                self.own_log().set(Word::Need, book.need);
            }
            return None;
        }
        let (log, from) = (self.own_log(), book.tail);
        record.time = self.tick(book);
        self.segments.write_own(log.payload(from), payload);
        log.append(from, &record);
        book.tail = from + need;
        (book.records, book.answered) = (book.records + 1, false);
        Some(from)
    }

    /// The record of an operation on a place.
    pub(super) fn record(kind: Kind, call: &Call, place: Remote, payload: &[u8]) -> Record {
        let mut hasher = Hasher::new();
        hasher.update(payload);
        Record {
            kind,
            target: place.pe.0,
            time: 0,
            at: place.at as u64,
            block: (place.block.0 as u32, place.block.1 as u64),
            len: payload.len() as u32,
            crc: hasher.finish(),
            digest: call.digest(),
        }
    }
}
