//! Receive buffers: registered memory for greetings and messages, and the queues that take it.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use crate::conn::Ticket;
use crate::device::Device;
use crate::objects::{Inbox, Queue, Region};
use crate::pair::Pair;
use crate::wire::{Hello, LETTER, Letter, Message};

/// Buffers for greetings, and the length of the header that precedes each.
pub const HELLOS: usize = 128;
const HEADER: usize = 40;

/// The receive buffers of an engine.
#[derive(Debug)]
pub struct ReceiveBuffers {
    /// The queue pair for greetings. It ends before its buffers are released.
    pub bootstrap: Pair,
    region: Region,
    pub inbox: Arc<Inbox>,
}

impl ReceiveBuffers {
    /// Registers buffers for greetings with this key, and for so many messages.
    pub fn new(
        device: &Arc<Device>,
        queue: &Arc<Queue>,
        (key, messages): (u32, usize),
    ) -> Result<ReceiveBuffers, String> {
        let inbox = Arc::new(Inbox::new(device, messages)?);
        let bootstrap = Pair::new(device, queue, None, HELLOS)?;
        bootstrap.open(key)?;
        let letters = messages * LETTER + HELLOS * (HEADER + Hello::LEN);
        Ok(ReceiveBuffers { region: Region::private(device, letters)?, inbox, bootstrap })
    }

    /// Posts all buffers. Returns false if the device does not take them.
    pub fn offer_all(&self, messages: usize) -> bool {
        let hellos = (0..HELLOS as u32).all(|at| self.offer(Ticket::Hello(at)));
        hellos && (0..messages as u32).all(|at| self.offer(Ticket::Message(at)))
    }

    /// Returns the location of a buffer's bytes.
    fn place(&self, buffer: Ticket) -> Range<usize> {
        let (hello, letter) = (HEADER + Hello::LEN, LETTER);
        let from = |at: usize, len: usize| at..at + len;
        match buffer {
            Ticket::Hello(at) => from(at as usize * hello, hello),
            Ticket::Message(at) => from(HELLOS * hello + at as usize * letter, letter),
            Ticket::Greeted | Ticket::Sent(..) => 0..0,
        }
    }

    /// Posts a receive buffer.
    pub fn offer(&self, buffer: Ticket) -> bool {
        let place = self.place(buffer);
        let span = self.region.span(place.start, place.len());
        match buffer {
            Ticket::Hello(_) => self.bootstrap.offer(buffer.pack(), span),
            _ => self.inbox.offer(buffer.pack(), span),
        }
    }

    /// Decodes the letter in a buffer.
    pub fn letter(&self, buffer: Ticket, len: usize) -> Option<Letter> {
        let at = self.place(buffer).start;
        // Most letters are messages, for which nothing is allocated.
        if len <= Message::LEN {
            let mut bytes = [0; Message::LEN];
            self.region.read(at, &mut bytes[..len]);
            return Letter::decode(&bytes[..len]);
        }
        let mut bytes = vec![0; len.min(LETTER)];
        self.region.read(at, &mut bytes);
        Letter::decode(&bytes)
    }

    /// Decodes the greeting in a buffer, after its header.
    pub fn hello(&self, buffer: Ticket, len: usize) -> Option<Hello> {
        let mut bytes = [0; Hello::LEN];
        self.region.read(self.place(buffer).start + HEADER, &mut bytes);
        Hello::decode(&bytes[..len.checked_sub(HEADER)?.min(Hello::LEN)])
    }
}
