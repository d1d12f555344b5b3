//! Puts and gets as messages of this engine: one asks for bytes and another brings them, or one
//! brings them and another says that they are there.
//!
//! UCP's own are messages over TCP, too. But UCP (1.13) ends a process that answers a get on an
//! endpoint that has failed, or that hears of a put over one, and endpoints fail when a peer dies:
//! now and then the death of a PE is that of another one. A job that goes on after every loss
//! copies this way; one that goes back does it by UCP, which is faster for long ranges.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use raidshmem_core::quantity::Pe;
use raidshmem_fabric::{Lost, Read, Write};
use raidshmem_segment::Segment;
use raidshmem_segment::update::{Change, Update, WordAt};
use raidshmem_sys::lock;

use crate::links::Connections;
use crate::message::{Data, READ, WRITE, Wanted, encode};
use crate::{Ucx, WINDOW};

/// Most bytes of a message: with any size of a segment of TCP it is sent at once.
const PIECE: usize = 4096;

/// Bytes of a segment as they are now, word by word; None if they are not there to be read.
pub(super) fn read(segment: &Segment, offset: u64, len: u64) -> Option<Vec<u8>> {
    let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
    if len > PIECE {
        return None;
    }
    let (before, end) = (offset % 8, offset.checked_add(len)?);
    let mut bytes = Vec::with_capacity(len + 16);
    for at in (offset - before..end).step_by(8) {
        let load = Change { how: Update::Load, operand: 0 };
        let word = segment.update(WordAt { offset: at, bytes: 8 }, load)?;
        bytes.extend(word.to_ne_bytes());
    }
    Some(bytes[before..before + len].to_vec())
}

/// Writes bytes of a segment, whole words where they are. None if they are not there.
pub(super) fn write(segment: &Segment, offset: u64, bytes: &[u8]) -> Option<()> {
    let mut offset = usize::try_from(offset).ok()?;
    let mut bytes = bytes;
    while !bytes.is_empty() {
        let fits = |len: &usize| offset.is_multiple_of(*len) && bytes.len() >= *len;
        let len = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
        let (now, later) = bytes.split_at(len);
        let mut value = [0; 8];
        value[..len].copy_from_slice(now);
        match len {
            1 => write_byte(segment, offset, now[0])?,
            _ => {
                let shift = if cfg!(target_endian = "big") { 64 - 8 * len } else { 0 };
                let operand = u64::from_ne_bytes(value) >> shift;
                segment.update(
                    WordAt { offset, bytes: len },
                    Change { how: Update::Store, operand },
                )?;
            }
        }
        (offset, bytes) = (offset.checked_add(len)?, later);
    }
    Some(())
}

/// A byte of a word of which others may write other bytes meanwhile.
fn write_byte(segment: &Segment, offset: usize, byte: u8) -> Option<()> {
    let word = WordAt { offset: offset & !7, bytes: 8 };
    loop {
        let before = segment.update(word, Change { how: Update::Load, operand: 0 })?;
        let mut bytes = before.to_ne_bytes();
        bytes[offset % 8] = byte;
        let (how, operand) = (Update::CompareSwap(before), u64::from_ne_bytes(bytes));
        if segment.update(word, Change { how, operand })? == before {
            return Some(());
        }
    }
}

impl Ucx {
    /// As a put of all these.
    pub(super) fn write(&self, writes: &[Write]) -> Result<(), Lost> {
        let mut first = Ok(());
        for write in writes {
            for (nth, bytes) in write.from.chunks(PIECE).enumerate() {
                let offset = (write.offset + nth * PIECE) as u64;
                let begin = |state: &mut Connections| self.bring(state, write.pe, offset, bytes);
                first = first.and(self.begin_unanswered(write.pe, begin));
            }
        }
        first
    }

    fn bring(
        &self,
        state: &mut Connections,
        pe: usize,
        offset: u64,
        bytes: &[u8],
    ) -> Result<Lost, Lost> {
        let local = &self.shared.local;
        let (endpoint, link) = state.link(pe)?;
        let lost = Lost { pe, incarnation: link.incarnation };
        let (job, incarnation, ticket) = (local.job, local.incarnation, 0);
        let data = Data { job, pe: Pe::of(local.me), incarnation, ticket, offset, bytes };
        endpoint.send(WRITE, encode(&data), true).map_err(|_| lost)?;
        Ok(lost)
    }

    /// As a get of all these.
    pub(super) fn read(&self, reads: &mut [Read]) -> Result<(), Lost> {
        let mut pieces: Vec<Read> = Vec::new();
        for Read { pe, offset, into } in reads {
            for (nth, into) in into.chunks_mut(PIECE).enumerate() {
                pieces.push(Read { pe: *pe, offset: *offset + nth * PIECE, into });
            }
        }
        let mut first = Ok(());
        for some in pieces.chunks_mut(WINDOW) {
            let mut state = lock(self.state);
            let asked: Vec<_> = some.iter().map(|read| self.want(&mut state, read)).collect();
            drop(state);
            for (asked, read) in asked.into_iter().zip(some) {
                let found = asked.and_then(|(ticket, lost)| self.found(ticket, lost, read));
                first = first.and(found);
            }
        }
        first
    }

    /// Asks for bytes.
    fn want(&self, state: &mut Connections, read: &Read) -> Result<(u64, Lost), Lost> {
        let local = &self.shared.local;
        let (endpoint, link) = state.link(read.pe)?;
        let lost = Lost { pe: read.pe, incarnation: link.incarnation };
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let wanted = Wanted {
            job: local.job,
            pe: Pe::of(local.me),
            incarnation: local.incarnation,
            ticket,
            offset: read.offset as u64,
            len: read.into.len() as u64,
        };
        lock(&self.shared.found).insert(ticket, None);
        let sent = endpoint.send(READ, encode(&wanted), true);
        if sent.is_err() {
            lock(&self.shared.found).remove(&ticket);
        }
        sent.map(|()| (ticket, lost)).map_err(|_| lost)
    }

    /// Waits for them.
    fn found(&self, ticket: u64, lost: Lost, read: &mut Read) -> Result<(), Lost> {
        let bytes = self.complete(|state| {
            let bytes = lock(&self.shared.found).get_mut(&ticket).and_then(Option::take);
            let here = state.link(lost.pe).is_ok_and(|(_, l)| l.incarnation == lost.incarnation);
            bytes.map(Ok).or((!here).then_some(Err(lost)))
        });
        lock(&self.shared.found).remove(&ticket);
        let bytes = bytes?;
        if bytes.len() != read.into.len() {
            return Err(lost);
        }
        read.into.copy_from_slice(&bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use raidshmem_core::layout::Layout;
    use raidshmem_sys::memory::{self, Part};

    use super::*;

    #[test]
    fn any_bytes_of_a_segment_are_read_and_written_and_none_outside() {
        let layout = Layout::new(1 << 20, 2);
        let file = memory::create("own", layout.total).unwrap();
        let part = Part::new(Arc::new(file), 0, layout.total);
        let segment = Segment::own(&part, layout).unwrap().0.leak();
        let heap = layout.heap as u64;
        let old: Vec<u8> = (0..64).collect();
        for from in 0..20usize {
            for len in 0..40 {
                write(segment, heap, &old).unwrap();
                let bytes = read(segment, heap + from as u64, len as u64);
                assert_eq!(bytes.as_deref(), Some(&old[from..from + len]), "{len} from {from}");
                write(segment, heap + from as u64, &vec![200; len]).unwrap();
                let mut new = old.clone();
                new[from..from + len].fill(200);
                assert_eq!(read(segment, heap, 64), Some(new), "{len} to {from}");
            }
        }
        for outside in [layout.total as u64, u64::MAX - 3, u64::MAX] {
            assert_eq!(read(segment, outside, 8), None);
            assert_eq!(write(segment, outside, &[1; 8]), None);
        }
        assert_eq!(read(segment, heap, PIECE as u64 + 1), None);
    }
}
