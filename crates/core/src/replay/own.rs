//! The own calls of a substitute, compared with what its predecessor logged.
//!
//! The program runs from the checkpoint again, and makes the same calls. Each asks here first:
//!
//! ```text
//! operation on another PE   done there: skipped. Else it is done again, once if it is exact
//! operation on itself       done again, since this memory went back; an atomic one as it was, or,
//!                           if it never was, when all that others did is there
//! get, wait, test           what the log says
//! meeting                   over, if the predecessor has logged anything since
//! ```
//!
//! A call that is in no log is the first that the predecessor did not make: the substitute hands
//! over (`handover.rs`) before it makes it. Invariant: a call that differs from the log changes
//! nothing anywhere.

#![allow(missing_docs)] // the sentence of each variant speaks of its fields

use super::log::{Arrival, Asked, Effect, EntryProgress, Event, LogEntry};

/// What becomes of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// The target has it; this is what it found.
    Skip { old: u64 },
    /// It is done again; it is the entry with this number in the chain.
    Again { number: usize },
    /// It is an operation on the own memory: applied as it was.
    Own { progress: EntryProgress },
    /// The same, atomic, and it never happened: it is the last entry, done after the hand-over.
    Late,
    /// It is in no log.
    New,
    /// The program does something else than before.
    Differs,
}

/// The program does something else than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Differs;

/// How far a substitute has come in its own logs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Replay {
    me: usize,
    /// Entries of the chain to each target.
    made: Vec<usize>,
    events: usize,
    meetings: usize,
}

impl Replay {
    /// The replay of PE `me` in a job of `n_pes`, at the checkpoint.
    pub fn begin(me: usize, n_pes: usize) -> Replay {
        Replay { me, made: vec![0; n_pes], events: 0, meetings: 0 }
    }

    /// The program makes this operation on PE `target`, whose chain is `chain`.
    pub fn operation<B: PartialEq>(
        &mut self,
        target: usize,
        effect: &Effect<B>,
        chain: &[LogEntry<B>],
    ) -> Disposition {
        let number = self.made[target];
        let Some(entry) = chain.get(number) else { return Disposition::New };
        if entry.effect != *effect {
            return Disposition::Differs;
        }
        let is_done = matches!(entry.progress, EntryProgress::Done { .. });
        if target == self.me && matches!(effect, Effect::Atomic { .. }) && !is_done {
            return Disposition::Late;
        }
        self.made[target] += 1;
        match entry.progress {
            progress if target == self.me => Disposition::Own { progress },
            EntryProgress::Done { old } => Disposition::Skip { old },
            _ => Disposition::Again { number },
        }
    }

    /// Entries of the chain to PE `target` that the program has made again.
    pub fn made(&self, target: usize) -> usize {
        self.made[target]
    }

    /// The program asks something; None if the predecessor did not learn it.
    ///
    /// # Errors
    /// The program asks something else than before.
    pub fn event<'a>(
        &mut self,
        asked: Asked,
        log: &'a [Event],
    ) -> Result<Option<&'a Event>, Differs> {
        let event = log.get(self.events);
        self.events += usize::from(event.is_some());
        match event {
            Some(event) if event.asked != asked => Err(Differs),
            event => Ok(event),
        }
    }

    /// True if the predecessor logged nothing more. It may have died in the last meeting: what
    /// others only logged since then may be a part of it, so the substitute hands over before
    /// it leaves.
    pub fn is_over<B>(&self, chains: &[Vec<LogEntry<B>>], events: &[Event], came: usize) -> bool {
        let mut all = self.made.iter().zip(chains);
        all.all(|(made, chain)| *made == chain.len())
            && (self.events, self.meetings) == (events.len(), came)
    }

    /// The number in this interval of the meeting that the program comes to with `what`, if the
    /// predecessor had come to it.
    ///
    /// # Errors
    /// The program comes to another meeting than before, or brings something else.
    pub fn meeting<C: PartialEq>(
        &mut self,
        what: &C,
        log: &[Arrival<C>],
    ) -> Result<Option<usize>, Differs> {
        let number = self.meetings;
        match log.get(number) {
            None => Ok(None),
            Some(arrival) if arrival.what != *what => Err(Differs),
            Some(_) => {
                self.meetings += 1;
                Ok(Some(number))
            }
        }
    }
}
