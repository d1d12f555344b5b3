//! Locks over a symmetric word: a queue of PEs, first come first served.
//!
//! ```text
//! on the home PE of the lock   | tail: u32 ........... | next: u16 | state: u16 |
//! on every PE                    the last in the queue   the next    this PE: idle,
//!                                (home only)             in line     waiting, holding
//! ```
//!
//! PEs are counted from one; zero means no PE. A PE appends itself to the tail. If another PE was
//! there, it writes its number into that PE's `next` and waits on its *own* state. Releasing hands
//! the lock to the next PE, or empties the tail. The lock's offset determines the home, so locks
//! are spread over the PEs.
//!
//! Invariants: the tail is zero exactly when no PE holds the lock; a PE is in a queue at most once;
//! another PE writes my state only while I wait; `next` and `state` of a PE that is in no queue are
//! zero. So all words of a free lock are zero on every PE, and zeroed symmetric memory needs no
//! further preparation. After a death the waits return and all words roll back to the checkpoint.
//! In shrink mode a lock ends the job, with an error that names it, if its home is lost, or a PE in
//! its queue that would have to hand it on: the data it protects may be half updated.

use raidshmem_core::ended::UNRECOVERABLE;
use raidshmem_core::quantity::Pe;
use raidshmem_core::update::Update;
use raidshmem_segment::waits::Waiting;

use super::check::misuse;
use super::memory::address::Sym;
use super::memory::atomic::{change_word, logged_or};
use super::memory::word::Word;
use super::memory::{logged, prelude};
use super::order;
use raidshmem_runtime::pgas;

/// The words of a lock, as accessed by this PE.
pub struct Lock {
    call: &'static str,
    on: Sym<i64>,
    tail: Word,
    next: Word,
    state: Word,
    /// This PE, counted from one.
    me: u64,
    /// The PE that holds the tail.
    home: Pe,
}

/// Ends the job if PE `pe`, which a lock depends on, is lost for good.
fn require(call: &'static str, pe: Pe, what: &str) {
    let world = pgas::world();
    if world.lost_for_good(pe) {
        let words = format!(
            "unrecoverable: {call}: PE {pe}, {what}, was lost; the lock cannot be acquired any more"
        );
        world.members.end_job(UNRECOVERABLE, Some(words));
    }
}

const IN_QUEUE: &str = "which held it or waited for it";

const TAIL_BYTES: usize = 4;
const PE_BYTES: usize = 2;
const NEXT_AT: usize = TAIL_BYTES;
const STATE_AT: usize = NEXT_AT + PE_BYTES;

const IDLE: u64 = 0;
const WAITING: u64 = 1;
const HOLDING: u64 = 2;

impl Lock {
    /// Returns the lock named by a call.
    pub fn new(call: &'static str, on: Sym<i64>) -> Lock {
        let world = pgas::world();
        if world.n_pes() >= usize::from(u16::MAX) {
            let most = u16::MAX - 1;
            misuse(call, format_args!("{} PEs: locks are for at most {most}", world.n_pes()));
        }
        let own = Word::own(call, "lock", on);
        let offset = world.segments.offset_of(on.addr(), size_of::<i64>()).unwrap_or(0);
        let home = Pe::of(offset / size_of::<i64>() % world.n_pes());
        require(call, home, "its home");
        Lock {
            call,
            on,
            tail: Word::new(call, "lock", on, home.0.cast_signed()).field(0, TAIL_BYTES),
            next: own.field(NEXT_AT, PE_BYTES),
            state: own.field(STATE_AT, PE_BYTES),
            me: world.me().at() as u64 + 1,
            home,
        }
    }

    /// Returns a field of another PE in the queue, counted from one.
    fn of(&self, counted: u64, offset_bytes: usize) -> Word {
        let number = (counted - 1) as i32;
        Word::new(self.call, "lock", self.on, number).field(offset_bytes, PE_BYTES)
    }

    fn is_undone(&self) -> bool {
        self.state.world().is_undone()
    }

    /// Returns the last PE in the queue, counted from one, from the result of a tail update.
    fn last(&self, tail: u64) -> u64 {
        require(self.call, self.home, "its home"); // else the zero of a lost home would mean no PE
        tail
    }

    fn update_tail(&self, how: Update, operand: u64) -> u64 {
        logged_or(self.call, self.tail, (how, operand), true, |tail| tail.update(how, operand))
    }

    /// Waits until `holds` is true of a local word, or until the PE that must write it `is_gone`;
    /// returns its value then, or when a death ends the wait.
    fn wait_for(
        &self,
        word: &Word,
        is_gone: impl Fn() -> bool,
        holds: impl Fn(u64) -> bool,
    ) -> u64 {
        let wait = || {
            let waiting = || Waiting::anyone(self.call);
            word.world().wait_for_partner(waiting, is_gone, || holds(word.load()));
            word.load()
        };
        logged::wait(self.call, word, 0, &holds, wait)
    }

    /// Waits until PE `before`, which is ahead in the queue, hands the lock on.
    fn wait_behind(&self, before: u64) {
        let (world, before) = (self.state.world(), Pe(before as u32 - 1));
        let is_lost = || world.lost_for_good(before);
        if self.wait_for(&self.state, is_lost, |state| state == HOLDING) != HOLDING {
            require(self.call, before, IN_QUEUE);
        }
    }

    /// Waits until the PE behind has announced itself; returns its number, 0 after a death.
    fn wait_for_next(&self) -> u64 {
        let world = self.next.world();
        // If that PE is lost, the PE behind it ends the job.
        let is_lost = |last: u64| last != 0 && world.lost_for_good(Pe(last as u32 - 1));
        let is_gone = || is_lost(self.last(self.tail.fetch()));
        self.wait_for(&self.next, is_gone, |next| next != 0)
    }

    /// Waits for the lock and acquires it.
    pub fn set(&self) {
        if self.state.load() != IDLE && !self.is_undone() {
            misuse(self.call, "this PE holds the lock already");
        }
        logged::assign(&self.state, WAITING);
        let before = self.last(self.update_tail(Update::Swap, self.me));
        if before == 0 {
            logged::assign(&self.state, HOLDING);
        } else {
            change_word(self.call, self.of(before, NEXT_AT), Update::Store, self.me);
            self.wait_behind(before);
        }
    }

    /// Acquires the lock if it is free; returns true on success.
    pub fn try_set(&self) -> bool {
        prelude::tells(self.call, prelude::offset(self.on), || self.try_set_now())
    }

    fn try_set_now(&self) -> bool {
        if self.state.load() != IDLE && !self.is_undone() {
            return false;
        }
        let word = self.tail;
        // Repeated failed attempts at a lock must not fill a log.
        if logged::applies() && !logged::tells(self.call, 0, || word.fetch() == 0) {
            return false;
        }
        let before = self.last(self.update_tail(Update::CompareSwap(0), self.me));
        if before == 0 {
            logged::assign(&self.state, HOLDING);
        } else {
            require(self.call, Pe(before as u32 - 1), IN_QUEUE);
        }
        before == 0
    }

    /// Hands the lock to the next PE, or frees it.
    pub fn clear(&self) {
        order::complete();
        match self.state.load() {
            _ if self.is_undone() => return,
            IDLE => misuse(self.call, "this PE does not hold the lock"),
            // A death ended the wait for the lock.
            WAITING => return,
            _ => logged::assign(&self.state, IDLE),
        }
        let mut next = logged::look(self.call, &self.next);
        if next == 0 {
            if self.last(self.update_tail(Update::CompareSwap(self.me), 0)) == self.me {
                return;
            }
            // Another PE is behind and about to announce itself.
            next = self.wait_for_next();
        }
        if next != 0 {
            // Clear `next` before the hand-off: from then on the lock belongs to another PE.
            logged::assign(&self.next, 0);
            change_word(self.call, self.of(next, STATE_AT), Update::Store, HOLDING);
        }
    }
}
