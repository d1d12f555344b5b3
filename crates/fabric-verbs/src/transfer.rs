//! Gets, updates and order; and the preparation common to all transfers.
//!
//! A transfer is cut into pieces of one block each; the pieces for one peer go out together, and as
//! many are in flight as there are blocks. A get is complete when all its pieces are.
//!
//! A fence does not wait: requests on a connection arrive in order. Only posts are carried out
//! later than they arrive, by a processor; operations that bypass it wait for them.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use raidshmem_core::quantity::Pe;
use raidshmem_core::update::Update;
use raidshmem_fabric::{AmoRequest, Lost, Read};

use crate::conn::{Conn, Used};
use crate::objects::LINKED;
use crate::pair::{Local as Bytes, What, Work};
use crate::shared::{BLOCK, Shared};
use crate::wire::{Message, RemoteAddress};
use raidshmem_sys::lock;

/// The first and the longest interval between repetitions of a greeting; it doubles each time.
const AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// A work request under way whose result arrives in a block.
struct Flight {
    conn: Arc<Conn>,
    number: u64,
    block: u32,
    part: TransferPart,
}

/// The read or update that a piece belongs to, its offset in it, and its length.
#[derive(Debug, Clone, Copy)]
struct TransferPart {
    of: usize,
    at: usize,
    len: usize,
}

/// An update under way: by the device, or by the peer's processor. The latter holds the connection,
/// the slot of the answer, and the index of the update in the call.
enum Open {
    Device(Flight),
    Asked(Arc<Conn>, u32, usize),
}

/// Pieces that go out together to one peer, and whose results arrive in blocks.
struct Leaving {
    conn: Arc<Conn>,
    works: Vec<Work<'static>>,
    parts: Vec<(u32, TransferPart)>,
}

impl Shared {
    /// Returns the connection to `pe`, once it is open.
    fn ready(&self, pe: Pe) -> Result<Arc<Conn>, Lost> {
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

    /// Like `ready`, for operations that bypass the peer's processor: also waits for the posts
    /// before the last fence.
    pub(super) fn ready_in_order(&self, pe: Pe) -> Result<Arc<Conn>, Lost> {
        let conn = self.ready(pe)?;
        self.in_order(&conn)?;
        Ok(conn)
    }

    fn in_order(&self, conn: &Conn) -> Result<(), Lost> {
        match conn.is_in_order() {
            true => Ok(()),
            false => self.until(conn, || conn.is_in_order().then_some(())),
        }
    }

    /// Returns address and key of a peer's window, asking for them if necessary.
    pub(super) fn key(&self, conn: &Conn, window: usize) -> Result<RemoteAddress, Lost> {
        if let Some(place) = conn.keys[window].place() {
            return Ok(place);
        }
        self.ask_where(conn, window)?;
        self.until(conn, || conn.keys[window].place())
    }

    /// Asks for the address of a peer's window, unless this was already done: the peer registers a
    /// new window.
    fn ask_where(&self, conn: &Conn, window: usize) -> Result<(), Lost> {
        match conn.keys[window].ask() {
            true => self.ask(conn, Message::Where(window as u32)).map(drop),
            false => Ok(()),
        }
    }

    /// Asks for everything that reads of these bytes will need.
    pub fn expect(&self, pe: Pe, range: Range<usize>) -> Result<(), Lost> {
        let conn = self.ready(pe)?;
        let mut pieces = self.windows.pieces(range.start, range.len(), usize::MAX);
        pieces.try_for_each(|piece| self.ask_where(&conn, piece.window))
    }

    pub(super) fn free_block(&self) -> Option<u32> {
        lock(&self.free).pop()
    }

    /// Returns the remote address of bytes of a window.
    pub(super) fn remote(
        &self,
        window: usize,
        (base, key): RemoteAddress,
        offset: usize,
    ) -> RemoteAddress {
        (base + (offset - self.windows.range(window).start) as u64, key)
    }

    // ---- get ---------------------------------------------------------------------------------

    /// Reads all of `reads`, from the remaining peers even if one is lost.
    pub fn get(&self, reads: &mut [Read]) -> Result<(), Lost> {
        let (mut leaving, mut flights, mut first) = (None, VecDeque::new(), Ok(()));
        for of in 0..reads.len() {
            let started = self.start(reads, of, &mut leaving, &mut flights);
            first = first.and(started);
        }
        let departed = self.depart(&mut leaving, &mut flights);
        first = first.and(departed);
        while let Some(flight) = flights.pop_front() {
            let landed = self.land(reads, flight);
            first = first.and(landed);
        }
        first
    }

    /// Starts a read; completes earlier ones if blocks are short.
    fn start(
        &self,
        reads: &mut [Read],
        of: usize,
        leaving: &mut Option<Leaving>,
        flights: &mut VecDeque<Flight>,
    ) -> Result<(), Lost> {
        let (pe, offset, len) = (reads[of].pe, reads[of].offset, reads[of].into.len());
        let mut first = Ok(());
        if leaving.as_ref().is_some_and(|leaving| leaving.conn.pe != pe) {
            first = self.depart(leaving, flights);
        }
        let conn = self.ready_in_order(pe)?;
        for piece in self.windows.pieces(offset, len, BLOCK) {
            if conn.keys[piece.window].place().is_none() {
                first = first.and(self.depart(leaving, flights)); // as in `put_to_one`
            }
            let key = self.key(&conn, piece.window)?;
            let block = loop {
                if let Some(block) = self.free_block() {
                    break block;
                }
                first = first.and(self.depart(leaving, flights));
                match flights.pop_front() {
                    Some(flight) => first = first.and(self.land(reads, flight)),
                    None => break self.until(&conn, || self.free_block())?,
                }
            };
            let what = What::Read(self.remote(piece.window, key, piece.offset));
            let part = TransferPart { of, at: piece.at, len: piece.len };
            first = first.and(self.leave(&conn, what, (block, part), leaving, flights));
        }
        first
    }

    /// Adds a work request to those that go out together.
    fn leave(
        &self,
        conn: &Arc<Conn>,
        what: What<'static>,
        (block, part): (u32, TransferPart),
        leaving: &mut Option<Leaving>,
        flights: &mut VecDeque<Flight>,
    ) -> Result<(), Lost> {
        let mut first = Ok(());
        if leaving.as_ref().is_some_and(|all| !Arc::ptr_eq(&all.conn, conn)) {
            first = self.depart(leaving, flights); // the peer has been replaced meanwhile
        }
        let fresh = || Leaving { conn: Arc::clone(conn), works: Vec::new(), parts: Vec::new() };
        let all = leaving.get_or_insert_with(fresh);
        let local = Bytes::Span(self.blocks.span(block as usize * BLOCK, part.len));
        all.works.push(Work { id: 0, what, local, signal: false });
        all.parts.push((block, part));
        if all.works.len() == LINKED {
            first = first.and(self.depart(leaving, flights));
        }
        first
    }

    /// Posts the gathered work requests.
    fn depart(
        &self,
        leaving: &mut Option<Leaving>,
        flights: &mut VecDeque<Flight>,
    ) -> Result<(), Lost> {
        let Some(Leaving { conn, mut works, parts }) = leaving.take() else { return Ok(()) };
        let blocks: Vec<Used> = parts.iter().map(|(block, _)| *block).enumerate().collect();
        let last = self.submit(&conn, &mut works, (&blocks, true), false)?;
        let first = last - works.len() as u64 + 1;
        for (number, (block, part)) in (first..).zip(parts) {
            flights.push_back(Flight { conn: Arc::clone(&conn), number, block, part });
        }
        Ok(())
    }

    /// Waits for a piece, and delivers its bytes.
    fn land(&self, reads: &mut [Read], flight: Flight) -> Result<(), Lost> {
        let TransferPart { of, at, len } = flight.part;
        self.arrive(flight, &mut reads[of].into[at..at + len])
    }

    /// Waits for a work request, and copies its result.
    fn arrive(&self, flight: Flight, into: &mut [u8]) -> Result<(), Lost> {
        let Flight { conn, number, block, .. } = flight;
        match self.until(&conn, || conn.done(number)) {
            Ok(true) => {
                self.blocks.read(block as usize * BLOCK, into);
                self.give_back(&[block]);
                Ok(())
            }
            Ok(false) => {
                self.give_back(&[block]);
                Err(conn.lost())
            }
            Err(lost) => {
                // The device may still write to the block: it is free when the request is complete.
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

    /// Updates words, those of the remaining peers even if one is lost.
    pub fn update(&self, asks: &[AmoRequest], before: &mut [u64]) -> Result<(), Lost> {
        let (mut open, mut first) = (VecDeque::new(), Ok(()));
        for (at, ask) in asks.iter().enumerate() {
            let taken = |answer| first = first.and(self.take(asks, answer, before));
            match self.begin(ask, at, &mut open, taken) {
                Ok(one) => open.push_back(one),
                Err(lost) => first = first.and(Err(lost)),
            }
        }
        for answer in open {
            first = first.and(self.take(asks, answer, before));
        }
        first
    }

    /// Starts update number `at`. Takes the results of earlier updates while no slot is free: a
    /// thread never waits for a slot while it holds one.
    fn begin(
        &self,
        ask: &AmoRequest,
        at: usize,
        open: &mut VecDeque<Open>,
        mut take: impl FnMut(Open),
    ) -> Result<Open, Lost> {
        let conn = self.ready(ask.pe)?;
        if let Some(what) = self.by_device(&conn, ask)? {
            self.in_order(&conn)?;
            let block = self.resource(&conn, || self.free_block(), open, &mut take)?;
            let part = TransferPart { of: at, at: 0, len: size_of::<u64>() };
            return self.submit_one(conn, what, block, part).map(Open::Device);
        }
        let tag = self.resource(&conn, || conn.ask(), open, &mut take)?;
        let &AmoRequest { word, change, .. } = ask;
        if let Err(lost) = self.ask(&conn, Message::Update { tag, word, change }) {
            conn.close(tag);
            return Err(lost);
        }
        Ok(Open::Asked(conn, tag, at))
    }

    /// Posts a work request whose result arrives in `block`.
    fn submit_one(
        &self,
        conn: Arc<Conn>,
        what: What<'static>,
        block: u32,
        part: TransferPart,
    ) -> Result<Flight, Lost> {
        let local = Bytes::Span(self.blocks.span(block as usize * BLOCK, part.len));
        let mut work = [Work { id: 0, what, local, signal: true }];
        let number = self.submit(&conn, &mut work, (&[(0, block)], true), false)?;
        Ok(Flight { conn, number, block, part })
    }

    fn resource(
        &self,
        conn: &Conn,
        free: impl Fn() -> Option<u32>,
        open: &mut VecDeque<Open>,
        take: &mut impl FnMut(Open),
    ) -> Result<u32, Lost> {
        loop {
            if let Some(place) = free() {
                return Ok(place);
            }
            match open.pop_front() {
                Some(earlier) => take(earlier),
                None => return self.until(conn, &free),
            }
        }
    }

    /// Returns the work request by which the peer's device performs the update, if it can.
    fn by_device(&self, conn: &Conn, ask: &AmoRequest) -> Result<Option<What<'static>>, Lost> {
        let AmoRequest { word, change, .. } = *ask;
        let whole = word.bytes == size_of::<u64>() && word.offset.is_multiple_of(word.bytes);
        if !whole || !self.updates_by_device(conn) {
            return Ok(None);
        }
        let piece = self.windows.pieces(word.offset, word.bytes, BLOCK).next();
        let Some(piece) = piece.filter(|piece| self.windows.is_visible(piece.window)) else {
            return Ok(None);
        };
        let place = || Ok(self.remote(piece.window, self.key(conn, piece.window)?, word.offset));
        Ok(match change.how {
            Update::Load => Some(What::FetchAdd(place()?, 0)),
            Update::Add => Some(What::FetchAdd(place()?, change.operand)),
            Update::CompareSwap(expected) => {
                Some(What::CompareSwap(place()?, expected, change.operand))
            }
            _ => None,
        })
    }

    /// Waits for the result of an update.
    fn take(&self, asks: &[AmoRequest], one: Open, before: &mut [u64]) -> Result<(), Lost> {
        let (conn, tag, at) = match one {
            Open::Asked(conn, tag, at) => (conn, tag, at),
            Open::Device(flight) => {
                let (at, mut word) = (flight.part.of, [0; size_of::<u64>()]);
                self.arrive(flight, &mut word)?;
                before[at] = u64::from_ne_bytes(word);
                if changes(&asks[at], before[at]) {
                    self.wake(asks[at].pe);
                }
                return Ok(());
            }
        };
        let answer = self.until(&conn, || conn.answered(tag));
        conn.close(tag);
        answer.map(|value| before[at] = value)
    }

    /// Updates a word without waiting.
    pub fn post(&self, ask: AmoRequest) -> Result<(), Lost> {
        let conn = self.ready(ask.pe)?;
        conn.posts.0.fetch_add(1, Ordering::AcqRel);
        let AmoRequest { word, change, .. } = ask;
        self.ask(&conn, Message::Post { word, change }).map(drop)
    }

    /// Waits until everything put and posted to `peers` has arrived and been carried out.
    pub fn quiet(&self, peers: &[Pe]) -> Result<(), Lost> {
        let mut first = Ok(());
        for &pe in peers {
            let Ok(conn) = self.conn(pe) else { continue };
            let posted = lock(&conn.sender).posted;
            let posts = conn.posts.0.load(Ordering::Acquire);
            let quiet = || conn.is_quiet(posted, posts).then_some(());
            let settled = self.until(&conn, quiet).and_then(|()| conn.whole());
            first = first.and(settled);
        }
        first
    }

    /// Prevents later operations at `peers` from overtaking earlier puts and posts.
    pub fn fence(&self, peers: &[Pe]) -> Result<(), Lost> {
        let mut first = Ok(());
        for &pe in peers {
            let Ok(conn) = self.conn(pe) else { continue };
            conn.fence();
            first = first.and(conn.whole());
        }
        first
    }
}

/// Returns true if that update changed a word that was `before`.
fn changes(ask: &AmoRequest, before: u64) -> bool {
    match ask.change.how {
        Update::Load => false,
        Update::Add => ask.change.operand != 0,
        Update::CompareSwap(expected) => before == expected,
        _ => true,
    }
}
