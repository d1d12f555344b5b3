//! Parity groups: which PEs protect each other, and which losses they survive.
//!
//! A pure function of the PEs' locations, so every PE computes the same plan:
//!
//! ```text
//! PEs, sorted by domain  0 1 2 3 | 4 5 6 7        two nodes of four PEs
//! dealt to 2 groups      0 1 0 1 | 0 1 0 1        group 0 = {0 2 4 6}, group 1 = {1 3 5 7}
//! places in the group    0 4 2 6 and 1 5 3 7      neighbours on different nodes
//! ```
//!
//! Sorted by rack, then by node, the PEs of a rack are adjacent and so are those of a node, so one
//! deal spreads both. If kinds cross each other, [`super::coloring`] is exact for two of them, and
//! [`super::crossing`] improves on that for more.
//!
//! Invariants:
//! - every PE is in exactly one group, and `of[groups[g].members[p]] == (g, p)`;
//! - the sizes of two groups differ by at most 1;
//! - if the kinds are nested, no group of `k` has more than `ceil(c / k)` members in a domain with
//!   `c` PEs, which is optimal; `worst[kind]` is the largest such number, and a loss of any one
//!   domain of that kind is survived if it is at most the parity;
//! - two neighbours (the last place and the first are neighbours too) are in one domain of the
//!   widest kind only if more than half of the group is, and then as rarely as possible: a copy
//!   goes to the next place, so it should be elsewhere.
//!
//! Source: ARCHITECTURE.md and whitepaper/paper.typ, "Stripes appended to the data".
//!
//! Left out: discovering the nodes, and the layout of stripes inside a group.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use super::domains::Domains;
use super::{coloring, crossing};
use crate::mutant::{Mutant, breaks};
use crate::quantity::Pe;

/// Approximate number of members of a group if no size is requested.
pub const SIZE_CHOSEN: usize = 8;

/// A group of PEs that protect each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// PE numbers, in the order of their place in the layout.
    pub members: Vec<Pe>,
}

/// The largest share that one domain of a kind has of one group; the first if several are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainShare {
    /// The name of the kind.
    pub kind: String,
    /// Index of the group.
    pub group: usize,
    /// The domain.
    pub domain: usize,
    /// Its name.
    pub name: String,
    /// Members of the group in that domain.
    pub members: usize,
    /// True if the loss of one must be survived ([`Domains::asked`]).
    pub asked: bool,
}

/// The position of a PE in the groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InGroup {
    /// Index of its group.
    pub group: usize,
    /// Its index among the members.
    pub place: usize,
}

/// Sizes of the smallest and the largest group. `Display` prints one number if they are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Members of the smallest.
    pub least: usize,
    /// Members of the largest.
    pub most: usize,
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.least, self.most) {
            (least, most) if least == most => write!(f, "{most}"),
            (least, most) => write!(f, "{least} to {most}"),
        }
    }
}

/// All groups of a job. `Display` summarizes in one line the losses that they survive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// The groups; none is empty.
    pub groups: Vec<Group>,
    /// Position of each PE; a PE in no group gets a position that another PE has.
    pub of: Vec<InGroup>,
    /// Losses that each group survives, as requested.
    pub parity: usize,
    /// For each kind of domain, from the node on, the largest cost of losing one.
    pub worst: Vec<DomainShare>,
}

/// The reason why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GroupError {
    /// There are no PEs to group.
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
        /// Requested parity.
        parity: usize,
    },
}

/// Plans the groups of a job; `node_of[pe]` is the node of a PE, `domains` the domains above.
///
/// With a `size` there are `max(1, n / size)` groups, so none is smaller than `size` unless the job
/// is. Without one, groups have about [`SIZE_CHOSEN`] members, more if `parity` would exceed half
/// of that, and fewer if only smaller groups survive the loss of a domain.
///
/// # Errors
/// `NoPes`; `TooSmall` if a group would have no more members than `parity`.
pub fn plan(
    node_of: &[usize],
    domains: &Domains,
    size: Option<usize>,
    parity: usize,
) -> Result<Grouping, GroupError> {
    let pes = node_of.len();
    if pes == 0 {
        return Err(GroupError::NoPes);
    }
    let of_kind = domains_of(node_of, domains);
    let asked = of_kind.iter().zip(domains.kinds()).filter(|&(_, kind)| domains.asked(kind));
    let number = match size {
        Some(size) => (pes / size.max(1)).max(1),
        None => number_chosen(asked.map(|(of, _)| of), pes, parity),
    };
    let smallest = pes / number;
    if smallest <= parity {
        return Err(GroupError::TooSmall { size: smallest, parity });
    }
    let mut dealt = vec![Vec::new(); number];
    for (pe, group) in spread(&of_kind, number, parity).into_iter().enumerate() {
        dealt[group].push(pe);
    }
    let widest = *widest_first(&of_kind).first().unwrap_or(&0);
    let groups: Vec<Group> = dealt
        .into_iter()
        .map(|members| arrange(members, &of_kind[widest], node_of))
        .map(|members| Group { members: members.into_iter().map(Pe::of).collect() })
        .collect();
    Ok(Grouping::of_groups(groups, &of_kind, domains, parity))
}

/// Returns the domain of each PE, by kind.
fn domains_of(node_of: &[usize], domains: &Domains) -> Vec<Vec<usize>> {
    let of_kind = |kind| node_of.iter().map(|&node| domains.of(kind, node)).collect();
    domains.kinds().map(of_kind).collect()
}

impl Grouping {
    /// Describes groups that were chosen before and contain every PE, with PEs on these nodes.
    pub fn known(
        groups: Vec<Vec<Pe>>,
        node_of: &[usize],
        domains: &Domains,
        parity: usize,
    ) -> Grouping {
        let groups = groups.into_iter().map(|members| Group { members }).collect();
        Grouping::of_groups(groups, &domains_of(node_of, domains), domains, parity)
    }

    fn of_groups(
        groups: Vec<Group>,
        of_kind: &[Vec<usize>],
        domains: &Domains,
        parity: usize,
    ) -> Grouping {
        let mut of = vec![InGroup::default(); of_kind[0].len()];
        for (group, members) in groups.iter().map(|group| &group.members).enumerate() {
            for (place, &pe) in members.iter().enumerate() {
                of[pe.at()] = InGroup { group, place };
            }
        }
        let share = |kind| largest_share(&groups, domains, kind, &of_kind[kind]);
        let worst = domains.kinds().map(share).collect();
        Grouping { groups, of, parity, worst }
    }

    /// Renumbers groups planned for the PEs `pes` alone, by index, to a job of `all` PEs. The other
    /// PEs are in no group: the position that `of` gives them belongs to another PE.
    pub fn of_pes(self, pes: &[Pe], all: usize) -> Grouping {
        let Grouping { mut groups, of: known, .. } = self;
        for member in groups.iter_mut().flat_map(|group| &mut group.members) {
            *member = pes[member.at()];
        }
        let mut of = vec![InGroup::default(); all];
        for (pe, at) in pes.iter().zip(known) {
            of[pe.at()] = at;
        }
        Grouping { groups, of, ..self }
    }

    /// Returns the group of a PE; `None` for a PE that the plan does not contain.
    pub fn group_of(&self, pe: Pe) -> Option<&Group> {
        self.of.get(pe.at()).and_then(|of| self.groups.get(of.group))
    }

    /// Returns the sizes of the smallest and the largest group.
    pub fn sizes(&self) -> Sizes {
        let sizes = || self.groups.iter().map(|g| g.members.len());
        Sizes { least: sizes().min().unwrap_or(0), most: sizes().max().unwrap_or(0) }
    }

    /// Returns true if the loss of any one domain of this kind costs no group more than its parity.
    pub fn survives(&self, kind: usize) -> bool {
        self.worst[kind].members <= self.parity
    }

    /// Returns true if this holds for every kind for which it was requested.
    pub fn survives_all(&self) -> bool {
        (0..self.worst.len()).all(|kind| !self.worst[kind].asked || self.survives(kind))
    }
}

impl fmt::Display for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", count(self.groups.len(), "group", "groups"), self.sizes())?;
        let lost = count(self.parity, "PE", "PEs");
        write!(f, ", parity {}: survives the loss of any {lost} per group", self.parity)?;
        let (borne, not): (Vec<&DomainShare>, Vec<&DomainShare>) =
            self.worst.iter().partition(|share| share.members <= self.parity);
        for (at, share) in borne.iter().enumerate() {
            let before = if at == 0 { ", and of any one " } else { " or " };
            write!(f, "{before}{}", share.kind)?;
        }
        for (at, DomainShare { kind, group, name, members, .. }) in not.into_iter().enumerate() {
            let before = if at == 0 { ", not of a whole " } else { ", nor of a whole " };
            let members = count(*members, "member", "members");
            write!(f, "{before}{kind}: group {group} has {members} in {name}")?;
        }
        Ok(())
    }
}

/// Returns the number of groups if no size is requested: groups of the usual size, or more of them
/// if that makes the loss of a domain survivable and leaves more members than the parity in each.
fn number_chosen<'a>(
    of_kind: impl Iterator<Item = &'a Vec<usize>>,
    pes: usize,
    parity: usize,
) -> usize {
    let usual = (pes / SIZE_CHOSEN.max(parity.saturating_mul(2))).max(1);
    let needed = |kind: &Vec<usize>| {
        let most = shares(0..pes, kind).into_values().max().unwrap_or(0);
        most.div_ceil(parity.max(1))
    };
    let enough = |number: &usize| pes / number > parity;
    of_kind.map(needed).filter(enough).fold(usual, usize::max)
}

/// Returns the group of each PE, dealt in the order of the domains, so that the PEs of a domain,
/// and the sizes, are spread as evenly as possible.
fn spread(of_kind: &[Vec<usize>], number: usize, parity: usize) -> Vec<usize> {
    let order = widest_first(of_kind);
    let best = deal(of_kind, &order, number);
    if order.len() <= 2 {
        return best; // one kind above the node: nested
    }
    let dense: Vec<Vec<usize>> = of_kind.iter().map(|kind| without_gaps(kind)).collect();
    let bound = crossing::bound(&dense, number, parity);
    let firsts = (0..order.len() - 1).map(|first| {
        let mut order = order.clone();
        order[..=first].rotate_right(1);
        deal(of_kind, &order, number)
    });
    let above = 1..of_kind.len();
    let pairs = above.clone().flat_map(|a| (a + 1..above.end).map(move |b| (a, b)));
    let colored = pairs.map(|(a, b)| coloring::groups(&dense[a], &dense[b], number));
    let ways = firsts.chain(colored);
    let least = ways.min_by_key(|groups| crossing::excess(&dense, groups, parity));
    crossing::improve(&dense, least.unwrap_or(best), parity, bound)
}

/// Returns the kinds, sorted by number of domains, fewest first.
fn widest_first(of_kind: &[Vec<usize>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..of_kind.len()).collect();
    order
        .sort_by_key(|&kind| (shares(0..of_kind[kind].len(), &of_kind[kind]).len(), Reverse(kind)));
    order
}

/// Deals the PEs, sorted by the domains of the kinds in `order`, round robin over the groups.
fn deal(of_kind: &[Vec<usize>], order: &[usize], number: usize) -> Vec<usize> {
    let path = |at: usize| order.iter().map(move |&kind| of_kind[kind][at]);
    let mut pes: Vec<usize> = (0..of_kind[0].len()).collect();
    if !breaks(Mutant::DomainsIgnored) {
        pes.sort_by(|&a, &b| path(a).cmp(path(b)).then(a.cmp(&b)));
    }
    let mut group_of = vec![0; pes.len()];
    for (turn, pe) in pes.into_iter().enumerate() {
        group_of[pe] = turn % number;
    }
    group_of
}

/// Renumbers domains from 0 without gaps.
fn without_gaps(kind: &[usize]) -> Vec<usize> {
    let used = shares(0..kind.len(), kind);
    let number: BTreeMap<usize, usize> = used.into_keys().zip(0..).collect();
    kind.iter().map(|domain| number[domain]).collect()
}

/// Orders the members so that neighbours are in different domains if possible: domain by domain,
/// the one with the most members first, into the even places and then into the odd ones.
fn arrange(members: Vec<usize>, domain_of: &[usize], node_of: &[usize]) -> Vec<usize> {
    let domains = shares(members.iter().copied(), domain_of);
    let nodes = shares(members.iter().copied(), node_of);
    let mut queue = members;
    queue.sort_by_key(|&pe| {
        let (domain, node) = (domain_of[pe], node_of[pe]);
        (Reverse(domains[&domain]), domain, Reverse(nodes[&node]), node, pe)
    });
    let even = (0..queue.len()).step_by(2);
    let odd = (1..queue.len()).step_by(2);
    let mut placed = vec![0; queue.len()];
    for (place, &pe) in even.chain(odd).zip(&queue) {
        placed[place] = pe;
    }
    placed
}

/// Returns the number of members in each domain.
fn shares(members: impl Iterator<Item = usize>, domain_of: &[usize]) -> BTreeMap<usize, usize> {
    let mut shares = BTreeMap::new();
    for pe in members {
        *shares.entry(domain_of[pe]).or_insert(0) += 1;
    }
    shares
}

fn largest_share(
    groups: &[Group],
    domains: &Domains,
    kind: usize,
    domain_of: &[usize],
) -> DomainShare {
    let (mut group, mut domain, mut members) = (0, 0, 0);
    for (at, g) in groups.iter().enumerate() {
        for (here, count) in shares(g.members.iter().map(|pe| pe.at()), domain_of) {
            if count > members {
                (group, domain, members) = (at, here, count);
            }
        }
    }
    let (kind_name, name) = (domains.kind_name(kind).to_owned(), domains.name(kind, domain));
    let name = if kind == 0 { name } else { format!("{kind_name} {name}") };
    let asked = domains.asked(kind);
    DomainShare { kind: kind_name, group, domain, name, members, asked }
}

/// Formats a number with its noun.
fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests;
