//! The nodes and the machines of PEs, as collectives and teams see them.
//!
//! Left out: the groups of PEs that protect each other (`groups.rs`).

#![forbid(unsafe_code)]

use crate::pgas::boot::THREAD_MULTIPLE;
use raidshmem_core::quantity::Pe;
use raidshmem_core::settings::{Collectives, Fabric};
use raidshmem_core::view::View;

use super::World;
use super::nodes::progression;

/// The places of the PEs.
#[derive(Clone, Copy)]
pub struct Topology<'a> {
    pub(super) world: &'a World,
}

impl World {
    /// Returns the places of the PEs.
    #[inline]
    pub fn topology(&self) -> Topology<'_> {
        Topology { world: self }
    }
}

impl Topology<'_> {
    /// Returns the transport between nodes.
    pub fn fabric(&self) -> Fabric {
        self.world.job.fabric
    }

    /// Returns true if collectives work node by node, because of an engine between nodes or by the
    /// settings.
    pub fn acts_by_nodes(self) -> bool {
        match self.world.settings.collectives {
            Collectives::Auto => self.world.comm.has_engine(),
            Collectives::Direct => false,
            Collectives::Nodes | Collectives::Doubling | Collectives::Halving => true,
        }
    }

    /// Returns true if several threads of a PE may be in collectives.
    pub fn is_threaded(self) -> bool {
        self.world.thread_level >= THREAD_MULTIPLE
    }

    /// Returns the node of each of `pes`; by some settings every PE is on a node of its own. All
    /// PEs that ask in the same view get the same answer.
    pub fn nodes_of(self, pes: impl Iterator<Item = usize>) -> Option<Vec<u32>> {
        if let Collectives::Doubling | Collectives::Halving = self.world.settings.collectives {
            return Some(pes.map(|pe| pe as u32).collect());
        }
        let view = self.world.members.joined_view();
        let view = view.as_ref()?;
        Some(pes.map(|pe| self.world.comm.homes().node_in(view, Pe::of(pe))).collect())
    }

    /// Returns the machine of each PE of `view`.
    pub fn machines_of(self, view: &View) -> Vec<u32> {
        view.pes.iter().map(|member| self.world.job.machine(member.node)).collect()
    }

    /// Returns the number of PEs on this machine, this one included; a view on the page may be
    /// older than this process.
    pub fn pes_of_machine(self) -> usize {
        let own = self.world.job.machine(self.world.members.node());
        let machines = self.machines_of(&self.world.members.view()).into_iter().enumerate();
        1 + machines.filter(|&(pe, machine)| pe != self.world.me().at() && machine == own).count()
    }

    /// Returns the PEs that map each other's memory, this one included, as (first, stride, number):
    /// all PEs, or those of the node, or this one alone if those are not a progression.
    pub fn sharing(self) -> (isize, isize, usize) {
        if !self.world.comm.has_engine() {
            return (0, 1, self.world.n_pes());
        }
        if self.world.prelude.is_given()
            && let Some(before) = self.world.first_calls().sharing_before()
        {
            return before;
        }
        let alone = (self.world.me().at().cast_signed(), 1, 1);
        progression(&self.world.comm.nodes().here).unwrap_or(alone)
    }

    /// Returns true if the PEs of this job are on several nodes.
    pub(in crate::pgas) fn has_several_nodes(self) -> bool {
        self.world.job.node_of.iter().any(|&node| node != self.world.job.node_of[0])
    }
}
