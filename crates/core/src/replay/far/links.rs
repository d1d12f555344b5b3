//! The links of a PE with far ones: the fate of each message that arrives, and what is kept of
//! those that leave.
//!
//! Invariants: those of [`super`]. The state here goes with the process, the mirrors stay: a
//! substitute counts their records.

use std::collections::{BTreeMap, VecDeque};

use super::LogInterval;
use super::departures::{Departure, Departures};
use super::link::FarLink;
use super::message::{FarMessage, NumberedRecord};
use super::port::MirrorPort;
use super::replica::{Arrival, LogReplica, newest};
use crate::mutant::Mutant;
use crate::quantity::{Incarnation, Pe};
use crate::replay::decide::Reason;
use crate::replay::log::Kind;

/// The fate of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admission {
    /// It is taken.
    Take,
    /// It is a record that has been taken before: its acknowledgement is repeated.
    Again,
    /// It waits for this PE.
    Hold,
    /// It is void.
    Drop,
}

/// The links of a PE with all others.
#[derive(Debug, Clone)]
pub struct FarLinks {
    /// The interval of the own log.
    own: LogInterval,
    /// True unless this PE replays its log, or all PEs roll back.
    open: bool,
    links: Vec<FarLink>,
    held: VecDeque<(Pe, LogInterval, FarMessage)>,
    tickets: u64,
    /// Bytes of the records that are kept until the next checkpoint, and their limit.
    kept_bytes: usize,
    kept_most: usize,
    /// The reason that another PE gives against the restoration of the own log.
    obstacle: Option<Reason>,
    departures: Departures,
    /// The replicas of the logs of other PEs.
    replicas: BTreeMap<Pe, LogReplica>,
    /// The answers to a request for the replica of the own log, by PE and process.
    fetched: Option<BTreeMap<Pe, (Incarnation, Option<LogReplica>)>>,
}

impl FarLinks {
    /// Begins the links of a process whose predecessor left a log of this interval.
    pub fn new(n_pes: usize, own: LogInterval) -> FarLinks {
        FarLinks {
            own,
            open: false,
            links: vec![FarLink::default(); n_pes],
            held: VecDeque::new(),
            tickets: 0,
            kept_bytes: 0,
            kept_most: usize::MAX,
            obstacle: None,
            departures: Departures::default(),
            replicas: BTreeMap::new(),
            fetched: None,
        }
    }

    /// Keeps all records for PE `pe` until the next checkpoint: its node may be lost.
    pub fn keep_records(&mut self, pe: Pe) {
        self.links[pe.at()].keeps = true;
    }

    /// Sets the most bytes of records to keep.
    pub fn set_most_kept(&mut self, bytes: usize) {
        self.kept_most = bytes;
    }

    /// Notes that bytes of records for PE `pe` are kept now, unless they are too many.
    fn count_kept_bytes(&mut self, port: &mut impl MirrorPort, pe: Pe, bytes: usize) {
        self.kept_bytes += bytes;
        if self.kept_bytes > self.kept_most {
            port.note_dropped(pe, self.kept_bytes as u64);
            self.kept_bytes -= self.links[pe.at()].drop_kept();
        }
    }

    /// Counts a record that the predecessor left in the mirror of a PE's log, at `from`.
    pub fn count_kept(&mut self, kind: Kind, from: usize, arrival: Arrival) {
        self.links[arrival.pe.at()].count(kind, from);
        self.departures.count(arrival);
    }

    /// Returns the interval of the own log.
    pub fn interval(&self) -> LogInterval {
        self.own
    }

    // ---- the own interval ---------------------------------------------------------------------

    /// Ends the own interval: what arrives from now on waits for the next.
    pub fn end(&mut self) {
        (self.own, self.open) = (LogInterval::default(), false);
    }

    /// Begins an interval of the own log. Takes what has waited for it; returns the answers.
    pub fn begin(&mut self, port: &mut impl MirrorPort, own: LogInterval) -> Vec<(Pe, FarMessage)> {
        self.own = own;
        for link in &mut self.links {
            (link.sent, link.bytes, link.told) = (0, 0, None);
            link.waiting.clear();
            link.found.clear();
            link.requests.clear();
            link.kept.clear();
            link.expected.clear();
            (link.dropped, link.unheard) = (None, false);
        }
        (self.kept_bytes, self.obstacle) = (0, None);
        self.departures.begin();
        self.fetched = None;
        self.open(port)
    }

    /// Takes messages again, first those that were held. Returns the answers.
    pub fn open(&mut self, port: &mut impl MirrorPort) -> Vec<(Pe, FarMessage)> {
        self.open = true;
        self.receive_held(port)
    }

    fn receive_held(&mut self, port: &mut impl MirrorPort) -> Vec<(Pe, FarMessage)> {
        let mut answers = Vec::new();
        for (pe, interval, message) in std::mem::take(&mut self.held) {
            let answer = self.receive(port, pe, (interval, message));
            answers.extend(answer.into_iter().map(|answer| (pe, answer)));
        }
        answers
    }

    /// Holds what arrives from now on.
    pub fn close(&mut self) {
        self.open = false;
    }

    // ---- arrivals -----------------------------------------------------------------------------

    /// Decides on a message of PE `pe`, which belongs to this interval of its log.
    fn admit(
        &self,
        port: &impl MirrorPort,
        pe: Pe,
        (interval, message): (LogInterval, &FarMessage),
    ) -> Admission {
        let (is_current, mirror) = (interval == self.own, port.interval(pe));
        let FarLink { number, ref expected, .. } = self.links[pe.at()];
        match message {
            FarMessage::Replicate(_)
            | FarMessage::Replicated { .. }
            | FarMessage::Fetch
            | FarMessage::Replica(_) => Admission::Take,
            FarMessage::Done { .. } | FarMessage::Bytes { .. } if is_current => Admission::Take,
            FarMessage::Done { .. } | FarMessage::Bytes { .. } => Admission::Drop,
            _ if interval > self.own && port.breaks(Mutant::FarEarlyDropped) => Admission::Drop,
            _ if interval > self.own => Admission::Hold,
            FarMessage::Words(_) | FarMessage::Beginning(_) if interval < mirror => Admission::Drop,
            FarMessage::Words(_) | FarMessage::Beginning(_) => Admission::Take,
            _ if !is_current || mirror != interval => Admission::Drop,
            FarMessage::Resend => Admission::Take,
            // A later one arrives again in its turn. It is not dropped, since what came after it
            // waits, too.
            FarMessage::Record(record) if !expected.is_empty() => match record.number {
                next if next == number + 1 => Admission::Take,
                before if before <= number => Admission::Drop,
                _ if port.breaks(Mutant::FarEarlierDropped) => Admission::Drop,
                _ => Admission::Hold,
            },
            _ if !self.open && !port.breaks(Mutant::FarNotHeld) => Admission::Hold,
            FarMessage::Record(_) if port.breaks(Mutant::FarTakenTwice) => Admission::Take,
            FarMessage::Record(record) if record.number <= number => Admission::Again,
            FarMessage::Record(record) if record.number > number + 1 => Admission::Drop,
            _ => Admission::Take,
        }
    }

    /// Takes, holds or drops a message of PE `pe`. Returns the answers.
    pub fn receive(
        &mut self,
        port: &mut impl MirrorPort,
        pe: Pe,
        (interval, message): (LogInterval, FarMessage),
    ) -> Vec<FarMessage> {
        match self.admit(port, pe, (interval, &message)) {
            Admission::Drop => Vec::new(),
            Admission::Hold => {
                self.held.push_back((pe, interval, message));
                Vec::new()
            }
            Admission::Again => {
                let FarMessage::Record(record) = message else { return Vec::new() };
                let link = &self.links[pe.at()];
                let is_last = record.number == link.number;
                let is_atomic = is_last && record.record.kind == Kind::Atomic;
                let noted = || Some(port.found(pe, link.last?));
                let old = if is_atomic { link.old.or_else(noted) } else { None };
                vec![FarMessage::Done { number: record.number, old: old.unwrap_or_default() }]
            }
            Admission::Take => self.take(port, pe, (interval, message)),
        }
    }

    fn take(
        &mut self,
        port: &mut impl MirrorPort,
        pe: Pe,
        (interval, message): (LogInterval, FarMessage),
    ) -> Vec<FarMessage> {
        let link = &mut self.links[pe.at()];
        match message {
            FarMessage::Words(words) => {
                link.hear(port, pe, (interval, &words));
                link.answer_words(port, words.incarnation)
            }
            FarMessage::Beginning(words) => {
                link.hear(port, pe, (interval, &words));
                Vec::new()
            }
            FarMessage::Record(record) => {
                let old = match link.expected.pop_front() {
                    Some(arrival) => link.restore_record(port, &record, arrival),
                    None => {
                        let (old, time) = link.take_record(port, pe, &record);
                        self.departures.count(Arrival { pe, time, old });
                        old
                    }
                };
                vec![FarMessage::Done { number: record.number, old }]
            }
            FarMessage::Read { ticket, at, block, blocks, step } => {
                let bytes = port.read(at, (block, blocks, step));
                vec![FarMessage::Bytes { ticket, bytes }]
            }
            FarMessage::Done { number, old } => {
                let kept = link.done(number, old);
                self.count_kept_bytes(port, pe, kept);
                port.set_acknowledged(pe, number.max(port.acknowledged(pe)));
                Vec::new()
            }
            FarMessage::Bytes { ticket, bytes } => {
                if let Some((_, answer)) = link.requests.get_mut(&ticket) {
                    *answer = Some(bytes);
                }
                Vec::new()
            }
            FarMessage::Resend => {
                port.set_acknowledged(pe, 0); // of those still to be counted, too
                let words = FarMessage::Beginning(port.own_words());
                std::iter::once(words).chain(link.all_records()).collect()
            }
            FarMessage::Dropped { bytes } => {
                self.obstacle = Some(Reason::Overflow { bytes });
                Vec::new()
            }
            other => self.take_replica(pe, (interval, other)),
        }
    }

    /// Takes a message that concerns a replica.
    fn take_replica(
        &mut self,
        pe: Pe,
        (interval, message): (LogInterval, FarMessage),
    ) -> Vec<FarMessage> {
        match message {
            FarMessage::Replicate(part) => {
                let number = part.number;
                let replica = LogReplica::with(self.replicas.remove(&pe), interval, part);
                let Some(replica) = replica else { return Vec::new() };
                self.replicas.insert(pe, replica);
                vec![FarMessage::Replicated { number }]
            }
            FarMessage::Replicated { number } => {
                self.departures.has(pe, number);
                Vec::new()
            }
            FarMessage::Fetch => {
                vec![FarMessage::Replica(self.replicas.get(&pe).cloned().map(Box::new))]
            }
            FarMessage::Replica(replica) => {
                let told = self.links[pe.at()].told;
                if let (Some(all), Some(process)) = (&mut self.fetched, told) {
                    all.insert(pe, (process, replica.map(|replica| *replica)));
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    // ---- the replica of the own log -----------------------------------------------------------

    /// Returns the PE that holds the replica of the own log.
    pub fn holder(&self) -> Option<Pe> {
        self.departures.holder()
    }

    /// Chooses the PE that holds it from now on; a new process of that PE has nothing.
    pub fn replicate_to(&mut self, holder: Option<Pe>) {
        self.departures.replicate_to(holder);
    }

    /// Adds a message of an interval for PE `to`, behind those before.
    pub fn depart(&mut self, to: Pe, interval: LogInterval, message: FarMessage) {
        self.departures.add(Departure { to, interval, message });
    }

    /// Returns true if messages have not left.
    pub fn has_departures(&self) -> bool {
        self.departures.is_any_left()
    }

    /// Returns the next message that leaves now, if any.
    pub fn next_departure(&mut self, port: &impl MirrorPort) -> Option<Departure> {
        self.departures.next(port, self.own)
    }

    /// Requests the replica of the own log from all PEs.
    pub fn begin_fetch(&mut self) {
        self.fetched = Some(BTreeMap::new());
        self.links.iter_mut().for_each(|link| link.told = None);
    }

    /// Returns true if this process of PE `pe` has answered that request.
    pub fn has_answered(&self, pe: Pe, process: Incarnation) -> bool {
        let answer = self.fetched.as_ref().and_then(|all| all.get(&pe));
        answer.is_some_and(|&(of, _)| of == process)
    }

    /// Returns the newest replica of all answers.
    pub fn newest_replica(&mut self) -> Option<LogReplica> {
        let all = self.fetched.take().unwrap_or_default();
        newest(all.into_values().filter_map(|(_, replica)| replica))
    }

    /// Takes over the interval and the arrivals of the own log's replica: these PEs have to send
    /// their records again. Returns the answers to what has waited for the interval.
    pub fn begin_restore(
        &mut self,
        port: &mut impl MirrorPort,
        (interval, arrivals): (LogInterval, Vec<Arrival>),
        from: impl IntoIterator<Item = Pe>,
    ) -> Vec<(Pe, FarMessage)> {
        self.own = interval;
        for pe in from {
            port.clear(pe, interval);
            let link = &mut self.links[pe.at()];
            link.forget_mirror();
            (link.told, link.unheard) = (None, true);
            link.expected = arrivals.iter().copied().filter(|arrival| arrival.pe == pe).collect();
        }
        self.departures.restore(arrivals);
        self.receive_held(port)
    }

    /// Returns true if PEs have not sent all of these records that were taken before `until`. They
    /// send their words first.
    pub fn lacks(&self, until: u64) -> bool {
        let is_early = |arrival: &Arrival| arrival.time < until;
        self.links.iter().any(|link| link.unheard || link.expected.front().is_some_and(is_early))
    }

    /// Returns the reason that they cannot, if there is one: a PE has begun a later interval, or
    /// has not kept its records.
    pub fn obstacle(&self) -> Option<Reason> {
        let is_behind = self.held.iter().any(|&(_, interval, _)| interval > self.own);
        self.obstacle.clone().or(is_behind.then_some(Reason::InCheckpoint))
    }

    // ---- departures ---------------------------------------------------------------------------

    /// Numbers a record for PE `pe`. Returns the message to send; None if the predecessor of this
    /// process sent it, it was acknowledged, and its result is not needed.
    pub fn send(
        &mut self,
        port: &mut impl MirrorPort,
        pe: Pe,
        mut record: NumberedRecord,
        fetches: bool,
    ) -> (u64, Option<FarMessage>) {
        let link = &mut self.links[pe.at()];
        link.sent += 1;
        let number = link.sent;
        record.number = number;
        if number <= port.acknowledged(pe) && !fetches {
            let kept = link.keep(record);
            self.count_kept_bytes(port, pe, kept);
            return (number, None);
        }
        if fetches {
            link.found.insert(number, None);
        }
        link.bytes += record.bytes();
        link.waiting.push_back(record.clone());
        (number, Some(FarMessage::Record(record)))
    }

    /// Returns the value that the operation with this number found, if it is acknowledged.
    pub fn found(&self, pe: Pe, number: u64) -> Option<u64> {
        self.links[pe.at()].found.get(&number).copied().flatten()
    }

    /// Takes that value.
    pub fn take_found(&mut self, pe: Pe, number: u64) -> Option<u64> {
        self.links[pe.at()].found.remove(&number).flatten()
    }

    /// Requests blocks of bytes of PE `pe`: their offset, length, number, and distance.
    pub fn request(
        &mut self,
        pe: Pe,
        at: u64,
        (block, blocks, step): (u64, u64, u64),
    ) -> (u64, FarMessage) {
        self.tickets += 1;
        let ticket = self.tickets;
        let message = FarMessage::Read { ticket, at, block, blocks, step };
        self.links[pe.at()].requests.insert(ticket, (message.clone(), None));
        (ticket, message)
    }

    /// Returns true if a request is answered.
    pub fn is_answered(&self, pe: Pe, ticket: u64) -> bool {
        self.links[pe.at()].requests.get(&ticket).is_some_and(|(_, answer)| answer.is_some())
    }

    /// Ends a request, and returns the answer.
    pub fn answer(&mut self, pe: Pe, ticket: u64) -> Vec<u8> {
        let request = self.links[pe.at()].requests.remove(&ticket);
        request.and_then(|(_, answer)| answer).unwrap_or_default()
    }

    /// Returns the bytes sent to PE `pe` that are not acknowledged.
    pub fn open_bytes(&self, pe: Pe) -> usize {
        self.links[pe.at()].bytes
    }

    /// Returns true if PE `pe` has acknowledged all that was sent to it.
    pub fn is_quiet(&self, pe: Pe) -> bool {
        self.links[pe.at()].waiting.is_empty()
    }

    /// Returns the messages for a new process of PE `pe`, after the words of the own log; None if
    /// it has been sent them.
    pub fn untold(
        &mut self,
        port: &impl MirrorPort,
        pe: Pe,
        process: Incarnation,
    ) -> Option<Vec<FarMessage>> {
        let link = &mut self.links[pe.at()];
        if link.told.replace(process) == Some(process) {
            return None;
        }
        let mut messages = link.open_messages(port);
        messages.extend(self.fetched.is_some().then_some(FarMessage::Fetch));
        if self.departures.holder() == Some(pe) {
            self.departures.replicate_to(Some(pe));
        }
        Some(messages)
    }
}
