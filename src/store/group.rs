//! Parity groups: which PEs protect each other, and which losses that survives.
//!
//! A pure function of the nodes that the PEs run on, so every PE computes the same plan:
//!
//! ```text
//! PEs, sorted by node    0 1 2 3 | 4 5 6 7        two nodes of four PEs
//! dealt over 2 groups    0 1 0 1 | 0 1 0 1        group 0 = {0 2 4 6}, group 1 = {1 3 5 7}
//! places in the group    0 4 2 6 and 1 5 3 7      neighbours on different nodes
//! ```
//!
//! Invariants:
//! - every PE is in exactly one group, and `of[groups[g].members[p]] == (g, p)`;
//! - the sizes of two groups differ by at most 1;
//! - of a node with `c` PEs no group of `k` has more than `ceil(c / k)`, which is the best there
//!   is; `worst` is the largest such number and `survives_node == (worst <= parity)`;
//! - two neighbours (the last place and the first are neighbours too) are on the same node only
//!   if more than half of the group is, and then as seldom as can be: a copy goes to the next
//!   place, so it should be on another node.
//!
//! Source: ARCHITECTURE.md and whitepaper/paper.md, section 4.
//!
//! Left out: finding out the nodes, the layout of stripes inside a group, and domains above the
//! node (a rack is passed in as the node of its PEs).

#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

/// Members that a group has when no size is asked for, about.
pub const SIZE_CHOSEN: usize = 8;

/// PEs that protect each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// PE numbers, in the order of their place in the layout.
    pub members: Vec<usize>,
}

/// The largest share that one node has of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Index of the group.
    pub group: usize,
    /// The node.
    pub node: usize,
    /// Members of the group on that node.
    pub members: usize,
}

/// All groups of a job. `Display` says in one line what they survive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The groups; none is empty.
    pub groups: Vec<Group>,
    /// Group and place of each PE.
    pub of: Vec<(usize, usize)>,
    /// Losses that each group survives, as asked for.
    pub parity: usize,
    /// Members that one group has on one node at most.
    pub worst: usize,
    /// Where that is, the first of equals.
    pub worst_share: Share,
    /// True if the loss of any one node costs no group more members than its parity.
    pub survives_node: bool,
}

/// Why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GroupError {
    /// There is nothing to group.
    #[error("a job without PEs has no groups")]
    NoPes,
    /// The smallest group has no member left for data.
    #[error(
        "a group of {} cannot hold {}: needs at least {}",
        count(*size, "PE", "PEs"),
        count(*parity, "parity", "parities"),
        count(parity.saturating_add(1), "PE", "PEs")
    )]
    TooSmall {
        /// PEs in the smallest group.
        size: usize,
        /// Parities asked for.
        parity: usize,
    },
}

/// Plans the groups of a job; `node_of[pe]` is the node (failure domain) of a PE, any number.
///
/// With a `size` there are `max(1, n / size)` groups, so none is smaller than `size` unless the
/// job is; without one, one group up to [`SIZE_CHOSEN`] PEs and `n / SIZE_CHOSEN` groups beyond,
/// or fewer where `parity` is so large that it would be more than half of such a group.
///
/// # Errors
/// `NoPes`; `TooSmall` if a group would have no more members than `parity`.
pub fn plan(node_of: &[usize], size: Option<usize>, parity: usize) -> Result<Plan, GroupError> {
    let pes = node_of.len();
    if pes == 0 {
        return Err(GroupError::NoPes);
    }
    let chosen = SIZE_CHOSEN.max(parity.saturating_mul(2));
    let groups_wanted = (pes / size.unwrap_or(chosen).max(1)).max(1);
    let smallest = pes / groups_wanted;
    if smallest <= parity {
        return Err(GroupError::TooSmall { size: smallest, parity });
    }
    let groups: Vec<Group> = deal(node_of, groups_wanted)
        .into_iter()
        .map(|members| Group { members: arrange(members, node_of) })
        .collect();
    let mut of = vec![(0, 0); pes];
    for (g, group) in groups.iter().enumerate() {
        for (place, &pe) in group.members.iter().enumerate() {
            of[pe] = (g, place);
        }
    }
    let worst_share = largest_share(&groups, node_of);
    let worst = worst_share.members;
    Ok(Plan { groups, of, parity, worst, worst_share, survives_node: worst <= parity })
}

impl Plan {
    /// The group that a PE is in; `None` for a PE that the plan does not know.
    pub fn group_of(&self, pe: usize) -> Option<&Group> {
        self.of.get(pe).and_then(|&(group, _)| self.groups.get(group))
    }

    /// Members of the smallest and of the largest group.
    pub fn sizes(&self) -> (usize, usize) {
        let sizes = || self.groups.iter().map(|g| g.members.len());
        (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (min, max) = self.sizes();
        write!(f, "{} of {min}", count(self.groups.len(), "group", "groups"))?;
        if min != max {
            write!(f, " to {max}")?;
        }
        let lost = count(self.parity, "PE", "PEs");
        write!(f, ", parity {}: survives the loss of any {lost} per group, ", self.parity)?;
        if self.survives_node {
            return f.write_str("and of any one node");
        }
        let Share { group, node, members } = self.worst_share;
        let members = count(members, "member", "members");
        write!(f, "not of a whole node: group {group} has {members} on node {node}")
    }
}

/// Deals the PEs, sorted by node, round robin over the groups: what one node has is then spread
/// as evenly as can be, and so are the sizes.
fn deal(node_of: &[usize], groups: usize) -> Vec<Vec<usize>> {
    let mut pes: Vec<usize> = (0..node_of.len()).collect();
    pes.sort_by_key(|&pe| (node_of[pe], pe));
    let mut dealt = vec![Vec::new(); groups];
    for (turn, pe) in pes.into_iter().enumerate() {
        dealt[turn % groups].push(pe);
    }
    dealt
}

/// Orders the members so that neighbours are on different nodes where that can be: node by node,
/// the one with most members first, on to the even places and then on to the odd ones.
fn arrange(members: Vec<usize>, node_of: &[usize]) -> Vec<usize> {
    let shares = shares(&members, node_of);
    let mut queue = members;
    queue.sort_by_key(|&pe| (Reverse(shares[&node_of[pe]]), node_of[pe], pe));
    let even = (0..queue.len()).step_by(2);
    let odd = (1..queue.len()).step_by(2);
    let mut placed = vec![0; queue.len()];
    for (place, &pe) in even.chain(odd).zip(&queue) {
        placed[place] = pe;
    }
    placed
}

/// Members on each node.
fn shares(members: &[usize], node_of: &[usize]) -> BTreeMap<usize, usize> {
    let mut shares = BTreeMap::new();
    for &pe in members {
        *shares.entry(node_of[pe]).or_insert(0) += 1;
    }
    shares
}

fn largest_share(groups: &[Group], node_of: &[usize]) -> Share {
    let mut largest = Share { group: 0, node: 0, members: 0 };
    for (group, g) in groups.iter().enumerate() {
        for (node, members) in shares(&g.members, node_of) {
            if members > largest.members {
                largest = Share { group, node, members };
            }
        }
    }
    largest
}

/// A number with its noun.
fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(node_of: &[usize], size: Option<usize>, parity: usize) -> String {
        plan(node_of, size, parity).unwrap().to_string()
    }

    /// Neighbours on the same node, counted round the circle.
    fn clashes(group: &Group, node_of: &[usize]) -> usize {
        let m = &group.members;
        (0..m.len()).filter(|&i| node_of[m[i]] == node_of[m[(i + 1) % m.len()]]).count()
    }

    /// Every invariant of the module doc.
    fn check(node_of: &[usize], size: Option<usize>, parity: usize) {
        let p = plan(node_of, size, parity).unwrap();
        let n = node_of.len();
        let k = p.groups.len();
        assert_eq!(p, plan(node_of, size, parity).unwrap());
        assert_eq!(p.of.len(), n);
        assert_eq!(p.groups.iter().map(|g| g.members.len()).sum::<usize>(), n);
        for (pe, &(g, place)) in p.of.iter().enumerate() {
            assert_eq!(p.groups[g].members[place], pe);
        }
        let (min, max) = p.sizes();
        assert!(max - min <= 1 && min > parity);
        let all: Vec<usize> = (0..n).collect();
        let optimum = shares(&all, node_of).values().map(|c| c.div_ceil(k)).max().unwrap();
        assert_eq!(p.worst, optimum, "{node_of:?} {size:?}");
        assert_eq!(p.survives_node, optimum <= parity);
        let at = p.worst_share;
        assert_eq!(shares(&p.groups[at.group].members, node_of)[&at.node], p.worst);
        for group in &p.groups {
            let len = group.members.len();
            let most = shares(&group.members, node_of).into_values().max().unwrap();
            let unavoidable = if len == 1 { 1 } else { (2 * most).saturating_sub(len) };
            assert_eq!(clashes(group, node_of), unavoidable, "{group:?} {node_of:?}");
        }
    }

    #[test]
    fn every_shape_of_small_jobs() {
        for n in 1..=7usize {
            for code in 0..4usize.pow(n as u32) {
                let node_of: Vec<usize> = (0..n).map(|i| code >> (2 * i) & 3).collect();
                for size in [None, Some(1), Some(2), Some(3)] {
                    let smallest = n / (n / size.unwrap_or(8)).max(1);
                    for parity in 0..smallest {
                        check(&node_of, size, parity);
                    }
                }
            }
        }
    }

    #[test]
    fn many_large_shapes() {
        let mut x = 1usize;
        let mut random = move |n: usize| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 33) % n
        };
        for _ in 0..500 {
            let (n, nodes) = (8 + random(300), 1 + random(40));
            let node_of: Vec<usize> = (0..n).map(|_| random(nodes) * 1000).collect();
            check(&node_of, None, 1 + random(4));
            check(&node_of, Some(5 + random(60)), 1 + random(4));
        }
    }

    #[test]
    fn number_of_groups() {
        let groups = |n: usize, size| plan(&vec![0; n], size, 1).unwrap().groups.len();
        let chosen = [2, 8, 9, 15, 16, 17, 64, 100].map(|n| groups(n, None));
        assert_eq!(chosen, [1, 1, 1, 1, 2, 2, 8, 12]);
        let asked =
            [(3, 4), (4, 4), (7, 4), (8, 4), (11, 4), (9, 2)].map(|(n, s)| groups(n, Some(s)));
        assert_eq!(asked, [1, 1, 1, 2, 2, 4]);
        assert_eq!(plan(&[0; 6], Some(0), 0).unwrap().groups.len(), 6, "0 is taken as 1");
        let many = |parity| plan(&[0; 64], None, parity).unwrap().groups.len();
        assert_eq!([1, 4, 5, 16].map(many), [8, 8, 6, 2], "a chosen size holds the parities");
    }

    #[test]
    fn says_what_is_survived() {
        let four_nodes = [0, 0, 1, 1, 2, 2, 3, 3];
        assert_eq!(
            text(&four_nodes, Some(4), 1),
            "2 groups of 4, parity 1: survives the loss of any 1 PE per group, and of any one node"
        );
        assert_eq!(
            text(&[0, 0, 0, 1, 1, 1, 1, 1], Some(4), 2),
            "2 groups of 4, parity 2: survives the loss of any 2 PEs per group, not of a whole \
             node: group 1 has 3 members on node 1"
        );
        assert_eq!(
            text(&[7; 5], Some(2), 1),
            "2 groups of 2 to 3, parity 1: survives the loss of any 1 PE per group, not of a \
             whole node: group 0 has 3 members on node 7"
        );
        assert!(text(&[0, 1, 2], None, 1).starts_with("1 group of 3, parity 1: "));
    }

    #[test]
    fn refusals_have_numbers() {
        assert_eq!(plan(&[], None, 1), Err(GroupError::NoPes));
        let refused = |n: usize, size, parity| {
            plan(&(0..n).collect::<Vec<_>>(), size, parity).unwrap_err().to_string()
        };
        assert_eq!(
            refused(2, None, 2),
            "a group of 2 PEs cannot hold 2 parities: needs at least 3 PEs"
        );
        assert_eq!(
            refused(1, None, 1),
            "a group of 1 PE cannot hold 1 parity: needs at least 2 PEs"
        );
        assert!(refused(9, Some(3), 3).starts_with("a group of 3 PEs cannot hold 3 parities"));
        assert!(plan(&[0; 9], Some(4), 3).is_ok(), "n / 4 groups of 4 to 5");
        assert!(refused(4, None, usize::MAX).contains("cannot hold"));
    }

    #[test]
    fn lookup() {
        let p = plan(&[0, 0, 1, 1], Some(2), 1).unwrap();
        assert_eq!(p.group_of(3).unwrap().members, [1, 3]);
        assert_eq!(p.group_of(4), None);
    }
}
