//! A connection to one incarnation of a peer: posted and completed work requests, and the calls
//! that wait for answers.
//!
//! Work requests of a connection are numbered from 1 and complete in order, so one number describes
//! all completions. Only the last of every batch requests a completion, which covers its
//! predecessors.
//!
//! Invariants: `completed <= posted <= completed + depth`. A block belongs to a work request until
//! the request completes. Threads of the program leave [`RESERVE`] entries free, so that answers,
//! which must not wait, usually find one; the others are deferred until one is free.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_fabric::Lost;
use raidshmem_sys::lock;

use crate::link::Handshake;
use crate::pace::Pace;
use crate::pair::{Local as Bytes, Pair, Route, What, Work};
use crate::wire::{Address, Letter, RemoteAddress};

/// Send queue entries reserved for answers.
pub const RESERVE: usize = 8;
/// Maximum number of threads that wait for answers of one peer at a time.
const SLOTS: usize = 32;

/// The contents of a work request's identifier, which its completion returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ticket {
    /// A buffer for messages.
    Message(u32),
    /// A buffer for greetings.
    Hello(u32),
    /// A greeting sent.
    Greeted,
    /// A work request of a connection: the connection, and the low half of its number.
    Sent(u32, u32),
}

impl Ticket {
    /// Packs it into a number.
    pub fn pack(self) -> u64 {
        match self {
            Ticket::Message(buffer) => 1 << 62 | u64::from(buffer),
            Ticket::Hello(buffer) => 2 << 62 | u64::from(buffer),
            Ticket::Greeted => 3 << 62,
            Ticket::Sent(conn, number) => u64::from(conn) << 32 | u64::from(number),
        }
    }

    /// Unpacks a number, for connections below `1 << 30`.
    pub fn unpack(id: u64) -> Ticket {
        match id >> 62 {
            1 => Ticket::Message(id as u32),
            2 => Ticket::Hello(id as u32),
            3 => Ticket::Greeted,
            _ => Ticket::Sent((id >> 32) as u32, id as u32),
        }
    }
}

/// Returns the work request after `completed` whose number ends in `low`.
fn widen(completed: u64, low: u32) -> u64 {
    completed + u64::from(low.wrapping_sub(completed as u32))
}

/// Returns how many of `depth` work requests may be posted now.
fn free_entries(posted: u64, completed: u64, depth: usize, reserve: usize) -> usize {
    (depth - reserve).saturating_sub((posted - completed) as usize)
}

/// The sending end.
#[derive(Debug, Default)]
pub struct Sender {
    /// Work requests posted so far.
    pub posted: u64,
    /// Blocks in use, each with the work request that owns it.
    pub blocks: Vec<(u64, u32)>,
    /// Letters that found no free entry.
    pub deferred: VecDeque<Letter>,
    /// The last wake request, and true if another must follow once it has arrived.
    pub wake: (u64, bool),
    /// A small work request that is being timed, and when it was posted.
    pub timed: Option<(u64, Instant)>,
    /// The duration of such requests.
    pub pace: Pace,
}

/// A block, and the index of its work request in the batch.
pub type Used = (usize, u32);

impl Sender {
    /// Records that the first `taken` work requests of a batch were posted. Returns the blocks that
    /// are unused. The others now belong to their work requests; or, with `kept` and if all of the
    /// batch were posted, to the caller, which waits for their results.
    pub fn took(&mut self, taken: usize, (all, kept): (bool, bool), blocks: &[Used]) -> Vec<u32> {
        let first = self.posted + 1;
        self.posted += taken as u64;
        let (used, unused): (Vec<Used>, Vec<Used>) = blocks.iter().partition(|(at, _)| *at < taken);
        if !(all && kept) {
            self.blocks.extend(used.into_iter().map(|(at, block)| (first + at as u64, block)));
        }
        unused.into_iter().map(|(_, block)| block).collect()
    }
}

/// A thread waiting for an answer.
#[derive(Debug, Default)]
pub struct Slot {
    /// 0 free, 1 waiting, 2 answered.
    state: AtomicU32,
    value: AtomicU64,
}

/// The address and key of a window of the peer, once known.
#[derive(Debug, Default)]
pub struct Key {
    asked: AtomicBool,
    place: OnceLock<RemoteAddress>,
}

impl Key {
    /// Returns true on the first call.
    pub fn ask(&self) -> bool {
        !self.asked.swap(true, Ordering::AcqRel)
    }

    /// Returns address and key, once the peer has answered.
    pub fn place(&self) -> Option<RemoteAddress> {
        self.place.get().copied()
    }

    /// Records the peer's answer.
    pub fn answered(&self, place: RemoteAddress) {
        let _ = self.place.set(place); // a repeated answer is identical
    }
}

/// The state of the handshake.
#[derive(Debug, Default)]
pub struct Ends {
    /// `None` until the first greeting.
    pub link: Option<Handshake>,
}

/// A connection.
#[derive(Debug)]
pub struct Conn {
    /// Its index among all connections ever made.
    pub index: u32,
    /// The peer.
    pub pe: Pe,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The address of its process.
    pub address: Address,
    /// The state of the handshake.
    pub ends: Mutex<Ends>,
    /// The queue pair, made on demand.
    pub pair: OnceLock<Pair>,
    /// The route of greetings.
    pub route: OnceLock<Route>,
    /// The peer's windows.
    pub keys: Box<[Key]>,
    /// The sending end.
    pub sender: Mutex<Sender>,
    /// True once the other end accepts messages.
    pub open: AtomicBool,
    /// True if the connection can no longer send or receive.
    pub broken: AtomicBool,
    /// Posts sent to the peer, and those of them that it has carried out.
    pub posts: (AtomicU64, AtomicU64),
    /// Posts before the last fence: no put or get may overtake them.
    pub fenced: AtomicU64,
    /// Posts of the peer carried out here, and those of them that were reported to it.
    pub served: (AtomicU64, AtomicU64),
    /// Pieces of bytes from the peer whose last piece has not arrived.
    pub pieces: Mutex<Vec<u8>>,
    completed: AtomicU64,
    failed: AtomicU64,
    depth: usize,
    slots: [Slot; SLOTS],
}

impl Conn {
    /// Creates a connection that has not been requested yet, for `depth` work requests at a time.
    pub fn new(
        index: u32,
        (pe, incarnation): (Pe, Incarnation),
        address: Address,
        windows: usize,
        depth: usize,
    ) -> Conn {
        Conn {
            index,
            pe,
            incarnation,
            address,
            ends: Mutex::default(),
            pair: OnceLock::new(),
            route: OnceLock::new(),
            keys: (0..windows).map(|_| Key::default()).collect(),
            sender: Mutex::default(),
            open: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            posts: Default::default(),
            fenced: AtomicU64::new(0),
            served: Default::default(),
            pieces: Mutex::default(),
            completed: AtomicU64::new(0),
            failed: AtomicU64::new(u64::MAX),
            depth,
            slots: Default::default(),
        }
    }

    /// Returns the error for this connection.
    pub fn lost(&self) -> Lost {
        Lost { pe: self.pe, incarnation: self.incarnation }
    }

    /// Returns an error if the connection is broken.
    pub fn whole(&self) -> Result<(), Lost> {
        if self.is_broken() { Err(self.lost()) } else { Ok(()) }
    }

    /// Returns true if the connection can no longer send or receive.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Returns the number of completed work requests.
    pub fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// Returns `None` while work request `number` is under way, then true if it succeeded.
    pub fn done(&self, number: u64) -> Option<bool> {
        let over = self.completed() >= number;
        over.then(|| number < self.failed.load(Ordering::Acquire))
    }

    /// Returns how many work requests may be posted now; including the reserve if `answer`.
    pub fn free_entries(&self, sender: &Sender, answer: bool) -> usize {
        free_entries(sender.posted, self.completed(), self.depth, if answer { 0 } else { RESERVE })
    }

    /// Makes later operations wait for earlier posts.
    pub fn fence(&self) {
        self.fenced.fetch_max(self.posts.0.load(Ordering::Acquire), Ordering::AcqRel);
    }

    /// Returns true if all posts before the last fence have been carried out.
    pub fn is_in_order(&self) -> bool {
        self.posts.1.load(Ordering::Acquire) >= self.fenced.load(Ordering::Acquire)
    }

    /// Returns true if the first `posted` work requests and `posts` posts are complete.
    pub fn is_quiet(&self, posted: u64, posts: u64) -> bool {
        self.completed() >= posted && self.posts.1.load(Ordering::Acquire) >= posts
    }

    /// Records a completion. Returns the blocks that are now free.
    pub fn settle(&self, low: u32, ok: bool) -> Vec<u32> {
        let number = widen(self.completed(), low);
        if !ok {
            self.failed.fetch_min(number, Ordering::AcqRel);
        }
        self.completed.store(number, Ordering::Release);
        let mut free = Vec::new();
        lock(&self.sender).blocks.retain(|&(user, block)| {
            if user <= number {
                free.push(block);
            }
            user > number
        });
        free
    }

    /// Takes a slot for an answer; `None` if all are taken.
    pub fn ask(&self) -> Option<u32> {
        let take = |slot: &Slot| {
            slot.state.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        self.slots.iter().position(take).map(|at| at as u32)
    }

    /// Stores an answer.
    pub fn answer(&self, tag: u32, value: u64) {
        let Some(slot) = self.slots.get(tag as usize) else { return };
        slot.value.store(value, Ordering::Relaxed);
        let _ = slot.state.compare_exchange(1, 2, Ordering::Release, Ordering::Relaxed);
    }

    /// Returns the answer, if it has arrived.
    pub fn answered(&self, tag: u32) -> Option<u64> {
        let slot = &self.slots[tag as usize];
        let there = slot.state.load(Ordering::Acquire) == 2;
        there.then(|| slot.value.load(Ordering::Relaxed))
    }

    /// Frees a slot.
    pub fn close(&self, tag: u32) {
        self.slots[tag as usize].state.store(0, Ordering::Release);
    }

    /// Ends a batch that was posted only in part, without the request that signals its completion.
    /// Posts one more on the queue pair, which has failed by now, to signal it.
    pub fn post_end(&self, sender: &mut Sender) {
        let id = Ticket::Sent(self.index, (sender.posted + 1) as u32).pack();
        let end = Work { id, what: What::Send(false), local: Bytes::Inline(&[]), signal: true };
        if self.pair.get().is_some_and(|pair| pair.post(&[end]).is_ok()) {
            sender.posted += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conn() -> Conn {
        let address = Address { gid: [0; 16], lid: 0, mtu: 1, reads: 1, atomics: false, qpn: 1 };
        Conn::new(7, (Pe(3), Incarnation(1)), address, 4, 32)
    }

    #[test]
    fn tickets_survive() {
        let all = [Ticket::Message(5), Ticket::Hello(6), Ticket::Greeted];
        for ticket in all.into_iter().chain([Ticket::Sent(0, 1), Ticket::Sent(1 << 29, u32::MAX)]) {
            assert_eq!(Ticket::unpack(ticket.pack()), ticket);
        }
    }

    #[test]
    fn numbers_are_found_again_across_the_end_of_their_low_half() {
        let end = 1 << 32;
        assert_eq!(widen(0, 1), 1);
        assert_eq!(widen(end - 2, 3), end + 3);
        assert_eq!(widen(end + 3, 3), end + 3);
    }

    #[test]
    fn answers_have_free_entries_when_requests_have_none() {
        assert_eq!(free_entries(0, 0, 32, RESERVE), 32 - RESERVE);
        assert_eq!((free_entries(30, 3, 32, RESERVE), free_entries(30, 3, 32, 0)), (0, 5));
        assert_eq!(free_entries(35, 3, 32, 0), 0);
    }

    #[test]
    fn blocks_are_free_when_their_work_request_is_over() {
        let conn = conn();
        lock(&conn.sender).blocks = vec![(1, 10), (2, 11), (4, 12)];
        assert_eq!(conn.done(1), None);
        assert_eq!(conn.settle(2, true), [10, 11]);
        assert_eq!(conn.settle(3, false), Vec::<u32>::new());
        assert_eq!(conn.settle(4, false), [12]);
        assert_eq!(
            [2, 3, 4, 5].map(|n| conn.done(n)),
            [Some(true), Some(false), Some(false), None]
        );
    }

    #[test]
    fn blocks_of_a_batch_that_was_posted_in_part_are_free_at_once_or_with_what_was_posted() {
        let blocks = [(0, 10), (2, 12), (3, 13)];
        let mut sender = Sender { posted: 5, ..Sender::default() };
        assert_eq!(sender.took(4, (true, false), &blocks), Vec::<u32>::new());
        assert_eq!((sender.posted, &sender.blocks[..]), (9, &[(6, 10), (8, 12), (9, 13)][..]));
        // Results arrive in the blocks: they belong to the waiting caller.
        let mut sender = Sender { posted: 5, ..Sender::default() };
        assert_eq!(sender.took(4, (true, true), &blocks), Vec::<u32>::new());
        assert_eq!((sender.posted, sender.blocks.len()), (9, 0));
        // The third was rejected: the device may still use the block of the first, whose caller
        // gets an error and does not wait.
        for kept in [false, true] {
            let conn = conn();
            let mut sender = lock(&conn.sender);
            assert_eq!(sender.took(2, (false, kept), &blocks), [12, 13]);
            assert_eq!((sender.posted, &sender.blocks[..]), (2, &[(1, 10)][..]));
            drop(sender);
            assert_eq!(conn.settle(2, false), [10]);
        }
    }

    #[test]
    fn a_fence_is_for_posts_before_it() {
        let conn = conn();
        assert!(conn.is_in_order());
        conn.posts.0.store(2, Ordering::Relaxed);
        assert!(conn.is_in_order(), "no fence yet");
        conn.fence();
        conn.posts.0.store(3, Ordering::Relaxed);
        assert!(!conn.is_in_order());
        conn.posts.1.store(2, Ordering::Relaxed);
        assert!(conn.is_in_order(), "the third is behind the fence");
    }

    #[test]
    fn a_window_is_asked_for_once_and_answered_for_all() {
        let key = Key::default();
        assert_eq!((key.ask(), key.ask(), key.place()), (true, false, None));
        key.answered((7, 9));
        assert_eq!((key.ask(), key.place()), (false, Some((7, 9))));
    }

    #[test]
    fn answers_find_who_asked() {
        let conn = conn();
        let (a, b) = (conn.ask().unwrap(), conn.ask().unwrap());
        conn.answer(b, 5);
        conn.answer(99, 1); // there is no such slot
        assert_eq!((conn.answered(a), conn.answered(b)), (None, Some(5)));
        conn.close(b);
        conn.answer(b, 7); // no thread waits
        let again = conn.ask().unwrap();
        assert_eq!((again, conn.answered(again)), (b, None));
        while conn.ask().is_some() {}
        conn.close(a);
        assert_eq!(conn.ask(), Some(a));
    }
}
