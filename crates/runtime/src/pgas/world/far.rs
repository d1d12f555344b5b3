//! The mirrors of the logs of PEs that are not mapped here, and the messages on their way to these
//! PEs (`core/replay/far.rs`).
//!
//! Messages are cut into fragments. A PE sends in two streams, that of the thread of the program
//! and that of the engine, each in order.
//!
//! Invariants: the mirrors lie in the own segment, so they outlive this process; only the holder of
//! the lock writes them. No code calls the engine with the lock held, since the engine calls here.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::replay::far::{
    Admission, FarMessage, LogInterval, LogWords, NumberedRecord, Receiver,
};
use raidshmem_core::replay::log::{AtomicOutcome, Carried, Kind, LogRecord};
use raidshmem_core::replay::place::CallPlace;
use raidshmem_fabric::TOLD_MAX;
use raidshmem_segment::log::{Log, NO_INTERVAL, Word, bytes_for};
use raidshmem_segment::{Segment, bytes};
use raidshmem_sys::lock;
use serde::{Deserialize, Serialize};

use super::local::FullLog;

/// Bits of the first byte of a fragment.
const FIRST: u8 = 1;
const LAST: u8 = 2;
/// A fragment of the stream of the engine.
const BACK: u8 = 4;

/// A message with the interval that it belongs to.
#[derive(Debug, Serialize, Deserialize)]
struct Sealed {
    interval: LogInterval,
    message: FarMessage,
}

/// Encodes a message as fragments.
fn fragments(interval: LogInterval, message: FarMessage, stream: u8) -> Vec<Vec<u8>> {
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
#[derive(Debug, Default)]
struct Partial {
    incarnation: Incarnation,
    bytes: Vec<u8>,
}

/// The state of a far PE.
#[derive(Debug, Default)]
struct FarPeer {
    partial: [Partial; 2],
    /// The number of the last record in the mirror, and its place.
    number: u64,
    last: Option<usize>,
    /// The last meeting in the mirror.
    meeting: Option<usize>,
    /// The number of the last record sent, and of the last one acknowledged.
    sent: u64,
    acked: u64,
    /// The records that are not acknowledged, as fragments, and their bytes.
    waiting: VecDeque<(u64, Vec<Vec<u8>>)>,
    bytes: usize,
    /// The value found by the last atomic operation that was acknowledged.
    old: u64,
    /// The request for bytes under way, and its answer.
    request: Option<(u64, Vec<Vec<u8>>)>,
    answer: Option<Vec<u8>>,
    /// The process that has been sent all of these.
    told: Option<Incarnation>,
}

/// A message that waits until this PE can take it.
#[derive(Debug)]
struct Held {
    pe: Pe,
    sealed: Sealed,
}

#[derive(Debug)]
struct FarState {
    /// The interval of the own log.
    own: LogInterval,
    open: bool,
    peers: Vec<FarPeer>,
    held: VecDeque<Held>,
    tickets: u64,
}

/// Fragments to be passed to a PE.
pub(in crate::pgas) type Outgoing = Vec<(Pe, Vec<u8>)>;

/// The mirrors of far PEs, and the messages to them.
#[derive(Debug)]
pub(in crate::pgas) struct FarLogs {
    own: &'static Segment,
    me: Pe,
    n_pes: usize,
    job: u64,
    /// The most bytes of operations in all mirrors, and those that the interval needs.
    limit: AtomicU64,
    need: AtomicU64,
    full: Arc<FullLog>,
    state: Mutex<FarState>,
}

impl FarLogs {
    /// Takes over the mirrors of the predecessor; without one, there are none.
    pub fn new(
        own: &'static Segment,
        (me, n_pes, job): (Pe, usize, u64),
        kept: bool,
        full: Arc<FullLog>,
    ) -> FarLogs {
        let mut peers = Vec::new();
        for pe in Pe::all(n_pes) {
            let mirror = own.mirror(pe, n_pes);
            if !kept {
                mirror.set(Word::Job, 0);
                mirror.clear((0, NO_INTERVAL), CallPlace::NONE);
            }
            peers.push(FarPeer::of(&mirror, kept && mirror.is_of(job, pe)));
        }
        let own_interval = match kept {
            true => own.log(n_pes).interval(),
            false => LogInterval::default(),
        };
        let state =
            FarState { own: own_interval, open: false, peers, held: VecDeque::new(), tickets: 0 };
        let (limit, need) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        FarLogs { own, me, n_pes, job, limit, need, full, state: Mutex::new(state) }
    }

    /// Returns the mirror of the log of PE `pe`.
    #[inline]
    pub fn mirror(&self, pe: Pe) -> Log<'static> {
        self.own.mirror(pe, self.n_pes)
    }

    /// Returns the most bytes of a log whose mirrors hold its meetings, and of the operations in a
    /// mirror.
    pub fn most(&self) -> u64 {
        self.mirror(self.me).capacity() as u64 / 2
    }

    /// Sets the most bytes of operations in all mirrors.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Returns the bytes of operations in this interval.
    pub fn need(&self) -> u64 {
        self.need.load(Ordering::Relaxed)
    }

    // ---- the own interval ---------------------------------------------------------------------

    /// Begins an interval of the own log: takes the messages that have waited for it. Returns the
    /// answers.
    pub fn begin(&self, own: LogInterval) -> Outgoing {
        let mut state = lock(&self.state);
        state.own = own;
        self.need.store(0, Ordering::Relaxed);
        for peer in &mut state.peers {
            (peer.sent, peer.acked, peer.bytes) = (0, 0, 0);
            peer.waiting.clear();
            (peer.request, peer.answer, peer.told) = (None, None, None);
        }
        drop(state);
        self.open()
    }

    /// Takes messages again, first those that were held. Returns the answers.
    pub fn open(&self) -> Outgoing {
        let mut state = lock(&self.state);
        state.open = true;
        let mut answers = Outgoing::new();
        for Held { pe, sealed } in std::mem::take(&mut state.held) {
            let interval = state.own;
            let answer = self.take(&mut state, pe, sealed);
            let parts = answer.into_iter().flat_map(|answer| fragments(interval, answer, 0));
            answers.extend(parts.map(|part| (pe, part)));
        }
        answers
    }

    /// Ends the own interval: what arrives from now on waits for the next.
    pub fn end(&self) {
        let mut state = lock(&self.state);
        (state.own, state.open) = (LogInterval::default(), false);
    }

    /// Holds what arrives from now on.
    pub fn close(&self) {
        lock(&self.state).open = false;
    }

    // ---- arrivals -----------------------------------------------------------------------------

    /// Receives a fragment from this process of PE `pe`. Returns the fragments of the answer.
    pub fn receive(&self, pe: Pe, incarnation: Incarnation, fragment: &[u8]) -> Vec<Vec<u8>> {
        let Some((&flags, piece)) = fragment.split_first() else { return Vec::new() };
        let state = &mut *lock(&self.state);
        let Some(peer) = state.peers.get_mut(pe.at()) else { return Vec::new() };
        let partial = &mut peer.partial[usize::from(flags & BACK != 0)];
        if incarnation < partial.incarnation {
            return Vec::new();
        }
        if flags & FIRST != 0 {
            *partial = Partial { incarnation, bytes: Vec::new() };
        }
        partial.bytes.extend_from_slice(piece);
        if flags & LAST == 0 {
            return Vec::new();
        }
        let whole = std::mem::take(&mut partial.bytes);
        let Ok(sealed) = postcard::from_bytes::<Sealed>(&whole) else { return Vec::new() };
        let interval = sealed.interval;
        let answer = self.take(state, pe, sealed);
        answer.into_iter().flat_map(|answer| fragments(interval, answer, BACK)).collect()
    }

    /// Takes, holds or drops a message of PE `pe`. Returns the answer.
    fn take(&self, state: &mut FarState, pe: Pe, sealed: Sealed) -> Option<FarMessage> {
        let mirror = self.mirror(pe);
        let (own, open) = (state.own, state.open);
        let peer = &mut state.peers[pe.at()];
        let receiver = Receiver { own, open, mirror: mirror.interval(), number: peer.number };
        match receiver.admit(sealed.interval, &sealed.message) {
            Admission::Drop => None,
            Admission::Hold => {
                state.held.push_back(Held { pe, sealed });
                None
            }
            Admission::Again => match sealed.message {
                FarMessage::Record(record) => {
                    let is_last = record.number == peer.number;
                    let found = |from| mirror.found(from).old;
                    let old = peer.last.filter(|_| is_last).map_or(0, found);
                    Some(FarMessage::Done { number: record.number, old })
                }
                _ => None,
            },
            Admission::Take => match sealed.message {
                FarMessage::Words(words) => {
                    self.take_words(peer, (pe, &mirror), sealed.interval, &words);
                    None
                }
                FarMessage::Record(record) => {
                    let old = self.take_record(peer, &mirror, &record);
                    Some(FarMessage::Done { number: record.number, old })
                }
                FarMessage::Read { ticket, at, block, blocks, step } => {
                    let block = |nth: u64| bytes::read(self.own, at + nth * step, block);
                    let bytes = (0..blocks).filter_map(block).flatten().collect();
                    Some(FarMessage::Bytes { ticket, bytes })
                }
                FarMessage::Done { number, old } => {
                    peer.done(number, old);
                    self.own.log(self.n_pes).take(pe, peer.acked);
                    None
                }
                FarMessage::Bytes { ticket, bytes } => {
                    if peer.request.as_ref().is_some_and(|(awaited, _)| *awaited == ticket) {
                        (peer.request, peer.answer) = (None, Some(bytes));
                    }
                    None
                }
            },
        }
    }

    fn take_words(
        &self,
        peer: &mut FarPeer,
        (pe, mirror): (Pe, &Log),
        interval: LogInterval,
        words: &LogWords,
    ) {
        if mirror.interval() != interval || !mirror.is_of(self.job, pe) {
            mirror.clear((interval.era, interval.checkpoint), CallPlace::NONE);
            mirror.set(Word::Job, self.job);
            mirror.set(Word::Owner, u64::from(pe.0) + 1);
            (peer.number, peer.last, peer.meeting) = (0, None, None);
        }
        let (known, _) = mirror.stage();
        if words.incarnation.0 < known {
            return; // of an earlier process
        }
        mirror.set(Word::Stage, words.stage);
        mirror.set(Word::BareFrom, words.bare_from.min(mirror.get(Word::BareFrom)));
        if mirror.against().is_empty() {
            mirror.set_against(&words.against);
        }
        // A meeting with a record is known by that.
        if words.bare_from <= words.met {
            mirror.set(Word::Met, words.met.max(mirror.get(Word::Met)));
        }
    }

    /// Appends a record to the mirror, and carries it out. Returns the value found.
    fn take_record(&self, peer: &mut FarPeer, mirror: &Log, record: &NumberedRecord) -> u64 {
        let head = record.record;
        let from = mirror.get(Word::Tail) as usize;
        let size = bytes_for(head.len as usize);
        let is_in = match head.kind {
            Kind::Meeting => from + size <= mirror.capacity(),
            _ => {
                let need = self.need.fetch_add(size as u64, Ordering::Relaxed) + size as u64;
                let is_allowed = need <= self.limit.load(Ordering::Relaxed);
                is_allowed && from + size <= self.most() as usize
            }
        };
        if is_in {
            mirror.write_payload(from, record.payload.get(..head.len as usize).unwrap_or(&[]));
            if head.kind == Kind::Atomic {
                mirror.write_payload(from, &atomic_payload(record));
            }
            mirror.append(from, &LogRecord { time: now(), ..head });
        } else if mirror.against().is_empty() {
            let bytes = self.need();
            self.full.report(self.me, bytes, self.limit.load(Ordering::Relaxed));
            mirror.set_against(&Reason::Overflow { bytes }.to_string());
        }
        peer.number = record.number;
        peer.last = is_in.then_some(from);
        let old = match head.kind {
            Kind::Put => self.put(&head, &record.payload),
            Kind::Atomic => self.change(mirror, peer.last, record),
            _ => {
                if is_in {
                    mirror.link(peer.meeting, from);
                    peer.meeting = Some(from);
                }
                0
            }
        };
        mirror.set(Word::Met, record.met.max(mirror.get(Word::Met)));
        old
    }

    fn put(&self, head: &LogRecord, payload: &[u8]) -> u64 {
        let (block, step) = ((head.block.0 as usize).max(1), head.block.1);
        for (nth, bytes) in payload.chunks(block).enumerate() {
            let _ = bytes::write(self.own, head.at + nth as u64 * step, bytes); // checked there
        }
        0
    }

    fn change(&self, mirror: &Log, from: Option<usize>, record: &NumberedRecord) -> u64 {
        let Some((word, change)) = record.record.change(record.compared) else { return 0 };
        from.into_iter().for_each(|from| mirror.set_state(from, Carried::Underway));
        let old = self.own.update(word, change).unwrap_or_default();
        from.into_iter().for_each(|from| mirror.set_found(from, AtomicOutcome { old, seen: 0 }));
        old
    }

    // ---- departures ---------------------------------------------------------------------------

    /// Notes a record for PE `pe`, unless the predecessor of this process sent it, it was
    /// acknowledged, and the program does not get the value found. Returns its number, and the
    /// fragments to send.
    pub fn note(&self, pe: Pe, mut record: NumberedRecord, fetches: bool) -> (u64, Vec<Vec<u8>>) {
        let state = &mut *lock(&self.state);
        let (own, peer) = (state.own, &mut state.peers[pe.at()]);
        peer.sent += 1;
        let number = peer.sent;
        let is_known = number <= self.own.log(self.n_pes).has_taken(pe, own.checkpoint);
        if is_known && !fetches {
            peer.acked = number;
            return (number, Vec::new());
        }
        record.number = number;
        let parts = fragments(own, FarMessage::Record(record), 0);
        peer.bytes += parts.iter().map(Vec::len).sum::<usize>();
        peer.waiting.push_back((number, parts.clone()));
        (number, parts)
    }

    /// Counts a record that was acknowledged to the predecessor of this process.
    pub fn count(&self, pe: Pe) {
        let peer = &mut lock(&self.state).peers[pe.at()];
        peer.sent += 1;
        peer.acked = peer.sent;
    }

    /// Notes a request for blocks of bytes of PE `pe`. Returns the fragments to send.
    pub fn request(&self, pe: Pe, at: u64, (block, blocks, step): (u64, u64, u64)) -> Vec<Vec<u8>> {
        let state = &mut *lock(&self.state);
        state.tickets += 1;
        let ticket = state.tickets;
        let parts = fragments(state.own, FarMessage::Read { ticket, at, block, blocks, step }, 0);
        let peer = &mut state.peers[pe.at()];
        (peer.request, peer.answer) = (Some((ticket, parts.clone())), None);
        parts
    }

    /// Returns true if the answer to the request is there.
    pub fn is_answered(&self, pe: Pe) -> bool {
        lock(&self.state).peers[pe.at()].answer.is_some()
    }

    /// Returns the answer to the request.
    pub fn answer(&self, pe: Pe) -> Vec<u8> {
        lock(&self.state).peers[pe.at()].answer.take().unwrap_or_default()
    }

    /// Returns the value that the operation with this number found, if it is acknowledged.
    pub fn found(&self, pe: Pe, number: u64) -> Option<u64> {
        let peer = &lock(&self.state).peers[pe.at()];
        (peer.acked >= number).then_some(peer.old)
    }

    /// Returns the bytes sent to PE `pe` that are not acknowledged.
    pub fn open_bytes(&self, pe: Pe) -> usize {
        lock(&self.state).peers[pe.at()].bytes
    }

    /// Returns true if PE `pe` has acknowledged all that was sent to it.
    pub fn is_quiet(&self, pe: Pe) -> bool {
        lock(&self.state).peers[pe.at()].waiting.is_empty()
    }

    /// Returns the fragments of the words of the own log, for another PE.
    pub fn words(&self, incarnation: Incarnation) -> Vec<Vec<u8>> {
        let log = self.own.log(self.n_pes);
        let words = LogWords {
            incarnation,
            stage: log.get(Word::Stage),
            met: log.get(Word::Met),
            bare_from: log.get(Word::BareFrom),
            against: log.against(),
        };
        fragments(lock(&self.state).own, FarMessage::Words(words), 0)
    }

    /// Returns what a new process of PE `pe` has not been sent, after the words of the own log.
    pub fn untold(&self, pe: Pe, process: Incarnation) -> Option<Vec<Vec<u8>>> {
        let peer = &mut lock(&self.state).peers[pe.at()];
        if peer.told.replace(process) == Some(process) {
            return None;
        }
        let requests = peer.request.iter().map(|(_, parts)| parts);
        let all = peer.waiting.iter().map(|(_, parts)| parts).chain(requests);
        Some(all.flatten().cloned().collect())
    }
}

impl FarPeer {
    /// Returns the state of a PE whose mirror `is_kept`.
    fn of(mirror: &Log, is_kept: bool) -> FarPeer {
        let mut peer = FarPeer::default();
        let mut at = 0;
        while let Some(found) = mirror.read(at).filter(|_| is_kept) {
            peer.number += 1;
            peer.last = Some(found.from);
            if found.record.kind == Kind::Meeting {
                peer.meeting = Some(found.from);
            }
            at = found.next;
        }
        peer
    }

    fn done(&mut self, number: u64, old: u64) {
        if number <= self.acked {
            return;
        }
        (self.acked, self.old) = (number, old);
        while self.waiting.front().is_some_and(|(sent, _)| *sent <= number) {
            let parts = self.waiting.pop_front().map_or_else(Vec::new, |(_, parts)| parts);
            self.bytes -= parts.iter().map(Vec::len).sum::<usize>();
        }
    }
}

/// Returns the payload of an atomic operation: the value found, its time, and the value that it
/// compares with, as far as the record has space.
fn atomic_payload(record: &NumberedRecord) -> Vec<u8> {
    let words = [0, 0, record.compared].map(u64::to_ne_bytes);
    words.concat()[..record.record.len as usize].to_vec()
}

/// Reads the clock by which records have their times.
pub(in crate::pgas) fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
