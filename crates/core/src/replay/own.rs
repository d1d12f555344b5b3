//! The calls of a substitute, compared with the log of its predecessor.
//!
//! The program runs again from the checkpoint, and makes the same calls. Each consults this log
//! first:
//!
//! ```text
//! operation on another PE   skipped if done there; otherwise repeated, exactly once if exact
//! operation on itself       repeated, since this memory was rolled back; an atomic one with its
//!                           old result or, if it never happened, after all operations of peers
//! get, wait, test           answered from the log
//! meeting                   over, if the predecessor has logged anything since
//! ```
//!
//! The first call without a log entry is the first that the predecessor did not make; the
//! substitute hands over (`handover.rs`) before it. Invariant: a call that differs from the log has
//! no effect on any PE.

#![allow(missing_docs)] // each variant's doc comment describes its fields

use super::log::{Arrival, Asked, Effect, EntryProgress, Event, LogEntry};

/// The treatment of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// The target has it already; it found `old`.
    Skip { old: u64 },
    /// It is executed again, for the chain entry with this number.
    Again { number: usize },
    /// It is on the PE's own memory: applied as before.
    Own { progress: EntryProgress },
    /// Like `Own`, but atomic and not executed before: it is the last entry, done after the
    /// hand-over.
    Late,
    /// It is in no log.
    New,
    /// The program makes a different call than before.
    Differs,
}

/// The error that the program makes a different call than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Differs;

/// The progress of a substitute in its own logs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Replay {
    me: usize,
    /// Number of repeated entries in the chain to each target.
    made: Vec<usize>,
    events: usize,
    meetings: usize,
}

impl Replay {
    /// Starts the replay of PE `me` in a job of `n_pes`, at the checkpoint.
    pub fn begin(me: usize, n_pes: usize) -> Replay {
        Replay { me, made: vec![0; n_pes], events: 0, meetings: 0 }
    }

    /// Returns the treatment of an operation on PE `target`, whose chain is `chain`.
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

    /// Returns the number of entries in the chain to PE `target` that the program has repeated.
    pub fn made(&self, target: usize) -> usize {
        self.made[target]
    }

    /// Returns the logged event of the next such call; None if the predecessor did not complete it.
    ///
    /// # Errors
    /// The program makes a different kind of call than before.
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

    /// True if the predecessor logged nothing more. It may have died in the last meeting.
    /// Operations that other PEs only logged since then may be part of it, so the substitute hands
    /// over before it leaves.
    pub fn is_over<B>(&self, chains: &[Vec<LogEntry<B>>], events: &[Event], came: usize) -> bool {
        let mut all = self.made.iter().zip(chains);
        all.all(|(made, chain)| *made == chain.len())
            && (self.events, self.meetings) == (events.len(), came)
    }

    /// Returns the number, in this interval, of the meeting that the program enters with `what`;
    /// None if the predecessor had not reached it.
    ///
    /// # Errors
    /// The program enters a different meeting than before, or contributes something else.
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
