//! The partners of a PE in a collective, and their order: functions of index and size.
//!
//! ```text
//! partners all pairs of PEs               step s: i pairs with i + s  (mod size)
//! share    elements that each PE reduces  | 0 0 0 | 1 1 1 | 2 2 | 3 2 | ..
//! ```
//!
//! In every step of `partners` all pairs are disjoint, so no PE's memory is read by two PEs at a
//! time (pairwise exchange). Shares are those of a reduce-scatter; the PE that reduced a share
//! writes it to all PEs, which is the allgather. The barrier pattern is in [`crate::rounds`], which
//! the barrier over all PEs uses, too.
//!
//! PEs that map each other read the others' memory in place; forwarding pays only where it saves
//! them a meeting (small reductions and broadcasts). Between nodes each step costs a message, and
//! fewer or larger messages are cheaper. There the *leaders* of nodes ([`nodes`]) act for their PEs
//! and forward blocks, each leader in [`ScheduleRound`]s:
//!
//! ```text
//! tree     binomial tree, from the root to all        ceil(log2 size) rounds, all blocks
//! scatter  same tree; each PE gets its own block      as many rounds, half the blocks in each
//! spread   allgather by dissemination                 as many rounds, twice the blocks in each
//! ring     allgather around a ring                    size - 1 rounds, one block in each
//! ```
//!
//! A long broadcast is a scatter and a spread. [`is_long`] decides if a broadcast is long, and
//! between spread and ring. Reductions, which combine the data they forward, are in [`reduction`],
//! the all-to-all exchange of blocks in [`bruck`], small broadcasts of PEs that map each other in
//! [`kary`].
pub mod bruck;
pub mod kary;
pub mod reduction;

use std::ops::Range;

use crate::rounds::rounds;

/// Returns the partners of PE `index` of `size` in each step: all PEs, itself first.
pub fn partners(index: usize, size: usize) -> impl Iterator<Item = usize> {
    (0..size).map(move |step| (index + step) % size)
}

/// Returns the part of `count` elements that belongs to PE `index` of `size`.
pub fn share(count: usize, index: usize, size: usize) -> Range<usize> {
    let (each, rest) = (count / size, count % size);
    let first = index * each + index.min(rest);
    first..first + each + usize::from(index < rest)
}

/// Consecutive blocks `first, first + 1, ..` (`count` of them, modulo their total number).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Number of the first block.
    pub first: usize,
    /// Number of blocks.
    pub count: usize,
}

impl Blocks {
    /// Returns the block numbers, in order.
    pub fn numbers(self, size: usize) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |more| (self.first + more) % size)
    }
}

/// One round of forwarding blocks, from the perspective of one PE. It sends blocks that it had
/// before the round, then waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScheduleRound {
    /// Destination and blocks of the message that it sends.
    pub send: Option<(usize, Blocks)>,
    /// Source and blocks of the message that it receives.
    pub receive: Option<(usize, Blocks)>,
}

/// Returns the distances of a binomial tree over `size`, starting at the root.
fn distances_down(size: usize) -> impl Iterator<Item = usize> {
    let rounds = size.next_power_of_two().trailing_zeros();
    (0..rounds).rev().map(|round| 1 << round)
}

/// Returns the rounds of the binomial tree from `root`; `blocks` gives the blocks for the PE at an
/// offset from the root, sent over the distance of the round.
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

/// Returns the rounds of PE `index` of `size` that send all blocks from `root` to every PE
/// (binomial tree).
pub fn tree(index: usize, root: usize, size: usize) -> impl Iterator<Item = ScheduleRound> {
    down((index, root, size), move |_, _| Blocks { first: 0, count: size })
}

/// Returns the rounds that send block `i` from `root` to PE `i`, for all `i` (binomial tree).
pub fn scatter(index: usize, root: usize, size: usize) -> impl Iterator<Item = ScheduleRound> {
    let subtree = move |behind: usize, distance: usize| Blocks {
        first: (root + behind) % size,
        count: distance.min(size - behind),
    };
    down((index, root, size), subtree)
}

/// Returns the rounds that send block `i` from PE `i` to all PEs, for all `i`; the number of blocks
/// doubles in each round (dissemination).
pub fn spread(index: usize, size: usize) -> impl Iterator<Item = ScheduleRound> {
    rounds(index, size).enumerate().map(move |(round, peers)| {
        let distance = 1usize << round;
        let blocks = |first| Blocks { first, count: distance.min(size - distance) };
        // Sends towards lower indices, so that a PE has consecutive blocks, starting with its own.
        ScheduleRound {
            send: Some((peers.from, blocks(index))),
            receive: Some((peers.to, blocks(peers.to))),
        }
    })
}

/// Returns the rounds that send block `i` from PE `i` to all PEs, for all `i`; one block per round,
/// from neighbor to neighbor.
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

/// Number of bytes whose transfer costs as much as the additional messages of a long broadcast.
const LONG_BYTES: usize = 8 << 20;

/// True if `bytes` in total, between `size` PEs, should be forwarded for bandwidth, not for
/// latency.
///
/// A tree forwards everything in `r = ceil(log2 size)` rounds, one after another; a scatter and a
/// ring forward twice the data, regardless of size. So the saving is `r - 2` times the bytes, if
/// links are the bottleneck. If processors are (network namespaces on one machine with 2 of them),
/// there is no saving up to 4 MiB: the tree takes 0.27 to 0.48 of the time between 8 nodes and 0.39
/// to 0.99 between 4, see `benches/notes.md`.
pub fn is_long(bytes: usize, size: usize) -> bool {
    let rounds = size.next_power_of_two().trailing_zeros() as usize;
    bytes.saturating_mul(rounds.saturating_sub(2)) >= LONG_BYTES
}

/// PEs that act together, grouped by node, from the perspective of one PE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// Leader of each node, which acts for it.
    pub leaders: Vec<usize>,
    /// PEs of each node, in ascending order.
    pub members: Vec<Vec<usize>>,
    /// Index of this PE's node.
    pub own: usize,
}

impl Nodes {
    /// True if PE `index`, which is on this node, leads it.
    pub fn leads(&self, index: usize) -> bool {
        self.leaders[self.own] == index
    }
}

/// Returns the nodes as seen by PE `index`; `on` has the node of each PE. Nodes are in the order of
/// their lowest PEs. The lowest PE leads its node, except that `first` leads its own.
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

/// Returns the nodes for a placement of every PE on a node of its own.
pub fn each_locally(size: usize, index: usize) -> Nodes {
    let members = (0..size).map(|pe| vec![pe]).collect();
    Nodes { leaders: (0..size).collect(), members, own: index }
}

/// Minimum average number of PEs per node at which a leader per node pays off.
const NODE_PES: usize = 4;

/// True if acting node by node pays off. It takes four waits within a node: all PEs are there, the
/// leader has their data, they may copy, they have copied. Steps among all PEs take as many waits
/// there as the `log2` of the node's PEs, since neighbors are on one node, and their steps between
/// nodes transfer no more bytes. With two PEs on each of 4 nodes of one machine, steps among all
/// PEs need 0.16 to 0.94 of the time (`benches/notes.md`).
pub fn pays(nodes: &Nodes) -> bool {
    let pes: usize = nodes.members.iter().map(Vec::len).sum();
    pes >= NODE_PES * nodes.members.len()
}

#[cfg(test)]
mod tests;
