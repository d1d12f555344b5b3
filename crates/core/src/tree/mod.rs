//! A tree over the living PEs of a view, in which they meet and combine values.
//!
//! ```text
//! machines     the leaders of all machines
//! nodes        the leaders of the nodes of one machine
//! PEs          the PEs of one node
//! ```
//!
//! A PE has up to [`DEGREE`] children among the leaders of its highest kind, and one of each lower
//! kind: at most [`CHILDREN_MAX`] in all, regardless of the number of PEs. The
//! values of a machine are complete on its leader before any of them reaches another machine.
//!
//! [`meeting`] is the protocol of a meeting, [`post`] the format of the messages.
//!
//! Invariants: the tree is a function of the view, so it is equal on every PE of the view; it has
//! one root.

use std::collections::BTreeMap;

use crate::quantity::Pe;

pub mod meeting;
pub mod post;

#[cfg(test)]
mod explore;

/// Maximum number of PEs directly below a PE of one kind.
pub const DEGREE: usize = 4;

/// Maximum number of PEs directly below a PE.
pub const CHILDREN_MAX: usize = 5;

/// The location of a PE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// Machine of the PE.
    pub machine: u32,
    /// Node of the PE, which is on one machine.
    pub node: u32,
}

/// The tree from the perspective of one PE.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Tree {
    /// The PE above; None for the root.
    pub parent: Option<Pe>,
    /// The PEs directly below.
    pub children: Vec<Pe>,
    /// True if the values of its machine are combined here.
    pub leads: bool,
}

impl Tree {
    /// Returns the tree as seen by PE `me`; PEs without a location are not in it.
    pub fn of(me: Pe, places: &[Option<Location>]) -> Tree {
        trees(places).swap_remove(me.at())
    }

    /// Returns this tree, as seen by PE `me`, with all PEs of a node directly below its leader.
    pub fn with_flat_nodes(&self, me: Pe, places: &[Option<Location>]) -> Tree {
        let node = |pe: Pe| places[pe.at()].map(|place| place.node);
        let here = || Pe::all(places.len()).filter(|&pe| node(pe) == node(me));
        let leader = here().next().filter(|_| node(me).is_some()).unwrap_or(me);
        if leader != me {
            return Tree { parent: Some(leader), ..Tree::default() };
        }
        let elsewhere = self.children.iter().copied().filter(|&pe| node(pe) != node(me));
        let children = elsewhere.chain(here().filter(|&pe| pe != me)).collect();
        Tree { children, ..self.clone() }
    }
}

/// Returns the tree as seen by each PE.
pub fn trees(places: &[Option<Location>]) -> Vec<Tree> {
    let mut machines: BTreeMap<u32, BTreeMap<u32, Vec<Pe>>> = BTreeMap::new();
    for (pe, place) in places.iter().enumerate() {
        if let Some(Location { machine, node }) = place {
            machines.entry(*machine).or_default().entry(*node).or_default().push(Pe::of(pe));
        }
    }
    let mut trees = vec![Tree::default(); places.len()];
    let are_many = machines.len() > 1;
    let (mut tops, mut most) = (Vec::new(), DEGREE);
    for nodes in machines.values() {
        let leaders: Vec<Pe> = nodes.values().map(|pes| pes[0]).collect();
        let (top, is_led) = (leaders[0], leaders.len() > 1);
        for pes in nodes.values() {
            let leads = is_led || are_many && pes[0] == top;
            order(&mut trees, pes, (if leads { 1 } else { DEGREE }, DEGREE));
        }
        order(&mut trees, &leaders, (if are_many { 1 } else { DEGREE }, DEGREE));
        trees[top.at()].leads = true;
        tops.push(top);
        most = if is_led { DEGREE - 1 } else { most };
    }
    order(&mut trees, &tops, (most, most));
    trees
}

/// Arranges PEs in a subtree in which the first and the others have up to so many children.
fn order(trees: &mut [Tree], pes: &[Pe], (first, others): (usize, usize)) {
    for (index, &pe) in pes.iter().enumerate().skip(1) {
        let above = if index <= first { 0 } else { 1 + (index - 1 - first) / others };
        let parent = pes[above];
        trees[pe.at()].parent = Some(parent);
        trees[parent.at()].children.push(pe);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(machine: u32, node: u32) -> Option<Location> {
        Some(Location { machine, node })
    }

    /// Every PE has one root above it, within few steps, and no PE has many PEs below it.
    #[test]
    fn every_living_pe_is_below_one_root() {
        let shapes = [(1, 1), (7, 1), (64, 8), (1000, 16), (16_384, 64), (10_000, 1)];
        for (pes, per_node) in shapes {
            let node = |pe| (pe / per_node) as u32;
            let lives = |pe| pe % 5 != 3 || pes < 8;
            let places: Vec<_> = (0..pes)
                .map(|pe| lives(pe).then_some(place(node(pe) / 2, node(pe))).flatten())
                .collect();
            let trees = trees(&places);
            let mut roots = 0;
            for (pe, tree) in trees.iter().enumerate().filter(|(pe, _)| lives(*pe)) {
                assert!(tree.children.len() <= CHILDREN_MAX);
                assert!(
                    tree.children.iter().all(|&below| trees[below.at()].parent == Some(Pe::of(pe)))
                );
                roots += usize::from(tree.parent.is_none());
                let above = std::iter::successors(Some(Pe::of(pe)), |&pe| trees[pe.at()].parent);
                let most = 3 + 2 * pes.ilog2() as usize;
                assert!(above.take(most + 1).count() <= most, "{pes}");
            }
            assert_eq!(roots, 1, "{pes}");
            let children: usize = trees.iter().map(|tree| tree.children.len()).sum();
            assert_eq!(children + 1, (0..pes).filter(|&pe| lives(pe)).count());
        }
    }

    /// The values of another machine reach a PE only from that machine's leader.
    #[test]
    fn the_pes_of_a_machine_meet_at_its_leader() {
        let places: Vec<_> = (0..40).map(|pe| place(pe % 5, pe % 10)).collect();
        let trees = trees(&places);
        for (pe, tree) in trees.iter().enumerate() {
            let machine = |pe: Pe| places[pe.at()].map(|place| place.machine);
            for &below in &tree.children {
                assert_eq!(
                    machine(below) != machine(Pe::of(pe)),
                    trees[below.at()].leads,
                    "{below} of {pe}"
                );
            }
            assert_eq!(Tree::of(Pe::of(pe), &places), *tree);
        }
        assert_eq!(trees.iter().filter(|tree| tree.leads).count(), 5);
    }

    #[test]
    fn the_pes_of_a_flat_node_are_below_its_leader() {
        let places: Vec<_> = (0..40).map(|pe| place(pe / 20, pe / 10)).collect();
        let trees = trees(&places);
        let flat = |pe: u32| trees[pe as usize].with_flat_nodes(Pe(pe), &places);
        for pe in 0..40 {
            let (leader, tree) = (Pe(pe / 10 * 10), flat(pe));
            assert!(tree.children.iter().all(|below| flat(below.0).parent == Some(Pe(pe))), "{pe}");
            match leader == Pe(pe) {
                true => assert_eq!(tree.parent, trees[pe as usize].parent),
                false => assert_eq!((tree.parent, tree.children.len()), (Some(leader), 0)),
            }
        }
        assert_eq!((flat(0).children.len(), flat(30).children.len()), (11, 9));
    }

    #[test]
    fn lost_pes_are_in_no_tree() {
        let places = [None, place(0, 1), None, place(0, 0)];
        let trees = trees(&places);
        assert_eq!((trees[3].parent, trees[1].parent), (None, Some(Pe(3))));
        assert_eq!((&trees[0], &trees[2]), (&Tree::default(), &Tree::default()));
    }
}
