//! Meetings of PEs of a job with logs: barriers and collectives, once each.
//!
//! A PE leaves its contribution in its log, and links it to that of its last meeting. To meet all
//! PEs it also publishes the number of the meeting in a word that only grows; the members of a team
//! or an active set look for the next record of their group in each other's logs. When all have
//! arrived, each reads all contributions. A substitute that repeats a meeting finds that of its
//! predecessor; PEs that wait in one continue when it arrives for the first time.
//!
//! Invariant: a PE's contribution to a meeting stays in its log until all have agreed on a later
//! checkpoint.
//!
//! Left out: the results of meetings (`openshmem/collective/logged.rs`).

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use raidshmem_core::quantity::{Pe, ViewNumber};
use raidshmem_core::replay::log::{Kind, Located};
use raidshmem_core::replay::meeting;
use raidshmem_core::replay::port::LogMode;
use raidshmem_core::view::State as Life;
use raidshmem_segment::log::{Log, Word};
use raidshmem_sys::lock;

use super::World;
use super::caller::{Caller, Cut};
use super::local::{Call, RemotePlace};
pub use super::world::local::MeetingGroup;

/// The contributions to a meeting, by index: the offset of each in the segment of its PE, and its
/// length, as valid in one view.
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

/// The meetings of PEs through their logs, and the replay of a log.
#[derive(Clone, Copy)]
pub struct LogMeetings<'a> {
    pub(super) world: &'a World,
}

impl World {
    /// Returns the meetings of PEs through their logs, and the replay of a log.
    #[inline]
    pub fn log_meetings(&self) -> LogMeetings<'_> {
        LogMeetings { world: self }
    }
}

impl LogMeetings<'_> {
    /// Returns the word of a meeting, which only grows.
    pub(super) fn meeting(self, number: u64) -> u64 {
        self.world.local.era.load(Ordering::Relaxed) << 32 | number
    }

    /// Comes to a meeting of all PEs with contribution `what`, and waits for the others.
    pub fn meet_logged(self, call: Call, what: &[u8]) -> MeetingOutcome {
        self.meet_group(&MeetingGroup::World, call, what)
    }

    /// Comes to a meeting of these PEs with contribution `what`, and waits for the others.
    pub fn meet_group(self, group: &MeetingGroup, call: Call, what: &[u8]) -> MeetingOutcome {
        let number = group.number() as usize;
        let place = RemotePlace { pe: self.world.me(), at: 0, block: (0, number) };
        let record = call.record(Kind::Meeting, place, what.len());
        let mut caller = Caller::in_group(self.world, call.name, group);
        match meeting::meet(&mut caller, record, what) {
            Ok(Some(view)) => {
                let place = |part: &Located| (part.payload, part.record.len as usize);
                let places = caller.parts.iter().map(place).collect();
                MeetingOutcome::Together(Parts { places, view })
            }
            Ok(None) => MeetingOutcome::Plain,
            Err(Cut) => MeetingOutcome::Cut,
        }
    }

    /// Computes the result from all contributions. Returns false if all PEs roll back.
    pub fn work_out(self, parts: Parts, mut make: impl FnMut(&[(usize, usize)])) -> bool {
        let make = |_: &mut Caller| {
            make(&parts.places);
            Ok(())
        };
        meeting::work_out(&mut Caller::new(self.world, "a local rollback"), parts.view, make)
            .is_ok()
    }

    pub(super) fn has_all_logs(self) -> bool {
        Pe::all(self.world.n_pes()).all(|pe| self.has_log(pe))
    }

    /// Returns true if the log of PE `pe` is there, and mapped here.
    pub(crate) fn has_log(self, pe: Pe) -> bool {
        let is_there = || self.world.call_log().log_of(pe).is_of(self.world.job.id, pe);
        if self.world.far_calls().is_far(pe) {
            return is_there(); // a mirror in the own memory
        }
        let member = self.world.members.member(pe);
        let is_mapped = pe == self.world.me() || member.node == self.world.segments.node_of(pe);
        member.state != Life::NodeDead && is_mapped && is_there()
    }

    /// Like `meet_logged`; computes the contribution now, or in a replay takes the predecessor's.
    pub(super) fn meet_bringing(
        self,
        call: Call,
        what: impl FnOnce() -> Vec<u8>,
    ) -> MeetingOutcome {
        let what = match self.world.local.way() {
            LogMode::Replayed => self.brought_before().to_vec(),
            _ => what(),
        };
        self.meet_logged(call, &what)
    }

    /// Posts the arrival of this PE at a meeting, whose record is linked.
    pub(super) fn comes(self, group: &MeetingGroup, log: &Log, number: u64) {
        match group {
            MeetingGroup::World => {
                log.set(Word::Met, self.meeting(number));
                let others = Pe::all(self.world.n_pes()).filter(|&pe| pe != self.world.me());
                others.for_each(|pe| self.world.segments.wake(pe));
            }
            MeetingGroup::Part { pes, .. } => {
                pes.iter().for_each(|&pe| self.world.segments.wake(pe));
            }
        }
    }

    /// Returns true if PE `pe`, a member of a part by that index, has come to the next meeting, or
    /// leaves no more records in this interval.
    pub(super) fn has_come(self, group: &MeetingGroup, (index, pe): (usize, Pe)) -> bool {
        let (log, own) = (self.world.call_log().log_of(pe), self.world.call_log().own_log());
        let is_bare = log.is_bare(); // before its records are read
        let mut meetings = lock(&self.world.local.meetings);
        let mut next = || log.meeting_of(group.number(), &mut meetings.seen(group)[index]);
        log.is_in(own.get(Word::Era), own.get(Word::Interval)) && (next().is_some() || is_bare)
    }

    /// Returns the contributions to a meeting at which all have arrived; None if a PE left no
    /// record.
    pub(super) fn parts(self, group: &MeetingGroup, number: u64) -> Option<Vec<Located>> {
        let log = |pe: Pe| self.world.call_log().log_of(pe);
        let all = || Pe::all(self.world.n_pes());
        let mut meetings = lock(&self.world.local.meetings);
        let seen = meetings.seen(group).iter_mut();
        let next = |(pe, seen): (Pe, _)| log(pe).meeting_of(group.number(), seen);
        match group {
            MeetingGroup::Part { pes, .. } => pes.iter().copied().zip(seen).map(next).collect(),
            MeetingGroup::World => {
                let word = self.meeting(number);
                let left_out = all().any(|pe| log(pe).get(Word::BareFrom) <= word);
                if left_out { None } else { all().zip(seen).map(next).collect() }
            }
        }
    }
}
