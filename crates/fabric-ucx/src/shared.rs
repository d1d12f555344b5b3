//! State shared by UCP's callbacks and the engine's threads: counters, answers, and the
//! incarnations whose messages are accepted.
//!
//! Invariant: once this process has disconnected from an incarnation, none of its messages is
//! accepted, however late it arrives.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_fabric::Local;
use raidshmem_fabric::hand_off::HandOff;
use raidshmem_segment::bytes;
use raidshmem_sys::futex;
use raidshmem_sys::lock;

use crate::message::{
    ANSWER, Answer, DATA, Data, Letter, PIECE, READ, REQUEST, Request, TELL, Told, WRITE, Wanted,
    decode, encode,
};
use crate::raw::{Endpoint, MessageHandler};
use serde::{Deserialize, Serialize};

/// The incarnation of a PE to which there is no connection.
pub(super) const UNCONNECTED: u32 = u32::MAX;

/// An answer that is due.
#[derive(Debug)]
pub(super) struct Owed {
    pub pe: Pe,
    pub incarnation: Incarnation,
    /// The kind of message.
    pub id: u32,
    pub answer: Vec<u8>,
}

/// The replies that threads wait for, by ticket.
#[derive(Debug)]
pub(super) struct Replies<T>(Mutex<HashMap<u64, Option<T>>>);

impl<T> Default for Replies<T> {
    fn default() -> Replies<T> {
        Replies(Mutex::default())
    }
}

impl<T> Replies<T> {
    /// Registers a thread that waits for a reply.
    pub fn expect(&self, ticket: u64) {
        lock(&self.0).insert(ticket, None);
    }

    /// Stores a reply; computes it only if a thread waits for it.
    pub fn came(&self, ticket: u64, reply: impl FnOnce() -> T) {
        lock(&self.0).entry(ticket).and_modify(|at| *at = Some(reply()));
    }

    /// Takes the reply, if it has arrived.
    pub fn take(&self, ticket: u64) -> Option<T> {
        lock(&self.0).get_mut(&ticket)?.take()
    }

    /// Unregisters the waiting thread.
    pub fn forget(&self, ticket: u64) {
        lock(&self.0).remove(&ticket);
    }
}

/// State that callbacks inside UCP use.
#[derive(Debug)]
pub(super) struct Shared {
    pub local: Local,
    /// The lowest incarnation of each PE whose requests and answers are accepted.
    pub oldest: Box<[AtomicU32]>,
    /// The incarnation of each PE that this process is connected to, or [`UNCONNECTED`].
    pub connected: Box<[AtomicU32]>,
    /// True while connected to that PE, unless the connection was found broken.
    pub whole: Box<[AtomicBool]>,
    /// Answers to connected PEs, to be sent once UCP has left its callbacks. UCP ends a process
    /// that sends on an endpoint after its failure, and only our own connections report failures.
    pub owed: Mutex<Vec<Owed>>,
    /// Unanswered posts to each PE, and in total.
    pub unanswered: Box<[AtomicU64]>,
    pub unanswered_all: AtomicU64,
    /// Previous values returned by updates.
    pub answers: Replies<u64>,
    /// Bytes returned by reads.
    pub found: Replies<Vec<u8>>,
    /// True if puts and gets use messages of this engine instead of UCP's own.
    pub by_messages: AtomicBool,
    pub any_broken: AtomicBool,
    /// Incremented by every event; waiting threads sleep on it.
    pub ticks: AtomicU32,
    pub sleepers: AtomicU32,
    /// For the progress thread, which stays away while others help.
    pub hand_off: HandOff,
    pub stop: AtomicBool,
}

impl Shared {
    /// Creates the state of a process that knows no peer yet.
    pub fn new(local: Local) -> Shared {
        let pes = 0..local.n_pes;
        Shared {
            oldest: pes.clone().map(|_| AtomicU32::new(0)).collect(),
            connected: pes.clone().map(|_| AtomicU32::new(UNCONNECTED)).collect(),
            whole: pes.clone().map(|_| AtomicBool::new(false)).collect(),
            owed: Mutex::default(),
            unanswered: pes.map(|_| AtomicU64::new(0)).collect(),
            unanswered_all: AtomicU64::new(0),
            answers: Replies::default(),
            found: Replies::default(),
            by_messages: AtomicBool::new(false),
            any_broken: AtomicBool::new(false),
            ticks: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            hand_off: HandOff::default(),
            stop: AtomicBool::new(false),
            local,
        }
    }

    /// Records an event: waiting threads look again.
    pub fn tick(&self) {
        self.ticks.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) != 0 {
            futex::wake_all(&self.ticks);
        }
        self.local.events.arrived();
    }

    /// Returns true if there is a connection to `pe` that has not been found broken.
    pub fn is_whole(&self, pe: Pe) -> bool {
        self.whole.get(pe.at()).is_some_and(|whole| whole.load(Ordering::Relaxed))
    }

    pub fn answered(&self, pe: Pe) {
        let one_less = |count: u64| count.checked_sub(1);
        let counted = &self.unanswered[pe.at()];
        if counted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            self.unanswered_all.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Creates a message of this process.
    pub fn letter<T>(&self, ticket: u64, body: T) -> Letter<T> {
        let Local { me, incarnation, job, .. } = self.local;
        Letter { job, pe: me, incarnation, ticket, body }
    }

    /// Decodes a message and accepts it if it is of this job and not of a dead incarnation. An
    /// answer of a dead incarnation would be attributed to its substitute: a quiet would then end
    /// before the data that it waits for has arrived.
    fn accepted<'a, T: Deserialize<'a>>(&self, message: &'a [u8]) -> Option<Letter<T>> {
        let letter: Letter<T> = decode(message)?;
        let known = self.oldest.get(letter.pe.at())?.load(Ordering::SeqCst);
        let stale = letter.incarnation < Incarnation(known) && !breaks(Mutant::StaleAccepted);
        (letter.job == self.local.job && !stale).then_some(letter)
    }

    /// Answers a request.
    fn answer<Q, A: Serialize>(
        &self,
        asked: &Letter<Q>,
        (id, said): (u32, A),
        reply: Option<Endpoint>,
    ) {
        let answer = encode(&self.letter(asked.ticket, said));
        let Letter { pe, incarnation, .. } = *asked;
        if self.connected[pe.at()].load(Ordering::SeqCst) == incarnation.0 {
            lock(&self.owed).push(Owed { pe, incarnation, id, answer });
        } else if let Some(reply) = reply {
            // If the send fails, the connection is broken, and the other side knows.
            let _ = reply.send(id, answer, false);
        }
    }

    /// Serves a message of kind `id`. Returns `None` if it is not accepted or cannot be served.
    fn receive(&self, id: u32, message: &[u8], reply: Option<Endpoint>) -> Option<()> {
        let segment = self.local.segment;
        match id {
            REQUEST => {
                let asked = self.accepted::<Request>(message)?;
                let before = segment.update(asked.body.word, asked.body.change)?;
                self.answer(&asked, (ANSWER, Answer { before }), reply);
            }
            READ => {
                let asked = self.accepted::<Wanted>(message)?;
                let Wanted { offset, len } = asked.body;
                let fits = len <= PIECE as u64;
                let bytes = fits.then(|| bytes::read(segment, offset, len)).flatten();
                let bytes = bytes.unwrap_or_default(); // empty if they do not exist
                self.answer(&asked, (DATA, Data { offset, bytes: &bytes }), reply);
            }
            WRITE => {
                let asked = self.accepted::<Data>(message)?;
                bytes::write(segment, asked.body.offset, asked.body.bytes)?;
                self.answer(&asked, (ANSWER, Answer { before: 0 }), reply);
            }
            TELL => {
                let told = self.accepted::<Told>(message)?;
                for bytes in self.local.events.heard(told.pe, told.incarnation, told.body.bytes) {
                    self.answer(&told, (TELL, Told { bytes: &bytes }), reply);
                }
            }
            DATA => {
                let said = self.accepted::<Data>(message)?;
                self.found.came(said.ticket, || said.body.bytes.to_vec());
            }
            _ => {
                let said = self.accepted::<Answer>(message)?;
                match said.ticket {
                    0 => self.answered(said.pe),
                    ticket => self.answers.came(ticket, || said.body.before),
                }
            }
        }
        Some(())
    }
}

impl MessageHandler for Shared {
    fn handle(&self, id: u32, message: &[u8], reply: Option<Endpoint>) {
        let _ = self.receive(id, message, reply); // rejected messages are dropped
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use raidshmem_core::layout::Layout;
    use raidshmem_fabric::EventSink;
    use raidshmem_segment::Segment;
    use raidshmem_sys::memory::{self, Part};

    use super::*;

    struct Deaf;

    impl EventSink for Deaf {
        fn gone(&self, _: Pe, _: Incarnation) -> bool {
            false
        }

        fn suspect(&self, _: Pe, _: Incarnation) {}

        fn arrived(&self) {}
    }

    #[test]
    fn an_answer_of_the_dead_is_not_taken_for_one_of_their_substitute() {
        let layout = Layout::new(1 << 20, 2);
        let file = memory::create("own", layout.total).unwrap();
        let segment =
            Segment::own(&Part::new(Arc::new(file), 0, layout.total), layout).unwrap().0.leak();
        let (me, incarnation, n_pes, job, oversubscribed) = (0, Incarnation(0), 2, 5, false);
        let events = Arc::new(Deaf);
        let shared = Shared::new(Local {
            me: Pe::of(me),
            incarnation,
            n_pes,
            job,
            segment,
            oversubscribed,
            events,
        });
        shared.oldest[1].store(3, Ordering::SeqCst);
        shared.unanswered[1].store(1, Ordering::SeqCst);
        shared.unanswered_all.store(1, Ordering::SeqCst);
        shared.answers.expect(8);
        let waits = |job, pe, incarnation| {
            for ticket in [0, 8] {
                let answer = Letter { job, pe, incarnation, ticket, body: Answer { before: 77 } };
                shared.handle(ANSWER, &encode(&answer), None);
            }
            (shared.unanswered[1].load(Ordering::SeqCst), shared.answers.take(8))
        };
        for (job, pe, incarnation) in [(5, 1, 2), (5, 1, 0), (6, 1, 3), (5, 2, 3)] {
            assert_eq!(
                waits(job, Pe(pe), Incarnation(incarnation)),
                (1, None),
                "{job} {pe} {incarnation}"
            );
        }
        assert_eq!(waits(5, Pe(1), Incarnation(3)), (0, Some(77)));
    }
}
