//! Puts and gets as messages of this engine: one asks for bytes and another brings them, or one
//! brings them and another says that they are there.
//!
//! UCP's own are messages over TCP, too. But UCP (1.13) ends a process that answers a get on an
//! endpoint that has failed, or that hears of a put over one, and endpoints fail when a peer dies:
//! now and then the death of a PE is that of another one. A job that goes on after every loss
//! copies this way; one that goes back does it by UCP, which is faster for long ranges.

#![forbid(unsafe_code)]

use raidshmem_core::quantity::Pe;
use raidshmem_fabric::{Lost, Read};
use raidshmem_sys::lock;

use crate::bytes::PIECE;
use crate::links::Connections;
use crate::message::{Data, READ, WRITE, Wanted, encode};
use crate::shared::Shared;

/// Reads in pieces of a message each.
pub(super) fn pieces<'a>(reads: &'a mut [Read<'_>]) -> Vec<Read<'a>> {
    let mut pieces = Vec::new();
    for Read { pe, offset, into } in reads {
        for (nth, into) in into.chunks_mut(PIECE).enumerate() {
            pieces.push(Read { pe: *pe, offset: *offset + nth * PIECE, into });
        }
    }
    pieces
}

/// Asks for bytes; they come to `shared.found` by their ticket.
pub(super) fn want(
    state: &mut Connections,
    shared: &Shared,
    ticket: u64,
    read: &Read,
) -> Result<Lost, Lost> {
    let local = &shared.local;
    let (endpoint, link) = state.link(read.pe)?;
    let lost = Lost { pe: read.pe, incarnation: link.incarnation };
    let wanted = Wanted {
        job: local.job,
        pe: local.me,
        incarnation: local.incarnation,
        ticket,
        offset: read.offset as u64,
        len: read.into.len() as u64,
    };
    lock(&shared.found).insert(ticket, None);
    let sent = endpoint.send(READ, encode(&wanted), true);
    if sent.is_err() {
        lock(&shared.found).remove(&ticket);
    }
    sent.map(|()| lost).map_err(|_| lost)
}

/// Sends bytes, at most a message's, to be answered.
pub(super) fn bring(
    state: &mut Connections,
    shared: &Shared,
    (pe, offset): (Pe, usize),
    bytes: &[u8],
) -> Result<Lost, Lost> {
    let local = &shared.local;
    let (endpoint, link) = state.link(pe)?;
    let lost = Lost { pe, incarnation: link.incarnation };
    let (job, incarnation, ticket, offset) = (local.job, local.incarnation, 0, offset as u64);
    let data = Data { job, pe: local.me, incarnation, ticket, offset, bytes };
    endpoint.send(WRITE, encode(&data), true).map_err(|_| lost)?;
    Ok(lost)
}
