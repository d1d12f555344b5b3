//! Reductions: the one tree in which elements are combined, and which PE does which part of it.
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
//! The tree depends on the number of PEs and on nothing else, and the lower operand is that of the
//! lower PEs. So all that is here gives the same bits, whichever of it is chosen for the size of
//! the vector or the place of the PEs:
//!
//! - [`merges`]: one PE has all operands, one after another (a stack of partial results)
//! - [`doubling`]: recursive doubling (Thakur, Rabenseifner, Gropp, 2005, section 4.1): the fewest
//!   messages. Partial results are left in slots of the partner, one for each round
//! - [`halving`]: reduce-scatter by recursive halving, allgather by recursive doubling (the same
//!   paper, section 4.4: Rabenseifner's): the fewest bytes. Neighbours first, as the tree wants it,
//!   so the part that a PE is left with has the bits of its number reversed
//! - [`fits`]: PEs of a node combine theirs first, then leaders of nodes do, by any of these
//!
//! There is no barrier before or after. A PE leaves a reduction only when all have come to it, and
//! only one PE signals each word, so it may signal the word for the next reduction before this one
//! reads it; slots, which cannot count, are there twice and used in turns. In a halving, PE `i`
//! reads from a partner only what the partner keeps until it has `i`'s part of the result, and `i`
//! signals that part after it has read. So there is no temporary memory at all.

use std::ops::Range;

use crate::mutant::{Mutant, breaks};

/// Which operand of a combination comes from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first one: it is that of lower PEs.
    Lower,
    /// The second one.
    Upper,
}

/// Where the partial result of a PE lies in a halving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialPlace {
    /// It is the PE's operand.
    Source,
    /// In the destination; its other parts are of no use yet.
    Dest,
}

/// What a PE does. Rounds name slots and words; in each of them one PE tells another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are what the texts speak of
pub enum ReductionStep {
    /// Puts the partial result into a slot of PE `to`, and tells it.
    Leave { to: usize, round: usize },
    /// Waits for the slot, and combines what is in it with the partial result.
    Combine { round: usize, side: Side },
    /// Waits for the slot, in which the result is.
    Adopt { round: usize },
    /// Tells PE `to` that it may read.
    Offer { to: usize, round: usize },
    /// Waits for the offer of PE `from` and combines elements of it with the own, into `Dest`.
    Read {
        from: usize,
        round: usize,
        range: Range<usize>,
        side: Side,
        theirs: PartialPlace,
        mine: PartialPlace,
    },
    /// Puts elements of the result into the destination of PE `to`, and tells it.
    Give { to: usize, round: usize, range: Range<usize> },
    /// Waits for what another one gives.
    Get { round: usize },
}

/// PEs as leaves of the tree: `2^log` of them, the first `pairs` made of two PEs.
#[derive(Clone, Copy)]
struct Leaves {
    log: usize,
    pairs: usize,
}

/// What a PE is in the tree.
enum Role {
    /// The lower one of a pair: it gives its operand to the upper one, and gets the result.
    Lower,
    /// It acts for a leaf: as the upper one of a pair, or alone.
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

    /// The PE that acts for a leaf.
    fn actor(self, leaf: usize) -> usize {
        if self.is_pair(leaf) { 2 * leaf + 1 } else { leaf + self.pairs }
    }

    /// Before the first and after the last round, the pairs do.
    fn last(self) -> usize {
        self.log + 1
    }

    /// The elements of `count` that a leaf is left with after `rounds` rounds of halving.
    fn kept(self, leaf: usize, rounds: usize, count: usize) -> Range<usize> {
        (0..rounds).fold(0..count, |range, round| {
            let middle = range.start + range.len() / 2;
            if leaf >> round & 1 == 0 { range.start..middle } else { middle..range.end }
        })
    }
}

/// How often the two topmost of a stack of partial results are combined once the operand of PE
/// `index` of `size` is on it; operands come in the order of the PEs, and in the end there is one.
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

/// Most partial results on the stack at a time; an operand that is combined at once does not count.
pub fn depth(size: usize) -> usize {
    let leaves = Leaves::of(size);
    (leaves.log + usize::from(leaves.pairs > 0)).max(1)
}

/// Rounds of a reduction at most: slots and words are numbered below it.
pub const fn rounds(size: usize) -> usize {
    size.ilog2() as usize + 2
}

/// The side of what PE of leaf `partner` has, for that of `leaf`.
fn side(partner: usize, leaf: usize) -> Side {
    if partner < leaf { Side::Lower } else { Side::Upper }
}

/// What PE `index` of `size` does in a recursive doubling. It has its operand before and the
/// result afterwards.
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

/// What PE `index` of `size` does with `count` elements in a halving and the doubling after it.
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

/// True if the tree over all PEs is one over nodes, each leaf of which is the tree over the PEs of
/// a node: as many PEs on each, a power of two, one after another. Then the bits are the same if
/// nodes reduce what they have first. `members` are the PEs of each node.
pub fn fits(members: &[Vec<usize>]) -> bool {
    let each = members.first().map_or(0, Vec::len);
    let in_order = members.iter().flatten().enumerate().all(|(index, pe)| index == *pe);
    each.is_power_of_two() && in_order && members.iter().all(|pes| pes.len() == each)
}

#[cfg(test)]
mod tests;
