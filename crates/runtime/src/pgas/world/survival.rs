//! Losses that the job would survive now, as this PE sees it.
//!
//! Left out: the rule ([`raidshmem_core::placement::survival`]).

#![forbid(unsafe_code)]

use raidshmem_core::placement::substitute::JobLayout;
use raidshmem_core::placement::survival::{Loss, Places};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::view::{State, View};

use super::World;

impl World {
    /// Returns true if the job, as it is now, survives the loss of a PE, of a node, or of a domain
    /// of a kind above the node; `kind` is 0, 1, or 2 and up. None if there is no such PE or
    /// domain.
    pub fn survives(&self, kind: usize, id: usize) -> Option<bool> {
        let view = self.members.view();
        let loss = match kind.checked_sub(1) {
            None => (id < view.pes.len()).then_some(Loss::Process(Pe::of(id)))?,
            Some(kind) => self.domain(&view, kind, id)?,
        };
        Some(match self.store.protection() {
            _ if self.shrinks() => self.spares_a_living_pe(&view, loss),
            Some(protection) => {
                let site = JobLayout {
                    group_of: protection.plan.of.iter().map(|of| of.group).collect(),
                    domains: self.job.domains.clone(),
                    parity: protection.plan.parity,
                };
                let node_of: Vec<usize> = view.pes.iter().map(|pe| pe.node as usize).collect();
                let erased: Vec<bool> =
                    view.pes.iter().map(|pe| pe.state == State::NodeDead).collect();
                let (mode, adopt) = (protection.mode, self.settings.adopt);
                let places =
                    Places { mode, adopt, site: &site, node_of: &node_of, erased: &erased };
                self.store.agreed() > CheckpointNumber::START && places.survive(loss)
            }
            None => false,
        })
    }

    fn domain(&self, view: &View, kind: usize, domain: usize) -> Option<Loss> {
        let domains = &self.job.domains;
        let carries = |node: usize| kind == 0 && node == domain;
        let known = domains.kinds().contains(&kind)
            && (domain < domains.count(kind)
                || view.pes.iter().any(|pe| carries(pe.node as usize)));
        known.then_some(Loss::Domain { kind, domain })
    }

    /// Returns true if the loss spares a PE that lives.
    fn spares_a_living_pe(&self, view: &View, loss: Loss) -> bool {
        let spared = |pe: Pe, node: u32| match loss {
            Loss::Process(lost) => pe != lost,
            Loss::Domain { kind, domain } => self.job.domains.of(kind, node as usize) != domain,
        };
        let mut members = Pe::all(view.pes.len()).zip(&view.pes);
        members.any(|(pe, member)| member.state == State::Alive && spared(pe, member.node))
    }
}
