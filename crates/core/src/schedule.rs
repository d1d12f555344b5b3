//! The partners of a PE in a collective, and their order: functions of index and size.
//!
//! ```text
//! partners everybody with everybody       step s: i deals with i + s  (mod size)
//! share    who reduces which elements     | 0 0 0 | 1 1 1 | 2 2 | 3 2 | ..
//! ```
//!
//! In every step of `partners` all pairs are disjoint, so no PE's memory is read by two at a time
//! (the pairwise exchange). Shares are those of a reduce-scatter; the PE that reduced a share
//! writes it to all, which is the allgather. How PEs meet is in `pgas/rounds.rs`, since the barrier
//! over all PEs does so too.
//!
//! PEs that map each other need no more: each reads another's memory in place, and passing data on
//! gains nothing. Between nodes each step costs a message, and fewer or larger ones are cheaper.
//! There the *leaders* of nodes ([`nodes`]) act for their PEs and pass on blocks, each leader in
//! [`ScheduleRound`]s:
//!
//! ```text
//! tree     binomial: from the root to all             ceil(log2 size) rounds, all blocks
//! scatter  the same tree: each gets its own block     as many rounds, half the blocks in each
//! spread   each block to all, by dissemination        as many rounds, twice the blocks in each
//! ring     each block to all, to the next one         size - 1 rounds, one block in each
//! ```
//!
//! A long broadcast is a scatter and a spread. [`is_long`] says when a broadcast is long, and which
//! of spread and ring to take. Reductions, which combine what they pass on, are in [`reduction`];
//! the exchange of blocks between all in [`bruck`].
pub mod bruck;
pub mod reduction;

use std::ops::Range;

use crate::rounds::rounds;

/// All PEs, PE `index` of `size` itself first: with whom it deals in each step.
pub fn partners(index: usize, size: usize) -> impl Iterator<Item = usize> {
    (0..size).map(move |step| (index + step) % size)
}

/// The part of `count` elements that is for PE `index` of `size`.
pub fn share(count: usize, index: usize, size: usize) -> Range<usize> {
    let (each, rest) = (count / size, count % size);
    let first = index * each + index.min(rest);
    first..first + each + usize::from(index < rest)
}

/// Blocks `first, first + 1, ..` (`count` of them, modulo the number of all).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The first of them.
    pub first: usize,
    /// How many.
    pub count: usize,
}

impl Blocks {
    /// Their numbers, in order.
    pub fn numbers(self, size: usize) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |more| (self.first + more) % size)
    }
}

/// One round of passing blocks on, as one of the PEs sees it. It sends what it has before the
/// round, then waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScheduleRound {
    /// To whom it sends which blocks.
    pub send: Option<(usize, Blocks)>,
    /// From whom it gets which blocks.
    pub receive: Option<(usize, Blocks)>,
}

/// Distances of a binomial tree over `size`, from the root on.
fn distances_down(size: usize) -> impl Iterator<Item = usize> {
    let rounds = size.next_power_of_two().trailing_zeros();
    (0..rounds).rev().map(|round| 1 << round)
}

/// Steps of the binomial tree from `root`; `blocks` says which ones go to the PE that is so far
/// behind the root, over the distance of the round.
fn down(
    (index, root, size): (usize, usize, usize),
    blocks: impl Fn(usize, usize) -> Blocks,
) -> impl Iterator<Item = ScheduleRound> {
    let behind = (index + size - root) % size;
    let at = move |behind: usize| (root + behind) % size;
    distances_down(size).map(move |distance| {
        let child = behind.is_multiple_of(2 * distance) && behind + distance < size;
        let parent = behind % (2 * distance) == distance;
        ScheduleRound {
            send: child.then(|| (at(behind + distance), blocks(behind + distance, distance))),
            receive: parent.then(|| (at(behind - distance), blocks(behind, distance))),
        }
    })
}

/// All blocks from `root` to PE `index` of `size` and to all others (binomial tree).
pub fn tree(index: usize, root: usize, size: usize) -> impl Iterator<Item = ScheduleRound> {
    down((index, root, size), move |_, _| Blocks { first: 0, count: size })
}

/// Block `i` from `root` to PE `i`, for all (binomial tree).
pub fn scatter(index: usize, root: usize, size: usize) -> impl Iterator<Item = ScheduleRound> {
    let subtree = move |behind: usize, distance: usize| Blocks {
        first: (root + behind) % size,
        count: distance.min(size - behind),
    };
    down((index, root, size), subtree)
}

/// Block `i` from PE `i` to all, for all, the blocks doubling from round to round (dissemination).
pub fn spread(index: usize, size: usize) -> impl Iterator<Item = ScheduleRound> {
    rounds(index, size).enumerate().map(move |(round, peers)| {
        let distance = 1usize << round;
        let blocks = |first| Blocks { first, count: distance.min(size - distance) };
        // Towards lower ones, so that what a PE has are the blocks from its own on.
        ScheduleRound {
            send: Some((peers.from, blocks(index))),
            receive: Some((peers.to, blocks(peers.to))),
        }
    })
}

/// Block `i` from PE `i` to all, for all, one block in a round, from neighbour to neighbour.
pub fn ring(index: usize, size: usize) -> impl Iterator<Item = ScheduleRound> {
    (0..size - 1).map(move |round| {
        let block = |index: usize| Blocks { first: (index + size - round) % size, count: 1 };
        let before = (index + size - 1) % size;
        ScheduleRound {
            send: Some(((index + 1) % size, block(index))),
            receive: Some((before, block(before))),
        }
    })
}

/// Bytes that cost as much as the more messages in which they go once.
const LONG_BYTES: usize = 8 << 20;

/// Whether `bytes` in all, between `size` PEs, are better passed on by bandwidth than by latency.
///
/// A tree passes all on in `r = ceil(log2 size)` rounds, one after another; a scatter and a ring
/// pass on twice as much as there is, whatever the size. So `r - 2` times the bytes are what is
/// gained, on links that are the bottleneck. Where processors are (network namespaces of one
/// machine with 2 of them) nothing is gained up to 4 MiB: the tree takes 0.27 to 0.48 of the time
/// between 8 nodes and 0.39 to 0.99 between 4, see `benches/notes.md`.
pub fn is_long(bytes: usize, size: usize) -> bool {
    let rounds = size.next_power_of_two().trailing_zeros() as usize;
    bytes.saturating_mul(rounds.saturating_sub(2)) >= LONG_BYTES
}

/// PEs that act together, by the nodes that they are on, as one of them sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// The leader of each node, which acts for it.
    pub leaders: Vec<usize>,
    /// The PEs of each node, the lowest first.
    pub members: Vec<Vec<usize>>,
    /// Which of the nodes is the own.
    pub own: usize,
}

impl Nodes {
    /// True if PE `index`, which is on the own node, leads it.
    pub fn leads(&self, index: usize) -> bool {
        self.leaders[self.own] == index
    }
}

/// The nodes of PE `index` and of all others, of which `on` tells the node; in the order of their
/// lowest PEs, which lead them, but for `first`, which leads its own.
pub fn nodes(on: &[u32], index: usize, first: Option<usize>) -> Nodes {
    let mut number = std::collections::BTreeMap::new();
    let mut members: Vec<Vec<usize>> = Vec::new();
    for (pe, node) in on.iter().enumerate() {
        let at = *number.entry(node).or_insert(members.len());
        if at == members.len() {
            members.push(Vec::new());
        }
        members[at].push(pe);
    }
    let mut leaders: Vec<usize> = members.iter().map(|pes| pes[0]).collect();
    if let Some(first) = first {
        leaders[number[&on[first]]] = first;
    }
    Nodes { leaders, members, own: number[&on[index]] }
}

/// Every PE on a node of its own.
pub fn each_alone(size: usize, index: usize) -> Nodes {
    let members = (0..size).map(|pe| vec![pe]).collect();
    Nodes { leaders: (0..size).collect(), members, own: index }
}

/// PEs of a node from which on it pays that one acts for all of them.
const NODE_PES: usize = 4;

/// Whether it pays to act node by node. It takes four waits within a node (all are there, the
/// leader has what they give, they may copy, they have), in place of the `log2` of its PEs that
/// steps among all PEs take there: neighbours lie on one node, and a step between nodes costs no
/// more bytes there. Two PEs on each of 4 nodes of one machine take 0.16 to 0.94 of the time alone.
pub fn pays(nodes: &Nodes) -> bool {
    let pes: usize = nodes.members.iter().map(Vec::len).sum();
    pes >= NODE_PES * nodes.members.len()
}

#[cfg(test)]
mod tests;
