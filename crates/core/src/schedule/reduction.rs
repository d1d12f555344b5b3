//! Reductions: the single tree in which elements are combined, and the part of each PE in it.
//!
//! ```text
//! size 7     0   1   2   3   4   5   6      2^k + r PEs: the first 2r are r pairs
//!             \ /     \ /     \ /    |
//!              o       o       o     6      pairs and single PEs are the 2^k leaves
//!               \     /         \   /       of a balanced tree
//!                  o              o
//!                    \          /
//!                         o
//! ```
//!
//! The tree depends only on the number of PEs, and the lower operand is that of the lower PEs. So
//! all algorithms here give the same bits, and the choice may depend on the size of the vector or
//! the location of the PEs:
//!
//! - [`merges`]: one PE has all operands, one after another (a stack of partial results)
//! - [`doubling`]: recursive doubling (Thakur, Rabenseifner, Gropp, 2005, section 4.1), with the
//!   fewest messages. A PE leaves partial results in slots of its partner, one for each round
//! - [`halving`]: reduce-scatter by recursive halving, allgather by recursive doubling (the same
//!   paper, section 4.4: Rabenseifner's), with the fewest bytes. The tree requires neighbors first,
//!   so the index of the part that a PE ends with is the bit reversal of its number
//! - [`fits`]: PEs of a node combine their operands first, then the leaders of nodes, with any of
//!   these
//!
//! There is no barrier before or after. A PE leaves a reduction only when all have arrived, and
//! only one PE signals each word, so it may signal the word for the next reduction before the
//! receiver reads it for this one. Slots cannot count; there are two of each, used in turn. In a
//! halving, PE `i` reads from a partner only data that the partner keeps until it has `i`'s part of
//! the result, and `i` signals that part after it has read. So no temporary memory is needed.

use std::ops::Range;

use crate::mutant::{Mutant, breaks};

/// The side of the foreign operand in a combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first operand: it belongs to lower PEs.
    Lower,
    /// The second operand.
    Upper,
}

/// The location of a PE's partial result in a halving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialPlace {
    /// The PE's operand.
    Source,
    /// The destination; its other parts are not needed yet.
    Dest,
}

/// A step of a PE. Rounds identify slots and words; in each, one PE signals another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the variants' comments describe the fields
pub enum ReductionStep {
    /// Puts the partial result into a slot of PE `to`, and signals it.
    Leave { to: usize, round: usize },
    /// Waits for the slot, and combines its contents with the partial result.
    Combine { round: usize, side: Side },
    /// Waits for the slot, which contains the result.
    Adopt { round: usize },
    /// Signals PE `to` that it may read.
    Offer { to: usize, round: usize },
    /// Waits for the offer of PE `from` and combines its elements with the PE's own, into `Dest`.
    Read {
        from: usize,
        round: usize,
        range: Range<usize>,
        side: Side,
        theirs: PartialPlace,
        mine: PartialPlace,
    },
    /// Puts elements of the result into the destination of PE `to`, and signals it.
    Give { to: usize, round: usize, range: Range<usize> },
    /// Waits for elements given by another PE.
    Get { round: usize },
}

/// PEs as leaves of the tree: `2^log` leaves, of which the first `pairs` consist of two PEs.
#[derive(Clone, Copy)]
struct Leaves {
    log: usize,
    pairs: usize,
}

/// The role of a PE in the tree.
enum Role {
    /// The lower PE of a pair: it gives its operand to the upper one, and receives the result.
    Lower,
    /// A PE that acts for a leaf: the upper PE of a pair, or a single one.
    Leaf(usize),
}

impl Leaves {
    fn of(size: usize) -> Leaves {
        let log = size.ilog2() as usize;
        Leaves { log, pairs: size - (1 << log) }
    }

    fn role(self, index: usize) -> Role {
        match index {
            _ if index >= 2 * self.pairs => Role::Leaf(index - self.pairs),
            _ if index.is_multiple_of(2) => Role::Lower,
            _ => Role::Leaf(index / 2),
        }
    }

    fn is_pair(self, leaf: usize) -> bool {
        leaf < self.pairs
    }

    /// Returns the PE that acts for a leaf.
    fn actor(self, leaf: usize) -> usize {
        if self.is_pair(leaf) { 2 * leaf + 1 } else { leaf + self.pairs }
    }

    /// Returns the round of the pairs after the last one of the leaves; round 0 is theirs, too.
    fn last(self) -> usize {
        self.log + 1
    }

    /// Returns the elements of `count` that a leaf keeps after `rounds` rounds of halving.
    fn kept(self, leaf: usize, rounds: usize, count: usize) -> Range<usize> {
        (0..rounds).fold(0..count, |range, round| {
            let middle = range.start + range.len() / 2;
            if leaf >> round & 1 == 0 { range.start..middle } else { middle..range.end }
        })
    }
}

/// Returns the number of combinations of the two topmost partial results on the stack, after the
/// operand of PE `index` of `size` was pushed. Operands are pushed in the order of the PEs; one
/// result remains.
pub fn merges(index: usize, size: usize) -> usize {
    if breaks(Mutant::OrderOfThePes) {
        return usize::from(index > 0);
    }
    let leaves = Leaves::of(size);
    match leaves.role(index) {
        Role::Lower => 0,
        Role::Leaf(leaf) => usize::from(leaves.is_pair(leaf)) + leaf.trailing_ones() as usize,
    }
}

/// Returns the maximum size of the stack; an operand that is combined at once does not count.
pub fn depth(size: usize) -> usize {
    let leaves = Leaves::of(size);
    (leaves.log + usize::from(leaves.pairs > 0)).max(1)
}

/// Returns the maximum number of rounds of a reduction, which bounds the numbers of slots and
/// words.
pub const fn rounds(size: usize) -> usize {
    size.ilog2() as usize + 2
}

/// Returns the side of the data of leaf `partner`, relative to that of `leaf`.
fn side(partner: usize, leaf: usize) -> Side {
    if partner < leaf { Side::Lower } else { Side::Upper }
}

/// Returns the steps of PE `index` of `size` in a recursive doubling. The PE starts with its
/// operand and ends with the result.
pub fn doubling(index: usize, size: usize) -> impl Iterator<Item = ReductionStep> {
    let leaves = Leaves::of(size);
    let last = leaves.last();
    let (leaf, lower) = match leaves.role(index) {
        Role::Lower => (
            None,
            [
                ReductionStep::Leave { to: index + 1, round: 0 },
                ReductionStep::Adopt { round: last },
            ],
        ),
        Role::Leaf(leaf) => {
            let give = ReductionStep::Leave { to: index.wrapping_sub(1), round: last };
            (Some(leaf), [ReductionStep::Combine { round: 0, side: Side::Lower }, give])
        }
    };
    let [first, end] =
        lower.map(|op| Some(op).filter(|_| leaf.is_none_or(|leaf| leaves.is_pair(leaf))));
    let exchange = move |leaf: usize| {
        (0..leaves.log).flat_map(move |bit| {
            let (partner, round) = (leaf ^ 1 << bit, bit + 1);
            let leave = ReductionStep::Leave { to: leaves.actor(partner), round };
            [leave, ReductionStep::Combine { round, side: side(partner, leaf) }]
        })
    };
    first.into_iter().chain(leaf.into_iter().flat_map(exchange)).chain(end)
}

/// Returns the steps of PE `index` of `size` with `count` elements in a halving and the doubling
/// after it.
pub fn halving(index: usize, size: usize, count: usize) -> impl Iterator<Item = ReductionStep> {
    let leaves = Leaves::of(size);
    let last = leaves.last();
    let leaf = match leaves.role(index) {
        Role::Lower => None,
        Role::Leaf(leaf) => Some(leaf),
    };
    let pair = leaf.is_some_and(|leaf| leaves.is_pair(leaf));
    let lower =
        [ReductionStep::Offer { to: index + 1, round: 0 }, ReductionStep::Get { round: last }];
    let read = ReductionStep::Read {
        from: index.wrapping_sub(1),
        round: 0,
        range: 0..count,
        side: Side::Lower,
        theirs: PartialPlace::Source,
        mine: PartialPlace::Source,
    };
    let give = ReductionStep::Give { to: index.wrapping_sub(1), round: last, range: 0..count };
    let halve = move |leaf: usize| {
        (0..leaves.log).flat_map(move |bit| {
            let (partner, round) = (leaf ^ 1 << bit, bit + 1);
            let other = leaves.actor(partner);
            let at = |leaf| {
                if bit > 0 || leaves.is_pair(leaf) {
                    PartialPlace::Dest
                } else {
                    PartialPlace::Source
                }
            };
            let range = leaves.kept(leaf, bit + 1, count);
            let (theirs, mine, side) = (at(partner), at(leaf), side(partner, leaf));
            [
                ReductionStep::Offer { to: other, round },
                ReductionStep::Read { from: other, round, range, side, theirs, mine },
            ]
        })
    };
    let gather = move |leaf: usize| {
        (0..leaves.log).rev().flat_map(move |bit| {
            let (to, round) = (leaves.actor(leaf ^ 1 << bit), bit + 1);
            [
                ReductionStep::Give { to, round, range: leaves.kept(leaf, round, count) },
                ReductionStep::Get { round },
            ]
        })
    };
    let before = pair.then_some(read);
    let after = pair.then_some(give);
    let halves = leaf.into_iter().flat_map(halve);
    let gathers = leaf.into_iter().flat_map(gather);
    let lower = leaf.is_none().then_some(lower).into_iter().flatten();
    lower.chain(before).chain(halves).chain(gathers).chain(after)
}

/// True if the tree over all PEs is a tree over nodes whose leaves are the trees over the PEs of a
/// node: an equal number of PEs on each, a power of two, consecutive. Then nodes may reduce locally
/// first without changing any bit. `members` are the PEs of each node.
pub fn fits(members: &[Vec<usize>]) -> bool {
    let each = members.first().map_or(0, Vec::len);
    let in_order = members.iter().flatten().enumerate().all(|(index, pe)| index == *pe);
    each.is_power_of_two() && in_order && members.iter().all(|pes| pes.len() == each)
}

#[cfg(test)]
mod tests;
