//! Puts, gets and updates.
//!
//! A transfer is cut into pieces of a block each; pieces for one peer go out together, and all that
//! there are blocks for are in flight at a time. A put has left when its bytes are in blocks; a get
//! is over when all its pieces are.

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
use crate::fabric::{Lost, Read};
use crate::segment::update::{Change, WordAt};

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

    /// Posts what has been gathered.
    fn send(&self, conn: &Conn, batch: &mut Batch) -> Result<u64, Lost> {
        let number = self.submit(conn, &mut batch.works, &batch.blocks);
        batch.works.clear();
        batch.blocks.clear();
        number
    }

    // ---- put ---------------------------------------------------------------------------------

    /// Copies `from` to `offset` of the segment of `pe`.
    pub fn put(&self, pe: usize, offset: usize, from: &[u8]) -> Result<(), Lost> {
        let conn = self.ready(pe)?;
        let in_line = from.len() <= INLINE;
        let mut batch = Batch::default();
        for piece in self.windows.pieces(offset, from.len(), BLOCK) {
            let (base, key) = self.key(&conn, piece.window)?;
            let remote = base + (piece.offset - self.windows.range(piece.window).start) as u64;
            let bytes = &from[piece.at..piece.at + piece.len];
            let local = if in_line {
                Bytes::Inline(bytes)
            } else {
                let block = match self.free_block() {
                    Some(block) => block,
                    None => {
                        if !batch.works.is_empty() {
                            self.send(&conn, &mut batch)?;
                        }
                        self.until(&conn, || self.free_block())?
                    }
                };
                self.blocks.write(block as usize * BLOCK, bytes);
                batch.blocks.push(block);
                Bytes::Span(self.blocks.span(block as usize * BLOCK, piece.len))
            };
            batch.works.push(Work { id: 0, what: What::Write(remote, key), local, signal: false });
            if batch.works.len() == LINKED {
                self.send(&conn, &mut batch)?;
            }
        }
        if !batch.works.is_empty() {
            self.send(&conn, &mut batch)?;
        }
        Ok(())
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

    /// Updates a word; what was there.
    pub fn update(&self, pe: usize, word: WordAt, change: Change) -> Result<u64, Lost> {
        let conn = self.ready(pe)?;
        self.answer(&conn, |tag| Message::Update { tag, word, change }).map(|(value, _)| value)
    }

    /// Updates a word without waiting.
    pub fn post(&self, pe: usize, word: WordAt, change: Change) -> Result<(), Lost> {
        let conn = self.ready(pe)?;
        conn.posts.0.fetch_add(1, Ordering::AcqRel);
        self.ask(&conn, Message::Post { word, change }).map(drop)
    }

    /// Waits until posts are carried out, and, if `puts`, until puts have arrived. A fence need not
    /// wait for puts: the device keeps the order of what it writes and sends on a connection; but
    /// posts are carried out by a processor, and what follows must not overtake them.
    pub fn settle_all(&self, puts: bool) -> Result<(), Lost> {
        let mut first = Ok(());
        for pe in 0..self.local.n_pes {
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
