//! Meetings of all PEs of a job with logs: barriers and collectives, once each.
//!
//! A PE leaves what it brings in its log, and shows the number of the meeting in a word that only
//! grows. When all have come, each reads from the logs what all brought. A substitute that comes
//! to a meeting again finds what its predecessor brought, and whoever waits there goes on when it
//! comes for the first time.
//!
//! Invariant: what a PE brought to a meeting stays in its log until all have agreed on a checkpoint
//! after it.
//!
//! Left out: what comes out of what all brought (`openshmem/collective/logged.rs`).

#![forbid(unsafe_code)]

use std::sync::atomic::{Ordering, fence};

use raidshmem_core::quantity::{Pe, ViewNumber};
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::replay::log::{Kind, Located};
use raidshmem_core::replay::meeting;
use raidshmem_core::replay::port::CallWay;
use raidshmem_core::view::State as Life;
use raidshmem_segment::log::{Log, Word};
use raidshmem_sys::lock;

use super::World;
use super::caller::{Caller, Cut};
use super::local::{Call, Remote};

/// What all brought to a meeting: where each PE's part is in its segment, and how long, as a view
/// shows it.
pub struct Parts {
    places: Vec<(usize, usize)>,
    view: ViewNumber,
}

/// How a meeting went.
pub enum Met {
    /// What comes out follows from what all brought.
    Together(Parts),
    /// All have come, and some left no record: it is made as if there were no logs.
    Plain,
    /// All go back.
    Cut,
}

impl World {
    /// A meeting as a word that only grows.
    pub(super) fn meeting(&self, number: u64) -> u64 {
        self.local.era.load(Ordering::Relaxed) << 32 | number
    }

    /// Comes to a meeting of all PEs with `what`, and waits for the others.
    pub fn meet_logged(&self, call: Call, what: &[u8]) -> Met {
        fence(Ordering::SeqCst); // what this PE did is done before it comes
        let place = Remote { pe: self.me(), at: 0, block: (0, 0) };
        let record = World::record(Kind::Meeting, &call, place, what.len());
        let mut caller = self.caller(call.name);
        match meeting::meet(&mut caller, record, what) {
            Ok(Some(view)) => {
                let parts = &caller.parts;
                lock(&self.local.book).seen = parts.iter().map(|part| Some(part.from)).collect();
                let place = |part: &Located| (part.payload, part.record.len as usize);
                Met::Together(Parts { places: parts.iter().map(place).collect(), view })
            }
            Ok(None) => self.meet_without_parts(),
            Err(Cut) => Met::Cut,
        }
    }

    /// Leaves a meeting to the way of jobs without logs. PEs that have not joined one view have no
    /// words in common for that, so all go back then.
    fn meet_without_parts(&self) -> Met {
        if !self.is_somebody_away() {
            return Met::Plain;
        }
        let unlike = || format!("PE {}: {}", self.me(), Reason::Unlike);
        self.say_all_go_back(self.findings().unwrap_or_else(unlike));
        Met::Cut
    }

    /// Works out what comes out of what all brought. False if all go back.
    pub fn work_out(&self, parts: Parts, mut make: impl FnMut(&[(usize, usize)])) -> bool {
        let make = |_: &mut Caller| {
            make(&parts.places);
            Ok(())
        };
        meeting::work_out(&mut self.caller("a local rollback"), parts.view, make).is_ok()
    }

    pub(super) fn has_all_logs(&self) -> bool {
        Pe::all(self.n_pes()).all(|pe| self.has_log(pe))
    }

    /// True if the log of PE `pe` is mapped here, and there.
    pub(crate) fn has_log(&self, pe: Pe) -> bool {
        let member = self.members.member(pe);
        let is_mapped = pe == self.me() || member.node == self.segments.node_of(pe);
        member.state != Life::NodeDead && is_mapped && self.log_of(pe).is_of(self.job.id, pe)
    }

    /// The same; what this PE brings is worked out now, or was when its predecessor came.
    pub(super) fn meet_bringing(&self, call: Call, what: impl FnOnce() -> Vec<u8>) -> Met {
        let what = match self.local.way() {
            CallWay::Replayed => self.brought_before().to_vec(),
            _ => what(),
        };
        self.meet_logged(call, &what)
    }

    /// Shows that this PE has come to a meeting.
    pub(super) fn comes(&self, log: &Log, number: u64) {
        log.set(Word::Met, self.meeting(number));
        let others = Pe::all(self.n_pes()).filter(|&pe| pe != self.me());
        others.for_each(|pe| self.segments.wake(pe));
    }

    /// What each PE brought to a meeting that all have come to; None if one left no record.
    pub(super) fn parts(&self, number: u64) -> Option<Vec<Located>> {
        let word = self.meeting(number);
        if Pe::all(self.n_pes()).any(|pe| self.log_of(pe).get(Word::BareFrom) <= word) {
            return None;
        }
        let book = lock(&self.local.book);
        let of = |pe: Pe| self.log_of(pe).meeting(book.seen[pe.at()]);
        Pe::all(self.n_pes()).map(of).collect()
    }
}
