//! The choice of mode, group, parity and interval for a job: `oshinfo plan`.
//!
//! Every candidate has its groups from [`crate::placement`], its memory and times from the bytes
//! that must move, its interval from [`interval`] and its chance of losing the job from [`risk`].
//! [`report`] prints them; `oshinfo` parses the command line.
//!
//! With `L` live bytes per PE, `p` PEs per node, groups of `g` with `m` parities and `k = g - m`:
//!
//! ```text
//! memory      2 + 2 m / k          live bytes, one snapshot, two parity slots (double: 3)
//! checkpoint  the longer of        p L (m + 2 + m / k) / 2 at the rate of a copy, and
//!                                  p m L over the node's link
//! recovery    detection, then      p L (k + m) over the link of the node that hosts all
//!                                  substitutes, and p L at the rate of a copy to roll back
//! ```
//!
//! Left out: other work of the program, and synchronization, which is negligible for such sizes.

pub mod due;
pub mod interval;
#[cfg(test)]
mod random;
pub mod report;
pub mod risk;

use std::collections::BTreeSet;

use crate::placement::Domains;
use crate::placement::groups;
use crate::settings::BackupMode;
use risk::Exposure;

/// Group sizes that are evaluated.
const GROUPS: [usize; 5] = [4, 8, 16, 32, 64];
/// Parities that are evaluated.
const PARITIES: [usize; 3] = [1, 2, 3];
/// Share of run time that saving memory may cost.
const WORTH: f64 = 0.01;

/// A job and the machine it runs on. Bytes, seconds, and bytes per second.
#[derive(Debug, Clone, Copy)]
pub struct SizingInput {
    /// Live symmetric bytes of each PE.
    pub live: f64,
    /// PEs of the job.
    pub pes: usize,
    /// Nodes that they run on, in equal shares.
    pub nodes: usize,
    /// Average time between two losses of nodes of the job.
    pub mtbf: f64,
    /// Rate of a node's link.
    pub link: f64,
    /// Rate at which the PEs of a node together copy memory.
    pub copy: f64,
    /// Time from the death of a node until it is declared lost.
    pub detection: f64,
    /// Bytes of memory per node, if they limit the choice.
    pub memory: Option<f64>,
    /// Accepted probability of losing the job in 30 days.
    pub risk: f64,
}

/// One way to protect the job, and its cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The backup mode.
    pub mode: BackupMode,
    /// Group size to request; None leaves it to the library.
    pub size: Option<usize>,
    /// PEs in the largest group.
    pub group: usize,
    /// Parities per group.
    pub parity: usize,
    /// Memory relative to live bytes.
    pub memory: f64,
    /// Duration of a checkpoint in seconds.
    pub checkpoint: f64,
    /// Seconds from a loss until full protection is restored.
    pub recovery: f64,
    /// Seconds of work between two checkpoints.
    pub interval: f64,
    /// Share of run time spent on checkpoints, recoveries and repeated work.
    pub lost: f64,
    /// Probability of losing the job within 30 days.
    pub chance: f64,
    /// True if the loss of any one node is survivable and memory suffices.
    pub possible: bool,
}

/// All candidates, and the index of the best one.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// All candidates, ordered by parity and group size; copies last.
    pub candidates: Vec<Candidate>,
    /// The recommended one; None if none survives the loss of a node within the available memory.
    pub best: Option<usize>,
    /// True if its probability of loss is within the accepted one.
    pub safe: bool,
}

/// Evaluates all candidates. Among those with an accepted probability of loss, the best is the one
/// with the least memory that loses hardly more time than the fastest; if no candidate has one, the
/// best is the one with the smallest probability.
pub fn choose(site: &SizingInput) -> Choice {
    let sizes = || GROUPS.into_iter().filter(|&group| group <= site.nodes).map(Some);
    let shapes = PARITIES.into_iter().flat_map(|m| sizes().chain([None]).map(move |s| (m, s)));
    let mut candidates: Vec<Candidate> = Vec::new();
    for (parity, size) in shapes {
        let same = |c: &Candidate| (c.parity, c.group);
        let found = striped(site, size, parity);
        candidates.extend(found.filter(|c| candidates.iter().all(|known| same(known) != same(c))));
    }
    candidates.extend(copies(site));
    let possible = |c: &&Candidate| c.possible && c.mode != BackupMode::Double;
    let accepted = |c: &&Candidate| possible(c) && c.chance <= site.risk;
    let least_lost =
        candidates.iter().filter(accepted).map(|c| c.lost).fold(f64::INFINITY, f64::min);
    let worth = |c: &&Candidate| accepted(c) && c.lost <= least_lost + WORTH;
    let safest = || candidates.iter().filter(possible).min_by(|a, b| a.chance.total_cmp(&b.chance));
    let found = candidates.iter().filter(worth).min_by(|a, b| a.memory.total_cmp(&b.memory));
    let safe = found.is_some();
    let best = found.or_else(safest);
    let best = best.and_then(|best| candidates.iter().position(|c| std::ptr::eq(c, best)));
    Choice { candidates, best, safe }
}

/// Returns the memory of the PE that holds the most, relative to its live bytes: with `snapshots` of
/// its own, in a group of `group` members with `parity` parities.
pub fn memory(mode: BackupMode, snapshots: usize, group: usize, parity: usize) -> f64 {
    let own = if mode.keeps_snapshot() { snapshots } else { 0 };
    let for_peers = match mode {
        BackupMode::Raid5 | BackupMode::Rs => parity as f64 / (group - parity) as f64,
        BackupMode::None | BackupMode::Single | BackupMode::Double | BackupMode::Raid4 => 1.0,
    };
    1.0 + own as f64 + mode.slots() as f64 * for_peers
}

/// Evaluates a mode with parity; None if groups of this size cannot hold the parity.
fn striped(site: &SizingInput, size: Option<usize>, parity: usize) -> Option<Candidate> {
    let (m, bytes) = (parity as f64, site.bytes_a_node());
    let placed = placed(site, size, parity)?;
    let k = (placed.group - parity) as f64;
    let copied = bytes * (m + 2.0 + m / k) / 2.0 / site.copy;
    let checkpoint = copied.max(bytes * m / site.link);
    let rebuilt = bytes * (k + m) / site.link;
    let recovery = site.detection + rebuilt + bytes / site.copy;
    let mode = if parity == 1 { BackupMode::Raid5 } else { BackupMode::Rs };
    let memory = memory(mode, 1, placed.group, parity);
    let shape = Candidate {
        mode,
        size,
        group: placed.group,
        parity,
        memory,
        checkpoint,
        recovery,
        possible: placed.share <= parity && site.fits(memory),
        ..Candidate::bare()
    };
    let exposure = site.exposure(&placed, parity, recovery);
    Some(site.rated(shape, |_| exposure.chance(risk::MONTH)))
}

/// Evaluates a copy on another PE, for comparison; it is invalid while a checkpoint overwrites it.
fn copies(site: &SizingInput) -> Option<Candidate> {
    let (placed, bytes) = (placed(site, None, 1)?, site.bytes_a_node());
    let checkpoint = (2.0 * bytes / site.copy).max(bytes / site.link);
    let recovery = site.detection + 2.0 * bytes / site.link + bytes / site.copy;
    let memory = memory(BackupMode::Double, 1, placed.group, 1);
    let shape = Candidate {
        mode: BackupMode::Double,
        group: placed.group,
        parity: 1,
        memory,
        checkpoint,
        recovery,
        possible: placed.share <= 1 && site.fits(memory),
        ..Candidate::bare()
    };
    // Fatal: the loss of either neighbour during a recovery, or of any node during a checkpoint.
    let pairs = Placed { group: 3, sets: site.nodes as f64 / 3.0, ..placed };
    let between = site.exposure(&pairs, 1, recovery).rate();
    Some(site.rated(shape, |interval| {
        let amid = checkpoint / (interval + checkpoint) / site.mtbf;
        -(-(between + amid) * risk::MONTH).exp_m1()
    }))
}

/// Groups as the library forms them.
struct Placed {
    group: usize,
    /// Sets of nodes that each carry a group.
    sets: f64,
    /// Maximum number of members of one group on one node.
    share: usize,
}

fn placed(site: &SizingInput, size: Option<usize>, parity: usize) -> Option<Placed> {
    let node_of: Vec<usize> = (0..site.pes).map(|pe| pe * site.nodes / site.pes).collect();
    let plan = groups::plan(&node_of, &Domains::default(), size, parity).ok()?;
    let nodes = |group: &groups::Group| group.members.iter().map(|&pe| node_of[pe.at()]).collect();
    let sets: BTreeSet<BTreeSet<usize>> = plan.groups.iter().map(nodes).collect();
    let share = plan.worst[0].members;
    Some(Placed { group: plan.sizes().most, sets: sets.len() as f64, share })
}

impl Candidate {
    fn bare() -> Candidate {
        Candidate {
            mode: BackupMode::None,
            size: None,
            group: 0,
            parity: 0,
            memory: 1.0,
            checkpoint: 0.0,
            recovery: 0.0,
            interval: 0.0,
            lost: 0.0,
            chance: 0.0,
            possible: false,
        }
    }
}

impl SizingInput {
    fn bytes_a_node(&self) -> f64 {
        self.live * self.pes.div_ceil(self.nodes) as f64
    }

    fn fits(&self, memory: f64) -> bool {
        self.memory.is_none_or(|limit| memory * self.bytes_a_node() <= limit)
    }

    fn exposure(&self, placed: &Placed, parity: usize, recovery: f64) -> Exposure {
        Exposure {
            nodes: self.nodes as f64,
            group: placed.group.min(self.nodes),
            groups: placed.sets,
            parity: parity / placed.share,
            mtbf: self.mtbf,
            recovery,
        }
    }

    /// Completes a candidate with its interval and the results that follow from it.
    fn rated(&self, shape: Candidate, chance: impl Fn(f64) -> f64) -> Candidate {
        let interval = interval::daly(shape.checkpoint, self.mtbf);
        let stretch = interval::stretch(interval, shape.checkpoint, shape.recovery, self.mtbf);
        Candidate { interval, lost: 1.0 - 1.0 / stretch, chance: chance(interval), ..shape }
    }
}

#[cfg(test)]
mod tests;
