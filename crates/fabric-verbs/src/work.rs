//! Posting and waiting: work requests go out in batches, and the thread that polls handles
//! completions and the requests of peers to this processor.
//!
//! One thread at a time polls for completions, at most [`BUDGET`] in a row, and nothing that it
//! does meanwhile blocks. A waiting thread polls, then yields its processor, then sleeps until the
//! next completion; from time to time it checks that its peer is alive.

#![forbid(unsafe_code)]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use raidshmem_core::quantity::Pe;
use raidshmem_fabric::Lost;
use raidshmem_fabric::hand_off::Seen;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::conn::{Conn, Sender, Ticket, Used};
use crate::objects::LINKED;
use crate::pace::{MOST, trip};
use crate::pair::{Local as Bytes, What, Work};
use crate::poller::Poller;
use crate::shared::Shared;
use crate::wire::{Letter, Message};
use raidshmem_sys::lock;

/// Completions handled before anything else is done.
const BUDGET: usize = 4 * LINKED;
/// Idle polls between two checks that the peer is alive.
const PATIENCE: u32 = 64;
/// Maximum polling time if PEs share processors.
const OVERSUBSCRIBED: Duration = Duration::from_millis(2);
/// Minimum polling time when waiting for a peer's program, not only for its device.
const PROGRAM: Duration = Duration::from_millis(2);
/// Maximum bytes of a transfer that is timed: one packet on any network.
const SMALL: usize = 256;
/// Maximum time for which a waiting thread sleeps, and a dead peer may go unnoticed.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
/// Minimum and maximum time for which the engine's thread leaves polling to waiting threads. It is
/// longer if a round trip takes longer, because the engine's thread may take the processor of a
/// thread that polls.
const AWAY: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(1));

/// The polling policy of a waiting thread.
#[derive(Debug, Clone, Copy)]
struct Lookout {
    since: Instant,
    patience: Duration,
    /// True to yield after every poll: processors are scarce, or much is under way, which takes a
    /// while, and other threads may have work with data that has already arrived.
    gives_way: bool,
}

impl Lookout {
    /// Returns the policy for waits on `conn`.
    fn new(conn: &Conn, oversubscribed: bool) -> Lookout {
        let (since, sender) = (Instant::now(), lock(&conn.sender));
        let patience = match sender.pace.patience() {
            patience if oversubscribed => patience.min(OVERSUBSCRIBED),
            patience => patience,
        };
        let gives_way = oversubscribed || sender.posted > conn.completed() + 1;
        Lookout { since, patience, gives_way }
    }
}

impl Shared {
    // ---- posting -----------------------------------------------------------------------------

    /// Posts at most [`LINKED`] work requests together, and returns the number of the last. Each of
    /// `blocks` then belongs to its work request or, with `kept` and unless there is an error, to
    /// the caller. Fills in the identifiers. With `wake` the last of them, a write, wakes the peer
    /// like [`Shared::wake`].
    pub(super) fn submit(
        &self,
        conn: &Conn,
        works: &mut [Work],
        (blocks, kept): (&[Used], bool),
        wake: bool,
    ) -> Result<u64, Lost> {
        if wake && conn.completed() < lock(&conn.sender).wake.0 {
            self.turn(); // its completion may be waiting in the queue
        }
        loop {
            let before = conn.completed();
            let mut sender = lock(&conn.sender);
            if conn.is_broken() {
                self.blocks.give_back(&sender.took(0, (false, kept), blocks));
                return Err(conn.lost());
            }
            if conn.free_entries(&sender, false) >= works.len() {
                let later = wake && conn.completed() < sender.wake.0;
                if let (true, false, Some(last)) = (wake, later, works.last_mut())
                    && let What::Write(place) = last.what
                {
                    last.what = What::WriteAndWake(place);
                    sender.wake.0 = sender.posted + works.len() as u64;
                }
                let alone = conn.completed() == sender.posted;
                let begun = (alone && is_small(works)).then(Instant::now);
                let number = self.post_all(conn, &mut sender, works, (blocks, kept))?;
                if let Some(begun) = begun {
                    sender.timed = Some((number, begun));
                }
                if later {
                    self.wake_later(sender);
                }
                return Ok(number);
            }
            drop(sender);
            let moved = || (conn.completed() != before).then_some(());
            if let Err(lost) = self.until(conn, moved) {
                self.blocks.give_back(&lock(&conn.sender).took(0, (false, kept), blocks));
                return Err(lost);
            }
        }
    }

    /// Posts work requests together; the last one signals that all are complete.
    pub(super) fn post_all(
        &self,
        conn: &Conn,
        sender: &mut Sender,
        works: &mut [Work],
        (blocks, kept): (&[Used], bool),
    ) -> Result<u64, Lost> {
        let last = works.len() - 1;
        for (at, work) in works.iter_mut().enumerate() {
            let number = sender.posted + 1 + at as u64;
            work.id = Ticket::Sent(conn.index, number as u32).pack();
            work.signal = at == last;
        }
        let posted = conn.pair.get().map_or(Err(0), |pair| pair.post(works));
        let taken = posted.map_or_else(|taken| taken, |()| works.len());
        let unused = sender.took(taken, (posted.is_ok(), kept), blocks);
        if posted.is_ok() {
            return Ok(sender.posted);
        }
        self.blocks.give_back(&unused);
        self.broke(conn, true);
        conn.post_end(sender);
        Err(conn.lost())
    }

    /// Sends a message from a thread of the program.
    pub(super) fn ask(&self, conn: &Conn, message: Message) -> Result<u64, Lost> {
        let bytes = message.encode();
        let local = Bytes::Inline(&bytes);
        let work = Work { id: 0, what: What::Send(true), local, signal: true };
        self.submit(conn, &mut [work], (&[], false), false)
    }

    /// Makes the sleeping threads of the peer look again, after all earlier puts have arrived.
    /// While one wake request is under way, all further ones are merged into one.
    pub fn wake(&self, pe: Pe) {
        let Ok(conn) = self.connections.to(pe) else { return };
        if !conn.open.load(Ordering::Acquire) || conn.is_broken() {
            return;
        }
        let mut sender = lock(&conn.sender);
        if conn.completed() < sender.wake.0 {
            self.wake_later(sender);
        } else if !sender.deferred.contains(&Letter::Message(Message::Wake)) {
            self.letters(&conn).send(&mut sender, Message::Wake);
        }
    }

    /// Merges a wake request into the one that follows when the current one has arrived.
    fn wake_later(&self, mut sender: MutexGuard<Sender>) {
        sender.wake.1 = true;
        self.due.store(true, Ordering::Release);
        drop(sender);
        self.serve(&mut lock(&self.poller)); // this thread may not poll again for long
    }

    // ---- waiting -----------------------------------------------------------------------------

    /// Waits until `ready` returns a value, the connection breaks, or its peer is gone.
    pub(super) fn until<T>(
        &self,
        conn: &Conn,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Result<T, Lost> {
        let (mut idle, mut lookout) = (0u32, None);
        loop {
            if let Some(value) = ready() {
                return Ok(value);
            }
            if conn.is_broken() {
                return Err(conn.lost());
            }
            if self.turn() > 0 {
                (idle, lookout) = (0, None);
                continue;
            }
            idle += 1;
            let Lookout { since, patience, gives_way } =
                *lookout.get_or_insert_with(|| Lookout::new(conn, self.local.oversubscribed));
            let counts = gives_way || idle.is_multiple_of(PATIENCE);
            let sleep = counts && since.elapsed() > patience;
            if counts {
                std::thread::yield_now();
            }
            let asks = idle.is_multiple_of(PATIENCE) || sleep;
            if asks && self.local.events.gone(conn.pe, conn.incarnation) {
                self.broke(conn, false);
                return Err(conn.lost());
            }
            if sleep {
                self.nap();
            }
        }
    }

    /// Returns the polling time for waits on the program of any peer.
    pub fn patience(&self) -> Duration {
        lock(&self.pace).patience().max(PROGRAM)
    }

    /// Sleeps until the next completion, or briefly. Leaves the event to the engine's thread, which
    /// requests the next one: if it were taken here, that thread might sleep forever.
    fn nap(&self) {
        self.queue.arm(false);
        if self.turn() == 0 {
            let _ = poll(&mut [PollFd::new(&self.queue.fd(), PollFlags::IN)], Some(&NAP));
            lock(&self.poller).missed = Instant::now();
        }
    }

    /// Runs the engine's own thread: serves peers until `stop` is readable.
    pub fn serve_until(&self, stop: &OwnedFd) {
        let (mut seen, mut pause) = (Seen::default(), AWAY.0);
        loop {
            let (hand_off, queue) = (&self.hand_off, self.queue.fd());
            let mut fds = [
                PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
                PollFd::new(&queue, PollFlags::IN),
            ];
            let alarm = hand_off.alarm();
            if hand_off.others_poll(&mut seen, alarm) {
                hand_off.stay_away(alarm, pause);
                let most = lock(&self.pace).longest().clamp(AWAY.1, MOST);
                pause = (2 * pause).min(most);
                let _ = poll(&mut fds[..1], Some(&Timespec::default()));
            } else {
                pause = AWAY.0;
                self.queue.take_events();
                self.queue.arm(true);
                while self.serve(&mut lock(&self.poller)) > 0 {}
                let _ = poll(&mut fds, None);
            }
            if !fds[0].revents().is_empty() {
                return;
            }
        }
    }

    // ---- completions -------------------------------------------------------------------------

    /// Handles completions, unless another thread is doing so. Returns their number.
    pub fn turn(&self) -> usize {
        self.hand_off.look();
        match self.poller.try_lock() {
            Ok(mut poller) => self.serve(&mut poller),
            Err(TryLockError::Poisoned(poller)) => self.serve(&mut poller.into_inner()),
            Err(TryLockError::WouldBlock) => 0,
        }
    }

    /// Handles completions until there are no more. While something waits for an entry, the
    /// completion that frees one wakes the engine's thread: the event is requested before the last
    /// poll.
    fn serve(&self, poller: &mut Poller) -> usize {
        let mut total = 0;
        loop {
            if self.due.swap(false, Ordering::AcqRel) {
                self.queue.arm(false);
            }
            let now = Instant::now();
            self.queue.poll(&mut poller.done, BUDGET);
            let count = poller.done.len();
            total += count;
            self.digest(poller, now);
            poller.missed = now;
            let due = self.due.load(Ordering::Acquire);
            if !due && (count < BUDGET || total >= 2 * BUDGET) {
                return total;
            }
        }
    }

    fn digest(&self, poller: &Poller, now: Instant) {
        let mut arrived = false;
        for done in &poller.done {
            let ticket = Ticket::unpack(done.id);
            match ticket {
                Ticket::Sent(conn, low) => self.settle(conn, (low, done.ok), (poller.missed, now)),
                Ticket::Greeted => {}
                Ticket::Hello(_) => {
                    let hello = self.receiving.hello(ticket, done.bytes);
                    self.receiving.offer(ticket);
                    if let Some(hello) = hello {
                        self.greeted(&hello);
                    }
                }
                Ticket::Message(_) if done.wake => {
                    self.receiving.offer(ticket);
                    arrived |= self.connections.listening(done.qpn).is_some();
                }
                Ticket::Message(_) => {
                    let letter = self.receiving.letter(ticket, done.bytes);
                    self.receiving.offer(ticket);
                    let conn = self.connections.listening(done.qpn);
                    arrived |= match (letter, conn) {
                        (Some(Letter::Message(message)), Some(conn)) => {
                            self.receive(&conn, message)
                        }
                        (Some(Letter::Piece(piece)), Some(conn)) => {
                            self.letters(&conn).hear(&piece)
                        }
                        _ => false,
                    };
                }
            }
        }
        for conn in lock(&self.served).drain(..) {
            let count = conn.served.0.load(Ordering::Relaxed);
            if conn.served.1.swap(count, Ordering::Relaxed) != count {
                self.letters(&conn).send(&mut lock(&conn.sender), Message::Posted(count));
            }
        }
        if arrived {
            self.local.events.arrived();
        }
    }

    /// Completes a work request of connection `index`, found now and not at the previous poll.
    fn settle(&self, index: u32, (low, ok): (u32, bool), (missed, now): (Instant, Instant)) {
        let Some(conn) = self.connections.at(index) else { return };
        self.blocks.give_back(&conn.settle(low, ok));
        if !ok {
            self.broke(&conn, true);
        }
        let mut sender = lock(&conn.sender);
        if let Some((_, begun)) = sender.timed.take_if(|(timed, _)| *timed <= conn.completed())
            && let Some(took) = trip(begun, missed, now)
        {
            sender.pace.measured(took);
            lock(&self.pace).measured(took);
        }
        if sender.wake.1 && conn.completed() >= sender.wake.0 {
            sender.wake.1 = false;
            sender.deferred.push_back(Letter::Message(Message::Wake));
        }
        self.letters(&conn).flush(&mut sender);
    }

    /// Handles a message of a peer. Returns true if the segment was changed or sleepers must look
    /// again.
    fn receive(&self, conn: &Arc<Conn>, message: Message) -> bool {
        match message {
            Message::Update { tag, word, change } => {
                let value = self.local.segment.update(word, change).unwrap_or(0);
                let answer = Message::Answer { tag, value };
                self.letters(conn).send(&mut lock(&conn.sender), answer);
                true
            }
            Message::Post { word, change } => {
                self.local.segment.update(word, change);
                conn.served.0.fetch_add(1, Ordering::Relaxed);
                lock(&self.served).push(Arc::clone(conn));
                true
            }
            Message::Wake => true,
            Message::Where(window) => {
                if (window as usize) < self.windows.count() {
                    let place = self.window(window as usize);
                    let answer = Message::Window { window, place };
                    self.letters(conn).send(&mut lock(&conn.sender), answer);
                }
                false
            }
            Message::Window { window, place } => {
                conn.keys.get(window as usize).into_iter().for_each(|key| key.answered(place));
                false
            }
            Message::Answer { tag, value } => {
                conn.answer(tag, value);
                false
            }
            Message::Posted(count) => {
                conn.posts.1.fetch_max(count, Ordering::AcqRel);
                false
            }
        }
    }
}

/// Returns true for a single work request of a few bytes, whose duration measures the network.
fn is_small(works: &[Work]) -> bool {
    let [work] = works else { return false };
    match work.local {
        Bytes::Inline(bytes) => bytes.len() <= SMALL,
        Bytes::Span(span) => span.len as usize <= SMALL,
    }
}
