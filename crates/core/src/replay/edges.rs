//! The atomic operations on a word, in the order of their effects.
//!
//! This order differs from the order of their times, which are drawn earlier. Each operation is an
//! *edge* from the value that it found to the value that it left. Every order that explains all
//! edges of a word ends at the same value:
//!
//! ```text
//! the v with  [v = value before] + edges that end at v - edges that begin at v = 1
//! ```
//!
//! If there is no such value, or more than one, the known operations are an incomplete set of
//! concurrent ones. The edges stay *pending* until the rest is known, and the word must not be read
//! meanwhile.

use std::ops::Range;

/// The value of a word before and after an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Edge {
    /// Value before the operation.
    pub old: u64,
    /// Value after the operation.
    pub new: u64,
}

/// Operations on words whose values are still uncertain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Edges(Vec<(usize, Edge)>);

impl Edges {
    /// True if any of these bytes must not be read yet.
    pub fn is_pending(&self, bytes: &Range<usize>) -> bool {
        self.0.iter().any(|(at, _)| bytes.contains(at))
    }

    /// True if the value of every word is known.
    pub fn is_certain(&self) -> bool {
        self.0.is_empty()
    }

    /// Drops the pending edges of `bytes`, which an assignment overwrites.
    pub fn assign(&mut self, bytes: &Range<usize>) {
        self.0.retain(|(at, _)| !bytes.contains(at));
    }

    /// Adds an operation on the word at `at`, which holds `now`. Returns its new value, if known.
    pub fn add(&mut self, at: usize, edge: Edge, now: u64) -> Option<u64> {
        let alone = !self.0.iter().any(|(other, _)| *other == at);
        if alone && edge.old == now {
            return Some(edge.new);
        }
        self.0.push((at, edge));
        let settled = self.settle(at, now)?;
        self.0.retain(|(other, _)| *other != at);
        Some(settled)
    }

    fn settle(&self, at: usize, now: u64) -> Option<u64> {
        let edges = self.0.iter().filter(|(other, _)| *other == at);
        let ends = edges.clone().map(|(_, edge)| (edge.new, 1));
        let begins = edges.map(|(_, edge)| (edge.old, -1));
        let mut balance: Vec<(u64, i64)> = vec![(now, 1)];
        for (value, by) in ends.chain(begins) {
            match balance.iter_mut().find(|(known, _)| *known == value) {
                Some((_, sum)) => *sum += by,
                None => balance.push((value, by)),
            }
        }
        balance.retain(|&(_, sum)| sum != 0);
        match balance[..] {
            [(value, 1)] => Some(value),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(old: u64, new: u64) -> Edge {
        Edge { old, new }
    }

    #[test]
    fn operations_in_any_order_have_equal_results() {
        let mut edges = Edges::default();
        assert_eq!(edges.add(8, edge(3, 4), 0), None);
        assert_eq!(edges.add(8, edge(1, 3), 0), None);
        assert!(edges.is_pending(&(8..9)) && !edges.is_pending(&(0..8)));
        assert_eq!(edges.add(16, edge(0, 7), 0), Some(7));
        assert_eq!(edges.add(8, edge(0, 1), 0), Some(4));
        assert!(edges.is_certain());
    }

    #[test]
    fn a_swap_back_is_certain_with_all_that_happened() {
        let mut edges = Edges::default();
        // Two adds from 0 to 1, with a swap to 0 between them.
        assert_eq!(edges.add(0, edge(0, 1), 0), Some(1));
        assert_eq!(edges.add(0, edge(0, 1), 1), None);
        assert_eq!(edges.add(0, edge(1, 0), 1), Some(1));
    }

    #[test]
    fn an_assignment_ends_what_came_before() {
        let mut edges = Edges::default();
        assert_eq!(edges.add(8, edge(3, 4), 0), None);
        edges.assign(&(0..8));
        assert!(!edges.is_certain());
        edges.assign(&(8..16));
        assert!(edges.is_certain());
        assert_eq!(edges.add(8, edge(9, 10), 9), Some(10));
    }
}
