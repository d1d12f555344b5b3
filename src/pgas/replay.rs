//! The calls of a substitute after a local rollback, as its predecessor logged them.
//!
//! Each call is compared with the next record of the own log: the routine and its variant, the
//! offset in the segment, the lengths, the PE, and the bytes that it passes. Private addresses are
//! not compared.
//!
//! ```text
//! put      skipped if done there; repeated if in doubt or left in the log
//! atomic   returns the value found; peers' operations until then are applied (`atomics.rs`)
//! get      returns the logged bytes
//! wait     peers' operations until then are applied, and the word has its old value
//! meeting  peers' operations until then are applied; the result follows from all contributions
//! ```
//!
//! At the end of the log the substitute looks at the logs of the other PEs for the last time, and
//! is reachable from then on. If that end is a meeting, it does so before it waits there: other PEs
//! may need it before they come.
//!
//! Invariants: other PEs' puts are applied in the order of their times, once; a call that differs
//! changes nothing, and all PEs roll back.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use raidshmem_core::message::ProgressReport;
use raidshmem_core::quantity::Pe;
use raidshmem_core::replay::decide::{Finding, Reason};
use raidshmem_segment::log::{Carried, Kind, Located, Log, Record, Stage, Word};
use raidshmem_segment::update::{Change, Update, WordAt};
use raidshmem_sys::lock;
use tracing::info;

use super::World;
use super::local::{Call, Remote};
use super::world::local::LogMode;

/// The record that a call matches.
#[derive(Debug)]
pub(super) struct LoggedCall {
    pub found: Located,
    /// True for the first, and for the last, of equal answers that share a record.
    pub is_first: bool,
    pub is_last: bool,
}

/// Returns the position of the next call in the own log, from `at` on.
fn past_taken(log: &Log, mut at: usize) -> usize {
    while let Some(found) = log.read(at).filter(|found| found.record.kind == Kind::Taken) {
        at = found.next;
    }
    at
}

impl World {
    /// Begins a replay, with the log of the predecessor, from the checkpoint.
    pub(crate) fn begin_replay(&self) {
        let (log, pen) = (self.own_log(), &self.local.pen);
        self.local.era.store(log.get(Word::Era), Ordering::Relaxed);
        self.local.limit.store(self.limit(&log), Ordering::Relaxed);
        let mut book = lock(&self.local.book);
        let (mut at, mut taken, mut meetings) = (0, BTreeMap::new(), None);
        while let Some(Located { record, next, .. }) = log.read(at) {
            if record.kind == Kind::Meeting {
                log.link(book.last, at);
                book.last = Some(at);
                let (first, _) = meetings.unwrap_or((record.at, record.at));
                meetings = Some((first, record.at));
            }
            if record.kind == Kind::Taken {
                taken.insert((Pe(record.target), record.at as usize), record.block.1);
            }
            pen.records.set(pen.records.get() + 1);
            at = next;
        }
        pen.tail.set(at as u64);
        pen.need.set(at as u64);
        book.met = self.met_before(&log, meetings);
        book.seen = vec![None; self.n_pes()];
        let replay = &mut book.replay;
        (replay.end, replay.next) = (at, vec![0; self.n_pes()]);
        (replay.at, replay.taken) = (past_taken(&log, 0), taken);
        replay.begun = Some(std::time::Instant::now());
        drop(book);
        self.local.set_way(LogMode::Replayed);
        info!("replays {at} bytes of its log");
        self.catch_up();
    }

    /// Returns the number of the meeting before those of the log, whose first and last are
    /// `meetings`. A predecessor that died right after the record of one had come to it, but may
    /// not have published that.
    fn met_before(&self, log: &Log, meetings: Option<(u64, u64)>) -> u64 {
        // A word of an earlier era says nothing about this one.
        let met = log.get(Word::Met);
        let met = if met >> 32 == log.get(Word::Era) { met & 0xffff_ffff } else { 0 };
        let Some((first, last)) = meetings else { return met };
        if met < last {
            self.comes(log, last);
        }
        first - 1
    }

    /// Returns the next record if `is_it` finds that the call matches; otherwise all PEs roll back.
    pub(super) fn next_that(&self, is_it: impl FnOnce(&Located) -> bool) -> Option<LoggedCall> {
        let log = self.own_log();
        let mut book = lock(&self.local.book);
        let replay = &mut book.replay;
        let inside = |found: &Located| found.from < replay.end && is_it(found);
        let given = log.read(replay.at).filter(inside).map(|found| {
            let again = found.record.kind == Kind::Answer;
            let is_last = !again || replay.repeated == log.repeats(found.from);
            LoggedCall { found, is_first: replay.repeated == 0, is_last }
        });
        if let Some(given) = &given {
            replay.calls += 1;
            (replay.at, replay.repeated) = match given.is_last {
                true => (past_taken(&log, given.found.next), 0),
                false => (replay.at, replay.repeated + 1),
            };
        }
        drop(book);
        if given.is_none() {
            self.take_all_back(&Reason::Differs);
        }
        given
    }

    /// Like `next_that`, for a record and the bytes that the program passes now.
    fn next(&self, record: &Record, brings: &[u8]) -> Option<Located> {
        let is_it = |found: &Located| {
            found.record.is_of_one_call(record) && self.payload(self.me(), found) == brings
        };
        Some(self.next_that(is_it)?.found)
    }

    /// Like `next_that`, for a call whose logged result counts.
    pub(super) fn next_of(&self, kind: Kind, call: &Call, place: Remote) -> Option<LoggedCall> {
        let is_it = |found: &Located| {
            let bytes = found.record.len as usize;
            found.record.is_of_one_call(&World::record(kind, call, place, bytes))
        };
        self.next_that(is_it)
    }

    /// Returns the payload of the next record.
    pub(super) fn brought_before(&self) -> &[u8] {
        let at = lock(&self.local.book).replay.at;
        self.own_log().read(at).map_or(&[], |found| self.payload(self.me(), &found))
    }

    pub(super) fn payload(&self, pe: Pe, found: &Located) -> &[u8] {
        let mapped = self.segments.if_mapped(pe).unwrap_or_else(|| self.segments.own());
        mapped.bytes(found.payload, found.record.len as usize)
    }

    pub(super) fn put_replayed(
        &self,
        call: Call,
        place: Remote,
        bytes: &[u8],
        carry_out: impl FnOnce(),
    ) {
        let record = World::record(Kind::Put, &call, place, bytes.len());
        let Some(found) = self.next(&record, bytes) else { return };
        let log = self.own_log();
        let done = log.state(found.from) == Carried::Done;
        if place.pe == self.me() {
            self.assigns_blocks(&found.record, bytes.len());
            carry_out();
        } else if !done && !self.has_taken(&log, &self.log_of(place.pe), found.from) {
            self.deliver(call.name, place.pe, Some(found.from), carry_out);
        }
        self.catch_up();
    }

    /// Returns the bytes that the predecessor got; empty if all PEs roll back.
    pub(super) fn get_replayed(&self, call: Call, place: Remote) -> &[u8] {
        let Some(given) = self.next_of(Kind::Get, &call, place) else { return &[] };
        self.catch_up();
        self.payload(self.me(), &given.found)
    }

    pub(super) fn wait_replayed(
        &self,
        call: Call,
        place: Remote,
        holds: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        let LoggedCall { found, .. } = self.next_of(Kind::Wait, &call, place)?;
        self.apply(found.record.time + 1);
        let value = self.payload(self.me(), &found).try_into().map_or(0, u64::from_ne_bytes);
        // Other PEs' atomic changes may have gone on meanwhile.
        let goes_on = lock(&self.local.book).replay.changed.contains(&place.at);
        if !holds(value) || !goes_on && !holds(self.own_word(place, value)) {
            self.take_all_back(&Reason::Differs);
            return None;
        }
        self.catch_up();
        Some(value)
    }

    /// Returns the value of an own word; `otherwise` if it is not a word for atomic changes.
    fn own_word(&self, place: Remote, otherwise: u64) -> u64 {
        let load = Change { how: Update::Load, operand: 0 };
        let word = WordAt { offset: place.at, bytes: place.block.0 };
        self.segments.own().update(word, load).unwrap_or(otherwise)
    }

    /// Returns true if the predecessor came to that meeting.
    pub(super) fn meeting_replayed(&self, record: &Record, brings: &[u8]) -> bool {
        let found = self.next(record, brings);
        lock(&self.local.book).met += u64::from(found.is_some());
        found.is_some()
    }

    /// Notes that the result of a meeting is in place.
    pub fn is_met(&self) {
        if self.local.way() == LogMode::Replayed {
            self.catch_up();
        }
    }

    /// Applies other PEs' operations on this one before time `until`.
    pub(super) fn apply(&self, until: u64) {
        self.apply_while(|pe, found| {
            found.record.time < until
                && self.happened_here(pe, found)
                && self.carry_out_here(pe, found)
        });
    }

    /// Applies all operations, at the end those that no PE has carried out. Returns false if one of
    /// the latter may have happened.
    fn apply_all(&self) -> bool {
        self.apply_while(|pe, found| {
            self.happened_here(pe, found) && self.carry_out_here(pe, found)
        });
        let mut known = true;
        self.apply_while(|pe, found| {
            known &= match found.record.kind {
                Kind::Atomic => self.take_over(pe, found),
                _ => self.carry_out_here(pe, found),
            };
            known
        });
        known
    }

    /// Returns true if an operation may be applied as having happened: a put may be repeated, and
    /// an atomic operation happened if it found a value.
    fn happened_here(&self, pe: Pe, found: &Located) -> bool {
        found.record.kind == Kind::Put || self.found_here(pe, found.from).is_some()
    }

    /// Passes other PEs' operations on this one to `apply`, in the order of their times: those of
    /// each PE until `apply` returns false for one.
    fn apply_while(&self, mut apply: impl FnMut(Pe, &Located) -> bool) {
        let mut next = std::mem::take(&mut lock(&self.local.book).replay.next);
        let me = self.me();
        let head = |pe: Pe, at: &mut usize| {
            let log = self.log_of(pe);
            loop {
                let found = log.read(*at)?;
                let Record { kind, target, .. } = found.record;
                if matches!(kind, Kind::Put | Kind::Atomic) && target == me.0 {
                    return Some(found);
                }
                *at = found.next;
            }
        };
        let mut others: Vec<Pe> = Pe::all(self.n_pes()).filter(|&pe| pe != me).collect();
        loop {
            let heads = others.iter().filter_map(|&pe| Some((pe, head(pe, &mut next[pe.at()])?)));
            let Some((pe, found)) = heads.min_by_key(|(pe, found)| (found.record.time, *pe)) else {
                break;
            };
            match apply(pe, &found) {
                true => next[pe.at()] = found.next,
                false => others.retain(|&other| other != pe),
            }
        }
        lock(&self.local.book).replay.next = next;
    }

    fn carry_out_here(&self, pe: Pe, found: &Located) -> bool {
        let record = &found.record;
        if record.kind == Kind::Atomic {
            let old = self.found_here(pe, found.from);
            old.into_iter().for_each(|old| self.change_here(pe, found, old));
            return old.is_some();
        }
        let bytes = self.payload(pe, found);
        self.assigns_blocks(record, bytes.len());
        let (block, step) = (record.block.0 as usize, record.block.1 as usize);
        for (nth, block) in bytes.chunks(block.max(1)).enumerate() {
            self.segments.write_own(record.at as usize + nth * step, block);
        }
        true
    }

    /// Notes that a put assigns own bytes, in blocks.
    fn assigns_blocks(&self, record: &Record, bytes: usize) {
        let (block, step) = ((record.block.0 as usize).max(1), record.block.1 as usize);
        if bytes > 0 && !lock(&self.local.book).replay.edges.is_certain() {
            for nth in 0..bytes.div_ceil(block) {
                self.assigns(record.at as usize + nth * step, block);
            }
        }
    }

    /// Takes over, at the end of the log, operations that others left in theirs; this PE is then
    /// reachable.
    pub(super) fn catch_up(&self) {
        let (at, end) = {
            let book = lock(&self.local.book);
            (book.replay.at, book.replay.end)
        };
        if at < end || self.local.way() != LogMode::Replayed {
            return;
        }
        let view = self.members.view();
        if !view.local {
            return self.local.set_way(LogMode::Plain); // another loss rolls back all
        }
        let (log, incarnation) = (self.own_log(), self.members.incarnation().0);
        self.tick(); // a later time than any of the predecessor
        log.set_stage(incarnation, Stage::Draining);
        // If a PE has not seen that, and acts as if this PE were away, its record is visible here.
        // The start of the replay has checked that this order can be ensured.
        let known = self.segments.order_others() && self.apply_all();
        let next = std::mem::take(&mut lock(&self.local.book).replay.next);
        for (pe, &to) in Pe::all(self.n_pes()).zip(&next) {
            log.take(pe, to as u64);
        }
        self.members.work_in(view.number);
        let mut book = lock(&self.local.book);
        book.replay.took = book.replay.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        drop(book);
        self.local.set_way(LogMode::Logged);
        log.set_stage(incarnation, Stage::Direct);
        let others = Pe::all(self.n_pes()).filter(|&pe| pe != self.me());
        others.for_each(|pe| self.segments.wake(pe));
        info!("has caught up in view {}", view.number);
        let doubt = (!known).then_some(Reason::InDoubt).or(self.uncertain());
        if let Some(why) = doubt {
            self.take_all_back(why);
        } else if let Some(why) = self.findings() {
            self.say_all_go_back(why);
        }
    }

    /// Returns, as a message, the reasons against a local rollback in the logs of all PEs.
    pub(crate) fn findings(&self) -> Option<String> {
        let mut sum = Finding::default();
        for pe in Pe::all(self.n_pes()) {
            let why = self.log_of(pe).against();
            let reason = (!why.is_empty()).then_some(Reason::Said { why });
            sum.add(Finding::of(pe, reason));
        }
        sum.words()
    }

    /// Reports the replay of this PE, which has met the others since.
    pub(super) fn report_replay(&self) {
        let replay = std::mem::take(&mut lock(&self.local.book).replay);
        if replay.begun.is_some() {
            let (pe, number) = (self.me(), self.store.agreed());
            let (micros, calls) = (replay.took.as_micros() as u64, replay.calls);
            self.members.report(ProgressReport::Replayed { pe, number, micros, calls });
        }
    }
}
