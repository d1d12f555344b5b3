//! Requests that peers answer: updates of their words, and puts and gets sent as messages.
//!
//! A request carries a ticket under which its reply arrives; if only a quiet waits, replies are
//! merely counted.
//!
//! Over TCP, UCP's own puts and gets are messages, too. But UCP (1.13) ends a process that answers
//! a get on an endpoint that has failed, or that receives a put over one. Endpoints fail when a
//! peer dies, so the death of one PE occasionally causes that of another. A job in shrink mode
//! therefore copies by these messages; a job that rolls back uses UCP, which is faster for long
//! ranges.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use raidshmem_core::quantity::Pe;
use raidshmem_fabric::{AmoRequest, Lost, Read, Write};
use serde::Serialize;

use crate::Ucx;
use crate::links::{Connections, Usable};
use crate::message::{Data, PIECE, READ, REQUEST, Request, TELL, Told, WRITE, Wanted, encode};
use crate::shared::Replies;

/// Maximum number of unanswered messages, over all peers.
const UNANSWERED: u64 = 1024;

/// The ticket of an awaited reply, and the error if it does not arrive.
type Awaited = (u64, Lost);

impl Ucx {
    /// Sends `pe` a message of kind `id` that requests an answer.
    fn say<T: Serialize>(
        &self,
        state: &mut Connections,
        pe: Pe,
        (id, ticket, body): (u32, u64, T),
    ) -> Result<Lost, Lost> {
        let Usable { endpoint, lost, .. } = state.usable(pe)?;
        let message = encode(&self.shared.letter(ticket, body));
        endpoint.send(id, message, true).map(|()| lost).map_err(|_| lost)
    }

    /// Sends `pe` a request whose reply arrives in `replies`.
    fn ask<T: Serialize, R>(
        &self,
        state: &mut Connections,
        pe: Pe,
        (id, body): (u32, T),
        replies: &Replies<R>,
    ) -> Result<Awaited, Lost> {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        replies.expect(ticket);
        let asked = self.say(state, pe, (id, ticket, body));
        if asked.is_err() {
            replies.forget(ticket);
        }
        asked.map(|lost| (ticket, lost))
    }

    /// Waits for the reply.
    fn reply<R>(&self, (ticket, lost): Awaited, replies: &Replies<R>) -> Result<R, Lost> {
        let reply = self.complete(|state| {
            let reply = replies.take(ticket);
            reply.map(Ok).or((!state.is_open(lost)).then_some(Err(lost)))
        });
        replies.forget(ticket);
        reply
    }

    /// Sends a request whose answer only a quiet waits for.
    fn report_unanswered<T: Serialize>(&self, pe: Pe, (id, body): (u32, T)) -> Result<(), Lost> {
        let shared = self.shared;
        if shared.unanswered_all.load(Ordering::SeqCst) >= UNANSWERED {
            let is_below = || shared.unanswered_all.load(Ordering::SeqCst) < UNANSWERED;
            self.complete(|_| is_below().then_some(()));
        }
        let mut state = self.turns.enter();
        state.usable(pe)?;
        shared.unanswered[pe.at()].fetch_add(1, Ordering::SeqCst);
        shared.unanswered_all.fetch_add(1, Ordering::SeqCst);
        let said = self.say(&mut state, pe, (id, 0, body));
        if said.is_err() {
            shared.answered(pe);
        }
        said.map(drop)
    }

    /// Updates words, and stores the previous value of each in `before`.
    pub(super) fn update_words(&self, asks: &[AmoRequest], before: &mut [u64]) -> Result<(), Lost> {
        let replies = &self.shared.answers;
        self.each(
            asks.iter().zip(before),
            |state, (&AmoRequest { pe, word, change }, before)| {
                let asked = self.ask(state, pe, (REQUEST, Request { word, change }), replies)?;
                Ok((asked, before))
            },
            |(asked, before)| self.reply(asked, replies).map(|found| *before = found),
        )
    }

    /// Updates a word; only a quiet waits for it.
    pub(super) fn post_word(
        &self,
        AmoRequest { pe, word, change }: AmoRequest,
    ) -> Result<(), Lost> {
        self.report_unanswered(pe, (REQUEST, Request { word, change }))
    }

    /// Passes bytes to the events of `pe`.
    pub(super) fn tell_bytes(&self, pe: Pe, bytes: &[u8]) -> Result<(), Lost> {
        let mut state = self.turns.enter();
        self.say(&mut state, pe, (TELL, 0, Told { bytes })).map(drop)
    }

    /// Performs a get by messages.
    pub(super) fn read(&self, reads: &mut [Read]) -> Result<(), Lost> {
        let replies = &self.shared.found;
        self.each(
            reads.iter_mut().flat_map(pieces),
            |state, Read { pe, offset, into }| {
                let wanted = Wanted { offset: offset as u64, len: into.len() as u64 };
                let asked = self.ask(state, pe, (READ, wanted), replies)?;
                Ok((asked, into))
            },
            |(asked, into)| {
                let bytes = self.reply(asked, replies)?;
                if bytes.len() != into.len() {
                    return Err(asked.1);
                }
                into.copy_from_slice(&bytes);
                Ok(())
            },
        )
    }

    /// Performs a put by messages.
    pub(super) fn write(&self, writes: &[Write]) -> Result<(), Lost> {
        let mut first = Ok(());
        for write in writes {
            for (nth, bytes) in write.from.chunks(PIECE).enumerate() {
                let offset = (write.offset + nth * PIECE) as u64;
                let said = self.report_unanswered(write.pe, (WRITE, Data { offset, bytes }));
                first = first.and(said);
            }
        }
        first
    }
}

/// Splits a read into pieces of one message each.
fn pieces<'a>(read: &'a mut Read<'_>) -> impl Iterator<Item = Read<'a>> {
    let (pe, offset) = (read.pe, read.offset);
    let pieces = read.into.chunks_mut(PIECE).enumerate();
    pieces.map(move |(nth, into)| Read { pe, offset: offset + nth * PIECE, into })
}
