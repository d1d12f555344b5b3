//! The messages of a PE that are about to leave its node, and the parts of its log that leave
//! before them.
//!
//! ```text
//! a message waits   until all that this PE had logged and taken before it is in the replica
//! a part leaves     when a message waits, unless many parts are not acknowledged yet
//! ```
//!
//! So a substitute on another node finds every event that another PE can know of. Parts, their
//! acknowledgements and replicas never wait. Without a holder no message waits.
//!
//! Invariant: messages leave in the order of their requests.

use std::collections::VecDeque;

use super::LogInterval;
use super::message::FarMessage;
use super::port::MirrorPort;
use super::replica::{Arrival, ReplicaPart};
use crate::mutant::Mutant;
use crate::quantity::Pe;

/// The most parts that are not acknowledged: beyond that, one part is for several messages.
const PARTS_MAX: u64 = 4;

/// A message that leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    /// The PE that it is for.
    pub to: Pe,
    /// The interval that it belongs to.
    pub interval: LogInterval,
    /// The message.
    pub message: FarMessage,
}

/// The messages that are about to leave, and the replica that they wait for.
#[derive(Debug, Clone, Default)]
pub struct Departures {
    holder: Option<Pe>,
    /// The number of the last part, and of the last one that the holder has.
    number: u64,
    held: u64,
    /// The position of the last record in the parts so far, their end, and the arrivals in them.
    last: u64,
    tail: u64,
    arrived: usize,
    /// True once a part of this interval has left.
    begun: bool,
    /// All records that this PE has taken in this interval.
    arrivals: Vec<Arrival>,
    /// The messages that do not wait, and those that wait, with the part that they wait for once
    /// that has left.
    free: VecDeque<Departure>,
    waiting: VecDeque<(Departure, Option<u64>)>,
}

impl Departures {
    /// Returns the PE that holds the replica.
    pub fn holder(&self) -> Option<Pe> {
        self.holder
    }

    /// Chooses the PE that holds the replica from now on: a new process of it has nothing.
    pub fn replicate_to(&mut self, holder: Option<Pe>) {
        self.holder = holder;
        self.number += 1; // acknowledgements on their way are void
        self.held = self.number;
        self.restart();
        self.waiting.iter_mut().for_each(|(_, part)| *part = None);
    }

    /// Begins an interval, in which the replica is empty.
    pub fn begin(&mut self) {
        self.restart();
        self.arrivals.clear();
    }

    fn restart(&mut self) {
        (self.last, self.tail, self.arrived, self.begun) = (0, 0, 0, false);
    }

    /// Counts a record that this PE has taken.
    pub fn count(&mut self, arrival: Arrival) {
        self.arrivals.push(arrival);
    }

    /// Takes over the arrivals of a replica.
    pub fn restore(&mut self, arrivals: Vec<Arrival>) {
        self.arrivals = arrivals;
    }

    /// Notes that the holder has the part with this number.
    pub fn has(&mut self, pe: Pe, number: u64) {
        if self.holder == Some(pe) && number <= self.number {
            self.held = self.held.max(number);
        }
    }

    /// Adds a message, behind those before.
    pub fn add(&mut self, departure: Departure) {
        match departure.message.waits() {
            true => self.waiting.push_back((departure, None)),
            false => self.free.push_back(departure),
        }
    }

    /// Returns true if messages have not left.
    pub fn is_any_left(&self) -> bool {
        !self.waiting.is_empty() || !self.free.is_empty()
    }

    /// Returns the next message that leaves now, if any. `own` is the interval of the own log; no
    /// part leaves between two intervals.
    pub fn next(&mut self, port: &impl MirrorPort, own: LogInterval) -> Option<Departure> {
        if let Some(departure) = self.free.pop_front() {
            return Some(departure);
        }
        if let Some(departure) = self.next_held() {
            return Some(departure);
        }
        let is_full = self.number - self.held >= PARTS_MAX;
        let has_new = self.waiting.back().is_some_and(|(_, part)| part.is_none());
        if is_full || !has_new || own == LogInterval::default() {
            return None;
        }
        let part = self.part(port);
        let number = self.number;
        if port.breaks(Mutant::FarLeftEarly) {
            self.held = number;
        }
        self.waiting.iter_mut().for_each(|(_, part)| _ = part.get_or_insert(number));
        match part {
            Some(message) => Some(Departure { to: self.holder?, interval: own, message }),
            None => self.next_held(),
        }
    }

    /// Returns the next message that waits, if the replica has what it tells of.
    fn next_held(&mut self) -> Option<Departure> {
        let is_held = |part: &Option<u64>| part.is_some_and(|part| part <= self.held);
        let leaves = |(_, part): &(Departure, _)| self.holder.is_none() || is_held(part);
        self.waiting.front().filter(|first| leaves(first))?;
        self.waiting.pop_front().map(|(departure, _)| departure)
    }

    /// Returns what the replica lacks; None if it is complete.
    fn part(&mut self, port: &impl MirrorPort) -> Option<FarMessage> {
        let (incarnation, tail) = port.own_end();
        if self.begun && (tail, self.arrivals.len()) == (self.tail, self.arrived) {
            return None;
        }
        self.begun = true;
        let (head, records) = port.own_records(self.last);
        self.number += 1;
        let arrivals = self.arrivals[self.arrived..].to_vec();
        let arrived = self.arrived as u64;
        self.last = records.last;
        self.tail = records.at + records.bytes.len() as u64;
        self.arrived = self.arrivals.len();
        let number = self.number;
        let part = ReplicaPart { incarnation, number, head, records, arrived, arrivals };
        Some(FarMessage::Replicate(part))
    }
}
