//! The schedules for every size up to 64, in a simulation of PEs at any speed.

use super::*;

const LARGEST: usize = 64;

#[test]
fn in_every_step_all_deal_with_different_ones_and_in_the_end_with_all() {
    for size in 1..=LARGEST {
        let steps: Vec<Vec<usize>> = (0..size).map(|pe| partners(pe, size).collect()).collect();
        let permutation = |mut of: Vec<usize>| {
            of.sort_unstable();
            of.into_iter().eq(0..size)
        };
        for (pe, mine) in steps.iter().enumerate() {
            assert_eq!(mine[0], pe);
            assert!(permutation(mine.clone()));
        }
        for step in 0..size {
            assert!(permutation(steps.iter().map(|mine| mine[step]).collect()));
        }
    }
}

#[test]
fn shares_follow_each_other_cover_all_and_differ_by_one_at_most() {
    for size in 1..=LARGEST {
        for count in (0..200).chain([1 << 20, usize::MAX / 64]) {
            let mut next = 0;
            for index in 0..size {
                let share = share(count, index, size);
                assert_eq!(share.start, next);
                assert!(share.len().abs_diff(count / size) <= 1);
                next = share.end;
            }
            assert_eq!(next, count);
        }
    }
}

/// Runs the steps of all PEs, in an order of a fixed random generator; `has` are the initial blocks
/// of each PE. Returns the final blocks. Fails if a PE sends a block that it does not have,
/// receives a block twice or a message that it does not expect, or waits forever.
fn run(steps: &[Vec<ScheduleRound>], mut has: Vec<u64>) -> Vec<u64> {
    let size = steps.len();
    let mask = |blocks: Blocks| blocks.numbers(size).fold(0, |mask, block| mask | 1u64 << block);
    let mut random = 0x9e37_79b9_7f4a_7c15u64 ^ size as u64;
    let mut at = vec![(0, false); size]; // the round, and a flag for having sent in it
    let mut sent = std::collections::HashMap::new();
    let (mut done, mut idle) = (0, 0);
    while done < size {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let pe = ((random >> 33) as usize + idle) % size;
        idle += 1;
        assert!(idle < 1000 * size, "{size}: {at:?}");
        let (round, has_sent) = at[pe];
        let Some(step) = steps[pe].get(round) else { continue };
        if let (false, Some((to, blocks))) = (has_sent, step.send) {
            assert_eq!(mask(blocks) & !has[pe], 0, "PE {pe} of {size}, round {round}");
            assert_eq!(sent.insert((to, round), (pe, blocks)), None);
        }
        at[pe].1 = true;
        if let Some((from, blocks)) = step.receive {
            let Some(message) = sent.remove(&(pe, round)) else { continue };
            assert_eq!(message, (from, blocks), "PE {pe} of {size}, round {round}");
            assert_eq!(mask(blocks) & has[pe], 0, "twice: PE {pe} of {size}, round {round}");
            has[pe] |= mask(blocks);
        }
        at[pe] = (round + 1, false);
        idle = 0;
        done += usize::from(round + 1 == steps[pe].len());
    }
    assert!(sent.is_empty(), "no PE waits for {sent:?}");
    has
}

fn all(size: usize) -> u64 {
    u64::MAX >> (64 - size)
}

fn own(size: usize) -> Vec<u64> {
    (0..size).map(|pe| 1 << pe).collect()
}

fn of_all<S: Iterator<Item = ScheduleRound>>(
    size: usize,
    steps: impl Fn(usize) -> S,
) -> Vec<Vec<ScheduleRound>> {
    (0..size).map(|pe| steps(pe).collect()).collect()
}

#[test]
fn a_tree_brings_all_blocks_to_all_and_a_scatter_to_each_its_own() {
    for size in 2..=LARGEST {
        for root in 0..size {
            let begin: Vec<u64> =
                (0..size).map(|pe| if pe == root { all(size) } else { 0 }).collect();
            let end = run(&of_all(size, |pe| tree(pe, root, size)), begin.clone());
            assert!(end.iter().all(|has| *has == all(size)));
            let end = run(&of_all(size, |pe| scatter(pe, root, size)), begin);
            assert!(end.iter().enumerate().all(|(pe, has)| has & 1 << pe != 0), "{root} of {size}");
        }
    }
}

#[test]
fn spread_and_ring_bring_every_block_to_every_pe_once() {
    for size in 2..=LARGEST {
        let rounds = size.next_power_of_two().trailing_zeros() as usize;
        let (spread, ring) =
            (of_all(size, |pe| spread(pe, size)), of_all(size, |pe| ring(pe, size)));
        assert!(spread.iter().all(|steps| steps.len() == rounds));
        for steps in [spread, ring] {
            assert!(run(&steps, own(size)).into_iter().all(|has| has == all(size)));
        }
    }
}

#[test]
fn no_pe_sends_more_than_twice_the_whole_in_a_long_broadcast() {
    for size in 2..=LARGEST {
        for pe in 0..size {
            let steps = scatter(pe, 0, size).chain(spread(pe, size));
            let sent = steps.filter_map(|step| step.send).map(|(_, blocks)| blocks.count);
            assert!(sent.sum::<usize>() < 2 * size, "{pe} of {size}");
        }
    }
}

#[test]
fn every_pe_is_on_one_node_and_all_agree_on_the_nodes() {
    let on = |size: usize, by: usize| (0..size).map(move |pe| (7 * pe / by % 5) as u32);
    for (size, by) in (1..=LARGEST).flat_map(|size| (1..6).map(move |by| (size, by))) {
        let on: Vec<u32> = on(size, by).collect();
        for first in [None, Some(0), Some(size - 1), Some(size / 2)] {
            let seen: Vec<Nodes> = (0..size).map(|pe| nodes(&on, pe, first)).collect();
            for (pe, nodes) in seen.iter().enumerate() {
                assert_eq!((&nodes.leaders, &nodes.members), (&seen[0].leaders, &seen[0].members));
                assert!(nodes.members[nodes.own].contains(&pe));
                assert!(nodes.members[nodes.own].contains(&nodes.leaders[nodes.own]));
            }
            let mut pes = seen[0].members.concat();
            pes.sort_unstable();
            assert!(pes.into_iter().eq(0..size));
            assert!(first.is_none_or(|first| seen[0].leaders.contains(&first)));
        }
    }
}

#[test]
fn nodes_act_as_one_where_there_are_several_pes_on_each() {
    let on = |each: usize| (0..4 * each as u32).map(|pe| pe / each as u32).collect::<Vec<_>>();
    for (each, expected) in [(1, false), (2, false), (3, false), (4, true), (9, true)] {
        assert_eq!(pays(&nodes(&on(each), 0, None)), expected, "{each}");
    }
    for size in 1..=LARGEST {
        for index in 0..size {
            let alone: Vec<u32> = (0..size as u32).collect();
            assert_eq!(each_locally(size, index), nodes(&alone, index, None));
        }
    }
}
