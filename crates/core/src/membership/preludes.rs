//! Records of what PEs learned before their first checkpoint call, for their substitutes
//! ([`crate::prelude`]).
//!
//! Left out: what follows once all records are known (`substitutes.rs`).

use crate::quantity::Pe;

/// The record of each PE, once it is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Preludes {
    records: Vec<Option<Vec<u8>>>,
    known: usize,
}

impl Preludes {
    /// Creates an empty set of records for `n_pes` PEs.
    pub fn new(n_pes: usize) -> Preludes {
        Preludes { records: vec![None; n_pes], known: 0 }
    }

    /// Keeps the record of PE `pe`; returns true if all records are known.
    pub fn keep(&mut self, pe: Pe, record: Vec<u8>) -> bool {
        self.known += usize::from(self.records[pe.at()].replace(record).is_none());
        self.known == self.records.len()
    }

    /// Returns the record of PE `pe`, for its substitute.
    pub fn of(&self, pe: Pe) -> Option<Vec<u8>> {
        self.records[pe.at()].clone()
    }
}
