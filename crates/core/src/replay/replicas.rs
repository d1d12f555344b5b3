//! Replicas of logs: a PE on another node keeps one, so that it survives the loss of the owner's
//! node.
//!
//! Invariants: a PE keeps the replica of one log; it is on another node than that log's owner.

use crate::quantity::Pe;

/// Returns the PE that keeps the replica of each PE's log, given the node of each PE. None if more
/// than half of the PEs are on one node.
pub fn holders(node_of: &[u32]) -> Option<Vec<Pe>> {
    let mut by_node: Vec<usize> = (0..node_of.len()).collect();
    by_node.sort_by_key(|&pe| node_of[pe]);
    let rows = by_node.chunk_by(|&one, &other| node_of[one] == node_of[other]);
    let most = rows.map(<[usize]>::len).max()?;
    if 2 * most > node_of.len() {
        return None;
    }
    // The PEs of a node are adjacent, so the PE `most` positions further on is on another node.
    let mut holders = vec![Pe(0); node_of.len()];
    for (at, &pe) in by_node.iter().enumerate() {
        holders[pe] = Pe::of(by_node[(at + most) % by_node.len()]);
    }
    Some(holders)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Covers every placement of up to six PEs on up to four nodes.
    #[test]
    fn each_log_has_a_replica_on_another_node_and_each_pe_keeps_one() {
        for n_pes in 1..=6u32 {
            for way in 0..4usize.pow(n_pes) {
                let node = |pe| (way / 4usize.pow(pe) % 4) as u32;
                let node_of: Vec<u32> = (0..n_pes).map(node).collect();
                let on = |node: u32| node_of.iter().filter(|&&at| at == node).count();
                let fits = (0..4).all(|node| 2 * on(node) <= node_of.len());
                let Some(holders) = holders(&node_of) else {
                    assert!(!fits, "{node_of:?}");
                    continue;
                };
                assert!(fits, "{node_of:?}");
                let apart = |(pe, holder): (usize, &Pe)| node_of[pe] != node_of[holder.at()];
                assert!(holders.iter().enumerate().all(apart), "{node_of:?}: {holders:?}");
                let all: BTreeSet<Pe> = holders.iter().copied().collect();
                assert_eq!(all.len(), node_of.len(), "{node_of:?}: {holders:?}");
            }
        }
    }
}
