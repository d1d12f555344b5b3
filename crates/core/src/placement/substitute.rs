//! The choice of the node for a lost PE: close to its old place, but away from its group.
//!
//! The better of two places is the one that, in this order:
//! 1. puts fewer members beyond the group's parity into one failure domain, of any kind, so that
//!    the group can again survive the losses that it could before;
//! 2. has fewer other members of the group in its domains;
//! 3. has an idle spare;
//! 4. is closer: the same node, then a node that shares domains of more kinds;
//! 5. carries fewer PEs;
//! 6. is closer in the order of the nodes, which is their order in a list of hosts.
//!
//! Invariant: a place whose domains hold no other member of the group is chosen if there is one.

use std::cmp::Reverse;

use super::domains::Domains;
use crate::quantity::Pe;

/// The parts of a job that the choice of a place needs. If converted from groups alone, nodes fail
/// independently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobLayout {
    /// Parity group of each PE.
    pub group_of: Vec<usize>,
    /// Failure domains of the nodes.
    pub domains: Domains,
    /// Members that a group may lose.
    pub parity: usize,
}

impl From<Vec<usize>> for JobLayout {
    fn from(group_of: Vec<usize>) -> JobLayout {
        JobLayout { group_of, domains: Domains::default(), parity: 1 }
    }
}

/// A node that could take a PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubstituteNode {
    /// The node.
    pub node: usize,
    /// True if it has an idle spare.
    pub spare: bool,
}

/// Members of a group in the domains of a node, summed over the kinds of domain.
#[derive(Default)]
struct Company {
    /// Members beyond the parity if one more were added.
    over: usize,
    /// All members.
    others: usize,
}

impl JobLayout {
    /// Returns the best of `places` for PE `lost`; `node_of` is the node of each PE, or its last
    /// one.
    pub fn best(
        &self,
        lost: Pe,
        node_of: &[usize],
        places: impl Iterator<Item = SubstituteNode>,
    ) -> Option<SubstituteNode> {
        let all = || Pe::all(node_of.len()).filter(|&pe| pe != lost);
        let group_of = |pe: Pe| self.group_of[pe.at()];
        let members = all().filter(|&pe| group_of(pe) == group_of(lost));
        let group: Vec<usize> = members.map(|pe| node_of[pe.at()]).collect();
        let mut load = std::collections::BTreeMap::new();
        for pe in all() {
            *load.entry(node_of[pe.at()]).or_insert(0usize) += 1;
        }
        let home = node_of[lost.at()];
        places.min_by_key(|place| {
            let Company { over, others } = self.company(place.node, &group);
            let near = self.domains.separation(home, place.node);
            let load = load.get(&place.node).copied().unwrap_or(0);
            let step = home.abs_diff(place.node);
            (over, others, Reverse(place.spare), near, load, step, place.node)
        })
    }

    /// Counts the group members with which a PE on `node` would share its domains.
    fn company(&self, node: usize, group: &[usize]) -> Company {
        let mut sums = Company::default();
        for kind in self.domains.kinds() {
            let here = self.domains.of(kind, node);
            let others = group.iter().filter(|&&at| self.domains.of(kind, at) == here).count();
            sums.over += (others + 1).saturating_sub(self.parity);
            sums.others += others;
        }
        sums
    }
}
