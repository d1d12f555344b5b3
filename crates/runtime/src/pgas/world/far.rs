//! The mirrors of the logs of PEs that are not mapped here, and the messages on their way to these
//! PEs (`core/replay/far.rs`).
//!
//! Messages are cut into fragments. A PE sends in two streams, that of the threads of the program
//! and that of the engine, each in order. What has to wait for the replica of the own log leaves in
//! the first, by whichever thread is there (`pgas/far.rs`).
//!
//! Invariants: the mirrors lie in the own segment, so they outlive this process; only the holder of
//! the lock writes them. No code calls the engine with that lock held, since the engine calls here.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::Thread;

use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::replay::far::LogInterval;
use raidshmem_core::replay::far::links::FarLinks;
use raidshmem_core::replay::far::message::{FarMessage, LogWords, NumberedRecord};
use raidshmem_core::replay::far::port::MirrorPort;
use raidshmem_core::replay::far::replica::{Arrival, LogBytes, LogHead, LogReplica};
use raidshmem_core::replay::log::{AtomicOutcome, Carried, Kind, LogRecord};
use raidshmem_core::replay::place::CallPlace;
use raidshmem_core::replay::replicas;
use raidshmem_fabric::TOLD_MAX;
use raidshmem_segment::log::{Log, NO_INTERVAL, Word, bytes_for, copy};
use raidshmem_segment::{Segment, bytes};
use raidshmem_sys::lock;
use serde::{Deserialize, Serialize};

use super::super::complain::FullLog;

/// Bits of the first byte of a fragment.
const FIRST: u8 = 1;
const LAST: u8 = 2;
/// A fragment of the stream of the engine.
const BACK: u8 = 4;

/// A message with the interval that it belongs to.
#[derive(Debug, Serialize, Deserialize)]
struct Sealed<M> {
    interval: LogInterval,
    message: M,
}

/// Cuts a message into fragments.
fn fragments(interval: LogInterval, message: &FarMessage, stream: u8) -> Vec<Vec<u8>> {
    let sealed = Sealed { interval, message };
    let bytes = postcard::to_allocvec(&sealed).expect("plain data is encoded");
    let pieces = bytes.chunks(TOLD_MAX - 1);
    let count = pieces.len();
    let fragment = |(nth, piece): (usize, &[u8])| {
        let first = if nth == 0 { FIRST } else { 0 };
        let last = if nth + 1 == count { LAST } else { 0 };
        [&[first | last | stream][..], piece].concat()
    };
    pieces.enumerate().map(fragment).collect()
}

/// The fragments of a message that has not arrived whole, and the process that sends it.
#[derive(Debug, Clone, Default)]
struct Partial {
    incarnation: Incarnation,
    bytes: Vec<u8>,
}

/// The mirrors of far PEs in the own memory.
#[derive(Debug)]
struct Mirrors {
    own: &'static Segment,
    me: Pe,
    incarnation: Incarnation,
    n_pes: usize,
    job: u64,
    /// The most bytes of operations in all mirrors, and those that the interval needs.
    limit: AtomicU64,
    need: AtomicU64,
    full: Arc<FullLog>,
    skew: Arc<AtomicU64>,
}

/// The mirrors of far PEs, and the messages to them.
#[derive(Debug)]
pub(in crate::pgas) struct FarLogs {
    mirrors: Mirrors,
    links: Mutex<FarLinks>,
    partial: Mutex<Vec<[Partial; 2]>>,
    /// Held by a thread while it sends, so that messages leave in order.
    pub sending: Mutex<()>,
    /// True if this PE has a replica of its log: no other maps it.
    has_replica: bool,
    /// True if messages may leave that no thread has looked for yet.
    due: AtomicBool,
    /// The number of threads that wait in the library, and send meanwhile.
    pub waiters: AtomicUsize,
    /// The thread that sends while no other does.
    pub sender: OnceLock<Thread>,
}

impl FarLogs {
    /// Takes over the mirrors of the predecessor if they are `kept`.
    pub fn new(
        own: &'static Segment,
        (me, job, unmapped): (Pe, u64, &[bool]),
        (incarnation, kept): (Incarnation, bool),
        (full, skew): (Arc<FullLog>, Arc<AtomicU64>),
    ) -> FarLogs {
        let n_pes = unmapped.len();
        let log = own.log(n_pes);
        // A predecessor that was restoring the log, or the mirrors, has left a part.
        let kept = kept && copy::is_whole(&log);
        let interval = if kept { interval_of(&log) } else { LogInterval::default() };
        let mut links = FarLinks::new(n_pes, interval);
        Pe::all(n_pes).filter(|pe| unmapped[pe.at()]).for_each(|pe| links.keep_records(pe));
        let mut last = if kept { last_time(&log) } else { 0 };
        for pe in Pe::all(n_pes) {
            let mirror = own.mirror(pe, n_pes);
            if !kept || !mirror.is_of(job, pe) {
                mirror.set(Word::Job, 0);
                mirror.clear((0, NO_INTERVAL), CallPlace::NONE);
            }
            let mut at = 0;
            while let Some(found) = mirror.read(at) {
                let (time, old) = (found.record.time, mirror.found(found.from).old);
                links.count_kept(found.record.kind, found.from, Arrival { pe, time, old });
                (at, last) = (found.next, last.max(time));
            }
        }
        let (limit, need) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        let mirrors = Mirrors { own, me, incarnation, n_pes, job, limit, need, full, skew };
        let has_replica = unmapped[me.at()];
        if has_replica {
            mirrors.follow(last);
        }
        FarLogs {
            mirrors,
            links: Mutex::new(links),
            partial: Mutex::new(vec![Default::default(); n_pes]),
            sending: Mutex::default(),
            has_replica,
            due: AtomicBool::new(false),
            waiters: AtomicUsize::new(0),
            sender: OnceLock::new(),
        }
    }

    /// Returns true if this PE has a replica of its log, for which its messages wait.
    pub fn has_replica(&self) -> bool {
        self.has_replica
    }

    /// Returns the mirror of the log of PE `pe`.
    #[inline]
    pub fn mirror(&self, pe: Pe) -> Log<'static> {
        self.mirrors.of(pe)
    }

    /// Returns the links with far PEs.
    pub fn links(&self) -> MutexGuard<'_, FarLinks> {
        lock(&self.links)
    }

    /// Returns the most bytes of a log whose meetings the mirrors hold.
    pub fn most(&self) -> u64 {
        self.mirrors.most()
    }

    /// Sets the most bytes of operations in all mirrors, and of records kept for others.
    pub fn set_limit(&self, limit: u64) {
        self.mirrors.limit.store(limit, Ordering::Relaxed);
        self.links().set_most_kept(limit as usize);
    }

    /// Returns the bytes of operations in this interval.
    pub fn need(&self) -> u64 {
        self.mirrors.need.load(Ordering::Relaxed)
    }

    /// Returns the bytes that the mirrors need, if one of them is full.
    pub fn overflow(&self) -> Option<u64> {
        let need = |pe| self.mirror(pe).get(Word::Need);
        Pe::all(self.mirrors.n_pes).map(need).max().filter(|&need| need != 0)
    }

    /// Begins an interval of the own log. Returns the answers to what has waited for it.
    pub fn begin(&self, own: LogInterval) -> Vec<(Pe, FarMessage)> {
        self.mirrors.need.store(0, Ordering::Relaxed);
        self.links().begin(&mut &self.mirrors, own)
    }

    /// Takes messages again at the end of a replay. Returns the answers to those that were held.
    pub fn open(&self) -> Vec<(Pe, FarMessage)> {
        self.links().open(&mut &self.mirrors)
    }

    /// Numbers a record for PE `pe`. Returns the message to send, if any.
    pub fn send(&self, pe: Pe, record: NumberedRecord, fetches: bool) -> (u64, Option<FarMessage>) {
        self.links().send(&mut &self.mirrors, pe, record, fetches)
    }

    /// Returns the messages for a new process of PE `pe`, if it has not been sent them.
    pub fn untold(&self, pe: Pe, process: Incarnation) -> Option<Vec<FarMessage>> {
        self.links().untold(&&self.mirrors, pe, process)
    }

    /// Adds a message for PE `pe`, behind those before.
    pub fn depart(&self, pe: Pe, message: FarMessage) {
        let mut links = self.links();
        let interval = links.interval();
        links.depart(pe, interval, message);
    }

    /// Returns the PE that the next message is for, and its fragments, if one leaves now.
    pub fn next_departure(&self) -> Option<(Pe, Vec<Vec<u8>>)> {
        let departure = self.links().next_departure(&&self.mirrors)?;
        Some((departure.to, fragments(departure.interval, &departure.message, 0)))
    }

    /// Returns true if messages may leave now that no thread has looked for yet.
    #[inline]
    pub fn take_due(&self) -> bool {
        self.due.load(Ordering::SeqCst) && self.due.swap(false, Ordering::SeqCst)
    }

    /// Receives a fragment from this process of PE `pe`. Returns the fragments of the answers that
    /// leave at once.
    pub fn receive(&self, pe: Pe, incarnation: Incarnation, fragment: &[u8]) -> Vec<Vec<u8>> {
        let whole = self.joined(pe, incarnation, fragment);
        let sealed = whole.and_then(|whole| postcard::from_bytes::<Sealed<_>>(&whole).ok());
        let Some(Sealed { interval, message }) = sealed else { return Vec::new() };
        let mut links = self.links();
        let answers = links.receive(&mut &self.mirrors, pe, (interval, message));
        if !self.has_replica {
            return answers.iter().flat_map(|answer| fragments(interval, answer, BACK)).collect();
        }
        let (wait, leave): (Vec<_>, Vec<_>) = answers.into_iter().partition(FarMessage::waits);
        wait.into_iter().for_each(|answer| links.depart(pe, interval, answer));
        let is_due = links.has_departures();
        drop(links);
        if is_due {
            self.due.store(true, Ordering::SeqCst);
            // A thread that waits is woken by what has arrived, and looks again when it leaves.
            if self.waiters.load(Ordering::SeqCst) == 0 {
                self.sender.get().into_iter().for_each(Thread::unpark);
            }
        }
        leave.iter().flat_map(|answer| fragments(interval, answer, BACK)).collect()
    }

    // ---- the replica of the own log -----------------------------------------------------------

    /// Chooses the PE that holds the replica, given the node of each living PE.
    pub fn choose_holder(&self, nodes: &[Option<u32>]) {
        let mut links = self.links();
        let holder = replicas::holder(nodes, self.mirrors.me, links.holder());
        if self.has_replica && holder != links.holder() {
            links.replicate_to(holder);
        }
    }

    /// Writes a replica to the own log, which does not show its interval yet. Returns false if it
    /// does not fit.
    pub fn restore(&self, replica: &LogReplica) -> bool {
        let log = self.mirrors.own.log(self.mirrors.n_pes);
        let is_whole = copy::restore(&log, replica.interval.era, &replica.head, &replica.records);
        log.set(Word::Lacks, 1);
        let arrived = replica.arrivals.iter().map(|arrival| arrival.time);
        self.mirrors.follow(arrived.max().unwrap_or_default().max(last_time(&log)));
        is_whole
    }

    /// Empties the mirrors of these PEs, which have to send their records again. Returns the
    /// answers to what has waited for the interval.
    pub fn begin_restore(
        &self,
        replica: LogReplica,
        from: impl Iterator<Item = Pe>,
    ) -> Vec<(Pe, FarMessage)> {
        let of = (replica.interval, replica.arrivals);
        self.links().begin_restore(&mut &self.mirrors, of, from)
    }

    /// Adds a fragment to those before; returns the message that it completes.
    fn joined(&self, pe: Pe, incarnation: Incarnation, fragment: &[u8]) -> Option<Vec<u8>> {
        let (&flags, piece) = fragment.split_first()?;
        let mut partial = lock(&self.partial);
        let partial = &mut partial.get_mut(pe.at())?[usize::from(flags & BACK != 0)];
        if incarnation < partial.incarnation {
            return None;
        }
        if flags & FIRST != 0 {
            *partial = Partial { incarnation, bytes: Vec::new() };
        }
        partial.bytes.extend_from_slice(piece);
        (flags & LAST != 0).then(|| std::mem::take(&mut partial.bytes))
    }

    /// Returns the words of the own log.
    pub fn words(&self) -> FarMessage {
        FarMessage::Words((&self.mirrors).own_words())
    }
}

impl Mirrors {
    /// Makes all later times follow this one.
    fn follow(&self, last: u64) {
        self.skew.fetch_max((last + 1).saturating_sub(now()), Ordering::Relaxed);
    }

    #[inline]
    fn of(&self, pe: Pe) -> Log<'static> {
        self.own.mirror(pe, self.n_pes)
    }

    /// Half of a mirror is for operations, half for meetings, which must all find room.
    fn most(&self) -> u64 {
        self.of(self.me).capacity() as u64 / 2
    }

    fn has_room(&self, mirror: &Log, record: &LogRecord) -> bool {
        let size = bytes_for(record.len as usize) as u64;
        let end = mirror.get(Word::Tail) + size;
        if record.kind == Kind::Meeting {
            return end <= mirror.capacity() as u64;
        }
        let need = self.need.fetch_add(size, Ordering::Relaxed) + size;
        need <= self.limit.load(Ordering::Relaxed) && end <= self.most()
    }
}

impl MirrorPort for &Mirrors {
    fn interval(&self, pe: Pe) -> LogInterval {
        interval_of(&self.of(pe))
    }

    fn own_words(&self) -> LogWords {
        let log = self.own.log(self.n_pes);
        LogWords {
            incarnation: self.incarnation,
            stage: log.stage().1,
            met: log.get(Word::Met),
            bare_from: log.get(Word::BareFrom),
            against: log.against(),
        }
    }

    fn clear(&mut self, pe: Pe, interval: LogInterval) {
        let mirror = self.of(pe);
        mirror.set(Word::Job, self.job);
        mirror.set(Word::Owner, u64::from(pe.0) + 1);
        mirror.clear((interval.era, interval.checkpoint), CallPlace::NONE);
    }

    fn set_words(&mut self, pe: Pe, words: &LogWords) {
        let mirror = self.of(pe);
        let (known, _) = mirror.stage();
        if words.incarnation.0 < known {
            return;
        }
        words.stage.into_iter().for_each(|stage| mirror.set_stage(words.incarnation.0, stage));
        if mirror.against().is_empty() {
            mirror.set_against(&words.against);
        }
        mirror.set(Word::BareFrom, words.bare_from.min(mirror.get(Word::BareFrom)));
        // A meeting with a record is known by that.
        if words.bare_from <= words.met {
            self.set_met(pe, words.met);
        }
    }

    fn append(
        &mut self,
        pe: Pe,
        record: &NumberedRecord,
        time: Option<u64>,
    ) -> Option<(usize, u64)> {
        let (mirror, head) = (self.of(pe), record.record);
        if !self.has_room(&mirror, &head) {
            let bytes = self.need.load(Ordering::Relaxed);
            self.full.report(self.me, bytes, self.limit.load(Ordering::Relaxed), "its loss");
            mirror.set(Word::Need, bytes);
            return None;
        }
        let from = mirror.get(Word::Tail) as usize;
        let len = head.len as usize;
        match head.kind {
            Kind::Atomic => {
                let words = [0, 0, record.compared].map(u64::to_ne_bytes);
                mirror.write_payload(from, &words.concat()[..len.min(24)]);
            }
            _ => mirror.write_payload(from, record.payload.get(..len).unwrap_or_default()),
        }
        let time = time.unwrap_or_else(|| now() + self.skew.load(Ordering::Relaxed));
        mirror.append(from, &LogRecord { time, ..head });
        Some((from, time))
    }

    fn link(&mut self, pe: Pe, last: Option<usize>, from: usize) {
        self.of(pe).link(last, from);
    }

    fn set_met(&mut self, pe: Pe, met: u64) {
        let mirror = self.of(pe);
        mirror.set(Word::Met, met.max(mirror.get(Word::Met)));
    }

    fn put(&mut self, record: &NumberedRecord) {
        let head = record.record;
        let (block, step) = ((head.block.0 as usize).max(1), head.block.1);
        for (nth, block) in record.payload.chunks(block).enumerate() {
            let _ = bytes::write(self.own, head.at + nth as u64 * step, block); // the origin checks
        }
    }

    fn change(&mut self, pe: Pe, from: Option<usize>, record: &NumberedRecord) -> u64 {
        let Some((word, change)) = record.record.change(record.compared) else { return 0 };
        let mirror = self.of(pe);
        from.into_iter().for_each(|from| mirror.set_state(from, Carried::Underway));
        let old = self.own.update(word, change).unwrap_or_default();
        from.into_iter().for_each(|from| mirror.set_found(from, AtomicOutcome { old, seen: 0 }));
        old
    }

    fn found(&self, pe: Pe, from: usize) -> u64 {
        self.of(pe).found(from).old
    }

    fn set_found(&mut self, pe: Pe, from: usize, old: u64) {
        self.of(pe).set_found(from, AtomicOutcome { old, seen: 0 });
    }

    fn read(&self, at: u64, (block, blocks, step): (u64, u64, u64)) -> Vec<u8> {
        let block = |nth: u64| bytes::read(self.own, at + nth * step, block);
        (0..blocks).filter_map(block).flatten().collect()
    }

    fn set_acknowledged(&mut self, pe: Pe, number: u64) {
        self.own.log(self.n_pes).take(pe, number);
    }

    fn acknowledged(&self, pe: Pe) -> u64 {
        let log = self.own.log(self.n_pes);
        log.has_taken(pe, log.get(Word::Interval))
    }

    fn own_end(&self) -> (Incarnation, u64) {
        (self.incarnation, self.own.log(self.n_pes).get(Word::Tail))
    }

    fn own_records(&self, at: u64) -> (LogHead, LogBytes) {
        let log = self.own.log(self.n_pes);
        let records = copy::records_from(&log, at as usize);
        (copy::head(&log), records)
    }

    fn note_dropped(&mut self, pe: Pe, bytes: u64) {
        let loss = format!("the loss of PE {pe} with its host");
        self.full.report(self.me, bytes, self.limit.load(Ordering::Relaxed), &loss);
    }

    fn breaks(&self, rule: Mutant) -> bool {
        breaks(rule)
    }
}

/// Returns the latest time of the records of a log, and of what its owner learned by them.
fn last_time(log: &Log) -> u64 {
    let (mut at, mut last) = (0, 0);
    while let Some(found) = log.read(at) {
        let seen = match found.record.kind {
            Kind::Atomic => log.found(found.from).seen,
            _ => 0,
        };
        (at, last) = (found.next, last.max(found.record.time).max(seen));
    }
    last
}

/// Returns the interval of a log.
pub(in crate::pgas) fn interval_of(log: &Log) -> LogInterval {
    LogInterval { era: log.get(Word::Era), checkpoint: log.get(Word::Interval) }
}

/// Reads the clock by which records have their times.
pub(super) fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
