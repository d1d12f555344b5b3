//! The link of a PE with a far one: what it has taken from it, and what it has sent.

use std::collections::{BTreeMap, VecDeque};

use super::LogInterval;
use super::message::{FarMessage, LogWords, NumberedRecord};
use super::port::MirrorPort;
use super::replica::Arrival;
use crate::mutant::Mutant;
use crate::quantity::{Incarnation, Pe};
use crate::replay::log::Kind;

/// The link with a PE.
#[derive(Debug, Clone, Default)]
pub struct FarLink {
    /// The number of the last record in the mirror, and its place.
    pub number: u64,
    pub last: Option<usize>,
    /// The value found by its operation, if this process carried it out.
    pub old: Option<u64>,
    /// The last meeting in the mirror.
    pub meeting: Option<usize>,
    /// The number of the last record sent.
    pub sent: u64,
    /// The records that are not acknowledged, and their bytes.
    pub waiting: VecDeque<NumberedRecord>,
    pub bytes: usize,
    /// The values found by operations whose callers wait for them.
    pub found: BTreeMap<u64, Option<u64>>,
    /// The requests for bytes, and the answers, by ticket.
    pub requests: BTreeMap<u64, (FarMessage, Option<Vec<u8>>)>,
    /// The process that has been sent all of these.
    pub told: Option<Incarnation>,
    /// The process whose first words have been answered.
    pub answered: Option<Incarnation>,
    /// True if the acknowledged records are kept until the next checkpoint; those records, and the
    /// bytes of all that were kept so far, if they have become too many.
    pub keeps: bool,
    pub kept: Vec<NumberedRecord>,
    pub dropped: Option<u64>,
    /// The records that the PE has to send again: the times and the values found of old. True if
    /// it has not sent the words of its log since they were requested.
    pub expected: VecDeque<Arrival>,
    pub unheard: bool,
}

impl FarLink {
    /// Returns the messages that are not acknowledged or answered.
    pub fn open_messages(&self, port: &impl MirrorPort) -> Vec<FarMessage> {
        if port.breaks(Mutant::FarNotSentAgain) {
            return Vec::new();
        }
        let records = self.waiting.iter().cloned().map(FarMessage::Record);
        let open = self.requests.values().filter(|(_, answer)| answer.is_none());
        let lacks = (self.unheard || !self.expected.is_empty()).then_some(FarMessage::Resend);
        records.chain(open.map(|(message, _)| message.clone())).chain(lacks).collect()
    }

    /// Takes the words of the log, which has come to this interval.
    pub fn hear(
        &mut self,
        port: &mut impl MirrorPort,
        pe: Pe,
        (interval, words): (LogInterval, &LogWords),
    ) {
        if port.interval(pe) != interval {
            port.clear(pe, interval);
            self.forget_mirror();
        }
        port.set_words(pe, words);
        self.unheard = false;
    }

    /// Answers the words of a process: it may lack what was sent to its predecessor, and this PE's
    /// program may compute for long before it adopts the view. Its answers to messages that it had
    /// held may have gone to the predecessor of this process, so all open ones are sent again.
    pub fn answer_words(
        &mut self,
        port: &impl MirrorPort,
        process: Incarnation,
    ) -> Vec<FarMessage> {
        let is_first = self.answered.replace(process) != Some(process);
        let is_new = is_first && self.told != Some(process);
        let words = is_new.then(|| FarMessage::Words(port.own_words()));
        words.into_iter().chain(self.open_messages(port)).collect()
    }

    /// Forgets what is in the mirror, which is empty now.
    pub fn forget_mirror(&mut self) {
        (self.number, self.last, self.old, self.meeting) = (0, None, None, None);
    }

    /// Counts a record in the mirror, at `from`.
    pub fn count(&mut self, kind: Kind, from: usize) {
        (self.number, self.last) = (self.number + 1, Some(from));
        if kind == Kind::Meeting {
            self.meeting = Some(from);
        }
    }

    /// Keeps an acknowledged record, if the PE may need it again. Returns the bytes kept.
    pub fn keep(&mut self, record: NumberedRecord) -> usize {
        if !self.keeps || self.dropped.is_some() {
            return 0;
        }
        let bytes = record.kept_bytes();
        self.kept.push(record);
        bytes
    }

    /// Drops the records that are kept. Returns their bytes.
    pub fn drop_kept(&mut self) -> usize {
        let bytes = self.kept.drain(..).map(|record| record.kept_bytes()).sum();
        self.dropped = Some(bytes as u64);
        bytes
    }

    /// Returns all records of this interval, in order.
    pub fn all_records(&self) -> Vec<FarMessage> {
        if let Some(bytes) = self.dropped {
            return vec![FarMessage::Dropped { bytes }];
        }
        let mut records: Vec<_> = self.kept.iter().chain(&self.waiting).cloned().collect();
        records.sort_by_key(|record| record.number);
        records.into_iter().map(FarMessage::Record).collect()
    }

    /// Appends a record to the mirror that was in that of the predecessor. Returns the value found.
    pub fn restore_record(
        &mut self,
        port: &mut impl MirrorPort,
        record: &NumberedRecord,
        Arrival { pe, time, old }: Arrival,
    ) -> u64 {
        let time = if port.breaks(Mutant::FarOrderForgotten) { None } else { Some(time) };
        if let Some((from, _)) = port.append(pe, record, time) {
            match record.record.kind {
                Kind::Atomic => port.set_found(pe, from, old),
                Kind::Meeting => port.link(pe, self.meeting, from),
                _ => {}
            }
            self.count(record.record.kind, from);
        }
        self.number = record.number;
        port.set_met(pe, record.met);
        old
    }

    /// Appends a record to the mirror, and then carries it out. Returns the value found, and the
    /// time.
    pub fn take_record(
        &mut self,
        port: &mut impl MirrorPort,
        pe: Pe,
        record: &NumberedRecord,
    ) -> (u64, u64) {
        let (from, time) = port.append(pe, record, None).unzip();
        (self.number, self.last) = (record.number, from);
        let old = match record.record.kind {
            Kind::Put => {
                port.put(record);
                0
            }
            Kind::Atomic => port.change(pe, from, record),
            _ => {
                if let Some(from) = from {
                    port.link(pe, self.meeting, from);
                    self.meeting = Some(from);
                }
                0
            }
        };
        port.set_met(pe, record.met);
        self.old = Some(old);
        (old, time.unwrap_or_default())
    }

    /// Handles the acknowledgement of all records up to a number. Returns the bytes kept.
    pub fn done(&mut self, number: u64, old: u64) -> usize {
        if let Some(found) = self.found.get_mut(&number) {
            *found = Some(old);
        }
        let mut kept = 0;
        while self.waiting.front().is_some_and(|record| record.number <= number) {
            let Some(record) = self.waiting.pop_front() else { break };
            self.bytes -= record.bytes();
            kept += self.keep(record);
        }
        kept
    }
}
