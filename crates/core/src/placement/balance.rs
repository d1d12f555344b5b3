//! The choice of PEs that move to a node that has joined a running job.
//!
//! As many move as even out the numbers of PEs per node: first from the node that carries the most,
//! and there a PE that is not on its first node, then one that shares its domains with the most
//! members of its group.
//!
//! Invariants: of each group at most as many move at a time as the group may lose; no node is left
//! with fewer PEs than the new one gets.

use std::cmp::Reverse;

use super::substitute::JobLayout;
use crate::mutant::{Mutant, breaks};
use crate::quantity::Pe;

/// The places of the PEs of a job.
#[derive(Clone, Copy, Debug)]
pub struct PlacesNow<'a> {
    /// Groups, failure domains and parity.
    pub site: &'a JobLayout,
    /// The node of each PE at the start.
    pub first: &'a [usize],
    /// The node of each PE.
    pub node_of: &'a [usize],
}

/// Returns the PEs that move to the node `new`, at most `room`.
pub fn movers(places: PlacesNow, new: usize, room: usize) -> Vec<Pe> {
    let PlacesNow { site, first, .. } = places;
    let (mut node_of, mut chosen) = (places.node_of.to_vec(), Vec::<Pe>::new());
    while chosen.len() < room {
        let count = |node: usize| node_of.iter().filter(|&&at| at == node).count();
        let others_in_group = |pe: Pe, among: &dyn Fn(Pe) -> bool| {
            let group = |other: &Pe| site.group_of[other.at()] == site.group_of[pe.at()];
            Pe::all(node_of.len())
                .filter(|other| *other != pe && group(other) && among(*other))
                .count()
        };
        let may_move = |pe: &Pe| {
            let home = node_of[pe.at()];
            let moving = others_in_group(*pe, &|other| chosen.contains(&other));
            home != new
                && count(home) >= count(new) + 2
                && (moving < site.parity || breaks(Mutant::GroupEmptied))
        };
        let key = |pe: &Pe| {
            let home = node_of[pe.at()];
            let company = others_in_group(*pe, &|other| {
                let shares = |kind| {
                    site.domains.of(kind, node_of[other.at()]) == site.domains.of(kind, home)
                };
                site.domains.kinds().any(shares)
            });
            (count(home), home != first[pe.at()], company, Reverse(*pe))
        };
        let next = Pe::all(node_of.len()).filter(may_move).max_by_key(key);
        let Some(pe) = next else { break };
        node_of[pe.at()] = new;
        chosen.push(pe);
    }
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Domains;

    fn chosen(group_of: &[usize], first: &[usize], node_of: &[usize], room: usize) -> Vec<u32> {
        let (group_of, domains) = (group_of.to_vec(), Domains::default());
        let site = JobLayout { group_of, domains, parity: 1 };
        let places = PlacesNow { site: &site, first, node_of };
        movers(places, 9, room).into_iter().map(|pe| pe.0).collect()
    }

    #[test]
    fn the_pe_that_was_displaced_moves() {
        let first = [0, 1, 2, 3];
        assert_eq!(chosen(&[0; 4], &first, &[0, 1, 1, 3], 9), [2]);
        assert_eq!(chosen(&[0; 4], &first, &first, 9), [0; 0], "no node carries two more");
        assert_eq!(chosen(&[0; 4], &first, &[0, 1, 1, 3], 0), [0; 0], "there is no room");
    }

    #[test]
    fn moves_even_out_the_load_within_the_parity() {
        let first = [0, 0, 0, 1, 1, 1];
        assert_eq!(chosen(&[0, 1, 2, 0, 1, 2], &first, &first, 9), [0, 4]);
        assert_eq!(chosen(&[0; 6], &first, &first, 9), [0], "one of a group at a time");
        assert_eq!(chosen(&[0, 1, 2, 0, 1, 2], &first, &first, 1), [0]);
    }
}
