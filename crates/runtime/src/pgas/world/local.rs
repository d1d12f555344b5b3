//! The state of a PE's own log, in a job with logs (`pgas/local.rs`).

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use raidshmem_core::quantity::Pe;
use raidshmem_core::replay::own::Replay;
use raidshmem_core::replay::place::CallPlace;
use raidshmem_core::replay::port::LogMode;
use raidshmem_sys::futex;

use super::super::complain::FullLog;
use super::far::{FarLogs, now};

/// The progress of a substitute in the logs.
#[derive(Debug, Default)]
pub struct TimedReplay {
    /// The decisions of the replay.
    pub replay: Replay,
    /// The start of the replay, and its duration.
    pub begun: Option<Instant>,
    pub took: Duration,
}

/// A number that only the thread inside the library reads and writes, without a lock. Relaxed: if
/// several threads call at the same time, nothing is logged.
#[derive(Debug, Default)]
pub struct OwnNumber(AtomicU64);

impl OwnNumber {
    /// Returns the number.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the number.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// The append cursor of the own log.
#[derive(Debug, Default)]
pub struct AppendCursor {
    /// The position of the next record, and the number of records.
    pub tail: OwnNumber,
    pub records: OwnNumber,
    /// The time of the last record.
    pub time: OwnNumber,
    /// Bytes that the records of this interval need.
    pub need: OwnNumber,
    /// The position of the last record plus one, if it holds an answer.
    pub answer: OwnNumber,
    /// True if the rest of this interval has no records.
    pub bare: AtomicBool,
}

impl AppendCursor {
    /// Returns true if the rest of this interval has no records.
    #[inline]
    pub fn is_bare(&self) -> bool {
        self.bare.load(Ordering::Relaxed)
    }

    /// Begins an interval; times continue.
    pub fn begin(&self, is_bare: bool) {
        for number in [&self.tail, &self.records, &self.need, &self.answer] {
            number.set(0);
        }
        self.bare.store(is_bare, Ordering::Relaxed);
    }
}

/// The PEs that meet.
#[derive(Debug, Clone)]
pub enum MeetingGroup {
    /// All PEs of the job.
    World,
    /// The PEs of a team or an active set.
    Part {
        /// A number other than zero that only meetings of this group have.
        number: u64,
        /// The members, by index.
        pes: Vec<Pe>,
    },
}

impl MeetingGroup {
    /// Returns its number, 0 for all PEs.
    pub(in crate::pgas) fn number(&self) -> u64 {
        match self {
            MeetingGroup::World => 0,
            MeetingGroup::Part { number, .. } => *number,
        }
    }
}

/// The state of meetings in the logs.
#[derive(Debug, Default)]
pub struct ReplayState {
    /// The last meeting of all PEs that this PE entered.
    pub met: u64,
    /// The record of its last meeting, with whichever group.
    pub last: Option<usize>,
    /// The last meeting of all PEs that was read, of each PE.
    pub seen: Vec<Option<usize>>,
    /// The meetings of teams and active sets in this interval.
    pub parts: BTreeMap<u64, PartState>,
}

/// The meetings of a team or an active set in an interval.
#[derive(Debug, Default)]
pub struct PartState {
    /// The number of meetings that this PE entered.
    pub met: u64,
    /// The place in each member's log behind which its next meeting with the group is.
    pub seen: Vec<Option<usize>>,
}

impl ReplayState {
    /// Returns the number of this PE's last meeting with a group.
    pub fn met(&mut self, group: &MeetingGroup) -> &mut u64 {
        match group {
            MeetingGroup::World => &mut self.met,
            MeetingGroup::Part { number, .. } => &mut self.parts.entry(*number).or_default().met,
        }
    }

    /// Returns the place of the last meeting with a group that was read, in each member's log.
    pub fn seen(&mut self, group: &MeetingGroup) -> &mut Vec<Option<usize>> {
        match group {
            MeetingGroup::World => &mut self.seen,
            MeetingGroup::Part { number, pes } => {
                let seen = &mut self.parts.entry(*number).or_default().seen;
                seen.resize(pes.len(), None);
                seen
            }
        }
    }
}

/// The logging state of a PE.
#[derive(Debug)]
pub struct Local {
    /// True if the job keeps logs.
    on: bool,
    /// True if other processes' barriers reach this process, so that light fences suffice.
    light: bool,
    way: AtomicU8,
    /// The limit on bytes of records, and the most bytes so far.
    pub(in crate::pgas) limit: AtomicU64,
    pub(in crate::pgas) touched: AtomicU64,
    /// The number of records in those bytes.
    pub(in crate::pgas) most: AtomicU64,
    pub(in crate::pgas) era: AtomicU64,
    /// The place of the last checkpoint call.
    pub(in crate::pgas) place: Mutex<CallPlace>,
    pub(in crate::pgas) cursor: AppendCursor,
    /// The PE that keeps the replica of the own log, plus one; 0 if there is no replica.
    holder: AtomicU32,
    /// True if this PE has joined a view since the last checkpoint.
    pub(in crate::pgas) rejoined: AtomicBool,
    /// The view by which PEs are mapped now.
    pub(in crate::pgas) mapped: AtomicU64,
    pub(in crate::pgas) meetings: Mutex<ReplayState>,
    pub(in crate::pgas) replay: Mutex<TimedReplay>,
    /// True if the full log, and the size that it would have needed, have been reported.
    pub(in crate::pgas) said_full: Arc<FullLog>,
    pub(in crate::pgas) said_need: AtomicBool,
    /// The reason that this PE cannot log anything, if so.
    pub(in crate::pgas) never: Mutex<Option<&'static str>>,
    /// The mirrors of the logs of far PEs, if there is an engine.
    pub(in crate::pgas) far: Option<Arc<FarLogs>>,
    /// The time by which the clock of the logs is ahead of that of the host: records that were
    /// made on another host may be later.
    pub(in crate::pgas) skew: Arc<AtomicU64>,
}

impl Local {
    /// Returns the logging state of a new process.
    pub(in crate::pgas) fn new(on: bool, n_pes: usize) -> Local {
        let meetings = ReplayState { seen: vec![None; n_pes], ..ReplayState::default() };
        Local {
            on,
            light: on && futex::has_global_barrier(),
            way: AtomicU8::new(LogMode::Plain as u8),
            limit: AtomicU64::new(0),
            touched: AtomicU64::new(0),
            most: AtomicU64::new(0),
            era: AtomicU64::new(0),
            place: Mutex::default(),
            cursor: AppendCursor::default(),
            holder: AtomicU32::new(0),
            rejoined: AtomicBool::new(false),
            mapped: AtomicU64::new(0),
            meetings: Mutex::new(meetings),
            replay: Mutex::default(),
            said_full: Arc::default(),
            said_need: AtomicBool::new(false),
            never: Mutex::new(None),
            far: None,
            skew: Arc::default(),
        }
    }

    /// Returns true if the job keeps logs.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Returns true if this PE relies on other PEs' barriers for the order of its looks.
    pub(in crate::pgas) fn is_light(&self) -> bool {
        self.light
    }

    /// Orders what this PE has published before its looks at other PEs: for all of them, or for
    /// those that call [`Segments::order_others`](super::segments::Segments::order_others).
    #[inline]
    pub(in crate::pgas) fn order(&self) {
        match self.light {
            true => futex::light_fence(),
            false => fence(Ordering::SeqCst),
        }
    }

    /// Reads the clock by which records have their times.
    #[inline]
    pub(in crate::pgas) fn now(&self) -> u64 {
        now() + self.skew.load(Ordering::Relaxed)
    }

    /// Returns the log mode. Relaxed: one thread at a time calls the library.
    #[inline]
    pub(crate) fn way(&self) -> LogMode {
        match self.way.load(Ordering::Relaxed) {
            1 => LogMode::Logged,
            2 => LogMode::Replayed,
            _ => LogMode::Plain,
        }
    }

    /// Returns the PE that keeps the replica of the own log.
    #[inline]
    pub(in crate::pgas) fn holder(&self) -> Option<Pe> {
        self.holder.load(Ordering::Relaxed).checked_sub(1).map(Pe)
    }

    pub(in crate::pgas) fn set_holder(&self, holder: Option<Pe>) {
        self.holder.store(holder.map_or(0, |pe| pe.0 + 1), Ordering::Relaxed);
    }

    pub(in crate::pgas) fn set_way(&self, way: LogMode) {
        if way == LogMode::Plain {
            self.far.iter().for_each(|far| far.links().close()); // all PEs roll back
        }
        self.way.store(way as u8, Ordering::Relaxed);
    }
}
