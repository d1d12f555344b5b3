//! A view from the perspective of a barrier: nodes, and the lowest PE of each.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use raidshmem_core::quantity::Pe;
use raidshmem_core::rounds::{Counter, counters};
use raidshmem_core::view::View;

use super::homes::Homes;

/// A view from the perspective of a barrier.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// The lowest PE of each node.
    pub leaders: Vec<Pe>,
    /// Index of this PE's node in `leaders`.
    pub index: usize,
    /// PEs of this PE's node.
    pub here: Vec<Pe>,
    /// Index of this PE in `here`.
    pub place: usize,
    /// The counters at which this PE meets them, from the lowest level up.
    pub counters: Vec<Counter>,
}

impl Nodes {
    /// Returns the nodes of `view` as PE `me` sees them; one node if there is no engine.
    pub fn of(view: &View, me: Pe, engine: bool, homes: &Homes) -> Nodes {
        let node = |pe: Pe| if engine { homes.node_in(view, pe) } else { 0 };
        let all = || Pe::all(view.pes.len());
        let mut seen = BTreeSet::new();
        let leaders: Vec<Pe> = all().filter(|&pe| seen.insert(node(pe))).collect();
        let index = leaders.iter().position(|&pe| node(pe) == node(me)).unwrap_or(0);
        let here: Vec<Pe> = all().filter(|&pe| node(pe) == node(me)).collect();
        let place = here.iter().position(|&pe| pe == me).unwrap_or(0);
        let counters = counters(place, here.len()).collect();
        Nodes { leaders, index, here, place, counters }
    }
}

/// Returns `pes` as (first, stride, number), if they are a progression.
pub fn progression(pes: &[Pe]) -> Option<(isize, isize, usize)> {
    let (first, last) = (pes.first()?.at(), pes.last()?.at());
    let stride = ((last - first) / (pes.len() - 1).max(1)).max(1);
    let fits = pes.iter().enumerate().all(|(index, pe)| pe.at() == first + index * stride);
    fits.then_some((first.cast_signed(), stride.cast_signed(), pes.len()))
}

#[cfg(test)]
mod tests {
    use raidshmem_core::quantity::ViewNumber;
    use raidshmem_core::view::Member;

    use super::*;

    #[test]
    fn pes_that_are_a_progression_are_seen_as_one() {
        assert_eq!(progression(&[Pe(4)]), Some((4, 1, 1)));
        assert_eq!(progression(&[Pe(2), Pe(3), Pe(4)]), Some((2, 1, 3)));
        assert_eq!(progression(&[Pe(1), Pe(4), Pe(7), Pe(10)]), Some((1, 3, 4)));
        for none in [vec![], vec![0, 1, 3], vec![0, 2, 3, 6]] {
            let none: Vec<Pe> = none.into_iter().map(Pe).collect();
            assert_eq!(progression(&none), None);
        }
    }

    #[test]
    fn every_pe_has_one_leader_and_all_agree_on_the_leaders() {
        let on = [2, 0, 2, 1, 0, 2];
        let view = View {
            local: false,
            number: ViewNumber(1),
            pes: on.iter().map(|&node| Member::first(node)).collect(),
        };
        let homes = Homes::default();
        for (me, node) in on.iter().enumerate() {
            let nodes = Nodes::of(&view, Pe::of(me), true, &homes);
            assert_eq!(nodes.leaders, [0, 1, 3].map(Pe));
            assert_eq!(on[nodes.leaders[nodes.index].at()], *node);
            assert_eq!(nodes.here[nodes.place], Pe::of(me));
            assert!(nodes.here.contains(&nodes.leaders[nodes.index]));
            assert!(nodes.here.iter().all(|&pe| on[pe.at()] == *node));
            let one = Nodes::of(&view, Pe::of(me), false, &homes);
            assert_eq!((one.leaders.as_slice(), one.here.len()), ([Pe(0)].as_slice(), on.len()));
        }
    }
}
