//! What the callbacks of UCP and the threads of the engine share: counters, answers, and whose
//! messages are accepted.
//!
//! Invariant: nothing that a dead incarnation sent counts once this process has disconnected from
//! it, however late it comes.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_fabric::Local;
use raidshmem_sys::futex;
use raidshmem_sys::lock;

use crate::bytes;
use crate::message::{
    ANSWER, Answer, DATA, Data, READ, REQUEST, Request, WRITE, Wanted, decode, encode,
};
use crate::raw::{Endpoint, Hearer};

/// No incarnation of a PE.
pub(super) const NOBODY: u32 = u32::MAX;

/// An answer that is to be sent.
#[derive(Debug)]
pub(super) struct Owed {
    pub pe: Pe,
    pub incarnation: Incarnation,
    /// Which kind of message it is.
    pub id: u32,
    pub answer: Vec<u8>,
}

/// What callbacks inside UCP touch.
#[derive(Debug)]
pub(super) struct Shared {
    pub local: Local,
    /// The least incarnation of each PE whose requests are carried out, and whose answers count.
    pub oldest: Box<[AtomicU32]>,
    /// The incarnation of each PE that this process is connected to, [`NOBODY`] if there is none.
    pub connected: Box<[AtomicU32]>,
    /// Answers to those, to be sent once UCP is out of its callbacks: it ends the process that
    /// sends on an endpoint after its failure, and only a connection of our own tells of one.
    pub owed: Mutex<Vec<Owed>>,
    /// Posts to each PE that were not answered yet, and all of them.
    pub unanswered: Box<[AtomicU64]>,
    pub unanswered_all: AtomicU64,
    /// Updates whose answer is waited for.
    pub answers: Mutex<HashMap<u64, Option<u64>>>,
    /// Reads whose bytes are waited for.
    pub found: Mutex<HashMap<u64, Option<Vec<u8>>>>,
    /// Puts and gets are messages of this engine, not UCP's own.
    pub by_messages: AtomicBool,
    pub any_broken: AtomicBool,
    /// Grows whenever something happened; threads that wait sleep on it.
    pub ticks: AtomicU32,
    pub sleepers: AtomicU32,
    /// Grows with every look of a thread that helps.
    pub helps: AtomicU32,
    /// Grows when a thread that helped goes to sleep; the thread for progress naps on it.
    pub alarm: AtomicU32,
    pub napping: AtomicBool,
    pub stop: AtomicBool,
}

impl Shared {
    /// The state of a process that knows no peer yet.
    pub fn new(local: Local) -> Shared {
        let pes = 0..local.n_pes;
        Shared {
            oldest: pes.clone().map(|_| AtomicU32::new(0)).collect(),
            connected: pes.clone().map(|_| AtomicU32::new(NOBODY)).collect(),
            owed: Mutex::default(),
            unanswered: pes.map(|_| AtomicU64::new(0)).collect(),
            unanswered_all: AtomicU64::new(0),
            answers: Mutex::default(),
            found: Mutex::default(),
            by_messages: AtomicBool::new(false),
            any_broken: AtomicBool::new(false),
            ticks: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            helps: AtomicU32::new(0),
            alarm: AtomicU32::new(0),
            napping: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            local,
        }
    }

    /// Something happened: threads that wait look again.
    pub fn tick(&self) {
        self.ticks.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) != 0 {
            futex::wake_all(&self.ticks);
        }
        self.local.events.arrived();
    }

    /// The helping threads sleep from now on: the thread for progress takes over.
    pub fn hand_over(&self) {
        self.alarm.fetch_add(1, Ordering::SeqCst); // pairs with the look after `napping` is set
        if self.napping.load(Ordering::SeqCst) {
            futex::wake_all(&self.alarm);
        }
    }

    pub fn answered(&self, pe: Pe) {
        let one_less = |count: u64| count.checked_sub(1);
        let counted = &self.unanswered[pe.at()];
        if counted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            self.unanswered_all.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// True if a message of this sender is accepted: of this job, and of nobody who is dead.
    fn accepts(&self, job: u64, pe: Pe, incarnation: Incarnation) -> bool {
        let known = self.oldest.get(pe.at()).map(|oldest| oldest.load(Ordering::SeqCst));
        let stale = |known| incarnation < known && !breaks(Mutant::StaleAccepted);
        job == self.local.job && known.is_some_and(|known| !stale(Incarnation(known)))
    }

    fn carry_out(&self, request: &Request) -> Option<Answer> {
        if !self.accepts(request.job, request.pe, request.incarnation) {
            return None;
        }
        let before = self.local.segment.update(request.word, request.change)?;
        let Local { me, incarnation, job, .. } = self.local;
        Some(Answer { job, pe: me, incarnation, ticket: request.ticket, before })
    }

    /// An answer of the dead would be taken for one of their substitute: then a quiet would be over
    /// before what it waits for has arrived.
    fn take(&self, answer: &Answer) {
        if !self.accepts(answer.job, answer.pe, answer.incarnation) {
            return;
        }
        match answer.ticket {
            0 => self.answered(answer.pe),
            ticket => {
                lock(&self.answers).entry(ticket).and_modify(|at| *at = Some(answer.before));
            }
        }
    }
}

impl Shared {
    /// Answers a PE that asked.
    fn answer(&self, to: (Pe, Incarnation), (id, answer): (u32, Vec<u8>), reply: Option<Endpoint>) {
        let (pe, incarnation) = to;
        if self.connected[pe.at()].load(Ordering::SeqCst) == incarnation.0 {
            lock(&self.owed).push(Owed { pe, incarnation, id, answer });
        } else if let Some(reply) = reply {
            // If it cannot be sent, the connection is broken and the other side knows.
            let _ = reply.send(id, answer, false);
        }
    }

    /// The bytes that a PE wants; those it cannot have are none.
    fn look_up(&self, wanted: &Wanted) -> Option<Vec<u8>> {
        if !self.accepts(wanted.job, wanted.pe, wanted.incarnation) {
            return None;
        }
        let bytes = bytes::read(self.local.segment, wanted.offset, wanted.len).unwrap_or_default();
        let Local { me, incarnation, job, .. } = self.local;
        let (pe, ticket) = (me, wanted.ticket);
        Some(encode(&Data { job, pe, incarnation, ticket, offset: wanted.offset, bytes: &bytes }))
    }

    /// Takes what a PE writes; the answer.
    fn store(&self, data: &Data) -> Option<Answer> {
        if !self.accepts(data.job, data.pe, data.incarnation) {
            return None;
        }
        bytes::write(self.local.segment, data.offset, data.bytes)?;
        let Local { me, incarnation, job, .. } = self.local;
        Some(Answer { job, pe: me, incarnation, ticket: data.ticket, before: 0 })
    }

    /// Bytes that were asked for.
    fn hand_over_data(&self, data: &Data) {
        if self.accepts(data.job, data.pe, data.incarnation) {
            let bytes = || Some(data.bytes.to_vec());
            lock(&self.found).entry(data.ticket).and_modify(|at| *at = bytes());
        }
    }
}

impl Hearer for Shared {
    fn heard(&self, id: u32, message: &[u8], reply: Option<Endpoint>) {
        match id {
            REQUEST => {
                let Some(request) = decode::<Request>(message) else { return };
                if let Some(answer) = self.carry_out(&request) {
                    let to = (request.pe, request.incarnation);
                    self.answer(to, (ANSWER, encode(&answer)), reply);
                }
            }
            READ => {
                let Some(wanted) = decode::<Wanted>(message) else { return };
                if let Some(data) = self.look_up(&wanted) {
                    self.answer((wanted.pe, wanted.incarnation), (DATA, data), reply);
                }
            }
            WRITE => {
                let Some(data) = decode::<Data>(message) else { return };
                if let Some(answer) = self.store(&data) {
                    let to = (data.pe, data.incarnation);
                    self.answer(to, (ANSWER, encode(&answer)), reply);
                }
            }
            DATA => decode(message).iter().for_each(|data| self.hand_over_data(data)),
            _ => decode(message).iter().for_each(|answer| self.take(answer)),
        }
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
        lock(&shared.answers).insert(8, None);
        let waits = |job, pe, incarnation| {
            for ticket in [0, 8] {
                let answer = Answer { job, pe, incarnation, ticket, before: 77 };
                shared.heard(ANSWER, &encode(&answer), None);
            }
            (shared.unanswered[1].load(Ordering::SeqCst), lock(&shared.answers)[&8])
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
