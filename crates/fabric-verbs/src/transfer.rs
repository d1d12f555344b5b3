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

use crate::blocks::BLOCK;
use crate::conn::{Conn, Used};
use crate::device::Atomics;
use crate::objects::LINKED;
use crate::pair::{Local as Bytes, What, Work};
use crate::shared::Shared;
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
    pub(super) fn ready(&self, pe: Pe) -> Result<Arc<Conn>, Lost> {
        let conn = self.connections.to(pe)?;
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

    // ---- get ---------------------------------------------------------------------------------

    /// Reads all of `reads`, from the remaining peers even if one is lost.
    pub fn get(&self, reads: &mut [Read]) -> Result<(), Lost> {
        let (mut call, mut first) = (GetCall::new(reads), Ok(()));
        for of in 0..call.reads.len() {
            let started = call.start(self, of);
            first = first.and(started);
        }
        let departed = call.depart(self);
        first = first.and(departed);
        while let Some(flight) = call.flights.pop_front() {
            let landed = call.land(self, flight);
            first = first.and(landed);
        }
        first
    }

    /// Waits for a work request, and copies its result.
    fn arrive(&self, flight: Flight, into: &mut [u8]) -> Result<(), Lost> {
        let Flight { conn, number, block, .. } = flight;
        match self.until(&conn, || conn.done(number)) {
            Ok(true) => {
                self.blocks.read(block, into);
                self.blocks.give_back(&[block]);
                Ok(())
            }
            Ok(false) => {
                self.blocks.give_back(&[block]);
                Err(conn.lost())
            }
            Err(lost) => {
                // The device may still write to the block: it is free when the request is complete.
                let mut sender = lock(&conn.sender);
                if conn.done(number).is_some() {
                    drop(sender);
                    self.blocks.give_back(&[block]);
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
        let mut call = UpdateCall { asks, before, open: VecDeque::new(), first: Ok(()) };
        for at in 0..asks.len() {
            match call.begin(self, at) {
                Ok(one) => call.open.push_back(one),
                Err(lost) => call.note(Err(lost)),
            }
        }
        while let Some(answer) = call.open.pop_front() {
            call.take(self, answer);
        }
        call.first
    }

    /// Returns the work request by which the peer's device performs the update, if it can.
    fn by_device(&self, conn: &Conn, ask: &AmoRequest) -> Result<Option<What<'static>>, Lost> {
        let AmoRequest { word, change, .. } = *ask;
        let whole = word.bytes == size_of::<u64>() && word.offset.is_multiple_of(word.bytes);
        let by_device = conn.address.atomics && self.device.atomics != Atomics::None;
        if !whole || !by_device {
            return Ok(None);
        }
        let piece = self.windows.pieces(word.offset, word.bytes, BLOCK).next();
        let Some(piece) = piece.filter(|piece| self.windows.is_visible(piece.window)) else {
            return Ok(None);
        };
        let place = || {
            let key = self.key(conn, piece.window)?;
            Ok(self.windows.remote(piece.window, key, word.offset))
        };
        Ok(match change.how {
            Update::Load => Some(What::FetchAdd(place()?, 0)),
            Update::Add => Some(What::FetchAdd(place()?, change.operand)),
            Update::CompareSwap(expected) => {
                Some(What::CompareSwap(place()?, expected, change.operand))
            }
            _ => None,
        })
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
            let Ok(conn) = self.connections.to(pe) else { continue };
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
            let Ok(conn) = self.connections.to(pe) else { continue };
            conn.fence();
            first = first.and(conn.whole());
        }
        first
    }
}

/// The reads of one call.
struct GetCall<'a, 'b> {
    reads: &'a mut [Read<'b>],
    leaving: Option<Leaving>,
    flights: VecDeque<Flight>,
}

impl<'a, 'b> GetCall<'a, 'b> {
    fn new(reads: &'a mut [Read<'b>]) -> GetCall<'a, 'b> {
        GetCall { reads, leaving: None, flights: VecDeque::new() }
    }

    /// Starts a read; completes earlier ones if blocks are short.
    fn start(&mut self, engine: &Shared, of: usize) -> Result<(), Lost> {
        let Read { pe, offset, .. } = self.reads[of];
        let len = self.reads[of].into.len();
        let mut first = Ok(());
        if self.leaving.as_ref().is_some_and(|leaving| leaving.conn.pe != pe) {
            first = self.depart(engine);
        }
        let conn = engine.ready_in_order(pe)?;
        for piece in engine.windows.pieces(offset, len, BLOCK) {
            if conn.keys[piece.window].place().is_none() {
                first = first.and(self.depart(engine)); // as in `put_to_one`
            }
            let key = engine.key(&conn, piece.window)?;
            let block = loop {
                if let Some(block) = engine.blocks.take() {
                    break block;
                }
                first = first.and(self.depart(engine));
                match self.flights.pop_front() {
                    Some(flight) => first = first.and(self.land(engine, flight)),
                    None => break engine.until(&conn, || engine.blocks.take())?,
                }
            };
            let what = What::Read(engine.windows.remote(piece.window, key, piece.offset));
            let part = TransferPart { of, at: piece.at, len: piece.len };
            first = first.and(self.leave(engine, &conn, what, (block, part)));
        }
        first
    }

    /// Adds a work request to those that go out together.
    fn leave(
        &mut self,
        engine: &Shared,
        conn: &Arc<Conn>,
        what: What<'static>,
        (block, part): (u32, TransferPart),
    ) -> Result<(), Lost> {
        let mut first = Ok(());
        if self.leaving.as_ref().is_some_and(|all| !Arc::ptr_eq(&all.conn, conn)) {
            first = self.depart(engine); // the peer has been replaced meanwhile
        }
        let fresh = || Leaving { conn: Arc::clone(conn), works: Vec::new(), parts: Vec::new() };
        let all = self.leaving.get_or_insert_with(fresh);
        let local = Bytes::Span(engine.blocks.span(block, part.len));
        all.works.push(Work { id: 0, what, local, signal: false });
        all.parts.push((block, part));
        if all.works.len() == LINKED {
            first = first.and(self.depart(engine));
        }
        first
    }

    /// Posts the gathered work requests.
    fn depart(&mut self, engine: &Shared) -> Result<(), Lost> {
        let Some(Leaving { conn, mut works, parts }) = self.leaving.take() else { return Ok(()) };
        let blocks: Vec<Used> = parts.iter().map(|(block, _)| *block).enumerate().collect();
        let last = engine.submit(&conn, &mut works, (&blocks, true), false)?;
        let first = last - works.len() as u64 + 1;
        for (number, (block, part)) in (first..).zip(parts) {
            self.flights.push_back(Flight { conn: Arc::clone(&conn), number, block, part });
        }
        Ok(())
    }

    /// Waits for a piece, and delivers its bytes.
    fn land(&mut self, engine: &Shared, flight: Flight) -> Result<(), Lost> {
        let TransferPart { of, at, len } = flight.part;
        engine.arrive(flight, &mut self.reads[of].into[at..at + len])
    }
}

/// The updates of one call.
struct UpdateCall<'a> {
    asks: &'a [AmoRequest],
    before: &'a mut [u64],
    open: VecDeque<Open>,
    first: Result<(), Lost>,
}

impl UpdateCall<'_> {
    /// Keeps the first error.
    fn note(&mut self, result: Result<(), Lost>) {
        if self.first.is_ok() {
            self.first = result;
        }
    }

    /// Starts update number `at`. Takes the results of earlier updates while no slot is free: a
    /// thread never waits for a slot while it holds one.
    fn begin(&mut self, engine: &Shared, at: usize) -> Result<Open, Lost> {
        let ask = &self.asks[at];
        let conn = engine.ready(ask.pe)?;
        if let Some(what) = engine.by_device(&conn, ask)? {
            engine.in_order(&conn)?;
            let block = self.resource(engine, &conn, || engine.blocks.take())?;
            let part = TransferPart { of: at, at: 0, len: size_of::<u64>() };
            return Flight::begin(engine, conn, what, block, part).map(Open::Device);
        }
        let tag = self.resource(engine, &conn, || conn.ask())?;
        let &AmoRequest { word, change, .. } = ask;
        if let Err(lost) = engine.ask(&conn, Message::Update { tag, word, change }) {
            conn.close(tag);
            return Err(lost);
        }
        Ok(Open::Asked(conn, tag, at))
    }

    fn resource(
        &mut self,
        engine: &Shared,
        conn: &Conn,
        free: impl Fn() -> Option<u32>,
    ) -> Result<u32, Lost> {
        loop {
            if let Some(place) = free() {
                return Ok(place);
            }
            match self.open.pop_front() {
                Some(earlier) => self.take(engine, earlier),
                None => return engine.until(conn, &free),
            }
        }
    }

    /// Waits for the result of an update.
    fn take(&mut self, engine: &Shared, one: Open) {
        let taken = match one {
            Open::Asked(conn, tag, at) => {
                let answer = engine.until(&conn, || conn.answered(tag));
                conn.close(tag);
                answer.map(|value| self.before[at] = value)
            }
            Open::Device(flight) => self.take_from_device(engine, flight),
        };
        self.note(taken);
    }

    fn take_from_device(&mut self, engine: &Shared, flight: Flight) -> Result<(), Lost> {
        let (at, mut word) = (flight.part.of, [0; size_of::<u64>()]);
        engine.arrive(flight, &mut word)?;
        self.before[at] = u64::from_ne_bytes(word);
        if changes(&self.asks[at], self.before[at]) {
            engine.wake(self.asks[at].pe);
        }
        Ok(())
    }
}

impl Flight {
    /// Posts a work request whose result arrives in `block`.
    fn begin(
        engine: &Shared,
        conn: Arc<Conn>,
        what: What<'static>,
        block: u32,
        part: TransferPart,
    ) -> Result<Flight, Lost> {
        let local = Bytes::Span(engine.blocks.span(block, part.len));
        let mut work = [Work { id: 0, what, local, signal: true }];
        let number = engine.submit(&conn, &mut work, (&[(0, block)], true), false)?;
        Ok(Flight { conn, number, block, part })
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
