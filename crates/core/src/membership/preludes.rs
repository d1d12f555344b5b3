//! Records of what PEs learned before their first checkpoint call, for their substitutes
//! ([`crate::prelude`]).
//!
//! Part of the machine in [`super`].

use super::decisions::Decisions;
use super::nodes::LivingNodes;
use crate::message::Down;
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

    /// Keeps the record of PE `pe`, which has reached its first checkpoint call. No PE begins a
    /// checkpoint before all records are here, so any PE lost after that has one.
    pub fn keep(&mut self, pe: Pe, record: Vec<u8>, nodes: &LivingNodes, out: &mut Decisions) {
        self.known += usize::from(self.records[pe.at()].replace(record).is_none());
        if self.are_kept() {
            nodes.send(&Down::PreludesKept, out);
        }
    }

    /// Returns true if the record of every PE is here.
    pub fn are_kept(&self) -> bool {
        self.known == self.records.len()
    }

    /// Returns the record of PE `pe`, for its substitute.
    pub fn of(&self, pe: Pe) -> Option<Vec<u8>> {
        self.records[pe.at()].clone()
    }
}
