//! Tests of every order, in sequence.

use super::*;
use CheckpointNumber as N;
use raidshmem_core::quantity::TileIndex;

use crate::owner::Owner;
use crate::references::Past;

const SECOND: Duration = Duration::from_secs(1);
const NODES: [u32; 3] = [0, 0, 2];

fn entry(len: u64) -> Entry {
    Entry { len, sum: 1 }
}

fn schedule(every: Every) -> Schedule {
    Schedule::new(every, StoreLayout::Shared)
}

fn files(pes: &[u32]) -> Result<Files, Failure> {
    let data = pes.iter().map(|&pe| (Pe(pe), entry(10 + u64::from(pe)))).collect();
    Ok(Files { data, raw: 30, next: 4, spill: 5, ..Files::default() })
}

#[test]
fn a_commit_follows_the_writes_of_all_nodes() {
    let mut plan = schedule(Every::Checkpoints(2));
    assert_eq!(plan.checkpoint(N(1), &NODES, SECOND), []);
    let write = |node, pes: &[u32]| {
        let pes = pes.iter().copied().map(Pe).collect();
        Order::Write { node, number: N(2), pes, base: None }
    };
    let orders = plan.checkpoint(N(2), &NODES, SECOND);
    assert_eq!(orders, [write(0, &[0, 1]), write(2, &[2])]);
    assert_eq!(plan.checkpoint(N(4), &NODES, SECOND), [], "one at a time");
    assert_eq!(plan.written(2, N(2), files(&[2])), []);
    assert_eq!(plan.written(2, N(2), files(&[2])), [], "said twice");
    assert_eq!(plan.committed(0, N(2), Ok(1), SECOND), [], "not ordered yet");
    let (data, parity) = (vec![entry(10), entry(11), entry(12)], Vec::new());
    let all = SetFiles { data, parity, raw: 60, bases: Vec::new() };
    let commit = Order::Commit { node: 0, number: N(2), files: all, set: 4 };
    assert_eq!(plan.written(0, N(2), files(&[0, 1])), [commit]);
    let sizes = Sizes { files: 33, raw: 60, spill: 10 };
    let stored = Order::Stored { number: N(2), set: 4, sizes, took: SECOND, last: false };
    assert_eq!(plan.committed(0, N(2), Ok(4), SECOND * 2), [stored]);
    assert_eq!(plan.checkpoint(N(3), &NODES, SECOND), []);
    assert_eq!(plan.checkpoint(N(5), &NODES, SECOND).len(), 2, "4 was missed");
}

/// With local disks all nodes commit, and a set that one may have committed stays.
#[test]
fn every_node_commits_on_its_own_disk_after_all_have_written() {
    let local = |pes: &[u32], next| {
        let files = files(pes).expect("they are written");
        Ok(Files { parity: files.data.clone(), next, ..files })
    };
    let mut plan = Schedule::new(Every::Checkpoints(1), StoreLayout::Local);
    plan.checkpoint(N(1), &NODES, SECOND);
    assert_eq!(plan.written(0, N(1), local(&[0, 1], 3)), []);
    let data = vec![entry(10), entry(11), entry(12)];
    let commit = |node| {
        let (data, parity) = (data.clone(), data.clone());
        let files = SetFiles { data, parity, raw: 60, bases: Vec::new() };
        Order::Commit { node, number: N(1), files, set: 7 }
    };
    assert_eq!(plan.written(2, N(1), local(&[2], 7)), [commit(0), commit(2)]);
    assert_eq!(plan.committed(2, N(1), Ok(7), SECOND * 2), []);
    let sizes = Sizes { files: 66, raw: 60, spill: 10 };
    let stored = Order::Stored { number: N(1), set: 8, sizes, took: SECOND, last: false };
    assert_eq!(plan.committed(0, N(1), Ok(8), SECOND * 2), [stored]);
    plan.checkpoint(N(2), &NODES, SECOND);
    plan.written(0, N(2), local(&[0, 1], 9));
    assert_eq!(plan.written(2, N(2), local(&[2], 9)).len(), 2);
    let orders = plan.committed(2, N(2), Err(Failure::Refused("gone".into())), SECOND);
    let words = "checkpoint 2 is not on disk: node 2: gone".to_owned();
    let told = |number, warning| Order::NotStored { number, warning };
    assert_eq!(orders, [told(N(2), Some(words))], "nothing is dropped");
    assert_eq!(plan.interrupted(), []);
    assert_eq!(plan.committed(0, N(2), Ok(9), SECOND), []);
    plan.checkpoint(N(3), &NODES, SECOND);
    plan.written(0, N(3), local(&[0, 1], 9));
    let orders = plan.written(2, N(3), files(&[2]));
    assert_eq!(orders[2..], [told(N(3), None)], "parity is missing, as was reported before");
}

#[test]
fn with_an_interval_the_first_set_is_written_after_it() {
    let mut plan = schedule(Every::Time(SECOND * 10));
    assert_eq!(plan.checkpoint(N(1), &NODES, SECOND * 9), []);
    assert_eq!(plan.checkpoint(N(2), &NODES, SECOND * 10).len(), 2);
    let failure = Failure::Refused("full".into());
    plan.written(0, N(2), Err(failure));
    assert_eq!(plan.checkpoint(N(3), &NODES, SECOND * 19), []);
    assert_eq!(plan.checkpoint(N(4), &NODES, SECOND * 20).len(), 2);
    plan.interrupted();
    assert_eq!(plan.checkpoint(N(5), &NODES, SECOND * 21).len(), 2, "tried again");
}

#[test]
fn a_loss_drops_the_set_without_a_message_and_a_disk_with_one() {
    let mut plan = schedule(Every::Checkpoints(1));
    plan.resumed(N(7), Duration::ZERO);
    assert_eq!(plan.checkpoint(N(7), &NODES, SECOND), [], "it is there");
    plan.checkpoint(N(8), &NODES, SECOND);
    let dropped = |number| [0, 2].map(|node| Order::Drop { node, number });
    assert_eq!(plan.interrupted(), dropped(N(8)));
    assert_eq!(plan.written(0, N(8), files(&[0, 1])), [], "it was dropped");
    plan.checkpoint(N(9), &NODES, SECOND);
    let full = || Err(Failure::Refused("full".into()));
    let orders = plan.written(2, N(9), full());
    assert_eq!(orders[..2], dropped(N(9)));
    let words = "checkpoint 9 is not on disk: node 2: full".to_owned();
    let told = |number, warning| Order::NotStored { number, warning };
    assert_eq!(orders[2..], [told(N(9), Some(words))]);
    plan.checkpoint(N(10), &NODES, SECOND);
    let orders = plan.written(2, N(10), full());
    assert_eq!((&orders[..2], &orders[2..]), (&dropped(N(10))[..], &[told(N(10), None)][..]));
}

#[test]
fn the_second_overtaken_set_in_a_row_is_reported() {
    let mut plan = schedule(Every::Checkpoints(10));
    let (mut tried, mut warned) = (Vec::new(), Vec::new());
    for number in (1..40).map(N) {
        if plan.checkpoint(number, &NODES, SECOND).is_empty() {
            continue;
        }
        tried.push(number.0);
        let orders = plan.written(0, number, Err(Failure::Overtaken));
        let is_warning = |order: &Order| matches!(order, Order::NotStored { warning: Some(_), .. });
        warned.extend(orders.iter().any(is_warning).then_some(number.0));
    }
    assert_eq!((tried, warned), (vec![10, 11, 21, 31], vec![11]));
}

#[test]
fn a_job_that_is_to_stop_does_so_with_the_next_set() {
    let mut plan = schedule(Every::Checkpoints(100));
    let nodes = [0];
    let ends = |plan: &mut Schedule, number| {
        let at = SECOND * number as u32;
        assert_eq!(plan.checkpoint(N(number), &nodes, at).len(), 1, "{number} is due");
        assert_eq!(plan.written(0, N(number), files(&[0])).len(), 1);
        let orders = plan.committed(0, N(number), Ok(1), SECOND);
        matches!(orders[..], [Order::Stored { last: true, .. }])
    };
    assert!(!ends(&mut plan, 100));
    assert!(plan.stop(N(120)) && !plan.stop(N(121)), "said twice");
    assert_eq!(plan.checkpoint(N(120), &nodes, SECOND * 120), []);
    assert!(ends(&mut plan, 121));
    // A set that was already in progress is older than the request.
    let mut plan = schedule(Every::Checkpoints(100));
    plan.checkpoint(N(100), &nodes, SECOND * 100);
    plan.stop(N(100));
    plan.written(0, N(100), files(&[0]));
    let orders = plan.committed(0, N(100), Ok(1), SECOND);
    assert!(matches!(orders[..], [Order::Stored { last: false, .. }]));
    assert!(ends(&mut plan, 101));
}

/// Simulates a job with a checkpoint every `tempo` and a message delay of `word`; returns for each
/// ordered set whether it was claimed before it was overwritten.
fn sets_of(tempo: Duration, word: Duration) -> Vec<bool> {
    let (mut plan, mut sets) = (schedule(Every::Checkpoints(1)), Vec::new());
    let (mut claimed, mut number) = (None, 0);
    while sets.len() < 20 {
        number += 1;
        let now = tempo * number as u32;
        for order in plan.checkpoint(N(number), &[0], now) {
            match order {
                Order::Claim { number, .. } => claimed = Some((number, now + word)),
                Order::Write { number, .. } => {
                    let (of, heard) = claimed.take().unwrap_or((number, now + word));
                    assert_eq!(of, number, "what was claimed is written");
                    let is_there = heard < tempo * (number.0 as u32 + 1);
                    sets.push(is_there);
                    let files = if is_there { files(&[0]) } else { Err(Failure::Late) };
                    let orders = plan.written(0, number, files);
                    assert!(
                        !orders.iter().any(|order| matches!(
                            order,
                            Order::NotStored { warning: Some(_), .. }
                        ))
                    );
                    plan.committed(0, number, Ok(1), now);
                }
                _ => {}
            }
        }
    }
    sets
}

/// However fast checkpoints come, at most a few sets are too late, and later sets are not.
#[test]
fn checkpoints_faster_than_messages_are_claimed_ahead() {
    let millis = Duration::from_millis;
    for (tempo, word, late) in [(1000, 5, 0), (30, 25, 0), (5, 12, 2), (1, 300, 5), (5, 800, 7)] {
        let sets = sets_of(millis(tempo), millis(word));
        let lost = sets.iter().filter(|&&is_there| !is_there).count();
        assert!(lost <= late, "{tempo} ms, word takes {word} ms: {sets:?}");
        assert!(sets.ends_with(&[true; 10]), "{tempo} ms, word takes {word} ms: {sets:?}");
    }
}

#[test]
fn a_loss_drops_claims_and_late_messages_are_reported() {
    let mut plan = schedule(Every::Checkpoints(1));
    plan.checkpoint(N(1), &NODES, SECOND);
    plan.written(0, N(1), Err(Failure::Late));
    let claim = |node, pes: &[u32], number| {
        let pes = pes.iter().copied().map(Pe).collect();
        Order::Claim { node, number: N(number), pes }
    };
    let now = SECOND + Duration::from_millis(1);
    assert_eq!(plan.checkpoint(N(2), &NODES, now), [claim(0, &[0, 1], 3), claim(2, &[2], 3)]);
    assert_eq!(plan.interrupted(), [0, 2].map(|node| Order::Drop { node, number: N(3) }));
    let is_warning = |order: &Order| matches!(order, Order::NotStored { warning: Some(_), .. });
    let mut is_told = |number: CheckpointNumber| {
        let now = SECOND + Duration::from_millis(number.0);
        let orders = plan.checkpoint(number, &NODES, now);
        let writes = orders.iter().find_map(|order| match order {
            Order::Write { number, .. } => Some(*number),
            _ => None,
        });
        let mut late = |number| plan.written(0, number, Err(Failure::Late));
        writes.is_some_and(|number| late(number).iter().any(is_warning))
    };
    assert!((2..).map(N).any(&mut is_told), "it is told once");
    assert!(plan.tempo.word >= LONGEST_WORD);
}

/// The set before is named only if it is on all disks, nothing was lost since, and the chain is
/// short.
#[test]
fn a_set_refers_to_the_one_before_unless_that_is_unsafe_or_the_chain_long() {
    let mut plan = schedule(Every::Checkpoints(1));
    let write = |plan: &mut Schedule, number: u64| {
        let orders = plan.checkpoint(N(number), &[0], SECOND * number as u32);
        let bases = orders.iter().map(|order| match order {
            Order::Write { base, .. } => *base,
            other => panic!("{other:?}"),
        });
        bases.collect::<Vec<_>>()
    };
    let commit = |plan: &mut Schedule, number: u64| {
        plan.written(0, N(number), files(&[0]));
        plan.committed(0, N(number), Ok(number), SECOND * number as u32);
    };
    let after = |number: u64| vec![Some(N(number))];
    for first in [1, 9] {
        assert_eq!(write(&mut plan, first), [None], "{first} begins a chain");
        commit(&mut plan, first);
        for number in first + 1..first + 8 {
            assert_eq!(write(&mut plan, number), after(number - 1));
            commit(&mut plan, number);
        }
    }
    write(&mut plan, 17);
    commit(&mut plan, 17);
    assert_eq!(write(&mut plan, 18), after(17));
    plan.written(0, N(18), Err(Failure::Refused("full".into())));
    assert_eq!(write(&mut plan, 19), [None], "18 is not on disk");
    commit(&mut plan, 19);
    plan.interrupted();
    assert_eq!(write(&mut plan, 20), [None], "a PE was lost");
    commit(&mut plan, 20);
    plan.resumed(N(5), SECOND * 30);
    assert_eq!(write(&mut plan, 32), [None], "the job fell back to disk");
    let bases = BTreeSet::from([N(9), N(4)]);
    let with_bases = Files { bases, ..files(&[0]).expect("they are written") };
    let orders = plan.written(0, N(32), Ok(with_bases));
    let Some(Order::Commit { files, .. }) = orders.first() else { panic!("{orders:?}") };
    assert_eq!(files.bases, [N(4), N(9)]);
}

/// A history of sets, of which some fail, lose a PE, or are what a job resumes from. Each set
/// changes some of the tiles of a file, often all that the sets before it had changed: these are
/// bases no longer, but count.
#[test]
fn of_eight_sets_in_a_row_one_is_whole_whatever_becomes_of_the_bases() {
    const TILES: usize = 3;
    let mut random = 1_u64;
    let mut below = |most: u64| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (random >> 33) % most
    };
    let (mut plan, mut past) = (schedule(Every::Checkpoints(1)), None::<Past>);
    let (mut chains, mut digests) = (BTreeMap::new(), [0; TILES]);
    for number in 1..4000_u64 {
        let now = SECOND * number as u32;
        digests[below(TILES as u64 - 1) as usize] = u128::from(number);
        let orders = plan.checkpoint(N(number), &[0], now);
        let [Order::Write { base, .. }] = orders[..] else { panic!("{orders:?}") };
        let owner = Owner { job: 7, number: N(number), pe: Pe(0), n_pes: 1, heap_len: 1 << 20 };
        let before = past.take().filter(|past| past.suits(base, &owner));
        let sources = |past: &Past| {
            let mut references = past.references(TILES);
            for (nth, place) in references.sources.iter_mut().enumerate() {
                *place = past.source(TileIndex::of(nth), digests[nth]).unwrap_or(0);
            }
            references
        };
        let references = before.as_ref().map(sources).unwrap_or_default();
        past = Some(Past::new(owner, entry(number), &references, &digests));
        match below(40) {
            0 => _ = plan.interrupted(),
            1 => {
                plan.interrupted();
                plan.resumed(N(number - 1), now);
            }
            2 => _ = plan.written(0, N(number), Err(Failure::Refused("full".into()))),
            _ => {
                let chain = base.map_or(0, |base| chains[&base]) + 1;
                assert!(chain <= 8, "set {number} is the {chain}th of its chain");
                assert!(references.bases.iter().all(|it| number - it.number.0 < 8), "{number}");
                chains.insert(N(number), chain);
                plan.written(0, N(number), files(&[0]));
                plan.committed(0, N(number), Ok(number), now);
            }
        }
    }
    assert!(chains.values().any(|&chain| chain == 8), "no chain was full");
}
