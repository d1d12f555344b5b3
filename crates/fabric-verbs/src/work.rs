//! Posting and waiting: work requests go out in batches, completions come back, and what peers ask
//! of this processor is done by the thread that polls.
//!
//! Completions are looked at by one thread at a time, [`BUDGET`] of them, and nothing that is done
//! meanwhile waits. A thread that waits looks for itself, then gives its processor away, then
//! sleeps until the next completion; it asks now and then whether its peer is gone.

#![forbid(unsafe_code)]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use raidshmem_core::quantity::Pe;
use raidshmem_fabric::Lost;
use raidshmem_sys::futex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::conn::{Conn, Sender, Ticket, Used};
use crate::objects::LINKED;
use crate::pace::{MOST, trip};
use crate::pair::{Local as Bytes, What, Work};
use crate::poller::Poller;
use crate::shared::Shared;
use crate::wire::Message;
use raidshmem_sys::lock;

/// Completions looked at before anything else is done.
const BUDGET: usize = 4 * LINKED;
/// Idle looks between two questions whether the peer is gone.
const PATIENCE: u32 = 64;
/// Where PEs take turns on the processors, a thread looks out for no longer than this.
const OVERSUBSCRIBED: Duration = Duration::from_millis(2);
/// A thread that waits for a peer's program, not only for its device, polls for at least this long.
const PROGRAM: Duration = Duration::from_millis(2);
/// Bytes of the largest transfer that is measured: a packet on any network.
const SMALL: usize = 256;
/// A waiting thread sleeps for at most as long as a peer may be gone unnoticed.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
/// How long the engine's thread stays away from those that look, at first and at most; longer where
/// a round trip takes longer, since to come costs whoever looks the processor at times.
const AWAY: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(1));

/// How a thread looks out.
#[derive(Debug, Clone, Copy)]
struct Lookout {
    since: Instant,
    patience: Duration,
    /// It gives its processor away after every look: there are not enough of them, or much is under
    /// way, which takes a while, and other threads may have work that was read before.
    gives_way: bool,
}

impl Shared {
    // ---- posting -----------------------------------------------------------------------------

    /// Posts at most [`LINKED`] work requests together, and gives the number of the last. Each of
    /// `blocks` belongs to its work request from then on; with `kept` to the caller, if there is
    /// no error. Numbers are filled in here. With `wake` the last of them, a write, wakes the peer
    /// like [`Shared::wake`].
    pub(super) fn submit(
        &self,
        conn: &Conn,
        works: &mut [Work],
        (blocks, kept): (&[Used], bool),
        wake: bool,
    ) -> Result<u64, Lost> {
        if wake && conn.completed() < lock(&conn.sender).wake.0 {
            self.turn(); // perhaps it has arrived long ago, and nobody has looked
        }
        loop {
            let before = conn.completed();
            let mut sender = lock(&conn.sender);
            if conn.is_broken() {
                self.give_back(&sender.took(0, (false, kept), blocks));
                return Err(conn.lost());
            }
            if conn.room(&sender, false) >= works.len() {
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
                self.give_back(&lock(&conn.sender).took(0, (false, kept), blocks));
                return Err(lost);
            }
        }
    }

    fn post_all(
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
        self.give_back(&unused);
        self.broke(conn, true);
        self.post_end(conn, sender);
        Err(conn.lost())
    }

    /// A batch was posted in part, without the one that says that those before it are over. One
    /// more on the queue pair, which fails by now, says it.
    fn post_end(&self, conn: &Conn, sender: &mut Sender) {
        let id = Ticket::Sent(conn.index, (sender.posted + 1) as u32).pack();
        let end = Work { id, what: What::Send(false), local: Bytes::Inline(&[]), signal: true };
        if conn.pair.get().is_some_and(|pair| pair.post(&[end]).is_ok()) {
            sender.posted += 1;
        }
    }

    /// Sends a message as a program's thread.
    pub(super) fn ask(&self, conn: &Conn, message: Message) -> Result<u64, Lost> {
        let bytes = message.encode();
        let local = Bytes::Inline(&bytes);
        let work = Work { id: 0, what: What::Send(true), local, signal: true };
        self.submit(conn, &mut [work], (&[], false), false)
    }

    /// Sends a message without waiting: now, or when there is room.
    fn send_message(&self, conn: &Conn, sender: &mut Sender, message: Message) {
        sender.deferred.push_back(message);
        self.flush(conn, sender);
    }

    /// Sends what was deferred, as far as there is room.
    fn flush(&self, conn: &Conn, sender: &mut Sender) {
        while !conn.is_broken()
            && conn.room(sender, true) > 0
            && let Some(message) = sender.deferred.pop_front()
        {
            let bytes = message.encode();
            let wake = matches!(message, Message::Wake);
            let (what, local) = (What::Send(wake), Bytes::Inline(&bytes));
            let mut work = [Work { id: 0, what, local, signal: true }];
            let posted = self.post_all(conn, sender, &mut work, (&[], false));
            if let (Ok(number), true) = (posted, wake) {
                sender.wake = (number, false);
            }
        }
        if !sender.deferred.is_empty() && !conn.is_broken() {
            self.due.store(true, Ordering::Release);
        }
    }

    /// Threads of the peer that sleep look again, after what was put before has arrived. While one
    /// such call is under way, any number of others become one.
    pub fn wake(&self, pe: Pe) {
        let Ok(conn) = self.conn(pe) else { return };
        if !conn.open.load(Ordering::Acquire) || conn.is_broken() {
            return;
        }
        let mut sender = lock(&conn.sender);
        if conn.completed() < sender.wake.0 {
            self.wake_later(sender);
        } else if !sender.deferred.contains(&Message::Wake) {
            self.send_message(&conn, &mut sender, Message::Wake);
        }
    }

    /// Another call is under way: one more when that has arrived.
    fn wake_later(&self, mut sender: MutexGuard<Sender>) {
        sender.wake.1 = true;
        self.due.store(true, Ordering::Release);
        drop(sender);
        self.serve(&mut lock(&self.poller)); // this thread may look no more for long
    }

    // ---- waiting -----------------------------------------------------------------------------

    /// Waits until `ready` gives something, or the connection is broken, or its peer is gone.
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
                *lookout.get_or_insert_with(|| self.lookout(conn));
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

    /// How a thread looks out for what `conn` brings.
    fn lookout(&self, conn: &Conn) -> Lookout {
        let (since, oversubscribed, sender) =
            (Instant::now(), self.local.oversubscribed, lock(&conn.sender));
        let patience = match sender.pace.patience() {
            patience if oversubscribed => patience.min(OVERSUBSCRIBED),
            patience => patience,
        };
        let gives_way = oversubscribed || sender.posted > conn.completed() + 1;
        Lookout { since, patience, gives_way }
    }

    /// How long it looks out for what the program of any peer brings.
    pub fn patience(&self) -> Duration {
        lock(&self.pace).patience().max(PROGRAM)
    }

    /// Sleeps until the next completion, or for a moment. The event is left for the engine's
    /// thread, which asks for the next one: were it taken here, that thread might sleep for ever.
    fn nap(&self) {
        self.queue.arm(false);
        if self.turn() == 0 {
            let _ = poll(&mut [PollFd::new(&self.queue.fd(), PollFlags::IN)], Some(&NAP));
            lock(&self.poller).missed = Instant::now();
        }
    }

    /// The engine's own thread: does what peers ask, until `stop` is readable.
    pub fn serve_until(&self, stop: &OwnedFd) {
        let (mut seen, mut heard, mut pause) = (0, 0, AWAY.0);
        loop {
            let (hand_off, queue) = (&self.hand_off, self.queue.fd());
            let mut fds = [
                PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
                PollFd::new(&queue, PollFlags::IN),
            ];
            let alarm = hand_off.alarm.load(Ordering::SeqCst);
            let looks = hand_off.looks.load(Ordering::Relaxed);
            let called = std::mem::replace(&mut heard, alarm) != alarm;
            if std::mem::replace(&mut seen, looks) != looks && !called {
                hand_off.away.store(true, Ordering::SeqCst);
                futex::sleep_while(&hand_off.alarm, alarm, pause);
                hand_off.away.store(false, Ordering::SeqCst);
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

    /// A thread that looked goes to sleep: the engine's thread takes over.
    pub fn hand_over(&self) {
        self.hand_off.alarm.fetch_add(1, Ordering::SeqCst); // pairs with the look before it is away
        if self.hand_off.away.load(Ordering::SeqCst) {
            futex::wake_all(&self.hand_off.alarm);
        }
    }

    // ---- completions -------------------------------------------------------------------------

    /// Looks at completions, unless somebody else does; how many there were.
    pub fn turn(&self) -> usize {
        self.hand_off.looks.fetch_add(1, Ordering::Relaxed); // says only that somebody is here
        match self.poller.try_lock() {
            Ok(mut poller) => self.serve(&mut poller),
            Err(TryLockError::Poisoned(poller)) => self.serve(&mut poller.into_inner()),
            Err(TryLockError::WouldBlock) => 0,
        }
    }

    /// Looks until there are no more. While something waits for its turn, the completion that makes
    /// room for it wakes the engine's thread: it is asked for before the last look.
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
                    let hello = self.hello(ticket, done.bytes);
                    self.offer(ticket);
                    if let Some(hello) = hello {
                        self.greeted(&hello);
                    }
                }
                Ticket::Message(_) if done.wake => {
                    self.offer(ticket);
                    arrived |= self.listening(done.qpn).is_some();
                }
                Ticket::Message(_) => {
                    let message = self.message(ticket, done.bytes);
                    self.offer(ticket);
                    if let (Some(message), Some(conn)) = (message, self.listening(done.qpn)) {
                        arrived |= self.heard(&conn, message);
                    }
                }
            }
        }
        for conn in lock(&self.served).drain(..) {
            let count = conn.served.0.load(Ordering::Relaxed);
            if conn.served.1.swap(count, Ordering::Relaxed) != count {
                self.send_message(&conn, &mut lock(&conn.sender), Message::Posted(count));
            }
        }
        if arrived {
            self.local.events.arrived();
        }
    }

    /// A work request of connection `index` is over, found now and not at the look before.
    fn settle(&self, index: u32, (low, ok): (u32, bool), (missed, now): (Instant, Instant)) {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let Some(conn) = all.get(index as usize).cloned() else { return };
        drop(all);
        self.give_back(&conn.settle(low, ok));
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
            sender.deferred.push_back(Message::Wake);
        }
        self.flush(&conn, &mut sender);
    }

    /// A peer said something; true if its segment was changed or sleepers are to look.
    fn heard(&self, conn: &Arc<Conn>, message: Message) -> bool {
        match message {
            Message::Update { tag, word, change } => {
                let value = self.local.segment.update(word, change).unwrap_or(0);
                let answer = Message::Answer { tag, value };
                self.send_message(conn, &mut lock(&conn.sender), answer);
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
                    self.send_message(conn, &mut lock(&conn.sender), answer);
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

    /// Blocks that nobody uses any more.
    pub(super) fn give_back(&self, blocks: &[u32]) {
        if !blocks.is_empty() {
            lock(&self.free).extend(blocks);
        }
    }
}

/// One work request of a few bytes, whose time is that of the way.
fn is_small(works: &[Work]) -> bool {
    let [work] = works else { return false };
    match work.local {
        Bytes::Inline(bytes) => bytes.len() <= SMALL,
        Bytes::Span(span) => span.len as usize <= SMALL,
    }
}
