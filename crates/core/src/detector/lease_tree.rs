//! The tree of lease renewers: each node's intended parent, even while changes are in progress.
//!
//! ```text
//! launcher -- places 0 .. d-1       the parent of place p is place p / d - 1,
//!             place 0 -- places d .. 2d-1              or the launcher if p < d
//! ```
//!
//! Invariants: the launcher and every node have at most `d` children; a loss moves one node, the
//! last, into the place of the lost one, so only that node and the children of the lost one get
//! another parent.
//!
//! A node that does not hear its parent keeps its place: the launcher renews its lease until the
//! link recovers, at the cost of a child: one heartbeat and one answer per period.
//!
//! Left out: the renewers at a given moment, which lag behind the tree (`failure_detector.rs`).

use std::collections::BTreeMap;

/// Maximum number of children of the launcher and of each node; each costs one heartbeat and one
/// answer per period. 4,680 nodes need four levels of 8, and each level adds one message latency to
/// the age of a lease.
pub const DEGREE: usize = 8;

/// The tree of all living nodes.
#[derive(Debug)]
pub(super) struct LeaseTree {
    degree: usize,
    places: Vec<u32>,
    place_of: BTreeMap<u32, usize>,
}

impl LeaseTree {
    /// Builds the tree of `nodes`, with at most `degree` children per parent.
    pub fn new(nodes: impl Iterator<Item = u32>, degree: usize) -> LeaseTree {
        let places: Vec<u32> = nodes.collect();
        let place_of = places.iter().enumerate().map(|(place, &node)| (node, place)).collect();
        LeaseTree { degree, places, place_of }
    }

    /// Returns the parent of `node`; None if it is the launcher.
    pub fn parent(&self, node: u32) -> Option<u32> {
        let place = self.place_of.get(&node)?;
        let above = (place / self.degree).checked_sub(1)?;
        self.places.get(above).copied()
    }

    /// Adds a node, in the last place.
    pub fn add(&mut self, node: u32) {
        self.place_of.insert(node, self.places.len());
        self.places.push(node);
    }

    /// Removes `node` and returns the node that took its place, if any.
    pub fn remove(&mut self, node: u32) -> Option<u32> {
        let place = self.place_of.remove(&node)?;
        self.places.swap_remove(place);
        let moved = *self.places.get(place)?;
        self.place_of.insert(moved, place);
        Some(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every node reaches the launcher over the fewest possible levels, whichever nodes were lost.
    #[test]
    fn every_shape_has_its_degree_and_its_depth() {
        for (degree, count) in [(1, 5), (2, 30), (8, 9), (8, 700)] {
            let mut tree = LeaseTree::new(0..count, degree);
            for lost in (0..count).map(|k| k * 7919 % count) {
                let (mut children, mut depth) = (BTreeMap::<Option<u32>, usize>::new(), 0);
                for &node in &tree.places {
                    *children.entry(tree.parent(node)).or_default() += 1;
                    let up = std::iter::successors(Some(node), |&node| tree.parent(node));
                    depth = depth.max(up.count());
                }
                assert!(children.values().all(|&count| count <= degree));
                let above: usize = (1..depth as u32).map(|level| degree.pow(level)).sum();
                assert!(tree.places.len() > above || depth == 0, "{depth} levels are too many");
                tree.remove(lost);
                assert_eq!(tree.parent(lost), None, "it is not there any more");
                if lost == 0 {
                    tree.add(count); // a node that has joined
                }
            }
            assert_eq!(tree.places, [count], "all others were lost once");
        }
    }

    #[test]
    fn a_loss_moves_one_node() {
        let mut tree = LeaseTree::new(0..100, 8);
        let before: Vec<_> = (0..100).map(|node| tree.parent(node)).collect();
        assert_eq!(tree.remove(3), Some(99));
        for node in (0..99).filter(|&node| node != 3) {
            let parent =
                if before[node as usize] == Some(3) { Some(99) } else { before[node as usize] };
            assert_eq!(tree.parent(node), parent);
        }
        assert_eq!(tree.parent(99), None, "where the lost one was");
        assert_eq!(tree.remove(98), None, "there is none after the last");
    }
}
