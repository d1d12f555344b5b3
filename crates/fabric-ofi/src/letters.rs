//! Messages: requests for updates of a peer's words, their answers, wake-ups, and bytes for the
//! events of a peer.
//!
//! Updates are carried out by the target's processor, in the thread that receives the request:
//! atomics of devices are not atomic with those of the processor, and some providers have none, or
//! not of every width.
//!
//! A peer may ask before this process knows it: it introduces its endpoint first, so that it is
//! answered.
//!
//! Bytes for events wait for room without bound, since their caller does not wait. Those to a peer
//! stay in order, whether this process passed them on or its own events returned them.
//!
//! Invariant: once this process has disconnected from an incarnation, none of its messages is
//! accepted, however late it arrives.

#![forbid(unsafe_code)]

use raidshmem_core::quantity::Pe;
use raidshmem_fabric::{AmoRequest, Lost};

use crate::link::Task;
use crate::links::Connections;
use crate::message::{Body, Letter, decode, encode};
use crate::owed::Owed;
use crate::slots::{MESSAGE, SHORT, Slot};

/// Returns a length in bytes that no message with these contents exceeds. It is equal for all bytes
/// for events: one that must wait is not overtaken by a shorter one.
fn room(body: &Body) -> usize {
    match body {
        Body::Tell(_) => MESSAGE,
        _ => SHORT,
    }
}

impl Connections {
    /// Encodes a message of this process.
    fn letter(&self, ticket: u64, body: &Body) -> Vec<u8> {
        let local = &self.shared.local;
        let (job, pe, incarnation) = (local.job, local.me, local.incarnation);
        encode(&Letter { job, pe, incarnation, ticket, body })
    }

    /// Sends `pe` a message, after an introduction if it is the first. Returns the connection, or
    /// `None` if there is no slot.
    fn say(&mut self, pe: Pe, ticket: u64, body: &Body) -> Result<Option<Lost>, Lost> {
        if !self.usable(pe)?.1.introduced {
            let hello = Body::Hello(self.own_name.clone());
            let Some(slot) = self.filled(0, &hello) else { return Ok(None) };
            let (peer, link, to) = self.usable(pe)?;
            link.introduced = true;
            self.begin(slot.0, peer, (to, Task::Send, slot.1));
        }
        self.usable(pe)?;
        let Some(slot) = self.filled(ticket, body) else { return Ok(None) };
        let (peer, _, to) = self.usable(pe)?;
        self.begin(slot.0, peer, (to, Task::Send, slot.1));
        Ok(Some(to))
    }

    /// Returns a slot with this message, and its length; `None` if there is no slot.
    fn filled(&mut self, ticket: u64, body: &Body) -> Option<(Slot, usize)> {
        let slot = self.slots.take(room(body))?;
        let letter = self.letter(ticket, body);
        self.slots.fill(slot, &letter);
        Some((slot, letter.len()))
    }

    /// Sends a request whose answer arrives under `ticket`; 0 if only a quiet waits for it. Returns
    /// the connection, or `None` if there is no slot.
    pub fn ask(&mut self, ticket: u64, ask: AmoRequest) -> Result<Option<Lost>, Lost> {
        let AmoRequest { pe, word, change } = ask;
        let said = self.say(pe, ticket, &Body::Request(word, change))?;
        let Some(to) = said else { return Ok(None) };
        match ticket {
            0 => self.posted(to),
            ticket => drop(self.answers.insert(ticket, None)),
        }
        Ok(Some(to))
    }

    /// Wakes the sleeping threads of `pe` once its puts so far have arrived.
    pub fn wake(&mut self, pe: Pe) {
        if let Ok((_, link, to)) = self.usable(pe) {
            link.ask_wake();
            if link.is_wake_due() {
                self.owed.push_back(Owed::wake(to));
                self.pay();
            }
        }
    }

    /// Passes bytes to the events of `pe`, once there is room.
    pub fn tell(&mut self, pe: Pe, bytes: &[u8]) -> Result<(), Lost> {
        let (_, _, to) = self.usable(pe)?;
        self.told.owe(to, bytes.to_vec());
        self.pay_told(pe);
        Ok(())
    }

    /// Sends the bytes for the events of `pe`, in order, as far as there is room.
    fn pay_told(&mut self, pe: Pe) {
        while let Some(owed) = self.told.next(pe) {
            if !self.paid(&owed) {
                return self.told.put_back(owed);
            }
        }
    }

    /// Sends messages that are owed, as far as there is room.
    pub fn pay(&mut self) {
        self.told.peers().into_iter().for_each(|pe| self.pay_told(pe));
        for _ in 0..self.owed.len() {
            let Some(owed) = self.owed.pop_front() else { return };
            if !self.paid(&owed) {
                self.owed.push_back(owed);
            }
        }
    }

    /// Sends a message that is owed. Returns false if there is no room; a message to a peer that is
    /// gone is dropped.
    fn paid(&mut self, owed: &Owed) -> bool {
        let Owed { to, ticket, ref body } = *owed;
        if self.link(to).is_some() {
            return self.say(to.pe, ticket, body) != Ok(None);
        }
        let peer = self.strangers.peer(to);
        let Some(peer) = peer.filter(|_| self.strangers.accepts(to.pe, to.incarnation)) else {
            return true;
        };
        let Some((slot, len)) = self.filled(ticket, body) else { return false };
        self.send_unconnected(slot, peer, (to, len))
    }

    /// Handles a message that was received in `slot`, or the failure to receive one, and makes the
    /// slot available again.
    pub fn received(&mut self, slot: Slot, len: Option<usize>) {
        self.end_receive(slot);
        let letter = len.and_then(|len| decode::<Letter>(self.slots.bytes(slot, len)));
        self.await_letter(slot);
        if let Some(letter) = letter {
            let _ = self.handle(letter); // rejected messages are dropped
        }
    }

    /// Handles a message. Returns `None` if it is not accepted or cannot be served. An answer of a
    /// dead incarnation would be attributed to its substitute: a quiet would then end before the
    /// data that it waits for has arrived.
    fn handle(&mut self, letter: Letter) -> Option<()> {
        let Letter { job, pe, incarnation, ticket, body } = letter;
        if job != self.shared.local.job || !self.strangers.accepts(pe, incarnation) {
            return None;
        }
        let to = Lost { pe, incarnation };
        match body {
            Body::Hello(name) => {
                if self.link(to).is_none() && self.strangers.peer(to).is_none() {
                    self.strangers.meet(to, self.slots.port.insert(&name)?);
                }
            }
            Body::Request(word, change) => {
                let before = self.shared.local.segment.update(word, change)?;
                self.owed.push_back(Owed { to, ticket, body: Body::Answer(before) });
            }
            Body::Answer(_) if ticket == 0 => self.answered(to),
            Body::Answer(before) => {
                self.answers.entry(ticket).and_modify(|answer| *answer = Some(before));
            }
            Body::Tell(bytes) => {
                for answer in self.shared.local.events.heard(pe, incarnation, &bytes) {
                    self.told.owe(to, answer);
                }
            }
            Body::Wake => {} // whoever makes progress wakes the threads
        }
        Some(())
    }
}
