//! The nodes of the PEs in every view so far: what parity groups are chosen over.
//!
//! A checkpoint names the view over whose places its groups were chosen, and whoever knows the
//! moves can choose them again: a substitute on a node that has seen none of it is told the moves
//! with its number.
//!
//! Invariant: two processes that know the moves up to a view in which all PEs live come to the same
//! places in it.

use serde::{Deserialize, Serialize};

use crate::quantity::{Pe, ViewNumber};
use crate::view::View;

/// A PE that is on another node from a view on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The view.
    pub view: ViewNumber,
    /// The PE.
    pub pe: Pe,
    /// The node.
    pub node: u32,
}

/// The places at the start, and all moves since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceHistory {
    first: Vec<u32>,
    moves: Vec<Move>,
}

impl PlaceHistory {
    /// The history of a process that is told the places at the start and these moves.
    pub fn new(first: Vec<u32>, moves: Vec<Move>) -> PlaceHistory {
        PlaceHistory { first, moves }
    }

    /// All moves, oldest first.
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Takes the places of a view, which is newer than all that were taken.
    pub fn note(&mut self, view: &View) {
        let known = self.at(view.number);
        let changed = Pe::all(view.pes.len()).zip(&view.pes);
        let changed = changed.filter(|(pe, member)| known[pe.at()] != member.node as usize);
        let moves = changed.map(|(pe, member)| Move { view: view.number, pe, node: member.node });
        self.moves.extend(moves.collect::<Vec<_>>());
    }

    /// The node of each PE in a view.
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
    use crate::view::Member;

    fn view(number: u64, nodes: &[u32]) -> View {
        let pes = nodes.iter().copied().map(Member::first).collect();
        View { number: ViewNumber(number), pes, local: false }
    }

    #[test]
    fn the_places_of_each_view_are_found_again_by_who_saw_them_all_and_by_who_was_told() {
        let views = [view(1, &[0, 1, 2]), view(2, &[0, 1, 0]), view(5, &[1, 1, 0])];
        let mut launcher = PlaceHistory::new(vec![0, 1, 2], Vec::new());
        views.iter().for_each(|view| launcher.note(view));
        let mut survivor = PlaceHistory::new(vec![0, 1, 2], Vec::new());
        survivor.note(&views[2]); // it joined no view between
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
