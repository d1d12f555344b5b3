//! Property tests of placement: small topologies exhaustively, up to 10,000 PEs at random.
//!
//! Measures this thread's processor time, so that a busy machine fails nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::groups::{Grouping, InGroup, Sizes, plan};
use super::substitute::{JobLayout, SubstituteNode};
use super::{DomainKind, Domains, Source, coloring, crossing};
use crate::quantity::Pe;

/// Maximum processor time for one decision about 10,000 PEs.
const LIMIT: Duration = Duration::from_secs(1);

fn timed<T>(work: impl FnOnce() -> T) -> T {
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let before = now();
    let result = work();
    let took = now() - before;
    assert!(took < LIMIT, "{took:?}");
    result
}

/// A job: the node of each PE, and the domains of the nodes.
#[derive(Clone, Debug)]
struct Job {
    node_of: Vec<usize>,
    domains: Domains,
}

fn kind(name: &str, of: Vec<usize>) -> DomainKind {
    let domains = of.iter().max().map_or(0, |most| most + 1);
    let domains = (0..domains).map(|domain| format!("{name}{domain}")).collect();
    DomainKind { name: name.to_owned(), domains, of, source: Source::User }
}

impl Job {
    fn new(pes_of: &[usize], kinds: Vec<DomainKind>) -> Job {
        let node_of = pes_of.iter().enumerate().flat_map(|(node, &pes)| vec![node; pes]).collect();
        Job { node_of, domains: Domains::default().with_kinds(kinds) }
    }

    /// Counts the PEs in each domain of a kind.
    fn sizes(&self, kind: usize) -> BTreeMap<usize, usize> {
        let mut sizes = BTreeMap::new();
        for &node in &self.node_of {
            *sizes.entry(self.domains.of(kind, node)).or_insert(0) += 1;
        }
        sizes
    }

    /// Returns the largest part of a group in one domain of a kind, counted from the groups.
    fn worst(&self, plan: &Grouping, kind: usize) -> usize {
        let mut most = 0;
        for group in &plan.groups {
            let mut here = BTreeMap::new();
            for &pe in &group.members {
                let count = here.entry(self.domains.of(kind, self.node_of[pe.at()])).or_insert(0);
                *count += 1;
                most = most.max(*count);
            }
        }
        most
    }

    fn plan(&self, size: Option<usize>, parity: usize) -> Grouping {
        timed(|| plan(&self.node_of, &self.domains, size, parity)).unwrap()
    }

    /// Checks the properties of every plan, whatever the domains.
    fn check(&self, plan: &Grouping, size: Option<usize>) {
        let pes = self.node_of.len();
        assert_eq!(plan.groups.iter().map(|group| group.members.len()).sum::<usize>(), pes);
        for (pe, &InGroup { group, place }) in plan.of.iter().enumerate() {
            assert_eq!(plan.groups[group].members[place], Pe::of(pe));
        }
        let Sizes { least, most } = plan.sizes();
        assert!(most - least <= 1 && least > plan.parity);
        if let Some(size) = size {
            assert_eq!(plan.groups.len(), (pes / size).max(1), "the size asked for");
        }
        for kind in self.domains.kinds() {
            assert_eq!(plan.worst[kind].members, self.worst(plan, kind));
            assert_eq!(plan.survives(kind), self.worst(plan, kind) <= plan.parity);
        }
    }

    /// Checks the optimum, which plans for nested kinds reach.
    fn check_best(&self, plan: &Grouping) {
        for kind in self.domains.kinds() {
            let largest = self.sizes(kind).into_values().max().unwrap();
            assert_eq!(plan.worst[kind].members, largest.div_ceil(plan.groups.len()));
        }
    }

    /// Returns the members beyond the parity, summed over kinds, domains and groups.
    fn excess(&self, group_of: &[usize], parity: usize) -> usize {
        crossing::excess(&self.of_kind(), group_of, parity)
    }

    fn of_kind(&self) -> Vec<Vec<usize>> {
        let of = |kind| self.node_of.iter().map(|&node| self.domains.of(kind, node)).collect();
        self.domains.kinds().map(of).collect()
    }
}

/// Generates nodes of PEs in racks of server rooms, shuffled: up to `most` PEs.
fn nested(most: usize) -> impl Strategy<Value = Job> {
    let nodes = prop::collection::vec((0..12usize, 1..=64usize), 1..400);
    let cut = move |nodes: &Vec<(usize, usize)>| {
        let mut pes = 0;
        let within = |&(_, more): &(usize, usize)| {
            pes += more;
            pes <= most
        };
        let nodes: Vec<_> = nodes.iter().copied().take_while(within).collect();
        if nodes.is_empty() { vec![(0, 1)] } else { nodes }
    };
    (nodes, 1..4usize, any::<u64>()).prop_map(move |(nodes, rooms, seed)| {
        let nodes = cut(&nodes);
        let rack: Vec<usize> = nodes.iter().map(|node| node.0).collect();
        let room: Vec<usize> = rack.iter().map(|rack| rack % rooms).collect();
        let pes: Vec<usize> = nodes.iter().map(|node| node.1).collect();
        let mut job = Job::new(&pes, vec![kind("rack", rack), kind("room", room)]);
        shuffle(&mut job.node_of, seed);
        job
    })
}

/// Generates independent racks and power feeds.
fn crossed() -> impl Strategy<Value = Job> {
    let node = (0..6usize, 0..4usize, 1..=4usize);
    prop::collection::vec(node, 2..60).prop_map(|nodes| {
        let pes: Vec<usize> = nodes.iter().map(|node| node.2).collect();
        let rack = nodes.iter().map(|node| node.0).collect();
        let power = nodes.iter().map(|node| node.1).collect();
        Job::new(&pes, vec![kind("rack", rack), kind("power", power)])
    })
}

fn shuffle(list: &mut [usize], mut seed: u64) {
    for at in (1..list.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        list.swap(at, (seed >> 33) as usize % (at + 1));
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn nested_domains_are_spread_as_well_as_can_be(
        job in nested(10_000),
        size in prop::option::of(2..=64usize),
        parity in 1..=4usize,
    ) {
        let pes = job.node_of.len();
        prop_assume!(pes > parity && size.is_none_or(|size| pes / (pes / size).max(1) > parity));
        let plan = job.plan(size, parity);
        job.check(&plan, size);
        job.check_best(&plan);
        prop_assert_eq!(&plan, &job.plan(size, parity), "the same again");
    }

    /// Without a requested size, a loss is survived if smaller groups would survive it.
    #[test]
    fn a_size_that_is_chosen_survives_what_can_be(job in nested(2_000), parity in 1..=3usize) {
        let pes = job.node_of.len();
        prop_assume!(pes > parity);
        let plan = job.plan(None, parity);
        job.check(&plan, None);
        let most = pes / (parity + 1); // groups that are still larger than the parity
        for kind in job.domains.kinds() {
            let largest = job.sizes(kind).into_values().max().unwrap();
            prop_assert_eq!(plan.survives(kind), largest.div_ceil(most) <= parity);
        }
    }

    #[test]
    fn crossing_domains_are_no_worse_than_dealt(job in crossed(), parity in 1..=3usize) {
        let pes = job.node_of.len();
        prop_assume!(pes > 3 * parity);
        let plan = job.plan(Some(2 * parity), parity);
        job.check(&plan, Some(2 * parity));
        let group_of: Vec<usize> = plan.of.iter().map(|of| of.group).collect();
        let mut dealt: Vec<usize> = (0..pes).collect();
        dealt.sort_by_key(|&pe| (job.domains.of(1, job.node_of[pe]), job.node_of[pe], pe));
        let mut naive = vec![0; pes];
        dealt.iter().enumerate().for_each(|(turn, &pe)| naive[pe] = turn % plan.groups.len());
        prop_assert!(job.excess(&group_of, parity) <= job.excess(&naive, parity));
    }

    /// Two kinds that cross each other are both spread as well as either could be alone.
    #[test]
    fn two_crossing_kinds_are_both_spread_evenly(job in crossed(), groups in 1..40usize) {
        let of_kind = job.of_kind();
        let group_of = coloring::groups(&of_kind[1], &of_kind[2], groups);
        let all = vec![0; group_of.len()];
        for domain_of in [&of_kind[1], &of_kind[2], &all] {
            let mut members = BTreeMap::new();
            for (domain, group) in domain_of.iter().zip(&group_of) {
                *members.entry((domain, group)).or_insert(0) += 1;
            }
            for domain in domain_of {
                let pes = domain_of.iter().filter(|&other| other == domain).count();
                for group in 0..groups {
                    let here = members.get(&(domain, &group)).copied().unwrap_or(0);
                    prop_assert!((pes / groups..=pes.div_ceil(groups)).contains(&here));
                }
            }
        }
    }

    #[test]
    fn a_substitute_keeps_away_from_its_group(
        job in nested(400),
        lost in any::<prop::sample::Index>(),
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..40),
    ) {
        let pes = job.node_of.len();
        prop_assume!(pes > 2);
        let plan = job.plan(Some(2), 1);
        let group_of: Vec<usize> = plan.of.iter().map(|of| of.group).collect();
        let site = JobLayout { group_of, domains: job.domains.clone(), parity: 1 };
        let nodes = job.node_of.iter().max().unwrap() + 1;
        let places: Vec<SubstituteNode> = places
            .iter()
            .map(|(node, spare)| SubstituteNode { node: node.index(nodes), spare: *spare })
            .collect();
        let lost = lost.index(pes);
        let best = site.best(Pe::of(lost), &job.node_of, places.iter().copied()).unwrap();
        prop_assert!(places.contains(&best));
        let away = |place: &SubstituteNode, kind: usize| {
            let here = job.domains.of(kind, place.node);
            (0..pes).all(|pe| {
                let other = pe != lost && site.group_of[pe] == site.group_of[lost];
                !other || job.domains.of(kind, job.node_of[pe]) != here
            })
        };
        let all_away = |place: &&SubstituteNode| job.domains.kinds().all(|kind| away(place, kind));
        let clean: Vec<&SubstituteNode> = places.iter().filter(all_away).collect();
        if !clean.is_empty() {
            prop_assert!(clean.contains(&&best), "{best:?} of {clean:?}");
            let lost = job.node_of[lost];
            let near = |place: &SubstituteNode| job.domains.separation(lost, place.node);
            let alike = clean.iter().filter(|place| place.spare == best.spare);
            prop_assert!(alike.map(|place| near(place)).all(|other| other >= near(&best)));
            prop_assert!(best.spare || clean.iter().all(|place| !place.spare), "spares first");
        }
    }
}

/// Every job of up to six PEs, one per node, in up to three racks and up to three feeds that cross
/// them: an exhaustive search finds no better groups.
#[test]
fn small_crossing_domains_against_every_way_to_group() {
    let mut survivable = 0;
    for pes in 4..=6u32 {
        for code in 0..9usize.pow(pes) {
            let digit = |pe: u32| code / 9usize.pow(pe) % 9;
            let rack: Vec<usize> = (0..pes).map(|pe| digit(pe) % 3).collect();
            let power: Vec<usize> = (0..pes).map(|pe| digit(pe) / 3).collect();
            if !in_order(&rack) || !in_order(&power) {
                continue; // equivalent up to renaming
            }
            let kinds = vec![kind("rack", rack), kind("power", power)];
            let job = Job::new(&vec![1; pes as usize], kinds);
            let plan = job.plan(Some(2), 1);
            job.check(&plan, Some(2));
            let best = best_excess(&job, plan.groups.len());
            let group_of: Vec<usize> = plan.of.iter().map(|of| of.group).collect();
            assert_eq!(job.excess(&group_of, 1), best, "{:?}", job.domains);
            survivable += usize::from(best == 0);
        }
    }
    assert!(survivable > 100, "{survivable}");
}

/// Returns true if every number is at most one more than the largest before it.
fn in_order(of: &[usize]) -> bool {
    let mut next = 0;
    of.iter().all(|&domain| {
        let fits = domain <= next;
        next = next.max(domain + 1);
        fits
    })
}

/// Returns the least excess over all ways to form that many groups of even sizes, parity 1.
fn best_excess(job: &Job, groups: usize) -> usize {
    let (pes, of_kind) = (job.node_of.len(), job.of_kind());
    let even = |group_of: &[usize]| {
        let size = |group| group_of.iter().filter(|&&of| of == group).count();
        (0..groups).all(|group| [pes / groups, pes.div_ceil(groups)].contains(&size(group)))
    };
    (0..groups.pow(pes as u32))
        .map(|code| (0..pes as u32).map(|pe| code / groups.pow(pe) % groups).collect())
        .filter(|group_of: &Vec<usize>| even(group_of))
        .map(|group_of| crossing::excess(&of_kind, &group_of, 1))
        .min()
        .unwrap()
}

/// Plans for 10,000 PEs, or for one node in a hundred crossing domains, within the time limit.
#[test]
fn ten_thousand_pes_in_time() {
    let nodes = 625;
    let rack = (0..nodes).map(|node| node / 16).collect();
    let power = (0..nodes).map(|node| node * 7 % 20).collect();
    let row = (0..nodes).map(|node| node / 64).collect();
    let kinds = vec![kind("rack", rack), kind("power", power), kind("row", row)];
    let job = Job::new(&vec![16; nodes], kinds);
    for parity in [1, 2, 4] {
        job.check(&job.plan(None, parity), None);
        job.check(&job.plan(Some(64), parity), Some(64));
    }
    let plan = job.plan(None, 2);
    let group_of = plan.of.iter().map(|of| of.group).collect();
    let site = JobLayout { group_of, domains: job.domains.clone(), parity: 2 };
    let places = (0..nodes).map(|node| SubstituteNode { node, spare: false });
    timed(|| {
        Pe::all(16).for_each(|pe| assert!(site.best(pe, &job.node_of, places.clone()).is_some()))
    });
}

#[test]
fn survivable_losses_are_described_for_every_kind() {
    let racks = |of: &[usize]| vec![kind("rack", of.to_vec())];
    let said = |job: &Job, size, parity| job.plan(size, parity).to_string();
    let four = Job::new(&[1, 1, 1, 1], racks(&[0, 0, 1, 1]));
    assert_eq!(
        said(&four, None, 1),
        "2 groups of 2, parity 1: survives the loss of any 1 PE per group, and of any one node \
         or rack"
    );
    assert_eq!(
        said(&four, Some(4), 1),
        "1 group of 4, parity 1: survives the loss of any 1 PE per group, and of any one node, \
         not of a whole rack: group 0 has 2 members in rack rack0"
    );
    assert_eq!(
        said(&Job::new(&[2, 2], racks(&[0, 0])), Some(4), 1),
        "1 group of 4, parity 1: survives the loss of any 1 PE per group, not of a whole node: \
         group 0 has 2 members in node0, nor of a whole rack: group 0 has 4 members in rack rack0"
    );
    assert!(said(&four, None, 2).ends_with("and of any one node or rack"));
}

#[test]
fn a_substitute_stays_near() {
    let four = Job::new(&[1; 8], vec![kind("rack", vec![0, 0, 0, 0, 1, 1, 1, 1])]);
    // Groups {0, 4}, {1, 5}, {2, 6}, {3, 7}: one of each rack.
    let site = |parity| JobLayout {
        group_of: vec![0, 1, 2, 3, 0, 1, 2, 3],
        domains: four.domains.clone(),
        parity,
    };
    let go = |parity, lost, nodes: &[(usize, bool)]| {
        let places = nodes.iter().map(|&(node, spare)| SubstituteNode { node, spare });
        site(parity).best(Pe(lost), &four.node_of, places).unwrap().node
    };
    let all: Vec<(usize, bool)> = (0..8).map(|node| (node, false)).collect();
    assert_eq!(go(1, 2, &all), 2, "the same node");
    assert_eq!(go(1, 2, &[(0, false), (3, false), (6, false)]), 3, "the same rack, and nearer");
    assert_eq!(go(1, 2, &[(4, true), (0, false)]), 0, "a spare does not outweigh the group");
    assert_eq!(go(1, 2, &[(0, true), (1, false)]), 0, "but it does outweigh a step");
    assert_eq!(go(1, 2, &[(6, false), (7, false)]), 7, "not on the node of the group if it can");
    assert_eq!(go(2, 2, &[(6, false), (1, false)]), 1, "away even where the parity would bear it");
}

/// Found kinds spread groups as well as the others do, and neither refuse nor shrink them.
#[test]
fn found_domains_spread_but_are_not_asked_for() {
    let found = |of: Vec<usize>| DomainKind { source: Source::Firmware, ..kind("chassis", of) };
    let halves = Job::new(&[1; 8], vec![found(vec![0, 0, 0, 0, 1, 1, 1, 1])]);
    let groups = plan(&halves.node_of, &halves.domains, None, 1).expect("a plan");
    assert_eq!(groups.sizes(), Sizes { least: 8, most: 8 }, "as without them");
    assert!(groups.survives_all() && !groups.survives(1));
    let text = groups.to_string();
    assert!(text.contains("of any one node, not of a whole chassis: group 0 has 4"), "{text}");
    let racks = Job::new(&[1; 8], vec![kind("rack", vec![0, 0, 0, 0, 1, 1, 1, 1])]);
    let asked = plan(&racks.node_of, &racks.domains, None, 1).expect("a plan");
    assert_eq!(asked.sizes(), Sizes { least: 2, most: 2 }, "a rack that is named is survived");
    let four = Job::new(&[1; 8], vec![found(vec![0, 0, 1, 1, 2, 2, 3, 3])]);
    let groups = plan(&four.node_of, &four.domains, Some(4), 1).expect("a plan");
    assert!(groups.survives(0) && groups.survives(1), "groups of four lie over four chassis");
}
