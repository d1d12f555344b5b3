//! Tests of plans, of all small jobs and of random ones.

use super::*;

fn nodes(node_of: &[usize], size: Option<usize>, parity: usize) -> Result<Grouping, GroupError> {
    plan(node_of, &Domains::default(), size, parity)
}

fn text(node_of: &[usize], size: Option<usize>, parity: usize) -> String {
    nodes(node_of, size, parity).unwrap().to_string()
}

/// Counts neighbours on the same node, around the circle.
fn clashes(group: &Group, node_of: &[usize]) -> usize {
    let n = group.members.len();
    let node = |place: usize| node_of[group.members[place % n].at()];
    (0..n).filter(|&place| node(place) == node(place + 1)).count()
}

/// Checks every invariant of the module doc.
fn check(node_of: &[usize], size: Option<usize>, parity: usize) {
    let p = nodes(node_of, size, parity).unwrap();
    let n = node_of.len();
    let k = p.groups.len();
    assert_eq!(p, nodes(node_of, size, parity).unwrap());
    assert_eq!(p.of.len(), n);
    assert_eq!(p.groups.iter().map(|g| g.members.len()).sum::<usize>(), n);
    for (pe, &InGroup { group, place }) in p.of.iter().enumerate() {
        assert_eq!(p.groups[group].members[place], Pe::of(pe));
    }
    let Sizes { least: min, most: max } = p.sizes();
    assert!(max - min <= 1 && min > parity);
    let optimum = shares(0..n, node_of).values().map(|c| c.div_ceil(k)).max().unwrap();
    let at = &p.worst[0];
    assert_eq!(at.members, optimum, "{node_of:?} {size:?}");
    assert_eq!((p.survives(0), p.survives_all()), (optimum <= parity, optimum <= parity));
    let members = p.groups[at.group].members.iter().map(|pe| pe.at());
    assert_eq!(shares(members, node_of)[&at.domain], optimum);
    for group in &p.groups {
        let len = group.members.len();
        let most =
            shares(group.members.iter().map(|pe| pe.at()), node_of).into_values().max().unwrap();
        let unavoidable = if len == 1 { 1 } else { (2 * most).saturating_sub(len) };
        assert_eq!(clashes(group, node_of), unavoidable, "{group:?} {node_of:?}");
    }
}

#[test]
fn every_shape_of_small_jobs() {
    for n in 1..=7usize {
        for code in 0..4usize.pow(n as u32) {
            let node_of: Vec<usize> = (0..n).map(|i| code >> (2 * i) & 3).collect();
            for size in [None, Some(1), Some(2), Some(3)] {
                let smallest = n / (n / size.unwrap_or(8)).max(1);
                for parity in 0..smallest {
                    check(&node_of, size, parity);
                }
            }
        }
    }
}

#[test]
fn many_large_shapes() {
    let mut x = 1usize;
    let mut random = move |n: usize| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) % n
    };
    for _ in 0..500 {
        let (n, nodes) = (8 + random(300), 1 + random(40));
        let node_of: Vec<usize> = (0..n).map(|_| random(nodes) * 1000).collect();
        check(&node_of, None, 1 + random(4));
        check(&node_of, Some(5 + random(60)), 1 + random(4));
    }
}

#[test]
fn number_of_groups() {
    let groups = |n: usize, size| nodes(&vec![0; n], size, 1).unwrap().groups.len();
    let chosen = [2, 8, 9, 15, 16, 17, 64, 100].map(|n| groups(n, None));
    assert_eq!(chosen, [1, 1, 1, 1, 2, 2, 8, 12]);
    let asked = [(3, 4), (4, 4), (7, 4), (8, 4), (11, 4), (9, 2)].map(|(n, s)| groups(n, Some(s)));
    assert_eq!(asked, [1, 1, 1, 2, 2, 4]);
    assert_eq!(nodes(&[0; 6], Some(0), 0).unwrap().groups.len(), 6, "0 is taken as 1");
    let many = |parity| nodes(&[0; 64], None, parity).unwrap().groups.len();
    assert_eq!([1, 4, 5, 16].map(many), [8, 8, 6, 2], "a chosen size holds the parities");
}

#[test]
fn the_description_lists_survivable_losses() {
    let four_nodes = [0, 0, 1, 1, 2, 2, 3, 3];
    assert_eq!(
        text(&four_nodes, Some(4), 1),
        "2 groups of 4, parity 1: survives the loss of any 1 PE per group, and of any one node"
    );
    assert_eq!(
        text(&[0, 0, 0, 1, 1, 1, 1, 1], Some(4), 2),
        "2 groups of 4, parity 2: survives the loss of any 2 PEs per group, not of a whole \
         node: group 1 has 3 members in node1"
    );
    assert_eq!(
        text(&[7; 5], Some(2), 1),
        "2 groups of 2 to 3, parity 1: survives the loss of any 1 PE per group, not of a \
         whole node: group 0 has 3 members in node7"
    );
    assert!(text(&[0, 1, 2], None, 1).starts_with("1 group of 3, parity 1: "));
}

#[test]
fn refusals_have_numbers() {
    assert_eq!(nodes(&[], None, 1), Err(GroupError::NoPes));
    let refused = |n: usize, size, parity| {
        nodes(&(0..n).collect::<Vec<_>>(), size, parity).unwrap_err().to_string()
    };
    assert_eq!(
        refused(2, None, 2),
        "a group of 2 PEs cannot hold 2 parities: needs at least 3 PEs"
    );
    assert_eq!(refused(1, None, 1), "a group of 1 PE cannot hold 1 parity: needs at least 2 PEs");
    assert!(refused(9, Some(3), 3).starts_with("a group of 3 PEs cannot hold 3 parities"));
    assert!(nodes(&[0; 9], Some(4), 3).is_ok(), "n / 4 groups of 4 to 5");
    assert!(refused(4, None, usize::MAX).contains("cannot hold"));
}

#[test]
fn lookup() {
    let p = nodes(&[0, 0, 1, 1], Some(2), 1).unwrap();
    assert_eq!(p.group_of(Pe(3)).unwrap().members, [Pe(1), Pe(3)]);
    assert_eq!(p.group_of(Pe(4)), None);
}
