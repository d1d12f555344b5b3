//! The nodes of PEs, as far as PEs map each other.
//!
//! In a job with logs, PEs of different hosts are reached by messages, and stay so when one moves
//! to the other's host: an interval of logs is of one kind. With `SHMEM_FT_MAP=0` no PE maps
//! another.
//!
//! Invariant: a PE that has moved, or that no other maps, counts as alone on a node of its own.

#![forbid(unsafe_code)]

use raidshmem_core::message::Job;
use raidshmem_core::quantity::Pe;
use raidshmem_core::settings::Fabric;
use raidshmem_core::view::View;

/// The first of the numbers of nodes for PEs that are alone.
const ALONE: u32 = 1 << 31;

/// The nodes of PEs, as far as PEs map each other.
#[derive(Debug, Default)]
pub enum Homes {
    /// PEs of a node map each other.
    #[default]
    Shared,
    /// Those that began there do. The node of each PE at the start.
    Began(Vec<u32>),
    /// No PE maps another.
    Apart,
}

impl Homes {
    /// Returns the homes of a job's PEs.
    pub fn of(job: &Job, keeps_logs: bool, maps: bool) -> Homes {
        match keeps_logs && job.fabric != Fabric::Shm {
            false => Homes::Shared,
            true if maps => Homes::Began(job.node_of.clone()),
            true => Homes::Apart,
        }
    }

    /// Returns the number of the node of PE `pe`, which is on `node`: one of its own if it is alone
    /// there.
    pub fn node(&self, pe: Pe, node: u32) -> u32 {
        let is_alone = match self {
            Homes::Shared => false,
            Homes::Began(homes) => homes[pe.at()] != node,
            Homes::Apart => true,
        };
        if is_alone { ALONE | pe.0 } else { node }
    }

    /// Returns the number of the node of PE `pe` in a view.
    pub fn node_in(&self, view: &View, pe: Pe) -> u32 {
        self.node(pe, view.pes[pe.at()].node)
    }

    /// Like [`Homes::node`], for the mappings of PE `me`, which is on node `own`: it maps no other
    /// PE if it is alone.
    pub fn mapped_node(&self, (me, own): (Pe, u32), pe: Pe, node: u32) -> u32 {
        if self.node(me, own) == own { self.node(pe, node) } else { ALONE | pe.0 }
    }

    /// Like [`Homes::mapped_node`], for all PEs.
    pub fn mapped_nodes(&self, me: (Pe, u32), node_of: &[u32]) -> Vec<u32> {
        let all = Pe::all(node_of.len()).zip(node_of);
        all.map(|(pe, &node)| self.mapped_node(me, pe, node)).collect()
    }
}
