//! The nodes that PEs began on. In a job with logs, PEs of different hosts are reached by messages,
//! and stay so when one moves to the other's host: an interval of logs is of one kind.
//!
//! Invariant: a PE that has moved counts as alone on a node of its own.

#![forbid(unsafe_code)]

use raidshmem_core::quantity::Pe;
use raidshmem_core::view::View;

/// The first of the numbers of nodes for PEs that have moved.
const MOVED: u32 = 1 << 31;

/// The nodes that PEs began on; None if a PE that has moved is like any other.
#[derive(Debug, Default)]
pub struct Homes(Option<Vec<u32>>);

impl Homes {
    /// Returns the homes of the PEs, which only matter if PEs `stay_apart`.
    pub fn new(stay_apart: bool, node_of: &[u32]) -> Homes {
        Homes(stay_apart.then(|| node_of.to_vec()))
    }

    /// Returns the number of the node of PE `pe`, which is on `node`: one of its own if it has
    /// moved there.
    pub fn node(&self, pe: Pe, node: u32) -> u32 {
        let has_moved = self.0.as_ref().is_some_and(|homes| homes[pe.at()] != node);
        if has_moved { MOVED | pe.0 } else { node }
    }

    /// Returns the number of the node of PE `pe` in a view.
    pub fn node_in(&self, view: &View, pe: Pe) -> u32 {
        self.node(pe, view.pes[pe.at()].node)
    }

    /// Like [`Homes::node`], for the mappings of PE `me`, which is on node `own`: it maps no other
    /// PE if it has moved.
    pub fn mapped_node(&self, (me, own): (Pe, u32), pe: Pe, node: u32) -> u32 {
        if self.node(me, own) == own { self.node(pe, node) } else { MOVED | pe.0 }
    }

    /// Like [`Homes::mapped_node`], for all PEs.
    pub fn mapped_nodes(&self, me: (Pe, u32), node_of: &[u32]) -> Vec<u32> {
        let all = Pe::all(node_of.len()).zip(node_of);
        all.map(|(pe, &node)| self.mapped_node(me, pe, node)).collect()
    }
}
