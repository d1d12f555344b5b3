//! What a PE of a job with logs knows of its own log (`pgas/local.rs`).

#![forbid(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use raidshmem_core::quantity::Pe;
use raidshmem_core::replay::own::Replay;
use raidshmem_core::replay::place::CallPlace;
use raidshmem_core::replay::port::CallWay;
use raidshmem_sys::futex;

/// How far a substitute has come in the logs.
#[derive(Debug, Default)]
pub struct ReplayBook {
    /// What it decides by.
    pub replay: Replay,
    /// When it began, and how long it took.
    pub begun: Option<Instant>,
    pub took: Duration,
}

/// A number of the one thread at a time that calls the library: read and written without a lock.
/// Relaxed: where several call at the same time nothing is logged.
#[derive(Debug, Default)]
pub struct OwnNumber(AtomicU64);

impl OwnNumber {
    /// What it is.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// It is this from now on.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// How far the own log is: what each call that is logged needs.
#[derive(Debug, Default)]
pub struct Pen {
    /// Where the next record goes, and how many there are.
    pub tail: OwnNumber,
    pub records: OwnNumber,
    /// The time of the last one.
    pub time: OwnNumber,
    /// Bytes that the records of this interval need.
    pub need: OwnNumber,
    /// Where the last record begins, plus one, if it is of an answer.
    pub answer: OwnNumber,
    /// There are no records any more in this interval.
    pub bare: AtomicBool,
}

impl Pen {
    /// True if there are no records any more in this interval.
    #[inline]
    pub fn is_bare(&self) -> bool {
        self.bare.load(Ordering::Relaxed)
    }

    /// An interval begins; times go on.
    pub fn begin(&self, is_bare: bool) {
        for number in [&self.tail, &self.records, &self.need, &self.answer] {
            number.set(0);
        }
        self.bare.store(is_bare, Ordering::Relaxed);
    }
}

/// What meetings need of logs.
#[derive(Debug, Default)]
pub struct Book {
    /// The last meeting that this PE came to, and its record.
    pub met: u64,
    pub last: Option<usize>,
    /// The last meeting of each PE that was read.
    pub seen: Vec<Option<usize>>,
}

/// Logging of a PE.
#[derive(Debug)]
pub struct Local {
    /// The job keeps logs.
    on: bool,
    /// This process is reached by the barrier of others: light fences are enough.
    light: bool,
    way: AtomicU8,
    /// Most bytes of records, and how many there have been so far.
    pub(in crate::pgas) limit: AtomicU64,
    pub(in crate::pgas) touched: AtomicU64,
    /// How many records those were.
    pub(in crate::pgas) most: AtomicU64,
    pub(in crate::pgas) era: AtomicU64,
    /// The place of the checkpoint call that was made last.
    pub(in crate::pgas) place: Mutex<CallPlace>,
    pub(in crate::pgas) pen: Pen,
    /// The PE that keeps the replica of the own log, plus one; 0: there is none.
    holder: AtomicU32,
    /// The view whose PEs are mapped where it says.
    pub(in crate::pgas) mapped: AtomicU64,
    pub(in crate::pgas) book: Mutex<Book>,
    pub(in crate::pgas) replay: Mutex<ReplayBook>,
    /// It was said that the log is full, and how much would have been enough.
    pub(in crate::pgas) said_full: AtomicBool,
    pub(in crate::pgas) said_need: AtomicBool,
    /// This PE cannot log anything, for this reason.
    pub(in crate::pgas) never: Mutex<Option<&'static str>>,
}

impl Local {
    /// The logging of a process that begins.
    pub(in crate::pgas) fn new(on: bool, n_pes: usize) -> Local {
        let book = Book { met: 0, last: None, seen: vec![None; n_pes] };
        Local {
            on,
            light: on && futex::has_global_barrier(),
            way: AtomicU8::new(CallWay::Plain as u8),
            limit: AtomicU64::new(0),
            touched: AtomicU64::new(0),
            most: AtomicU64::new(0),
            era: AtomicU64::new(0),
            place: Mutex::default(),
            pen: Pen::default(),
            holder: AtomicU32::new(0),
            mapped: AtomicU64::new(0),
            book: Mutex::new(book),
            replay: Mutex::default(),
            said_full: AtomicBool::new(false),
            said_need: AtomicBool::new(false),
            never: Mutex::new(None),
        }
    }

    /// True if the job keeps logs: false in all others.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// True if the order of looks of this PE is left to the barrier of those whom it looks at.
    pub(in crate::pgas) fn is_light(&self) -> bool {
        self.light
    }

    /// What this PE has shown shows before it looks at others: to all, or to those that call
    /// [`Segments::order_others`](super::segments::Segments::order_others).
    #[inline]
    pub(in crate::pgas) fn order(&self) {
        match self.light {
            true => futex::light_fence(),
            false => fence(Ordering::SeqCst),
        }
    }

    /// What becomes of calls. Relaxed: one thread at a time calls the library.
    #[inline]
    pub(crate) fn way(&self) -> CallWay {
        match self.way.load(Ordering::Relaxed) {
            1 => CallWay::Logged,
            2 => CallWay::Replayed,
            _ => CallWay::Plain,
        }
    }

    /// The PE that keeps the replica of the own log.
    #[inline]
    pub(in crate::pgas) fn holder(&self) -> Option<Pe> {
        self.holder.load(Ordering::Relaxed).checked_sub(1).map(Pe)
    }

    pub(in crate::pgas) fn set_holder(&self, holder: Option<Pe>) {
        self.holder.store(holder.map_or(0, |pe| pe.0 + 1), Ordering::Relaxed);
    }

    pub(in crate::pgas) fn set_way(&self, way: CallWay) {
        self.way.store(way as u8, Ordering::Relaxed);
    }
}
