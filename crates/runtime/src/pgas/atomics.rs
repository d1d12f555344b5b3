//! Atomic operations of a job with logs (`pgas/local.rs`): the record of each, and its outcome
//! while the target is away.
//!
//! ```text
//! begun      the record is in the log
//! under way  the operation may have happened: if the origin dies here, all PEs roll back
//! done       with the value found
//! ```
//!
//! A substitute applies other PEs' changes in the order of the values that they found, regardless
//! of their times (`core/replay/edges.rs`). At the end it carries out the operations that no PE has
//! carried out, and records the values found, which PEs that wait for a result read there.
//!
//! Invariant: an operation happens once over all incarnations of its origin and its target.

#![forbid(unsafe_code)]

use raidshmem_core::quantity::Pe;
use raidshmem_core::replay::call;
use raidshmem_core::replay::log::{Kind, LogRecord};
use raidshmem_core::replay::port::LogMode;
use raidshmem_core::update::{Change, Update, WordAt};
use raidshmem_sys::lock;

use super::caller::Caller;
use super::local::{Call, CallLog, RemotePlace};

/// An atomic operation as a call requests it.
#[derive(Debug, Clone, Copy)]
pub struct AtomicCall {
    /// The routine.
    pub name: &'static str,
    /// The change.
    pub change: Change,
    /// True if the caller gets the old value.
    pub fetches: bool,
}

impl AtomicCall {
    /// Returns its record for a word of a PE.
    #[inline]
    fn record(&self, pe: Pe, word: WordAt) -> LogRecord {
        let block = LogRecord::block_of_change(word, self.change);
        let place = RemotePlace { pe, at: word.offset, block };
        Call { name: self.name, with: 0 }.record(Kind::Atomic, place, self.payload())
    }

    /// Returns the bytes of its payload: the value found, its time and the value to compare with,
    /// each only if the operation needs it.
    #[inline]
    fn payload(&self) -> usize {
        match self.change.how {
            Update::CompareSwap(_) => 24,
            _ if self.fetches => 16,
            _ => 8,
        }
    }

    /// Returns the value to compare with.
    #[inline]
    fn compares_with(&self) -> Option<u64> {
        match self.change.how {
            Update::CompareSwap(expected) => Some(expected),
            _ => None,
        }
    }
}

impl CallLog<'_> {
    /// Changes a word of `bytes` bytes of a PE atomically, by `carry_out`. Returns the old value,
    /// or zero if all PEs roll back.
    pub fn atomic_logged(
        self,
        call: AtomicCall,
        (pe, word): (Pe, WordAt),
        carry_out: impl Fn() -> u64,
    ) -> u64 {
        let (record, with) = (call.record(pe, word), (call.compares_with(), call.fetches));
        let carry_out = |caller: &mut Caller| match self.world.far_calls().is_far(pe) {
            true => caller.send_change(record, with),
            false => Ok(carry_out()),
        };
        call::change(&mut Caller::new(self.world, call.name), record, with, carry_out).unwrap_or(0)
    }

    /// Notes an assignment to own bytes that other PEs change atomically.
    pub fn assigns(self, at: usize, bytes: usize) {
        if self.world.local.way() == LogMode::Replayed {
            lock(&self.world.local.replay).replay.merge.assigns(&(at..at + bytes));
        }
    }
}
