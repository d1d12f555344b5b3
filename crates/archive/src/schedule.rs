//! The launcher's decisions on which checkpoint becomes a set, and when it is whole; pure.
//!
//! ```text
//! checkpoint due -> every node writes the files of its PEs -> all done -> commit -> a set
//!      |                ^            |                          |          |
//!      +---> claimed ---+            +------ failed, or a PE was lost -----+-> dropped
//! ```
//!
//! If checkpoints come faster than messages about them reach the agents, a future one is *claimed*:
//! PEs spill it when the next would overwrite it, and it is written once it exists. The distance to
//! the claimed checkpoint is the number of checkpoints that were recently made within the message
//! delay; the assumed delay doubles whenever a message came too late.
//!
//! A set that was abandoned because the spill was full is retried once, with the next checkpoint;
//! so is one that a loss interrupted. After that the schedule waits for the next checkpoint that is
//! due.
//!
//! One node commits in a common folder; if each has its own disk, each commits there. Such a set
//! exists as soon as one node has committed: a node that does not get to commit still has its
//! files.
//!
//! A set refers to the one before it for what has not changed, unless that failed, a PE was lost
//! since, or the chain of sets that refer to one another is at its longest.
//!
//! Invariants: one set or claim at a time; a commit is ordered only after every node has reported
//! that its files are on disk; a set that is dropped is dropped on every node that knows of it, and
//! a set that a node may have committed on its own disk is never dropped.

#![allow(missing_docs)] // the comment of each order covers its fields

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use raidshmem_core::disk::{Entry, Failure, Files};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::settings::{Every, StoreLayout};

use crate::references::BASES_MAX;

/// An order to a node, or a result for the launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// A claim on a future checkpoint of these PEs.
    Claim { node: u32, number: CheckpointNumber, pes: Vec<Pe> },
    /// A write of the files of these PEs, of which unchanged tiles refer to the set of `base`.
    Write { node: u32, number: CheckpointNumber, pes: Vec<Pe>, base: Option<CheckpointNumber> },
    /// A commit of the files of all PEs, or of the node's own, as a set numbered `set` or higher.
    Commit { node: u32, number: CheckpointNumber, files: SetFiles, set: u64 },
    /// A deletion of the files that the node wrote.
    Drop { node: u32, number: CheckpointNumber },
    /// A complete set; the job must stop if it is the `last`.
    Stored { number: CheckpointNumber, set: u64, sizes: Sizes, took: Duration, last: bool },
    /// A set that could not be completed, with a warning to print if there is something new to say.
    NotStored { number: CheckpointNumber, warning: Option<String> },
}

/// The files of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetFiles {
    pub data: Vec<Entry>,
    pub parity: Vec<Entry>,
    /// Their size with all their tiles, without compression, in bytes.
    pub raw: u64,
    /// The checkpoints that they refer to, in order.
    pub bases: Vec<CheckpointNumber>,
}

/// Sizes of a set in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Size of its files.
    pub files: u64,
    /// Size of its files without compression.
    pub raw: u64,
    /// Bytes that were spilled before they were written.
    pub spill: u64,
}

/// The initial estimate of the delay until every agent knows of a checkpoint.
const WORD: Duration = Duration::from_millis(20);
/// The shortest time over which checkpoints are counted.
const SHORTEST: Duration = Duration::from_millis(1);
/// The longest delay assumed; a longer one has another cause.
const LONGEST_WORD: Duration = Duration::from_secs(10);

/// The rate at which checkpoints come.
#[derive(Debug)]
struct Tempo {
    /// The message delay.
    word: Duration,
    /// The checkpoint from which they are counted, and its time.
    from: (CheckpointNumber, Duration),
    /// The last checkpoint, and its time.
    last: (CheckpointNumber, Duration),
    /// The number of checkpoints within the message delay.
    ahead: u64,
}

impl Tempo {
    fn new() -> Tempo {
        let start = (CheckpointNumber::START, Duration::ZERO);
        Tempo { word: WORD, from: start, last: start, ahead: 0 }
    }

    /// Returns how many checkpoints come within the message delay, at the rate since `from`.
    fn within_word(&self) -> u64 {
        let (last, from) = (self.last.0.program(), self.from.0.program());
        let made = last.saturating_sub(from) as f64;
        let passed = self.last.1.saturating_sub(self.from.1);
        let times = self.word.as_secs_f64() / passed.max(SHORTEST).as_secs_f64();
        (made * times) as u64
    }

    /// Records that checkpoint `number` was made by `now`.
    fn hear(&mut self, number: CheckpointNumber, now: Duration) {
        self.last = (number, now);
        let (from, since) = self.from;
        if now.saturating_sub(since) >= self.word || number < from {
            self.ahead = self.within_word();
            self.from = self.last;
        }
    }

    /// Records that a message came too late.
    fn late(&mut self) {
        self.word = (self.word * 2).min(LONGEST_WORD);
        self.ahead = self.ahead.saturating_mul(2).max(self.within_word()).max(1);
    }
}

/// A checkpoint that is claimed.
#[derive(Debug)]
struct Claimed {
    number: CheckpointNumber,
    node_of: Vec<u32>,
}

/// A set in progress.
#[derive(Debug)]
struct Writing {
    number: CheckpointNumber,
    begun: Duration,
    /// The previous set.
    before: Option<(CheckpointNumber, Duration)>,
    nodes: BTreeSet<u32>,
    /// Nodes that have not finished writing.
    waiting: BTreeSet<u32>,
    /// Nodes that have not committed, once that was ordered.
    committing: Option<BTreeSet<u32>>,
    data: BTreeMap<Pe, Entry>,
    parity: BTreeMap<Pe, Entry>,
    /// The size of the files without compression, in bytes.
    raw: u64,
    /// Bytes that were spilled.
    spill: u64,
    /// The checkpoints that the files refer to.
    bases: BTreeSet<CheckpointNumber>,
    /// The length of the chain that ends with this set.
    chain: usize,
    /// The number of the set, as far as it is known.
    set: u64,
    n_pes: usize,
}

/// The decisions of one job.
#[derive(Debug)]
pub struct Schedule {
    every: Every,
    /// True if each node has its own disk, and writes parity too.
    is_local: bool,
    last: Option<(CheckpointNumber, Duration)>,
    /// The set that the next may refer to, and the length of the chain that ends with it.
    base: Option<(CheckpointNumber, usize)>,
    tempo: Tempo,
    claimed: Option<Claimed>,
    writing: Option<Writing>,
    /// Number of consecutive sets that were abandoned because the spill was full.
    overtaken: u32,
    /// The job stops with the first set after this checkpoint.
    stop: Option<CheckpointNumber>,
    /// True if a failure was reported since the last set.
    warned: bool,
}

impl Schedule {
    /// Makes a schedule with nothing written.
    pub fn new(every: Every, layout: StoreLayout) -> Schedule {
        Schedule {
            every,
            is_local: layout == StoreLayout::Local,
            last: None,
            base: None,
            tempo: Tempo::new(),
            claimed: None,
            writing: None,
            overtaken: 0,
            stop: None,
            warned: false,
        }
    }

    /// Requests the job to stop: the next checkpoint after `agreed` is due, and its set the last.
    /// Returns false if that was requested before.
    pub fn stop(&mut self, agreed: CheckpointNumber) -> bool {
        let is_new = self.stop.is_none();
        self.stop.get_or_insert(agreed);
        is_new
    }

    /// Returns true if the job should stop.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    fn is_due(&self, number: CheckpointNumber, now: Duration) -> bool {
        match (self.every, self.last) {
            _ if self.stop.is_some_and(|agreed| number > agreed) => true,
            (Every::Checkpoints(count), None) => number.program() >= count,
            (Every::Checkpoints(count), Some((last, _))) => {
                number.program() >= last.program() + count
            }
            (Every::Time(time), last) => now >= last.map_or(time, |(_, at)| at + time),
        }
    }

    /// Records that the job begins from that checkpoint, which is on disk, at `now`.
    pub fn resumed(&mut self, number: CheckpointNumber, now: Duration) {
        (self.last, self.base) = (Some((number, now)), None);
        self.tempo.from = (number, now);
        self.stop = self.stop.map(|agreed| agreed.min(number));
    }

    /// Records that checkpoint `number` was agreed; `node_of` holds the node of each PE.
    pub fn checkpoint(
        &mut self,
        number: CheckpointNumber,
        node_of: &[u32],
        now: Duration,
    ) -> Vec<Order> {
        self.tempo.hear(number, now);
        match self.claimed.take_if(|claimed| claimed.number <= number) {
            Some(Claimed { number, node_of }) => return self.write(number, &node_of, now),
            None if self.writing.is_some() || self.claimed.is_some() => return Vec::new(),
            None if !self.is_due(number, now) => return Vec::new(),
            None if self.tempo.ahead == 0 => return self.write(number, node_of, now),
            None => {}
        }
        let (number, node_of) = (CheckpointNumber(number.0 + self.tempo.ahead), node_of.to_vec());
        let orders = of_nodes(&node_of, |node, pes| Order::Claim { node, number, pes });
        self.claimed = Some(Claimed { number, node_of });
        orders
    }

    /// Orders the nodes to write that checkpoint.
    fn write(&mut self, number: CheckpointNumber, node_of: &[u32], now: Duration) -> Vec<Order> {
        let before = self.last.replace((number, now));
        // Until this set is complete, the next is whole.
        let base = self.base.take().filter(|&(_, chain)| chain <= BASES_MAX);
        let (base, chain) = base.unzip();
        let nodes: BTreeSet<u32> = node_of.iter().copied().collect();
        self.writing = Some(Writing {
            number,
            begun: now,
            before,
            waiting: nodes.clone(),
            nodes,
            committing: None,
            data: BTreeMap::new(),
            parity: BTreeMap::new(),
            raw: 0,
            spill: 0,
            bases: BTreeSet::new(),
            chain: chain.unwrap_or(0) + 1,
            set: 1,
            n_pes: node_of.len(),
        });
        of_nodes(node_of, |node, pes| Order::Write { node, number, pes, base })
    }

    /// Records the result of writing a node's files.
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
        writing.raw = writing.raw.saturating_add(files.raw);
        writing.spill = writing.spill.saturating_add(files.spill);
        writing.bases.extend(files.bases);
        writing.set = writing.set.max(files.next);
        if !writing.waiting.is_empty() {
            return Vec::new();
        }
        let all = |entries: &BTreeMap<Pe, Entry>| entries.values().copied().collect::<Vec<Entry>>();
        let (data, parity, raw) = (all(&writing.data), all(&writing.parity), writing.raw);
        let bases = writing.bases.iter().copied().collect();
        let (files, set) = (SetFiles { data, parity, raw, bases }, writing.set);
        let expected = if is_local { writing.n_pes } else { 0 };
        if files.data.len() != writing.n_pes || files.parity.len() != expected {
            return self.failed(node, Failure::Refused("the file of a PE is missing".into()));
        }
        let most = if is_local { usize::MAX } else { 1 };
        let nodes: BTreeSet<u32> = writing.nodes.iter().copied().take(most).collect();
        writing.committing = Some(nodes.clone());
        let order = |node| Order::Commit { node, number, files: files.clone(), set };
        nodes.into_iter().map(order).collect()
    }

    /// Records the result of committing on a node.
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
                self.writing = None; // other nodes may have committed: nothing is dropped
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
        let files = files.map(|entry| entry.len).sum();
        let sizes = Sizes { files, raw: writing.raw, spill: writing.spill };
        let set = writing.set;
        self.base = Some((number, writing.chain));
        let took = now.saturating_sub(writing.begun);
        let last = self.stop.is_some_and(|agreed| number > agreed);
        (self.writing, self.overtaken, self.warned) = (None, 0, false);
        vec![Order::Stored { number, set, sizes, took, last }]
    }

    /// Records that a PE was lost: memory then holds no single checkpoint until all PEs have
    /// restarted.
    pub fn interrupted(&mut self) -> Vec<Order> {
        self.base = None;
        match self.claimed.take() {
            Some(Claimed { number, node_of }) => {
                of_nodes(&node_of, |node, _| Order::Drop { node, number })
            }
            None => self.give_up(true),
        }
    }

    /// Drops the set in progress; the next checkpoint is due if it should be tried `again`.
    fn give_up(&mut self, again: bool) -> Vec<Order> {
        let is_local = self.is_local;
        // With local disks some nodes may have committed, and the others will.
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
        let again = match failure {
            Failure::Late => true,
            Failure::Overtaken => self.overtaken == 0,
            Failure::Stopped | Failure::Refused(_) => false,
        };
        let mut orders = self.give_up(again);
        orders.extend(self.told(number, node, failure));
        orders
    }

    /// Returns the report of a failure; None if the job is being stopped.
    fn told(&mut self, number: CheckpointNumber, node: u32, failure: Failure) -> Option<Order> {
        let warning = match failure {
            Failure::Stopped => return None,
            failure => self.warning(number, node, failure),
        };
        Some(Order::NotStored { number, warning })
    }

    /// Returns the warning about a failure, unless it was reported before or is of no interest.
    fn warning(&mut self, number: CheckpointNumber, node: u32, failure: Failure) -> Option<String> {
        let words = match failure {
            Failure::Stopped => return None,
            Failure::Late if self.tempo.word < LONGEST_WORD => {
                self.tempo.late();
                return None;
            }
            Failure::Late => {
                format!("node {node} learned of it too late; a larger SHMEM_FT_INTERVAL helps")
            }
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
        is_new.then(|| format!("checkpoint {number} is not on disk: {words}"))
    }
}

/// Makes an order for each node, with its PEs.
fn of_nodes(node_of: &[u32], order: impl Fn(u32, Vec<Pe>) -> Order) -> Vec<Order> {
    let nodes: BTreeSet<u32> = node_of.iter().copied().collect();
    let pes = |node| Pe::all(node_of.len()).filter(|pe| node_of[pe.at()] == node).collect();
    nodes.into_iter().map(|node| order(node, pes(node))).collect()
}

#[cfg(test)]
mod tests;
