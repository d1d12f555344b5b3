//! The logs of all PEs as a substitute reads them, in mapped memory or in its mirrors, and its own
//! memory, to which it applies the operations in them (`core/replay/merge.rs`).

#![forbid(unsafe_code)]

use std::ops::Range;

use raidshmem_core::quantity::Pe;
use raidshmem_core::replay::log::{AtomicOutcome, Carried, Located, LogRecord, Logs};
use raidshmem_core::replay::merge::SubstitutePort;
use raidshmem_core::update::{Change, Update, WordAt};

use super::World;

impl Logs for &World {
    #[inline]
    fn read(&self, pe: Pe, from: usize) -> Option<Located> {
        self.call_log().log_of(pe).read(from)
    }

    #[inline]
    fn payload(&self, pe: Pe, found: &Located) -> &[u8] {
        self.segments.bytes_of(pe, found.payload, found.record.len as usize)
    }

    fn state(&self, pe: Pe, from: usize) -> Carried {
        self.call_log().log_of(pe).state(from)
    }

    fn found(&self, pe: Pe, from: usize) -> AtomicOutcome {
        self.call_log().log_of(pe).found(from)
    }

    fn compared(&self, pe: Pe, from: usize) -> u64 {
        self.call_log().log_of(pe).compared(from)
    }

    fn repeats(&self, pe: Pe, from: usize) -> u64 {
        self.call_log().log_of(pe).repeats(from)
    }
}

impl SubstitutePort for &World {
    fn load(&self, word: WordAt) -> Option<u64> {
        self.segments.own().update(word, Change { how: Update::Load, operand: 0 })
    }

    fn store(&mut self, word: WordAt, value: u64) {
        self.segments.own().update(word, Change { how: Update::Store, operand: value });
    }

    fn copy(&mut self, to: usize, pe: Pe, found: &Located, bytes: Range<usize>) {
        self.segments.write_own(to, &self.payload(pe, found)[bytes]);
    }

    fn note_taken(&mut self, pe: Pe, from: usize, old: u64) {
        self.log_writer().append(LogRecord::taken(pe, from, old), &[]);
        if self.far_calls().is_far(pe) {
            // Its origin gets it when it sends the record again.
            self.call_log().log_of(pe).set_found(from, AtomicOutcome { old, seen: 0 });
        }
    }
}
