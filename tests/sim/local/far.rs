//! PEs of different nodes that do not map each other: mirrors of logs, and messages on their way.
//!
//! The clocks of nodes differ. Messages between two processes arrive in order, at any time; those
//! of a process that dies may be lost. A process does not hear another one that its view has
//! declared dead.

use raidshmem_core::mutant::{self, Mutant};
use raidshmem_core::quantity::{CheckpointNumber, Incarnation, Pe};
use raidshmem_core::replay::far::LogInterval;
use raidshmem_core::replay::far::links::FarLinks;
use raidshmem_core::replay::far::message::{FarMessage, LogWords, NumberedRecord};
use raidshmem_core::replay::far::port::MirrorPort;
use raidshmem_core::replay::far::replica::{Arrival, LogBytes, LogHead};
use raidshmem_core::replay::log::{AtomicOutcome, Carried, Kind, LogRecord, Stage};
use raidshmem_core::replay::port::{CallPort, LogMode};
use raidshmem_core::replay::replicas;
use raidshmem_core::view::{Member, State as Life};

use super::job::Job;
use super::port::{Caller, Sight, Stop, WORD, bytes, words};
use super::state::{Entry, Log};

/// A message on its way from one process to another.
#[derive(Debug, Clone)]
pub struct OnItsWay {
    pub from: usize,
    pub to: usize,
    pub interval: LogInterval,
    pub message: FarMessage,
}

/// The mirrors in the memory of a process.
pub struct Mirrors<'a> {
    job: &'a mut Job,
    process: usize,
}

impl Mirrors<'_> {
    fn memory(&self) -> u32 {
        let own = &self.job.processes[self.process];
        own.mapped[own.pe].0
    }

    fn me(&self) -> usize {
        self.job.processes[self.process].pe
    }

    fn mirror(&mut self, pe: Pe) -> &mut Log {
        let me = self.me();
        &mut self.job.shared[me].mirrors[pe.at()]
    }

    fn own_words(&mut self) -> &mut [u64] {
        let (me, memory) = (self.me(), self.memory());
        &mut self.job.shared[me].memory(memory).words
    }
}

impl MirrorPort for Mirrors<'_> {
    fn interval(&self, pe: Pe) -> LogInterval {
        let mirror = &self.job.shared[self.me()].mirrors[pe.at()];
        let is_there = mirror.memory == Some(self.memory());
        if is_there { mirror.log_interval() } else { LogInterval::default() }
    }

    fn own_words(&self) -> LogWords {
        self.job.log_words(self.process)
    }

    fn clear(&mut self, pe: Pe, interval: LogInterval) {
        let (n_pes, memory) = (self.job.shared.len(), self.memory());
        let mirror = self.mirror(pe);
        let is_of_era = mirror.era == interval.era;
        let (stage, met) = match mirror.memory == Some(memory) {
            true => (mirror.stage, mirror.met),
            false => ((Incarnation::FIRST, Stage::Replaying), 0),
        };
        *mirror = Log::new(n_pes, Some(memory));
        (mirror.era, mirror.interval) = (interval.era, CheckpointNumber(interval.checkpoint));
        mirror.stage = stage;
        mirror.met = if is_of_era { met } else { 0 }; // meetings are counted anew in an era
    }

    fn set_words(&mut self, pe: Pe, words: &LogWords) {
        let mirror = self.mirror(pe);
        if words.incarnation >= mirror.stage.0 {
            mirror.stage = (words.incarnation, words.stage.expect("a stage"));
        }
    }

    fn append(
        &mut self,
        pe: Pe,
        record: &NumberedRecord,
        time: Option<u64>,
    ) -> Option<(usize, u64)> {
        let node = self.job.processes[self.process].node;
        let clock = self.job.clock(node);
        *clock += 1;
        let time = time.unwrap_or(*clock);
        let entry = Entry {
            record: LogRecord { time, ..record.record },
            payload: record.payload.to_vec(),
            compared: record.compared,
            state: Carried::Begun,
            found: AtomicOutcome::default(),
            repeats: 0,
        };
        let entries = &mut self.mirror(pe).entries;
        entries.push(entry);
        Some((entries.len() - 1, time))
    }

    fn link(&mut self, _: Pe, _: Option<usize>, _: usize) {}

    fn set_met(&mut self, pe: Pe, met: u64) {
        let mirror = self.mirror(pe);
        mirror.met = mirror.met.max(met);
    }

    fn put(&mut self, record: &NumberedRecord) {
        let head = record.record;
        for (nth, word) in words(&record.payload).into_iter().enumerate() {
            let at = head.at as usize / WORD + nth * (head.block.1 as usize / WORD);
            self.own_words()[at] = word;
        }
    }

    fn change(&mut self, pe: Pe, from: Option<usize>, record: &NumberedRecord) -> u64 {
        let (word, change) = record.record.change(record.compared).expect("a change");
        let at = word.offset / WORD;
        let old = self.own_words()[at];
        self.own_words()[at] = change.of(old, WORD);
        let entry = &mut self.mirror(pe).entries[from.expect("logs do not get full")];
        (entry.state, entry.found.old) = (Carried::Done, old);
        old
    }

    fn found(&self, pe: Pe, from: usize) -> u64 {
        self.job.shared[self.me()].mirrors[pe.at()].entries[from].found.old
    }

    fn set_found(&mut self, pe: Pe, from: usize, old: u64) {
        let entry = &mut self.mirror(pe).entries[from];
        (entry.state, entry.found.old) = (Carried::Done, old);
    }

    fn read(&self, at: u64, _: (u64, u64, u64)) -> Vec<u8> {
        let memory = &self.job.shared[self.me()].memories[self.memory() as usize];
        bytes(&memory.words[at as usize / WORD..][..1])
    }

    fn set_acknowledged(&mut self, pe: Pe, number: u64) {
        let me = self.me();
        self.job.shared[me].log.acked[pe.at()] = number;
    }

    fn acknowledged(&self, pe: Pe) -> u64 {
        self.job.shared[self.me()].log.acked[pe.at()]
    }

    fn own_end(&self) -> (Incarnation, u64) {
        let own = &self.job.processes[self.process];
        (own.incarnation, (self.job.shared[own.pe].log.entries.len() * WORD) as u64)
    }

    /// A record is one word: its place among all that the job has ever sent to a holder.
    fn own_records(&self, at: u64) -> (LogHead, LogBytes) {
        let log = &self.job.shared[self.me()].log;
        let entries = &log.entries[at as usize / WORD..];
        let mut sent = self.job.sent.borrow_mut();
        let words: Vec<u64> = (sent.len() as u64..).take(entries.len()).collect();
        sent.extend(entries.iter().cloned());
        let last = (log.entries.len().saturating_sub(1) * WORD) as u64;
        let head = LogHead { met: log.met, ..LogHead::default() };
        (head, LogBytes { at, last, bytes: bytes(&words) })
    }

    fn note_dropped(&mut self, _: Pe, _: u64) {}

    fn breaks(&self, rule: Mutant) -> bool {
        self.job.broken == Some(rule) || mutant::breaks(rule)
    }
}

impl Job {
    /// Creates the links of a process that has its number.
    pub fn make_links(&mut self, process: usize) {
        if !self.is_far {
            return;
        }
        let own = &self.processes[process];
        let (me, memory) = (own.pe, Some(own.mapped[own.pe].0));
        let shared = &mut self.shared[me];
        if std::mem::take(&mut shared.log.lacks) {
            shared.log.memory = None; // a part of what the predecessor was restoring
        }
        let is_kept = own.incarnation != Incarnation::FIRST && shared.log.memory == memory;
        let interval = if is_kept { shared.log.log_interval() } else { LogInterval::default() };
        let mut links = FarLinks::new(shared.mirrors.len(), interval);
        if is_kept {
            shared.log.stage = (own.incarnation, Stage::Replaying);
        }
        for (pe, mirror) in shared.mirrors.iter_mut().enumerate() {
            if !is_kept {
                mirror.memory = None;
            }
            let kept = mirror.entries.iter().enumerate().filter(|_| mirror.memory.is_some());
            kept.for_each(|(at, Entry { record, found, .. })| {
                let arrival = Arrival { pe: Pe::of(pe), time: record.time, old: found.old };
                links.count_kept(record.kind, at, arrival);
            });
        }
        let unmapped = self.unmapped.iter().enumerate().filter(|(_, unmapped)| **unmapped);
        unmapped.for_each(|(pe, _)| links.keep_records(Pe::of(pe)));
        self.processes[process].links = Some(links);
    }

    pub fn with_links<R>(
        &mut self,
        process: usize,
        run: impl FnOnce(&mut FarLinks, &mut Mirrors) -> R,
    ) -> Option<R> {
        let mut links = self.processes[process].links.take()?;
        let result = run(&mut links, &mut Mirrors { job: self, process });
        self.processes[process].links = Some(links);
        Some(result)
    }

    /// Begins an interval of the log of a process.
    pub fn begin_far(&mut self, process: usize) {
        let own = &self.processes[process];
        let (me, interval) = (own.pe, self.shared[own.pe].log.log_interval());
        self.shared[me].log.acked.fill(0);
        let answers = self.with_links(process, |links, port| {
            links.end();
            links.begin(port, interval)
        });
        self.connects(process);
        self.answers(process, answers.unwrap_or_default());
    }

    /// Takes messages again at the end of a replay.
    pub fn open_far(&mut self, process: usize) {
        let answers = self.with_links(process, |links, port| links.open(port));
        self.answers(process, answers.unwrap_or_default());
    }

    pub fn close_far(&mut self, process: usize) {
        self.with_links(process, |links, _| links.close());
    }

    pub fn answers(&mut self, process: usize, answers: Vec<(Pe, FarMessage)>) {
        answers.into_iter().for_each(|(pe, answer)| self.passes(process, pe.at(), answer));
    }

    /// Passes a message of its present interval to a PE.
    fn passes(&mut self, process: usize, pe: usize, message: FarMessage) {
        let Some(links) = &mut self.processes[process].links else { return };
        let interval = links.interval();
        links.depart(Pe::of(pe), interval, message);
        self.departs(process);
    }

    /// Sends the messages that leave now to the processes that this one is connected to.
    fn departs(&mut self, process: usize) {
        let next = |links: &mut FarLinks, port: &mut Mirrors| links.next_departure(port);
        while let Some(departure) = self.with_links(process, next).flatten() {
            let pe = departure.to.at();
            let to = self.carrier(pe);
            let wanted = self.processes[process].connected[pe];
            if to != usize::MAX && wanted == Some(self.processes[to].incarnation) {
                let (interval, message) = (departure.interval, departure.message);
                self.send_far(OnItsWay { from: process, to, interval, message });
            }
        }
    }

    /// Chooses the PE that holds the replica of the log of a process.
    fn chooses_far_holder(&mut self, process: usize) {
        let own = &self.processes[process];
        let view = self.page(own.node);
        let node = |member: &Member| (member.state == Life::Alive).then_some(member.node);
        let mut nodes: Vec<Option<u32>> = view.pes.iter().map(node).collect();
        if !self.unmapped[own.pe] || nodes.is_empty() {
            return;
        }
        nodes[own.pe] = Some(own.node);
        let me = Pe::of(own.pe);
        let links = self.processes[process].links.as_mut().expect("it has its number");
        let holder = replicas::holder(&nodes, me, links.holder());
        if holder != links.holder() {
            links.replicate_to(holder);
        }
    }

    /// Disconnects from PEs that the view of a process has declared dead, and sends new processes
    /// what they lack.
    pub fn connects(&mut self, process: usize) {
        if self.processes[process].links.is_none() {
            return;
        }
        let view = std::rc::Rc::clone(self.page(self.processes[process].node));
        self.chooses_far_holder(process);
        for (pe, member) in view.pes.iter().enumerate() {
            let own = &mut self.processes[process];
            let is_alive = member.state == Life::Alive;
            own.connected[pe] = is_alive.then_some(member.incarnation);
            let least = if is_alive { member.incarnation } else { member.incarnation.next() };
            own.oldest[pe] = own.oldest[pe].max(least);
            if is_alive && self.are_far(process, pe) {
                let untold = self.with_links(process, |links, port| {
                    links.untold(port, Pe::of(pe), member.incarnation)
                });
                if let Some(messages) = untold.flatten() {
                    self.tells_words(process, pe);
                    messages.into_iter().for_each(|message| self.passes(process, pe, message));
                }
            }
        }
        self.departs(process);
    }

    fn log_words(&self, process: usize) -> LogWords {
        let own = &self.processes[process];
        let (incarnation, log) = (own.incarnation, &self.shared[own.pe].log);
        let (bare_from, against) = (u64::MAX, String::new());
        LogWords { incarnation, stage: Some(log.stage.1), met: log.met, bare_from, against }
    }

    fn tells_words(&mut self, process: usize, pe: usize) {
        self.passes(process, pe, FarMessage::Words(self.log_words(process)));
    }

    /// Sends the words of the log of a process to all far PEs.
    pub fn tells_all(&mut self, process: usize) {
        for pe in 0..self.shared.len() {
            if self.are_far(process, pe) {
                self.tells_words(process, pe);
            }
        }
    }

    /// Returns true if a process does not map a PE: one of another node, or one that has moved, or
    /// any.
    pub fn are_far(&self, process: usize, pe: usize) -> bool {
        let own = &self.processes[process];
        let is_home = |pe: usize, node: u32| self.home[pe] == node;
        let are_home = self.maps && is_home(pe, own.node) && is_home(own.pe, own.node);
        self.is_far && pe != own.pe && !(own.mapped[pe].1 == own.node && are_home)
    }

    /// Delivers a message.
    pub fn arrives(&mut self, OnItsWay { from, to, interval, message }: OnItsWay) {
        let sender = &self.processes[from];
        let (pe, incarnation) = (sender.pe, sender.incarnation);
        let own = &self.processes[to];
        let is_lost = sender.cut.is_some_and(|cut| self.now() > cut);
        if !own.alive || is_lost || incarnation < own.oldest[pe] {
            return;
        }
        let answers =
            self.with_links(to, |links, port| links.receive(port, Pe::of(pe), (interval, message)));
        for message in answers.unwrap_or_default() {
            match message.waits() {
                true => {
                    let links = self.processes[to].links.as_mut();
                    links.expect("it hears").depart(Pe::of(pe), interval, message);
                }
                false => self.send_far(OnItsWay { from: to, to: from, interval, message }),
            }
        }
        self.departs(to);
        self.wake_pe(self.processes[to].pe);
    }
}

impl Sight<'_> {
    /// Returns true if a PE is not mapped.
    pub fn is_far(&self, pe: usize) -> bool {
        self.job.are_far(self.process, pe)
    }

    fn is_quiet(&self, except: Option<usize>) -> bool {
        let Some(links) = &self.own().links else { return true };
        let mut others = (0..self.job.shared.len()).filter(|&pe| Some(pe) != except);
        others.all(|pe| links.is_quiet(Pe::of(pe)))
    }
}

impl Caller<'_> {
    /// Sends a record. Returns its number.
    pub fn sends(
        &mut self,
        record: LogRecord,
        payload: &[u8],
        (compared, fetches): (u64, bool),
    ) -> Result<u64, Stop> {
        let (payload, pe) = (payload.into(), record.target());
        self.shared(|sight| {
            let met = if record.kind == Kind::Meeting { record.at } else { 0 };
            let record = NumberedRecord { number: 0, record, compared, payload, met };
            let sent = sight
                .job
                .with_links(sight.process, |links, port| links.send(port, pe, record, fetches));
            let (number, message) = sent.expect("it has its number");
            message.into_iter().for_each(|one| sight.job.passes(sight.process, pe.at(), one));
            Ok(number)
        })
    }

    /// Sends a put.
    pub fn sends_put(&mut self, record: LogRecord, payload: &[u8]) -> Result<(), Stop> {
        self.sends(record, payload, (0, false)).map(|_| ())
    }

    /// Sends an atomic operation. Returns the value found, or zero unless it `fetches`.
    pub fn sends_change(
        &mut self,
        record: LogRecord,
        (compared, fetches): (Option<u64>, bool),
    ) -> Result<u64, Stop> {
        let number = self.send_far(record, compared.unwrap_or_default(), fetches)?;
        if fetches { self.await_far(record.target(), number) } else { Ok(0) }
    }

    /// Reads a word of a far PE.
    pub fn reads_far(&mut self, pe: usize, at: usize) -> Result<u64, Stop> {
        let ticket = self.shared(|sight| {
            let asked = sight.job.with_links(sight.process, |links, _| {
                links.request(Pe::of(pe), (at * WORD) as u64, (WORD as u64, 1, 0))
            });
            let (ticket, message) = asked.expect("it has its number");
            sight.job.passes(sight.process, pe, message);
            Ok(ticket)
        })?;
        let is_there = move |sight: &Sight| {
            sight.own().links.as_ref().is_some_and(|links| links.is_answered(Pe::of(pe), ticket))
        };
        self.wait(is_there)?;
        self.private(|sight| {
            let answer =
                sight.job.with_links(sight.process, |links, _| links.answer(Pe::of(pe), ticket));
            Ok(words(&answer.expect("it has its number"))[0])
        })
    }

    /// Sends the contribution to a meeting to all far PEs.
    pub fn sends_meeting(&mut self, from: usize) -> Result<(), Stop> {
        for pe in 0..self.sight.job.shared.len() {
            if self.is_far(Pe::of(pe)) {
                let (record, payload) = self.private(|sight| {
                    let entry = &sight.log().entries[from];
                    Ok((entry.record, entry.payload.clone()))
                })?;
                let record = LogRecord { target: pe as u32, ..record };
                debug_assert_eq!(record.kind, Kind::Meeting);
                self.sends(record, &payload, (0, false))?;
            }
        }
        Ok(())
    }

    /// Completes the operations on all far PEs but one, as a program does before an operation whose
    /// effect tells of them.
    pub fn quiets(&mut self, except: Option<usize>) -> Result<(), Stop> {
        let is_logged = self.private(|sight| Ok(sight.own().way == LogMode::Logged))?;
        if self.sight.job.is_far && is_logged {
            self.wait(|sight| sight.is_quiet(except))?;
        }
        Ok(())
    }
}
