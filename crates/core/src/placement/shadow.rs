//! The choice of the shadow, the second copy of a PE's data: on another node, so that no single
//! loss takes both copies.
//!
//! All members are shifted by the same number of places, the smallest that puts every shadow on
//! another node; each PE is then the shadow of one other. If there is no such number, because a
//! node has more than half of the members, each member uses the next one on another node.
//!
//! Invariant: a shadow is another member, and on another node if any member is.

/// Returns the shadow of member `of`, where `nodes` has the node of each member. None if `of` is
/// the only member, or not a member.
pub fn shadow(nodes: &[u32], of: usize) -> Option<usize> {
    let (members, own) = (nodes.len(), *nodes.get(of)?);
    let shifted = |member: usize, by: usize| (member + by) % members;
    let parts = |by: &usize| (0..members).all(|at| nodes[at] != nodes[shifted(at, *by)]);
    let elsewhere = |by: &usize| nodes[shifted(of, *by)] != own;
    let by = (1..members).find(parts).or_else(|| (1..members).find(elsewhere));
    (members > 1).then(|| shifted(of, by.unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shadows(nodes: &[u32]) -> Vec<usize> {
        (0..nodes.len()).filter_map(|of| shadow(nodes, of)).collect()
    }

    #[test]
    fn every_member_is_the_shadow_of_one_where_nodes_have_as_many() {
        assert_eq!(shadows(&[0, 0, 1, 1, 2, 2]), [2, 3, 4, 5, 0, 1]);
        assert_eq!(shadows(&[4, 5, 6]), [1, 2, 0]);
        assert_eq!(shadows(&[0, 1, 0, 1]), [1, 2, 3, 0]);
        assert_eq!(shadows(&[7, 7, 7]), [1, 2, 0], "there is no other node");
        assert_eq!(shadows(&[0, 0, 0, 1]), [3, 3, 3, 0], "a node has more than half");
        assert_eq!((shadow(&[0], 0), shadow(&[], 0), shadow(&[0, 1], 2)), (None, None, None));
    }

    #[test]
    fn a_shadow_is_on_another_node_if_there_is_one() {
        for members in 2..=7u32 {
            for code in 0..3u32.pow(members) {
                let nodes: Vec<u32> = (0..members).map(|at| code / 3u32.pow(at) % 3).collect();
                let several = nodes.iter().any(|&node| node != nodes[0]);
                for (of, shadow) in shadows(&nodes).into_iter().enumerate() {
                    assert_ne!(of, shadow, "{nodes:?}");
                    assert_eq!(nodes[of] != nodes[shadow], several, "{of} of {nodes:?}");
                }
            }
        }
    }
}
