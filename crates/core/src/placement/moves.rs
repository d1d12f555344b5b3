//! The node of each PE in every view so far: the input for choosing parity groups.
//!
//! A checkpoint names the view over whose places its groups were chosen, so a process that knows
//! the moves can recompute the groups. A substitute receives all moves with its PE number.
//!
//! Invariant: two processes that know the moves up to a view in which all PEs live compute equal
//! places for it.

use serde::{Deserialize, Serialize};

use crate::quantity::{Pe, ViewNumber};

/// The move of a PE to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The first view with the PE on that node.
    pub view: ViewNumber,
    /// The PE that moved.
    pub pe: Pe,
    /// The new node.
    pub node: u32,
}

/// The initial node of each PE, and all moves since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceHistory {
    first: Vec<u32>,
    moves: Vec<Move>,
}

impl PlaceHistory {
    /// Creates a history from the initial nodes and the known moves.
    pub fn new(first: Vec<u32>, moves: Vec<Move>) -> PlaceHistory {
        PlaceHistory { first, moves }
    }

    /// Returns all moves, oldest first.
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Records the node of each PE in a view, which is newer than all recorded ones.
    pub fn note(&mut self, view: ViewNumber, nodes: impl ExactSizeIterator<Item = u32>) {
        let known = self.at(view);
        let changed = Pe::all(nodes.len()).zip(nodes);
        let changed = changed.filter(|&(pe, node)| known[pe.at()] != node as usize);
        self.moves.extend(changed.map(|(pe, node)| Move { view, pe, node }));
    }

    /// Returns the node of each PE in a view.
    pub fn at(&self, view: ViewNumber) -> Vec<usize> {
        let mut node_of: Vec<usize> = self.first.iter().map(|&node| node as usize).collect();
        for one in self.moves.iter().filter(|one| one.view <= view) {
            node_of[one.pe.at()] = one.node as usize;
        }
        node_of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Places = (u64, [u32; 3]);

    fn note(history: &mut PlaceHistory, (view, nodes): Places) {
        history.note(ViewNumber(view), nodes.into_iter());
    }

    #[test]
    fn a_process_finds_the_places_of_each_view_if_it_saw_or_got_all_moves() {
        let views: [Places; 3] = [(1, [0, 1, 2]), (2, [0, 1, 0]), (5, [1, 1, 0])];
        let mut launcher = PlaceHistory::new(vec![0, 1, 2], Vec::new());
        views.into_iter().for_each(|view| note(&mut launcher, view));
        let mut survivor = PlaceHistory::new(vec![0, 1, 2], Vec::new());
        note(&mut survivor, views[2]); // it joined none of the views between
        let told = PlaceHistory::new(vec![0, 1, 2], launcher.moves().to_vec());
        assert_eq!(launcher.at(ViewNumber(0)), [0, 1, 2]);
        assert_eq!(launcher.at(ViewNumber(4)), [0, 1, 0]);
        for history in [&launcher, &survivor, &told] {
            assert_eq!(history.at(ViewNumber(5)), [1, 1, 0]);
            assert_eq!(history.at(ViewNumber(9)), [1, 1, 0]);
        }
        assert_eq!(launcher.moves().len(), 2);
    }
}
