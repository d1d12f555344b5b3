//! Letters on a connection, in order: messages of the engine, and bytes for the user of the peer's.
//!
//! Invariant: a letter is sent at once or, if no entry is free, once one is; whoever handles the
//! completion that frees the entry sends it. Nothing here waits but [`Letters::tell`].

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use raidshmem_fabric::Lost;
use raidshmem_sys::lock;

use crate::conn::{Conn, Sender};
use crate::pair::{INLINE, Local as Bytes, What, Work};
use crate::shared::Shared;
use crate::wire::{Letter, Message};

/// Maximum number of deferred letters to which a thread of the program adds more.
const DEFERRED: usize = 64;

/// The letters of a connection.
pub struct Letters<'a> {
    engine: &'a Shared,
    conn: &'a Conn,
}

impl Shared {
    /// Returns the letters of a connection.
    pub(super) fn letters<'a>(&'a self, conn: &'a Conn) -> Letters<'a> {
        Letters { engine: self, conn }
    }
}

impl Letters<'_> {
    /// Sends a message without waiting: now, or when an entry is free.
    pub fn send(&self, sender: &mut Sender, message: Message) {
        sender.deferred.push_back(Letter::Message(message));
        self.flush(sender);
    }

    /// Passes bytes to the user of the peer's engine. Waits only while many letters are deferred.
    pub fn tell(&self, bytes: &[u8]) -> Result<(), Lost> {
        let may_add = || (lock(&self.conn.sender).deferred.len() < DEFERRED).then_some(());
        self.engine.until(self.conn, may_add)?;
        self.add(bytes);
        self.conn.whole()
    }

    fn add(&self, bytes: &[u8]) {
        let mut sender = lock(&self.conn.sender);
        sender.deferred.extend(Letter::pieces(bytes));
        self.flush(&mut sender);
    }

    /// Sends deferred letters while entries are free.
    pub fn flush(&self, sender: &mut Sender) {
        while !self.conn.is_broken()
            && self.conn.free_entries(sender, true) > 0
            && let Some(letter) = sender.deferred.pop_front()
        {
            match letter {
                Letter::Message(message) => self.send_message(sender, message),
                Letter::Piece(piece) => self.send_piece(sender, piece),
            }
        }
        if !sender.deferred.is_empty() && !self.conn.is_broken() {
            self.engine.due.store(true, Ordering::Release);
        }
    }

    fn send_message(&self, sender: &mut Sender, message: Message) {
        let bytes = message.encode();
        let wake = matches!(message, Message::Wake);
        let (what, local) = (What::Send(wake), Bytes::Inline(&bytes));
        let mut work = [Work { id: 0, what, local, signal: true }];
        let posted = self.engine.post_all(self.conn, sender, &mut work, (&[], false));
        if let (Ok(number), true) = (posted, wake) {
            sender.wake = (number, false);
        }
    }

    /// Sends a piece, or the part of it that fits into a work request if blocks are short. Later
    /// calls find out if the connection breaks.
    fn send_piece(&self, sender: &mut Sender, piece: Vec<u8>) {
        let send = |local| [Work { id: 0, what: What::Send(true), local, signal: true }];
        let blocks = &self.engine.blocks;
        if let Some(block) = if piece.len() > INLINE { blocks.take() } else { None } {
            blocks.write(block, &piece);
            let mut work = send(Bytes::Span(blocks.span(block, piece.len())));
            let _ = self.engine.post_all(self.conn, sender, &mut work, (&[(0, block)], false));
            return;
        }
        let (first, rest) = Letter::split(piece, INLINE);
        if let Some(rest) = rest {
            sender.deferred.push_front(rest);
        }
        let mut work = send(Bytes::Inline(&first));
        let _ = self.engine.post_all(self.conn, sender, &mut work, (&[], false));
    }

    /// Handles a piece of bytes of the peer. The last one passes them on, and returns true; answers
    /// are sent.
    pub fn hear(&self, piece: &[u8]) -> bool {
        let conn = self.conn;
        let Some(bytes) = Letter::gather(&mut lock(&conn.pieces), piece) else { return false };
        let answers = self.engine.local.events.heard(conn.pe, conn.incarnation, &bytes);
        answers.iter().for_each(|answer| self.add(answer));
        true
    }
}
