//! Replicas of logs: a PE on another node keeps one, so that it survives the loss of the owner's
//! node.
//!
//! Invariants: a PE keeps the replica of one log, on another node than that log's owner when it was
//! chosen. The newest replica of a log is complete: a substitute writes to that of its
//! predecessor, too.

use std::collections::BTreeMap;

use crate::mutant::Mutant;
use crate::quantity::{CheckpointNumber, Pe, ViewNumber};

/// The contents of a log or a replica, the newest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogExtent {
    /// The view that all had joined when they last rolled back, or began.
    pub era: ViewNumber,
    /// The checkpoint at which it begins.
    pub interval: CheckpointNumber,
    /// Bytes of records.
    pub bytes: u64,
}

/// Returns the PE with the newest replica: an older one may be left on another PE.
pub fn newest(replicas: impl IntoIterator<Item = (Pe, LogExtent)>) -> Option<Pe> {
    replicas.into_iter().max_by_key(|&(_, extent)| extent).map(|(pe, _)| pe)
}

/// Returns the PE whose replica has all of the log `own`, to which its owner, a substitute, writes
/// from now on.
pub fn continued(
    own: LogExtent,
    replicas: impl IntoIterator<Item = (Pe, LogExtent)>,
    breaks: impl Fn(Mutant) -> bool,
) -> Option<Pe> {
    let has_all = |&(_, extent): &(Pe, LogExtent)| {
        (extent.era, extent.interval) == (own.era, own.interval) && extent.bytes >= own.bytes
    };
    newest(replicas.into_iter().filter(has_all)).filter(|_| !breaks(Mutant::ReplicaLeft))
}

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

/// Returns true for each PE that no other PE maps, given the node of each: it is alone there, or
/// PEs do not map each other (`SHMEM_FT_MAP=0`).
///
/// Between hosts only such a PE has a replica of its log: every message that leaves a node would
/// else wait for the logs of all PEs that map each other.
pub fn unmapped(node_of: &[u32], maps: bool) -> Vec<bool> {
    let mut count = BTreeMap::new();
    node_of.iter().for_each(|node| *count.entry(node).or_insert(0) += 1);
    node_of.iter().map(|node| !maps || count[node] == 1).collect()
}

/// Returns the PE that holds the replica of the log of PE `me` between hosts, given the node of
/// each living PE: the next one on another node. `before` held it so far, if there was one.
pub fn holder(nodes: &[Option<u32>], me: Pe, before: Option<Pe>) -> Option<Pe> {
    let is_fit = |pe: &Pe| nodes[pe.at()].is_some_and(|node| Some(node) != nodes[me.at()]);
    let next = (1..nodes.len()).map(|by| Pe::of((me.at() + by) % nodes.len()));
    before.into_iter().chain(next).find(is_fit)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn extent(era: u64, interval: u64, bytes: u64) -> LogExtent {
        LogExtent { era: ViewNumber(era), interval: CheckpointNumber(interval), bytes }
    }

    #[test]
    fn the_replica_of_the_last_rollback_counts_and_only_a_complete_one_is_continued() {
        let left =
            [(Pe(1), extent(1, 4, 90)), (Pe(2), extent(3, 4, 10)), (Pe(3), extent(1, 3, 99))];
        assert_eq!(newest(left), Some(Pe(2)));
        assert_eq!(newest([]), None);
        let continued = |own| continued(own, left, |_| false);
        assert_eq!(continued(extent(3, 4, 10)), Some(Pe(2)));
        assert_eq!(continued(extent(1, 4, 80)), Some(Pe(1)));
        assert_eq!(continued(extent(3, 4, 11)), None);
        assert_eq!(continued(extent(3, 5, 0)), None);
    }

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
