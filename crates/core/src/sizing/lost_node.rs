//! The state of a job after the loss of one node that no spare replaces: PEs share the remaining
//! nodes, and new groups may be smaller, which takes more memory.
//!
//! The places and groups are those that a job would choose. Pure.

use super::{Candidate, SizingInput, memory, spread};
use crate::placement::Domains;
use crate::placement::substitute::SubstituteNode;
use crate::quantity::{Pe, ViewNumber};
use crate::settings::Settings;
use crate::store::protection::Protection;

/// Groups and memory once the job has recovered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AfterLoss {
    /// PEs in the largest group.
    pub group: usize,
    /// Memory relative to live bytes, on the PE that holds the most.
    pub memory: f64,
    /// Most PEs on one node.
    pub crowd: usize,
    /// True if the job then survives the loss of any one node again.
    pub survives: bool,
}

impl AfterLoss {
    /// Returns the state of a candidate after the loss of the first node; None if groups of its
    /// size are not possible.
    pub fn of(site: &SizingInput, candidate: &Candidate) -> Option<AfterLoss> {
        let settings = Settings {
            backup_mode: candidate.mode,
            group_size: candidate.size,
            parity: candidate.parity,
            ..Settings::default()
        };
        let domains = Domains::default();
        let mut node_of = spread(site.pes, &(0..site.nodes).collect::<Vec<_>>());
        let first = Protection::new(&settings, &node_of, &domains).ok()??;
        let layout = first.job_layout(&domains);
        for pe in Pe::all(site.pes).filter(|pe| pe.at() * site.nodes / site.pes == 0) {
            let others = (1..site.nodes).map(|node| SubstituteNode { node, spare: false });
            node_of[pe.at()] = layout.best(pe, &node_of, others)?.node;
        }
        let healed = first.healed(&settings, &node_of, &domains, ViewNumber(1));
        let groups = healed.as_ref().unwrap_or(&first);
        let group = groups.plan.sizes().most;
        let mut on = vec![0; site.nodes];
        node_of.iter().for_each(|&node| on[node] += 1);
        Some(AfterLoss {
            group,
            memory: memory(candidate.mode, 1, groups.plan.sizes().least, candidate.parity),
            crowd: on.into_iter().max()?,
            survives: groups.survives_at(&node_of, &domains),
        })
    }
}

impl std::fmt::Display for AfterLoss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let AfterLoss { group, memory, crowd, survives } = self;
        let next = if *survives {
            "and any other node may be lost"
        } else {
            "and the loss of some other node would be unrecoverable"
        };
        write!(
            f,
            "a node lost without a spare leaves groups of {group}, {memory:.2} times the live "
        )?;
        write!(f, "bytes, up to {crowd}\nPEs a node, {next}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{choose, tests::site};
    use super::*;
    use crate::settings::BackupMode;

    fn after(nodes: usize, pes: usize, group: usize, parity: usize) -> AfterLoss {
        let site = SizingInput { nodes, pes, ..site() };
        let choice = choose(&site);
        let is =
            |c: &&Candidate| (c.group, c.parity) == (group, parity) && c.mode != BackupMode::Double;
        let candidate = choice.candidates.iter().find(is).expect("a candidate");
        AfterLoss::of(&site, candidate).expect("groups are possible")
    }

    #[test]
    fn a_group_over_all_nodes_becomes_smaller() {
        let found = after(4, 4, 4, 1);
        let expected = AfterLoss { group: 2, memory: 4.0, crowd: 2, survives: true };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_large_job_keeps_its_groups() {
        let found = after(128, 4096, 8, 1);
        assert_eq!((found.group, found.crowd, found.survives), (8, 33, true));
        assert!((found.memory - (2.0 + 2.0 / 7.0)).abs() < 1e-12);
    }

    /// Two nodes: all PEs are on one afterwards.
    #[test]
    fn the_last_node_cannot_be_lost() {
        let found = after(2, 4, 2, 1);
        assert_eq!((found.crowd, found.survives), (4, false));
        assert!(found.to_string().ends_with("would be unrecoverable"), "{found}");
    }
}
