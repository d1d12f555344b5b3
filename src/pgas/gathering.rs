//! Meetings of all PEs of a job with logs: barriers and collectives, once each.
//!
//! A PE leaves its contribution in its log, and publishes the number of the meeting in a word that
//! only grows. When all have come, each reads all contributions from the logs. A substitute that
//! comes to a meeting again finds the contribution of its predecessor; PEs that wait there continue
//! when it comes for the first time.
//!
//! Invariant: a PE's contribution to a meeting stays in its log until all have agreed on a later
//! checkpoint.
//!
//! Left out: the results of meetings (`openshmem/collective/logged.rs`).

#![forbid(unsafe_code)]

use std::sync::atomic::{Ordering, fence};

use raidshmem_core::quantity::{Pe, ViewNumber};
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::view::State as Life;
use raidshmem_segment::log::{Kind, Located, Log, Record, Word};
use raidshmem_segment::waits::Waiting;
use raidshmem_sys::lock;

use super::World;
use super::local::{Call, Remote};
use super::world::local::LogMode;

/// The contributions to a meeting: the offset of each in the segment of its PE, and its length, as
/// valid in one view.
pub struct Parts {
    places: Vec<(usize, usize)>,
    view: ViewNumber,
}

/// The outcome of a meeting.
pub enum MeetingOutcome {
    /// The result follows from all contributions.
    Together(Parts),
    /// All have come, but some left no record: the meeting is held as without logs.
    Plain,
    /// All PEs roll back.
    Cut,
}

impl World {
    /// Returns the word of a meeting, which only grows.
    pub(super) fn meeting(&self, number: u64) -> u64 {
        self.local.era.load(Ordering::Relaxed) << 32 | number
    }

    /// Comes to a meeting of all PEs with contribution `what`, and waits for the others.
    pub fn meet_logged(&self, call: Call, what: &[u8]) -> MeetingOutcome {
        fence(Ordering::SeqCst); // this PE's operations come before its arrival
        let number = lock(&self.local.book).met + 1;
        let place = Remote { pe: self.me(), at: number as usize, block: (0, 0) };
        let record = World::record(Kind::Meeting, &call, place, what.len());
        if self.local.way() != LogMode::Replayed {
            self.come_to(number, record, what);
        } else if self.meeting_replayed(&record, what) {
            self.catch_up(); // at the end of the log, others may need this PE before they come
        } else {
            return MeetingOutcome::Cut;
        }
        if !self.await_meeting(call.name, number) {
            return MeetingOutcome::Cut;
        }
        let (parts, view) = loop {
            let view = self.members.view_number();
            // A log that was lost with its node may be wiped by now.
            let parts = self.has_all_logs().then(|| self.parts(number));
            fence(Ordering::Acquire); // order the reads before the second look
            match parts {
                Some(parts) if self.members.view_number() == view => break (parts, view),
                _ if self.await_logs() => {}
                _ => return MeetingOutcome::Cut,
            }
        };
        let Some((parts, time)) = parts else { return self.meet_without_parts() };
        lock(&self.local.book).seen = parts.iter().map(|found| Some(found.from)).collect();
        let places = parts.iter().map(|found| (found.payload, found.record.len as usize)).collect();
        if self.local.way() == LogMode::Replayed {
            self.apply(time);
        }
        self.know(time);
        MeetingOutcome::Together(Parts { places, view })
    }

    /// Holds a meeting as in jobs without logs. PEs that have not joined the same view share no
    /// words for that, so all roll back then.
    fn meet_without_parts(&self) -> MeetingOutcome {
        if !self.is_somebody_away() {
            return MeetingOutcome::Plain;
        }
        let unlike = || format!("PE {}: {}", self.me(), Reason::Unlike);
        self.say_all_go_back(self.findings().unwrap_or_else(unlike));
        MeetingOutcome::Cut
    }

    /// Computes the result from the contributions. Memory that is lost with a node is wiped, so
    /// after a loss meanwhile this is repeated once the log is restored. Returns false if all PEs
    /// roll back.
    pub fn work_out(&self, parts: Parts, mut make: impl FnMut(&[(usize, usize)])) -> bool {
        let mut view = parts.view;
        loop {
            make(&parts.places);
            fence(Ordering::Acquire); // order the reads before the second look
            let now = self.members.view_number();
            if std::mem::replace(&mut view, now) == now {
                return true;
            }
            if !self.await_logs() {
                return false;
            }
        }
    }

    /// Waits until the logs of all PEs are there: one that was lost with a node is restored from
    /// its replica. Returns false if all PEs roll back.
    fn await_logs(&self) -> bool {
        let mut cut = false;
        self.wait_raw(
            || Waiting::anyone("a local rollback"),
            || {
                cut = self.all_go_back();
                cut || self.has_all_logs()
            },
        );
        !cut
    }

    fn has_all_logs(&self) -> bool {
        Pe::all(self.n_pes()).all(|pe| self.has_log(pe))
    }

    /// Returns true if the log of PE `pe` is there, and mapped here.
    pub(crate) fn has_log(&self, pe: Pe) -> bool {
        let member = self.members.member(pe);
        let is_mapped = pe == self.me() || member.node == self.segments.node_of(pe);
        member.state != Life::NodeDead && is_mapped && self.log_of(pe).is_of(self.job.id, pe)
    }

    /// Like `meet_logged`; computes the contribution now, or in a replay takes the predecessor's.
    pub(super) fn meet_bringing(
        &self,
        call: Call,
        what: impl FnOnce() -> Vec<u8>,
    ) -> MeetingOutcome {
        let what = match self.local.way() {
            LogMode::Replayed => self.brought_before().to_vec(),
            _ => what(),
        };
        self.meet_logged(call, &what)
    }

    fn come_to(&self, number: u64, record: Record, what: &[u8]) {
        let (log, from) = (self.own_log(), self.append(record, what));
        let mut book = lock(&self.local.book);
        if let Some(from) = from {
            log.link(book.last, from);
            book.last = Some(from);
        }
        book.met = number;
        drop(book);
        self.comes(&log, number);
    }

    /// Publishes that this PE has come to a meeting.
    pub(super) fn comes(&self, log: &Log, number: u64) {
        log.set(Word::Met, self.meeting(number));
        let others = Pe::all(self.n_pes()).filter(|&pe| pe != self.me());
        others.for_each(|pe| self.segments.wake(pe));
    }

    fn await_meeting(&self, call: &'static str, number: u64) -> bool {
        let number = self.meeting(number);
        let mut away: Vec<Pe> = Pe::all(self.n_pes()).filter(|&pe| pe != self.me()).collect();
        let mut cut = false;
        self.wait_raw(
            || self.waiting_for_all(call),
            || {
                away.retain(|&pe| self.log_of(pe).get(Word::Met) < number);
                cut = !away.is_empty() && self.all_go_back();
                cut || away.is_empty()
            },
        );
        !cut
    }

    /// Returns all contributions to a meeting to which all have come, and their latest time; None
    /// if a PE left no record, or if they made different calls.
    fn parts(&self, number: u64) -> Option<(Vec<Located>, u64)> {
        let word = self.meeting(number);
        if Pe::all(self.n_pes()).any(|pe| self.log_of(pe).get(Word::BareFrom) <= word) {
            return None;
        }
        let book = lock(&self.local.book);
        let of = |pe: Pe| self.log_of(pe).meeting(book.seen[pe.at()]);
        let parts = Pe::all(self.n_pes()).map(of).collect::<Option<Vec<Located>>>()?;
        let time = parts.iter().map(|found| found.record.time).max()?;
        // The unlogged path reports mismatched calls.
        let digest = parts[0].record.digest;
        parts.iter().all(|found| found.record.digest == digest).then_some((parts, time))
    }
}
