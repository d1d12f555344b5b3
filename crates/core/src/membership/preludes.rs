//! What PEs found out before their first checkpoint call, for those that take their numbers later
//! ([`crate::prelude`]).
//!
//! Left out: what follows when all records are there (`substitutes.rs`).

use crate::quantity::Pe;

/// The record of each PE, once it is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Preludes {
    records: Vec<Option<Vec<u8>>>,
    known: usize,
}

impl Preludes {
    /// No record of so many PEs.
    pub fn new(n_pes: usize) -> Preludes {
        Preludes { records: vec![None; n_pes], known: 0 }
    }

    /// Keeps the record of PE `pe`; true if those of all are there.
    pub fn keep(&mut self, pe: Pe, record: Vec<u8>) -> bool {
        self.known += usize::from(self.records[pe.at()].replace(record).is_none());
        self.known == self.records.len()
    }

    /// The record of PE `pe`, for its substitute.
    pub fn of(&self, pe: Pe) -> Option<Vec<u8>> {
        self.records[pe.at()].clone()
    }
}
