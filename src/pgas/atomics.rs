//! Atomic operations of a job with logs (`pgas/local.rs`): the record of each, and its outcome
//! while the target is away.
//!
//! ```text
//! begun      the record exists
//! under way  the operation may have happened: if the PE dies here, all PEs roll back
//! done       the record holds the value found
//! ```
//!
//! A substitute applies other PEs' changes in the order of the values that they found, regardless
//! of their times (`core/replay/edges.rs`). At the end it carries out the operations that no PE has
//! carried out, and records the values found, which PEs that wait for a result read there.
//!
//! Invariant: an operation happens once over all incarnations of its origin and its target.

#![forbid(unsafe_code)]

use std::sync::atomic::{Ordering, fence};

use raidshmem_core::quantity::Pe;
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::replay::edges::Edge;
use raidshmem_core::view::State as Life;
use raidshmem_segment::log::{AtomicOutcome, Carried, Kind, Located, Log, Record, Word};
use raidshmem_segment::update::{Change, Update, WordAt};
use raidshmem_sys::lock;

use super::World;
use super::local::{Call, Delivery, Remote};
use super::replay::LoggedCall;
use super::world::local::LogMode;

/// Bits for the length of a word; the code of its change is above them.
const LENGTH_BITS: u32 = 8;

/// An atomic operation as a call requests it.
#[derive(Debug, Clone, Copy)]
pub struct AtomicCall {
    /// The routine.
    pub name: &'static str,
    /// The change.
    pub change: Change,
    /// True if the caller gets the old value.
    pub fetches: bool,
}

impl AtomicCall {
    /// Returns its record for a word of a PE.
    #[inline]
    fn record(&self, pe: Pe, word: WordAt) -> Record {
        let (code, _) = self.change.how.code();
        let block = (word.bytes | (code as usize) << LENGTH_BITS, self.change.operand as usize);
        let place = Remote { pe, at: word.offset, block };
        World::record(Kind::Atomic, &Call { name: self.name, with: 0 }, place, self.payload())
    }

    /// Returns the bytes of its payload: the value found, its time and the value to compare with,
    /// each only if the operation needs it.
    #[inline]
    fn payload(&self) -> usize {
        match self.change.how {
            Update::CompareSwap(_) => 24,
            _ if self.fetches => 16,
            _ => 8,
        }
    }

    /// Returns the value to compare with.
    #[inline]
    fn compares_with(&self) -> u64 {
        self.change.how.code().1
    }
}

impl World {
    /// Changes a word of a PE in one step, by `carry_out`; returns the old value.
    pub fn atomic_logged(
        &self,
        call: AtomicCall,
        (pe, word): (Pe, WordAt),
        carry_out: impl Fn() -> u64,
    ) -> u64 {
        let record = call.record(pe, word);
        if self.local.way() == LogMode::Replayed {
            return self.atomic_replayed(call, &record, carry_out);
        }
        let log = self.own_log();
        let from = self.append_to(&log, record, call.payload(), |from| {
            if let Update::CompareSwap(expected) = call.change.how {
                log.set_compared(from, expected);
            }
        });
        self.change_once(&log, call, (pe, from), carry_out)
    }

    /// Carries out the operation whose record begins at `from`, or leaves it to its target.
    fn change_once(
        &self,
        log: &Log,
        call: AtomicCall,
        (pe, from): (Pe, Option<usize>),
        carry_out: impl Fn() -> u64,
    ) -> u64 {
        let note = |old: u64| {
            from.into_iter().for_each(|from| self.note_found(log, from, old, call.fetches));
        };
        loop {
            match self.way_to(log, call.name, pe, from) {
                Delivery::CarryOut => {
                    from.into_iter().for_each(|from| log.set_state(from, Carried::Underway));
                    let old = carry_out();
                    fence(Ordering::Acquire); // order the change before the second look
                    if !self.is_wiped(pe) {
                        note(old);
                        self.segments.ring(pe);
                        log.word(Word::Flight).store(0, Ordering::Release);
                        return old;
                    }
                    // It may have happened before the memory was wiped, and the lost PE may have
                    // seen it. No substitute begins, or catches up, before that is decided.
                    self.take_all_back(Reason::LostMeanwhile);
                    log.set(Word::Flight, 0);
                    return 0;
                }
                Delivery::Leave if call.fetches && self.await_reached(call.name, pe) => {}
                Delivery::TakenOver => {
                    let old = from.and_then(|from| self.taken_by(pe, from)).unwrap_or_default();
                    fence(Ordering::Acquire); // order the read before the second look
                    if !self.is_wiped(pe) {
                        note(old);
                        return old;
                    }
                }
                Delivery::Leave | Delivery::Cut => return 0,
            }
        }
    }

    /// Returns true if the memory of PE `pe` that is mapped here is lost with its node: it may be
    /// wiped.
    fn is_wiped(&self, pe: Pe) -> bool {
        let member = self.members.member(pe);
        let is_elsewhere = member.node != self.segments.node_of(pe);
        pe != self.me() && (member.state == Life::NodeDead || is_elsewhere)
    }

    #[inline]
    fn note_found(&self, log: &Log, from: usize, old: u64, fetches: bool) {
        let seen = if fetches { self.tick() } else { 0 };
        log.set_found(from, AtomicOutcome { old, seen });
    }

    /// Returns the value that PE `pe` found when it took over this PE's operation recorded at
    /// `from`.
    fn taken_by(&self, pe: Pe, from: usize) -> Option<u64> {
        let (log, me) = (self.log_of(pe), self.me().0);
        let mut at = 0;
        while let Some(Located { record, next, .. }) = log.read(at) {
            if record.kind == Kind::Taken && (record.target, record.at) == (me, from as u64) {
                return Some(record.block.1);
            }
            at = next;
        }
        None
    }

    /// Replays a call of the predecessor, and returns the value that it found.
    fn atomic_replayed(
        &self,
        call: AtomicCall,
        record: &Record,
        carry_out: impl Fn() -> u64,
    ) -> u64 {
        let (log, pe) = (self.own_log(), Pe(record.target));
        let is_it = |found: &Located| {
            found.record.is_of_one_call(record) && log.compared(found.from) == call.compares_with()
        };
        let Some(LoggedCall { found, .. }) = self.next_that(is_it) else { return 0 };
        if log.state(found.from) != Carried::Done {
            // It is the last record. An operation on own memory finds all that other PEs did; one
            // that waits for a PE may be what that PE waits for.
            if pe == self.me() || call.fetches {
                self.catch_up();
            }
            if self.local.way() == LogMode::Plain {
                return 0; // all PEs roll back
            }
            let old = self.change_once(&log, call, (pe, Some(found.from)), carry_out);
            self.catch_up();
            return old;
        }
        let AtomicOutcome { old, seen } = log.found(found.from);
        if call.fetches {
            self.apply(seen + 1);
        }
        if pe == self.me() {
            self.change_here(pe, &found, old);
        }
        self.catch_up();
        old
    }

    /// Returns the value that the operation of a record in the log of PE `pe` found on this PE;
    /// None if it has not happened.
    pub(super) fn found_here(&self, pe: Pe, from: usize) -> Option<u64> {
        let taken = lock(&self.local.book).replay.taken.get(&(pe, from)).copied();
        let log = self.log_of(pe);
        let done = || (log.state(from) == Carried::Done).then(|| log.found(from).old);
        taken.or_else(done)
    }

    /// Returns the word and the change of a record; None for an unknown kind of change.
    fn change_of(&self, pe: Pe, found: &Located) -> Option<(WordAt, Change)> {
        let (word, operand) = found.record.block;
        let code = u64::from(word >> LENGTH_BITS);
        let how = Update::of_code(code, self.log_of(pe).compared(found.from))?;
        let bytes = word as usize & ((1 << LENGTH_BITS) - 1);
        Some((WordAt { offset: found.record.at as usize, bytes }, Change { how, operand }))
    }

    /// Applies to this PE an operation of PE `pe`, or of its own, that found `old`.
    pub(super) fn change_here(&self, pe: Pe, found: &Located, old: u64) {
        let Some((word, change)) = self.change_of(pe, found) else { return };
        let own = self.segments.own();
        let on_own = |how, operand| own.update(word, Change { how, operand });
        let Some(now) = on_own(Update::Load, 0) else { return };
        let mut book = lock(&self.local.book);
        let replay = &mut book.replay;
        replay.changed.insert(word.offset);
        let edge = Edge { old, new: change.of(old, word.bytes) };
        let certain = replay.edges.add(word.offset, edge, now);
        if let Some(value) = certain {
            on_own(Update::Store, value);
        }
    }

    /// Carries out an operation of PE `pe` that has not happened. Returns false if it may have.
    pub(super) fn take_over(&self, pe: Pe, found: &Located) -> bool {
        if self.log_of(pe).state(found.from) == Carried::Underway {
            return false;
        }
        let Some((word, _)) = self.change_of(pe, found) else { return true };
        // Recorded before it becomes visible: no PE reaches this one until it has caught up.
        let own = self.segments.own();
        let old = own.update(word, Change { how: Update::Load, operand: 0 }).unwrap_or_default();
        let place = Remote { pe, at: found.from, block: (0, old as usize) };
        let call = Call { name: "", with: 0 };
        let record = World::record(Kind::Taken, &call, place, 0);
        self.append(record, &[]);
        lock(&self.local.book).replay.taken.insert((pe, found.from), old);
        self.change_here(pe, found, old);
        true
    }

    /// Notes an assignment to own bytes that other PEs change atomically.
    pub fn assigns(&self, at: usize, bytes: usize) {
        if self.local.way() == LogMode::Replayed {
            lock(&self.local.book).replay.edges.assign(&(at..at + bytes));
        }
    }

    /// Returns the reason for a global rollback if a word is uncertain when all operations are
    /// known.
    pub(super) fn uncertain(&self) -> Option<Reason> {
        let certain = lock(&self.local.book).replay.edges.is_certain();
        (!certain).then_some(Reason::Uncertain)
    }
}
