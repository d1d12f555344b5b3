//! Puts, gets and updates.
//!
//! A transfer is cut into pieces of a block each; pieces for one peer go out together, those of
//! several puts to it too, and all that there are blocks for are in flight at a time. A put has
//! left when its bytes are in blocks or in work requests; a get is over when all its pieces are.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::conn::{Conn, lock};
use super::objects::LINKED;
use super::pair::{INLINE, Local as Bytes, What, Work};
use super::shared::{BLOCK, Shared};
use super::wire::Message;
use crate::fabric::{Ask, Lost, Read, Write};

/// A greeting is repeated after this, and then after twice as long each time, up to the second.
const AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// A piece of a get that is under way.
struct Flight {
    conn: Arc<Conn>,
    number: u64,
    block: u32,
    /// Which read, where in it, and how many bytes.
    read: usize,
    at: usize,
    len: usize,
}

/// An update under way: its connection, its place for the answer, and which of the call it is.
type Open = (Arc<Conn>, u32, usize);

/// Pieces that go out together.
#[derive(Default)]
struct Batch<'a> {
    works: Vec<Work<'a>>,
    blocks: Vec<u32>,
}

impl Shared {
    /// The connection to `pe`, open.
    fn ready(&self, pe: usize) -> Result<Arc<Conn>, Lost> {
        let conn = self.conn(pe)?;
        if conn.is_broken() {
            return Err(conn.lost());
        }
        if conn.open.load(Ordering::Acquire) {
            return Ok(conn);
        }
        let (mut due, mut pause) = (Instant::now(), AGAIN.0);
        let open = || {
            if Instant::now() >= due {
                self.greet(&conn);
                due = Instant::now() + pause;
                pause = (2 * pause).min(AGAIN.1);
            }
            conn.open.load(Ordering::Acquire).then_some(())
        };
        self.until(&conn, open)?;
        Ok(conn)
    }

    /// A question and its answer.
    fn answer(&self, conn: &Conn, question: impl Fn(u32) -> Message) -> Result<(u64, u32), Lost> {
        let tag = self.until(conn, || conn.ask())?;
        let answer =
            self.ask(conn, question(tag)).and_then(|_| self.until(conn, || conn.answered(tag)));
        conn.close(tag);
        answer
    }

    /// Address and key of a peer's window.
    fn key(&self, conn: &Conn, window: usize) -> Result<(u64, u32), Lost> {
        if let Some(&key) = conn.keys[window].get() {
            return Ok(key);
        }
        let key = self.answer(conn, |tag| Message::Key { tag, window: window as u32 })?;
        Ok(*conn.keys[window].get_or_init(|| key))
    }

    fn free_block(&self) -> Option<u32> {
        lock(&self.free).pop()
    }

    /// Posts what has been gathered, if anything.
    fn send(&self, conn: &Conn, batch: &mut Batch) -> Result<(), Lost> {
        if batch.works.is_empty() {
            return Ok(());
        }
        let number = self.submit(conn, &mut batch.works, &batch.blocks);
        batch.works.clear();
        batch.blocks.clear();
        number.map(drop)
    }

    // ---- put ---------------------------------------------------------------------------------

    /// Copies bytes to peers; to the others even if one is lost.
    pub fn put(&self, writes: &[Write]) -> Result<(), Lost> {
        let mut first = Ok(());
        for to_one in writes.chunk_by(|a, b| a.pe == b.pe) {
            first = first.and(self.put_to_one(to_one));
        }
        first
    }

    /// The same to one peer, which the first of `writes` names.
    fn put_to_one(&self, writes: &[Write]) -> Result<(), Lost> {
        let conn = self.ready(writes[0].pe)?;
        let mut batch = Batch::default();
        for write in writes {
            for piece in self.windows.pieces(write.offset, write.from.len(), BLOCK) {
                let bytes = &write.from[piece.at..piece.at + piece.len];
                let (base, key) = match conn.keys[piece.window].get() {
                    Some(&key) => key,
                    None => {
                        self.send(&conn, &mut batch)?; // blocks are not kept while it asks
                        self.key(&conn, piece.window)?
                    }
                };
                let remote = base + (piece.offset - self.windows.range(piece.window).start) as u64;
                let local = match bytes.len() <= INLINE {
                    true => Bytes::Inline(bytes),
                    false => self.fill_block(&conn, &mut batch, bytes)?,
                };
                let what = What::Write(remote, key);
                batch.works.push(Work { id: 0, what, local, signal: false });
                if batch.works.len() == LINKED {
                    self.send(&conn, &mut batch)?;
                }
            }
        }
        self.send(&conn, &mut batch)
    }

    /// Copies bytes to a block, which is that of the next work request; sends the earlier ones if
    /// blocks are short.
    fn fill_block<'a>(
        &self,
        conn: &Conn,
        batch: &mut Batch<'a>,
        bytes: &[u8],
    ) -> Result<Bytes<'a>, Lost> {
        let block = match self.free_block() {
            Some(block) => block,
            None => {
                self.send(conn, batch)?;
                self.until(conn, || self.free_block())?
            }
        };
        self.blocks.write(block as usize * BLOCK, bytes);
        batch.blocks.push(block);
        Ok(Bytes::Span(self.blocks.span(block as usize * BLOCK, bytes.len())))
    }

    // ---- get ---------------------------------------------------------------------------------

    /// Reads all of `reads`; what other peers have is read even if one is lost.
    pub fn get(&self, reads: &mut [Read]) -> Result<(), Lost> {
        let (mut flights, mut first) = (VecDeque::new(), Ok(()));
        for read in 0..reads.len() {
            let started = self.start(reads, read, &mut flights);
            first = first.and(started);
        }
        while let Some(flight) = flights.pop_front() {
            let landed = self.land(reads, flight);
            first = first.and(landed);
        }
        first
    }

    /// Starts read number `read`; lands earlier ones where blocks are short.
    fn start(
        &self,
        reads: &mut [Read],
        read: usize,
        flights: &mut VecDeque<Flight>,
    ) -> Result<(), Lost> {
        let (pe, offset, len) = (reads[read].pe, reads[read].offset, reads[read].into.len());
        let conn = self.ready(pe)?;
        let (mut batch, mut waiting, mut first) = (Batch::default(), Vec::new(), Ok(()));
        for piece in self.windows.pieces(offset, len, BLOCK) {
            let (base, key) = match self.key(&conn, piece.window) {
                Ok(key) => key,
                Err(lost) => {
                    self.give_back(&batch.blocks);
                    return Err(lost);
                }
            };
            let block = loop {
                if let Some(block) = self.free_block() {
                    break block;
                }
                self.depart(&conn, &mut batch, &mut waiting, flights)?;
                match flights.pop_front() {
                    Some(flight) => first = first.and(self.land(reads, flight)),
                    None => break self.until(&conn, || self.free_block())?,
                }
            };
            let remote = base + (piece.offset - self.windows.range(piece.window).start) as u64;
            let local = Bytes::Span(self.blocks.span(block as usize * BLOCK, piece.len));
            batch.works.push(Work { id: 0, what: What::Read(remote, key), local, signal: false });
            batch.blocks.push(block);
            waiting.push((read, piece.at, piece.len));
            if batch.works.len() == LINKED {
                self.depart(&conn, &mut batch, &mut waiting, flights)?;
            }
        }
        self.depart(&conn, &mut batch, &mut waiting, flights)?;
        first
    }

    /// Posts the reads that were gathered.
    fn depart(
        &self,
        conn: &Arc<Conn>,
        batch: &mut Batch,
        waiting: &mut Vec<(usize, usize, usize)>,
        flights: &mut VecDeque<Flight>,
    ) -> Result<(), Lost> {
        if batch.works.is_empty() {
            return Ok(());
        }
        let blocks = std::mem::take(&mut batch.blocks);
        let last = match self.submit(conn, &mut batch.works, &[]) {
            Ok(last) => last,
            Err(lost) => {
                self.give_back(&blocks);
                return Err(lost);
            }
        };
        let first = last - batch.works.len() as u64 + 1;
        batch.works.clear();
        for ((number, block), (read, at, len)) in (first..).zip(blocks).zip(waiting.drain(..)) {
            flights.push_back(Flight { conn: Arc::clone(conn), number, block, read, at, len });
        }
        Ok(())
    }

    /// Waits for a piece, and hands its bytes over.
    fn land(&self, reads: &mut [Read], flight: Flight) -> Result<(), Lost> {
        let Flight { conn, number, block, read, at, len } = flight;
        match self.until(&conn, || conn.done(number)) {
            Ok(true) => {
                self.blocks.read(block as usize * BLOCK, &mut reads[read].into[at..at + len]);
                self.give_back(&[block]);
                Ok(())
            }
            Ok(false) => {
                self.give_back(&[block]);
                Err(conn.lost())
            }
            Err(lost) => {
                // The device may still write to the block: it is free when the request is over.
                let mut sender = lock(&conn.sender);
                if conn.done(number).is_some() {
                    drop(sender);
                    self.give_back(&[block]);
                } else {
                    sender.blocks.push((number, block));
                }
                Err(lost)
            }
        }
    }

    // ---- updates and order -------------------------------------------------------------------

    /// Updates words; those of other peers even if one is lost.
    pub fn update(&self, asks: &[Ask], before: &mut [u64]) -> Result<(), Lost> {
        let (mut open, mut first) = (VecDeque::new(), Ok(()));
        for (at, ask) in asks.iter().enumerate() {
            let taken = |answer| first = first.and(self.take(answer, before));
            match self.question(ask, &mut open, taken) {
                Ok((conn, tag)) => open.push_back((conn, tag, at)),
                Err(lost) => first = first.and(Err(lost)),
            }
        }
        for answer in open {
            first = first.and(self.take(answer, before));
        }
        first
    }

    /// Asks for an update. Takes earlier answers while no place for another is free: nobody waits
    /// for one while it holds one.
    fn question(
        &self,
        ask: &Ask,
        open: &mut VecDeque<Open>,
        mut take: impl FnMut(Open),
    ) -> Result<(Arc<Conn>, u32), Lost> {
        let conn = self.ready(ask.pe)?;
        let tag = loop {
            if let Some(tag) = conn.ask() {
                break tag;
            }
            match open.pop_front() {
                Some(earlier) => take(earlier),
                None => break self.until(&conn, || conn.ask())?,
            }
        };
        let &Ask { word, change, .. } = ask;
        if let Err(lost) = self.ask(&conn, Message::Update { tag, word, change }) {
            conn.close(tag);
            return Err(lost);
        }
        Ok((conn, tag))
    }

    /// Waits for an answer.
    fn take(&self, (conn, tag, at): Open, before: &mut [u64]) -> Result<(), Lost> {
        let answer = self.until(&conn, || conn.answered(tag));
        conn.close(tag);
        answer.map(|(value, _)| before[at] = value)
    }

    /// Updates a word without waiting.
    pub fn post(&self, ask: Ask) -> Result<(), Lost> {
        let conn = self.ready(ask.pe)?;
        conn.posts.0.fetch_add(1, Ordering::AcqRel);
        let Ask { word, change, .. } = ask;
        self.ask(&conn, Message::Post { word, change }).map(drop)
    }

    /// Waits until posts to `peers` are carried out, and, if `puts`, until puts have arrived. A
    /// fence need not wait for puts: the device keeps the order of what it writes and sends on a
    /// connection; but posts are carried out by a processor, and what follows must not overtake
    /// them.
    pub fn settle_at(&self, peers: &[usize], puts: bool) -> Result<(), Lost> {
        let mut first = Ok(());
        for &pe in peers {
            let Ok(conn) = self.conn(pe) else { continue };
            let posted = if puts { lock(&conn.sender).posted } else { 0 };
            let posts = conn.posts.0.load(Ordering::Acquire);
            let quiet = || conn.is_quiet(posted, posts).then_some(());
            let settled = self.until(&conn, quiet).and_then(|()| match conn.is_broken() {
                true => Err(conn.lost()),
                false => Ok(()),
            });
            first = first.and(settled);
        }
        first
    }
}
