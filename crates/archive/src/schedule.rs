//! Which checkpoint becomes a set, and when it is whole: what the launcher decides, pure.
//!
//! ```text
//! checkpoint due -> every node writes the files of its PEs -> all have -> commit -> a set
//!                                     |                          |          |
//!                                     +------ not done, or a PE was lost ---+-> dropped
//! ```
//!
//! A set that a checkpoint overtook is tried again with the next, once; so is one that a loss cut
//! short. Then the checkpoint that is due by the rule is waited for.
//!
//! One node commits in the folder of all; if each has its own disk, each commits there. Such a set
//! is there as soon as one has: a node that does not come to it has its files nevertheless.
//!
//! Invariants: one set at a time; a commit is ordered only after every node has said that its files
//! are on disk; a set that is dropped is dropped on every node that was told of it, and none is
//! dropped that some node may have committed on its own disk.

#![allow(missing_docs)] // the sentence of each order speaks of its fields

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use raidshmem_core::disk::{Entry, Failure, Files};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::settings::{Every, StoreLayout};

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// That node writes the files of these PEs.
    Write { node: u32, number: CheckpointNumber, pes: Vec<Pe> },
    /// That node makes the files of all, or its own, a set with this number or a higher one.
    Commit { node: u32, number: CheckpointNumber, data: Vec<Entry>, parity: Vec<Entry>, set: u64 },
    /// That node takes back what it wrote.
    Drop { node: u32, number: CheckpointNumber },
    /// The set is there; the job is to stop if it is the `last`.
    Stored { number: CheckpointNumber, set: u64, sizes: Sizes, took: Duration, last: bool },
    /// A line for people.
    Warn(String),
}

/// Bytes of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Of its files.
    pub files: u64,
    /// That were copied aside in memory before they were written.
    pub aside: u64,
}

/// A set under way.
#[derive(Debug)]
struct Writing {
    number: CheckpointNumber,
    begun: Duration,
    /// The set before.
    before: Option<(CheckpointNumber, Duration)>,
    nodes: BTreeSet<u32>,
    /// Those that still have to write.
    waiting: BTreeSet<u32>,
    /// Those that still have to commit, once that was ordered.
    committing: Option<BTreeSet<u32>>,
    data: BTreeMap<Pe, Entry>,
    parity: BTreeMap<Pe, Entry>,
    /// Bytes that were copied aside.
    aside: u64,
    /// The number of the set, as far as it is known.
    set: u64,
    n_pes: usize,
}

/// The decisions of one job.
#[derive(Debug)]
pub struct Schedule {
    every: Every,
    /// Each node has its own disk, and writes parity too.
    is_local: bool,
    last: Option<(CheckpointNumber, Duration)>,
    writing: Option<Writing>,
    /// Sets in a row that the next checkpoint overtook.
    overtaken: u32,
    /// The job stops with the first set after this checkpoint.
    stop: Option<CheckpointNumber>,
    /// A failure was told of since the last set.
    warned: bool,
}

impl Schedule {
    /// Nothing is written yet.
    pub fn new(every: Every, layout: StoreLayout) -> Schedule {
        let (is_local, last, writing) = (layout == StoreLayout::Local, None, None);
        Schedule { every, is_local, last, writing, overtaken: 0, stop: None, warned: false }
    }

    /// The job is to stop: the next checkpoint after `agreed` is due, and its set the last. False
    /// if that is known already.
    pub fn stop(&mut self, agreed: CheckpointNumber) -> bool {
        let is_new = self.stop.is_none();
        self.stop.get_or_insert(agreed);
        is_new
    }

    /// Whether the job is to stop.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    fn is_due(&self, number: CheckpointNumber, now: Duration) -> bool {
        match (self.every, self.last) {
            _ if self.stop.is_some_and(|agreed| number > agreed) => true,
            (Every::Checkpoints(count), None) => number.0 >= count,
            (Every::Checkpoints(count), Some((last, _))) => number.0 >= last.0 + count,
            (Every::Time(time), last) => now >= last.map_or(time, |(_, at)| at + time),
        }
    }

    /// The job goes on from that checkpoint, which is on disk.
    pub fn resumed(&mut self, number: CheckpointNumber) {
        self.last = Some((number, Duration::ZERO));
    }

    /// Checkpoint `number` was agreed; `node_of` says where the PEs are.
    pub fn checkpoint(
        &mut self,
        number: CheckpointNumber,
        node_of: &[u32],
        now: Duration,
    ) -> Vec<Order> {
        if self.writing.is_some() || !self.is_due(number, now) {
            return Vec::new();
        }
        let before = self.last.replace((number, now));
        let nodes: BTreeSet<u32> = node_of.iter().copied().collect();
        let (waiting, n_pes) = (nodes.clone(), node_of.len());
        let order = |&node: &u32| {
            let pes = Pe::all(n_pes).filter(|pe| node_of[pe.at()] == node).collect();
            Order::Write { node, number, pes }
        };
        let orders = nodes.iter().map(order).collect();
        self.writing = Some(Writing {
            number,
            begun: now,
            before,
            nodes,
            waiting,
            committing: None,
            data: BTreeMap::new(),
            parity: BTreeMap::new(),
            aside: 0,
            set: 1,
            n_pes,
        });
        orders
    }

    /// A node has written its files, or has not.
    pub fn written(
        &mut self,
        node: u32,
        number: CheckpointNumber,
        files: Result<Files, Failure>,
    ) -> Vec<Order> {
        let is_local = self.is_local;
        let Some(writing) = self.writing.as_mut().filter(|it| it.number == number) else {
            return Vec::new(); // it was dropped
        };
        let files = match files {
            Ok(files) => files,
            Err(failure) => return self.failed(node, failure),
        };
        if !writing.waiting.remove(&node) {
            return Vec::new();
        }
        writing.data.extend(files.data);
        writing.parity.extend(files.parity);
        writing.aside += files.aside;
        writing.set = writing.set.max(files.next);
        if !writing.waiting.is_empty() {
            return Vec::new();
        }
        let all = |entries: &BTreeMap<Pe, Entry>| entries.values().copied().collect::<Vec<Entry>>();
        let (data, parity, set) = (all(&writing.data), all(&writing.parity), writing.set);
        let expected = if is_local { writing.n_pes } else { 0 };
        if data.len() != writing.n_pes || parity.len() != expected {
            return self.failed(node, Failure::Refused("the file of a PE is missing".into()));
        }
        let most = if is_local { usize::MAX } else { 1 };
        let nodes: BTreeSet<u32> = writing.nodes.iter().copied().take(most).collect();
        writing.committing = Some(nodes.clone());
        let order = |node| {
            let (data, parity) = (data.clone(), parity.clone());
            Order::Commit { node, number, data, parity, set }
        };
        nodes.into_iter().map(order).collect()
    }

    /// A node that was to commit has, or has not.
    pub fn committed(
        &mut self,
        node: u32,
        number: CheckpointNumber,
        result: Result<u64, Failure>,
        now: Duration,
    ) -> Vec<Order> {
        let is_local = self.is_local;
        let writing = self.writing.as_mut().filter(|it| it.number == number);
        let Some((writing, committing)) = writing.and_then(|it| {
            let committing = it.committing.take()?;
            Some((it, committing))
        }) else {
            return Vec::new();
        };
        let set = match result {
            Ok(set) => set,
            Err(failure) if is_local => {
                self.writing = None; // others may have committed: nothing is taken back
                return self.told(number, node, failure).into_iter().collect();
            }
            Err(failure) => return self.failed(node, failure),
        };
        writing.set = writing.set.max(set);
        let left: BTreeSet<u32> = committing.into_iter().filter(|&other| other != node).collect();
        if !left.is_empty() {
            writing.committing = Some(left);
            return Vec::new();
        }
        let files = writing.data.values().chain(writing.parity.values());
        let sizes = Sizes { files: files.map(|entry| entry.len).sum(), aside: writing.aside };
        let set = writing.set;
        let took = now.saturating_sub(writing.begun);
        let last = self.stop.is_some_and(|agreed| number > agreed);
        (self.writing, self.overtaken, self.warned) = (None, 0, false);
        vec![Order::Stored { number, set, sizes, took, last }]
    }

    /// A PE was lost: memory is of no single checkpoint until all are back.
    pub fn interrupted(&mut self) -> Vec<Order> {
        self.give_up(true)
    }

    /// Drops the set under way; the next checkpoint is due if it is to be tried `again`.
    fn give_up(&mut self, again: bool) -> Vec<Order> {
        let is_local = self.is_local;
        // On disks of their own some may have committed, and the others do.
        let writing = self.writing.take().filter(|it| !is_local || it.committing.is_none());
        if let (true, Some(writing)) = (again, &writing) {
            self.last = writing.before;
        }
        let dropped = |it: Writing| {
            let number = it.number;
            it.nodes.into_iter().map(move |node| Order::Drop { node, number })
        };
        writing.into_iter().flat_map(dropped).collect()
    }

    fn failed(&mut self, node: u32, failure: Failure) -> Vec<Order> {
        let number = self.writing.as_ref().map_or(CheckpointNumber::START, |it| it.number);
        let mut orders = self.give_up(failure == Failure::Overtaken && self.overtaken == 0);
        orders.extend(self.told(number, node, failure));
        orders
    }

    /// The line on that, unless it was told already or is none of interest.
    fn told(&mut self, number: CheckpointNumber, node: u32, failure: Failure) -> Option<Order> {
        let words = match failure {
            Failure::Stopped => return None,
            Failure::Overtaken => {
                self.overtaken += 1;
                if self.overtaken != 2 {
                    return None;
                }
                "the next checkpoint overwrote what was not read yet, twice in a row; a larger \
                 SHMEM_FT_STORE_MEMORY, SHMEM_FT_STORE_RATE or SHMEM_FT_INTERVAL helps"
                    .to_owned()
            }
            Failure::Refused(why) => format!("node {node}: {why}"),
        };
        let is_new = !std::mem::replace(&mut self.warned, true);
        is_new.then(|| Order::Warn(format!("checkpoint {number} is not on disk: {words}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CheckpointNumber as N;

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
        Ok(Files { data, next: 4, aside: 5, ..Files::default() })
    }

    #[test]
    fn a_commit_comes_after_every_node_has_written() {
        let mut plan = schedule(Every::Checkpoints(2));
        assert_eq!(plan.checkpoint(N(1), &NODES, SECOND), []);
        let write = |node, pes: &[u32]| {
            let pes = pes.iter().copied().map(Pe).collect();
            Order::Write { node, number: N(2), pes }
        };
        let orders = plan.checkpoint(N(2), &NODES, SECOND);
        assert_eq!(orders, [write(0, &[0, 1]), write(2, &[2])]);
        assert_eq!(plan.checkpoint(N(4), &NODES, SECOND), [], "one at a time");
        assert_eq!(plan.written(2, N(2), files(&[2])), []);
        assert_eq!(plan.written(2, N(2), files(&[2])), [], "said twice");
        assert_eq!(plan.committed(0, N(2), Ok(1), SECOND), [], "not ordered yet");
        let (data, parity) = (vec![entry(10), entry(11), entry(12)], Vec::new());
        let commit = Order::Commit { node: 0, number: N(2), data, parity, set: 4 };
        assert_eq!(plan.written(0, N(2), files(&[0, 1])), [commit]);
        let sizes = Sizes { files: 33, aside: 10 };
        let stored = Order::Stored { number: N(2), set: 4, sizes, took: SECOND, last: false };
        assert_eq!(plan.committed(0, N(2), Ok(4), SECOND * 2), [stored]);
        assert_eq!(plan.checkpoint(N(3), &NODES, SECOND), []);
        assert_eq!(plan.checkpoint(N(5), &NODES, SECOND).len(), 2, "4 was missed");
    }

    /// On disks of their own all commit, and what one of them may have committed stays.
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
            Order::Commit { node, number: N(1), data, parity, set: 7 }
        };
        assert_eq!(plan.written(2, N(1), local(&[2], 7)), [commit(0), commit(2)]);
        assert_eq!(plan.committed(2, N(1), Ok(7), SECOND * 2), []);
        let sizes = Sizes { files: 66, aside: 10 };
        let stored = Order::Stored { number: N(1), set: 8, sizes, took: SECOND, last: false };
        assert_eq!(plan.committed(0, N(1), Ok(8), SECOND * 2), [stored]);
        plan.checkpoint(N(2), &NODES, SECOND);
        plan.written(0, N(2), local(&[0, 1], 9));
        assert_eq!(plan.written(2, N(2), local(&[2], 9)).len(), 2);
        let orders = plan.committed(2, N(2), Err(Failure::Refused("gone".into())), SECOND);
        let words = "checkpoint 2 is not on disk: node 2: gone".to_owned();
        assert_eq!(orders, [Order::Warn(words)], "nothing is dropped");
        assert_eq!(plan.interrupted(), []);
        assert_eq!(plan.committed(0, N(2), Ok(9), SECOND), []);
        plan.checkpoint(N(3), &NODES, SECOND);
        plan.written(0, N(3), local(&[0, 1], 9));
        let orders = plan.written(2, N(3), files(&[2]));
        assert_eq!(orders.len(), 2, "parity is missing, and was told of before: {orders:?}");
    }

    #[test]
    fn by_time_the_first_set_comes_after_that_time() {
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
    fn a_loss_drops_the_set_without_a_word_and_a_disk_with_one() {
        let mut plan = schedule(Every::Checkpoints(1));
        plan.resumed(N(7));
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
        assert_eq!(orders[2..], [Order::Warn(words)]);
        plan.checkpoint(N(10), &NODES, SECOND);
        assert_eq!(plan.written(2, N(10), full()), dropped(N(10)), "said once");
    }

    #[test]
    fn the_second_set_in_a_row_that_is_overtaken_is_told() {
        let mut plan = schedule(Every::Checkpoints(10));
        let (mut tried, mut warned) = (Vec::new(), Vec::new());
        for number in (1..40).map(N) {
            if plan.checkpoint(number, &NODES, SECOND).is_empty() {
                continue;
            }
            tried.push(number.0);
            let orders = plan.written(0, number, Err(Failure::Overtaken));
            let is_warning = |order: &Order| matches!(order, Order::Warn(_));
            warned.extend(orders.iter().any(is_warning).then_some(number.0));
        }
        assert_eq!((tried, warned), (vec![10, 11, 21, 31], vec![11]));
    }

    #[test]
    fn a_job_that_is_to_stop_does_so_with_the_next_set() {
        let mut plan = schedule(Every::Checkpoints(100));
        let nodes = [0];
        let ends = |plan: &mut Schedule, number| {
            assert_eq!(plan.checkpoint(N(number), &nodes, SECOND).len(), 1, "{number} is due");
            assert_eq!(plan.written(0, N(number), files(&[0])).len(), 1);
            let orders = plan.committed(0, N(number), Ok(1), SECOND);
            matches!(orders[..], [Order::Stored { last: true, .. }])
        };
        assert!(!ends(&mut plan, 100));
        assert!(plan.stop(N(120)) && !plan.stop(N(121)), "said twice");
        assert_eq!(plan.checkpoint(N(120), &nodes, SECOND), []);
        assert!(ends(&mut plan, 121));
        // A set that was under way is older than the word.
        let mut plan = schedule(Every::Checkpoints(100));
        plan.checkpoint(N(100), &nodes, SECOND);
        plan.stop(N(100));
        plan.written(0, N(100), files(&[0]));
        let orders = plan.committed(0, N(100), Ok(1), SECOND);
        assert!(matches!(orders[..], [Order::Stored { last: false, .. }]));
        assert!(ends(&mut plan, 101));
    }
}
